//! The short way of the packets that most are.
//!
//! A plain packet ([`Plain`]) of a flow whose decision is in the flow cache, for the association whose burst is open, needs
//! nothing but a place in it. Everything else goes the long way, and so does the first packet of every burst: what is
//! asked here is only whether the long way would come to the same place. The epoch of the flow cache says that policy and
//! associations are what they were when the decision was made.

use sadb::FlowKey;
use sadb::spd::Action;
use wire::plain::Plain;
use wire::stage::Inner;
use wire::{GsoKind, Packet, Pool, record};

use super::gather::Hands;
use super::{Outbound, Outcome, asked};

impl Outbound {
    /// Give the packet its place in the open burst, or say why it has none. `false`: nothing has happened, and the long way
    /// is the packet's.
    #[inline]
    pub(super) fn express(
        &mut self,
        packet: &mut Packet<Inner>,
        pool: &mut Pool,
        out: &mut Vec<Outcome>,
    ) -> bool {
        let Some(gather) = &mut self.gather else { return false };
        let meta = &packet.meta;
        if meta.mark & record::STAMPED == 0
            || meta.gso.kind != GsoKind::None
            || meta.gso.needs_checksum
            || self.ruling.is_some()
        {
            return false;
        }
        let Some(plain) = Plain::read(packet.bytes()) else { return false };
        let Some(open) = gather.takes(&plain) else { return false };
        let flow = plain.flow(true);
        let key = FlowKey::new(meta.app, &flow, asked(meta.mark).bits());
        let Some(route) = self.routes.get(self.loads + self.sad.epoch(), &key) else { return false };
        let Action::Protect { services, .. } = route.decision.action else { return false };
        if route.sa != Ok(open) {
            return false;
        }
        (packet.meta.rule, packet.meta.services) = (route.decision.rule().0, services);
        packet.buf_mut().truncate(plain.total_len);
        let mut hands = Hands { sad: &mut self.sad, tally: &mut self.tally, pool, out };
        gather.append(packet, &flow, &mut hands);
        true
    }
}
