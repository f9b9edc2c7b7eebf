//! The messages about paths that the control plane orders, and what it asks about paths (docs/design/0029).

use super::Protector;
use super::originated::originate;
use crate::cx::Cx;
use crate::event::{Event, Events, PathCause, PathChange};
use crate::outbound::outcome::Outcome;
use crate::probes::{Order, Path, SeenPath, see};
use sadb::Spi;
use std::net::IpAddr;
use wire::Time;

/// The length of an outer packet in octets from which it counts as long. Every path carries shorter ones, as far as is
/// known.
const LONG: usize = 1280;
/// The number of octets by which a full inner packet may fall short of the longest that fits, due to the transport's
/// alignment.
const SLACK: usize = 64;

impl Protector {
    /// Let an order wait until [`Protector::send_ordered`]. An order that finds no room is lost, as a packet may be.
    pub(in crate::outbound) fn order(&mut self, order: Order) {
        self.orders.push(order);
    }

    /// Send the messages that were ordered.
    #[inline]
    pub(in crate::outbound) fn send_ordered(&mut self, now: Time, cx: &mut Cx<'_, Outcome>) {
        if !self.orders.is_empty() {
            self.send_orders(now, cx);
        }
    }

    #[cold]
    fn send_orders(&mut self, now: Time, cx: &mut Cx<'_, Outcome>) {
        // What was gathered has its sequence numbers already.
        self.flush(cx);
        while let Some(order) = self.orders.pop() {
            let Some(index) = self.sad.index_of(order.spi, order.remote) else { continue };
            let sa = self.sad.get_mut(index);
            // A peer names the association for its answer: it must lead to that peer and nowhere else.
            let sa = sa.filter(|sa| sa.config().endpoints.local == order.local && sa.is_alive());
            let Some(sa) = sa.filter(|sa| Path::of(sa).is_some()) else { continue };
            let packet = originate(index, now, cx);
            // One that cannot be sent is counted at its association.
            if let Ok(packet) = ipsec::probe(sa, packet, &order.message, order.size.into(), cx.pool) {
                sa.counters.dummies += 1;
                cx.out.push(Outcome::Send(packet));
            }
        }
    }

    /// The paths of the `wanted` associations, and of those among at most `count` associations behind the first `from`
    /// by which long packets left since the last look. The number is where the next look begins.
    pub(in crate::outbound) fn look_at_paths(
        &mut self,
        from: usize,
        count: usize,
        wanted: &[(Spi, IpAddr)],
    ) -> (Vec<SeenPath>, usize) {
        let floor_v4 = self.icmp_limits.path_limits().floor_v4;
        let mut seen = Vec::new();
        let mut looked = 0;
        for sa in self.sad.list_mut().skip(from).take(count) {
            looked += 1;
            let inner = sa.counters.take_longest();
            let config = sa.config();
            let full = LONG.min(config.path_mtu.into());
            if inner > 0 && inner + ipsec::overhead(config) + SLACK > full {
                seen.extend(see(sa, floor_v4, true));
            }
        }
        for (spi, remote) in wanted {
            seen.extend(self.sad.named(*spi, *remote).and_then(|sa| see(sa, floor_v4, false)));
        }
        (seen, if looked < count { 0 } else { from + count })
    }

    /// Take in that packets of `mtu` octets arrive by this path: all its associations have that path MTU.
    pub(in crate::outbound) fn prove(&mut self, now: Time, path: &Path, mtu: u16, events: &mut Events) {
        let limits = self.icmp_limits.path_limits();
        for sa in self.sad.list_mut().filter(|sa| Path::of(sa).as_ref() == Some(path)) {
            let before = sa.config().path_mtu;
            if sa.prove_mtu(now, mtu, &limits) {
                events.push(Event::Pmtu(PathChange::of(sa, before, None, PathCause::Probe)));
            }
        }
    }
}
