//! Step 0, the fast path for plain packets, which most packets are.
//!
//! A plain packet ([`Plain`]) of a flow whose decision is in the flow cache, for the association whose burst is open,
//! needs nothing but a place in it. Everything else goes through all stages, and so does the first packet of every burst.
//! The only question here is whether the stages would come to the same place. `may_use_fast_path` answers for the engine,
//! `is_plain` for the packet. The epoch of the flow cache says that
//! policy and associations are what they were when the decision was made.

use sadb::spd::Action;
use sadb::{FlowKey, OutboundSa, SaIndex};
use wire::plain::Plain;
use wire::stage::Inner;
use wire::{GsoKind, Meta, Packet, Pool, ScrubId, record};

use super::course::Express;
use super::gather::{Hands, LONGEST_COPY};
use super::origin::asked;
use super::{Outbound, Outcome};

/// Whether a packet is one that no stage treats otherwise than the fast path does: stamped, whole, with nothing left to
/// complete.
#[inline]
fn is_plain(meta: &Meta) -> bool {
    meta.mark & record::STAMPED != 0
        && meta.gso.kind == GsoKind::None
        && !meta.gso.needs_checksum
        && !meta.may_fragment
}

impl Outbound {
    /// Whether the fast path leaves out no stage that this engine has. Each field stands here with the reason why it may be
    /// left out, so that a new stage does not compile until somebody has given one.
    #[inline]
    fn may_use_fast_path(&self) -> bool {
        let Outbound {
            // The fast path has the burst that is built.
            gather,
            // Rules choose by what is not in the key of the route cache.
            ruling,
            // The route cache has what these decided. Its epoch says that they are as they were.
            spd: _,
            entries: _,
            sad: _,
            routes: _,
            loads: _,
            // Only a route that protects is taken, and this is about clear ones.
            filtered: _,
            // The seed of hashes decides nothing.
            seed: _,
            // A route that wants scrubbing is not taken.
            scrubbers: _,
            own: _,
            // A stamped packet did not arrive from elsewhere.
            arrivals: _,
            // A plain packet is no fragment, and an association in a bundle has no open burst.
            fragments: _,
            codec: _,
            // A route without an association is not taken, so nothing waits or asks.
            holds: _,
            events: _,
            // What does not fit is not taken, so it is not answered.
            answers: _,
            // A plain packet is TCP or UDP, never an ICMP error.
            listening: _,
            // Timers and orders send packets of their own.
            timers: _,
            orders: _,
            // The fast path counts.
            tally: _,
        } = self;
        gather.is_some() && ruling.is_none()
    }

    /// Give the packet its place in the open burst, or seal it where it lies if it is too long to be copied.
    #[inline]
    pub(super) fn express(
        &mut self,
        packet: &mut Packet<Inner>,
        pool: &mut Pool,
        out: &mut Vec<Outcome>,
    ) -> Express {
        let meta = &packet.meta;
        if !is_plain(meta) || !self.may_use_fast_path() {
            return Express::No;
        }
        let Some(gather) = &self.gather else { return Express::No };
        let Some(plain) = Plain::read(packet.bytes()) else { return Express::No };
        if !plain.checksum_ok {
            return Express::No;
        }
        let alone = plain.total_len > LONGEST_COPY;
        let open = gather.takes(&plain);
        if open.is_none() && !alone {
            return Express::No;
        }
        let key = FlowKey::leaving(meta.app, &plain, asked(meta.mark).bits());
        let Some(route) = self.routes.get(self.loads + self.sad.epoch(), &key) else { return Express::No };
        let (Action::Protect { services, .. }, Ok(index)) = (route.decision.action, route.sa) else {
            return Express::No;
        };
        if route.scrub != ScrubId::NONE || !alone && open != Some(index) {
            return Express::No;
        }
        (packet.meta.rule, packet.meta.services) = (route.decision.rule().0, services);
        packet.buf_mut().truncate(plain.total_len);
        if alone {
            return self.express_alone(index, &plain, packet, pool, out);
        }
        let Some(gather) = &mut self.gather else { return Express::No };
        let mut hands = Hands { sad: &mut self.sad, tally: &mut self.tally, pool, out };
        gather.append(packet, &plain, &mut hands);
        Express::Gathered
    }

    /// Seal a packet by itself that is too long for a copy.
    #[inline]
    fn express_alone(
        &mut self,
        index: SaIndex,
        plain: &Plain,
        packet: &mut Packet<Inner>,
        pool: &mut Pool,
        out: &mut Vec<Outcome>,
    ) -> Express {
        if !self.sad.chain(index).is_ok_and(|chain| chain.is_single()) {
            return Express::No;
        }
        let fits = |sa: &OutboundSa| ipsec::goes_alone(sa, plain);
        if !self.sad.get(index).is_some_and(fits) {
            return Express::No;
        }
        if let Some(gather) = &mut self.gather {
            // It must not overtake what was before it.
            gather.close(&mut Hands { sad: &mut self.sad, tally: &mut self.tally, pool, out });
        }
        let app = packet.meta.app;
        let seal = |sa: &mut OutboundSa| {
            let services = sa.config().services();
            ipsec::seal_alone(sa, plain, packet).map(|()| services)
        };
        match self.sad.get_mut(index).map(seal) {
            Some(Ok(services)) => {
                self.tally.left(app, services, 1, plain.total_len as u64);
                Express::Sealed
            }
            // The long way finds the same reason, and tells it.
            Some(Err(_)) | None => Express::No,
        }
    }
}
