//! Step 0, the fast path for plain packets, which most packets are.
//!
//! A plain packet ([`Plain`]) of a flow whose decision is remembered, for the association whose burst is open, needs
//! nothing but a place in it. Everything else goes through all stages, and so does the first packet of every burst. The
//! only question here is whether the stages would come to the same place. `may_use_fast_path` answers for the engine,
//! `is_plain` for the packet. The epoch of the flow cache says that policy and associations are what they were when the
//! decision was made.

use wire::plain::Plain;
use wire::stage::Inner;
use wire::{GsoKind, Meta, Packet, record};

use super::Stages;
use super::outcome::Outcome;
use super::protector::LONGEST_COPY;
use super::selection::FastPath;
use crate::cx::Cx;
use crate::seam;
use crate::stats::{About, Dropped};

/// Whether a packet is one that no stage treats otherwise than the fast path does: stamped, whole, with nothing left to
/// complete.
#[inline]
fn is_plain(meta: &Meta) -> bool {
    meta.mark & record::STAMPED != 0
        && meta.gso.kind == GsoKind::None
        && !meta.gso.needs_checksum
        && !meta.may_fragment
}

/// The packet as one that the open burst of its association may take, if it is plain.
#[inline]
pub(super) fn plain<S>(packet: &Packet<S>) -> Option<Plain> {
    if !is_plain(&packet.meta) {
        return None;
    }
    Plain::read(packet.bytes()).filter(|plain| plain.checksum_ok)
}

impl Stages {
    /// Whether the fast path leaves out no stage that this engine has. Each field stands here with the reason why it
    /// may be left out, so that a new stage does not compile until somebody has given one.
    #[inline]
    fn may_use_fast_path(&self) -> bool {
        let Stages {
            // These two say it of their own stages.
            decider,
            protector,
            // A plain packet is no fragment.
            fragments: _,
            // A route that wants scrubbing is not remembered for the fast path.
            scrubbers: _,
            emitted: _,
            // A packet that waits in a graph does not come this way.
            queues,
        } = self;
        queues.is_none() && decider.may_use_fast_path() && protector.may_use_fast_path()
    }

    /// Give the packet its place in the open burst, or seal it where it lies if it is too long to be copied.
    #[inline]
    pub(super) fn fast_path(&mut self, packet: &mut Packet<Inner>, cx: &mut Cx<'_, Outcome>) -> FastPath {
        if !is_plain(&packet.meta) || !self.may_use_fast_path() {
            return FastPath::No;
        }
        let Some(plain) = Plain::read(packet.bytes()) else { return FastPath::No };
        if !plain.checksum_ok {
            return FastPath::No;
        }
        let is_large = plain.total_len > LONGEST_COPY;
        let open = self.protector.open_for(&plain);
        if open.is_none() && !is_large {
            return FastPath::No;
        }
        let remembered = self.decider.remembered(&packet.meta, &plain, self.protector.sad());
        let Some(remembered) = remembered else { return FastPath::No };
        if !is_large && open != Some(remembered.association) {
            return FastPath::No;
        }
        (packet.meta.rule, packet.meta.services) = (remembered.rule, remembered.services);
        packet.meta.aggregate = remembered.aggregate;
        packet.buf_mut().truncate(plain.total_len);
        let turn = seam::turn_of_selected(&remembered.selection);
        if !is_large {
            self.protector.append(packet, &plain, turn, cx);
            return FastPath::Gathered;
        }
        match self.protector.seal_large_packet(remembered.association, &plain, packet, turn, cx) {
            Some(Ok(sealed)) => FastPath::Sealed(remembered.selection, sealed),
            Some(Err(reason)) => {
                let flow = plain.flow(true);
                cx.report(Dropped::new(reason, &About::of(&packet.meta), plain.total_len, Some(&flow)));
                FastPath::Ended
            }
            None => FastPath::No,
        }
    }
}
