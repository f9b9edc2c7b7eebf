//! The errors that tell a sender on this side that its packet is refused (RFC 4301 section 5.1.1).

use wire::icmp::{self, Unreachable};
use wire::ip::Headers;
use wire::stage::Inner;
use wire::{DropReason, Flow, Packet, Pool, record};

use super::outcome::{Outcome, end, reply};
use super::{Outbound, origin};

/// The ICMP error for this reason; `None` if it is no matter of policy or of a missing association.
fn unreachable(reason: DropReason) -> Option<Unreachable> {
    use DropReason as R;
    match reason {
        R::RuleDiscard
        | R::PolicyDiscard
        | R::NoSpdEntry
        | R::PfpUnavailable
        | R::AcquireRefused
        | R::SaTooWeak => Some(Unreachable::Prohibited),
        R::NoSa | R::HoldExpired | R::HoldFull => Some(Unreachable::Host),
        _ => None,
    }
}

impl Outbound {
    /// Drop the packet, and tell its sender if that is on this side and the configuration says so.
    #[cold]
    pub(super) fn refuse(
        &mut self,
        packet: Packet<Inner>,
        headers: &Headers,
        reason: DropReason,
        flow: &Flow,
        pool: &mut Pool,
        out: &mut Vec<Outcome>,
    ) {
        let meta = &packet.meta;
        let answer = meta.mark & (record::STAMPED | record::PROOF) == record::PROOF;
        if let Some(why) = unreachable(reason)
            && !answer
            && !origin::has_arrived(meta)
            && let Some(error) =
                icmp::unreachable(packet.bytes(), headers, why, self.answers.source(meta, headers))
            && self.listening.may_refuse(meta.received)
        {
            self.tally.replies.count(error.len());
            out.push(reply(error, meta, meta.services));
        }
        end(&mut self.tally, packet, reason, Some(flow), pool, out);
    }
}
