//! Probes of the path on their way: the dummy packets that ask whether long packets arrive, and their answers
//! (docs/design/0029).
//!
//! Inbound, the message of an authentic dummy packet becomes an event. Outbound, the control plane orders probes and
//! answers, which leave with the next turn of the thread. [`crate::Prober`] decides what to ask and what follows from
//! the answers.

use crate::event::{Event, Events, PathCause, PathMessage};
use crate::outbound::{Outbound, Outcome};
use crate::pmtu;
use sadb::sa::{DontFragment, Encapsulation, SaProtocol, Selectors};
use sadb::{InboundSa, OutboundSa, Spi};
use std::collections::VecDeque;
use std::net::IpAddr;
use wire::probe::Message;
use wire::{Pool, Time, Verdict};

/// The largest number of orders that wait.
const MAX_ORDERS: usize = 512;
/// The length of an outer packet in octets from which it counts as long. Every path carries shorter ones, as far as is
/// known.
const LONG: usize = 1280;
/// The number of octets by which a full inner packet may fall short of the longest that fits, due to the transport's
/// alignment.
const SLACK: usize = 64;

/// The path of an association: its two ends. All associations between them have the same path MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    /// The outer address of this host.
    pub local: IpAddr,
    /// The outer address of the peer.
    pub remote: IpAddr,
    /// The UDP ports of both, if ESP is inside UDP.
    pub ports: Option<(u16, u16)>,
}

impl Path {
    /// The path of an association, if it can be probed: ESP that ends at the peer, and whose packets routers may not
    /// fragment.
    fn of(sa: &OutboundSa) -> Option<Path> {
        let (ends, options) = (&sa.config().endpoints, &sa.config().options);
        let (local, remote) = (ends.local, ends.remote);
        let fragmentable = options.headers.df == DontFragment::Clear && remote.is_ipv4();
        if options.protocol != SaProtocol::Esp || options.next.is_some() || fragmentable {
            return None;
        }
        let udp = options.encapsulation == Encapsulation::Udp;
        let ports = udp.then_some((ends.local_port, ends.remote_port));
        Some(Path { local, remote, ports })
    }
}

/// A path as one of its associations sees it.
#[derive(Clone, Debug)]
pub struct SeenPath {
    /// The path that is seen.
    pub path: Path,
    /// The SPI of the association.
    pub spi: Spi,
    /// The packets that the association carries.
    pub selectors: Selectors,
    /// The path MTU in force, in octets.
    pub in_force: u16,
    /// The path MTU where nothing is learned, in octets.
    pub configured: u16,
    /// The least path MTU that there may be, in octets.
    pub floor: u16,
    /// The number of octets of a probe that are always there, and the number that the rest is a multiple of.
    pub lengths: (u16, u16),
    /// Whether long packets left since the last look.
    pub long: bool,
}

/// An order to send a message to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The SPI of the outbound association.
    pub spi: Spi,
    /// The outer address of this host.
    pub local: IpAddr,
    /// The outer address of its peer.
    pub remote: IpAddr,
    /// The message to the peer.
    pub message: Message,
    /// The length of the outer packet in octets; it is longer only if the message does not fit.
    pub size: u16,
}

/// The orders that wait to be carried out.
#[derive(Debug, Default)]
pub(crate) struct Orders(VecDeque<Order>);

/// Report the messages about the path that came in dummy packets of this association.
#[cold]
pub(crate) fn hear(now: Time, sa: &mut InboundSa, events: &mut Events) {
    for message in sa.take_messages() {
        let ends = &sa.config().endpoints;
        let (spi, local, remote) = (sa.spi(), ends.local, ends.remote);
        events.push_message(now, PathMessage { spi, local, remote, message });
    }
}

impl Outbound {
    /// Send a message with the next [`Outbound::release`]. A message that finds no room is lost, as a packet may be.
    pub fn order(&mut self, order: Order) {
        if self.orders.0.len() < MAX_ORDERS {
            self.orders.0.push_back(order);
        }
    }

    /// Send the messages that were ordered.
    #[inline]
    pub(crate) fn send_ordered(&mut self, now: Time, pool: &mut Pool, out: &mut Vec<Outcome>) {
        if !self.orders.0.is_empty() {
            self.send_orders(now, pool, out);
        }
    }

    #[cold]
    fn send_orders(&mut self, now: Time, pool: &mut Pool, out: &mut Vec<Outcome>) {
        // What was gathered has its sequence numbers already.
        self.flush(pool, out);
        while let Some(order) = self.orders.0.pop_front() {
            let sa = self.sad.named_mut(order.spi, order.remote);
            // A peer names the association for its answer: it must lead to that peer and nowhere else.
            let sa = sa.filter(|sa| sa.config().endpoints.local == order.local && sa.is_alive());
            let Some(sa) = sa.filter(|sa| Path::of(sa).is_some()) else { continue };
            // One that cannot be sent is counted at its association.
            if let Verdict::Pass(packet) = ipsec::probe(sa, now, &order.message, order.size.into(), pool) {
                sa.counters.dummies += 1;
                out.push(Outcome::Send(packet));
            }
        }
    }

    /// The paths of the `wanted` associations, and of those among at most `count` associations behind the first `from`
    /// by which long packets left since the last look. The number is where the next look begins.
    pub fn look_at_paths(
        &mut self,
        from: usize,
        count: usize,
        wanted: &[(Spi, IpAddr)],
    ) -> (Vec<SeenPath>, usize) {
        let floor_v4 = self.listening.path_limits().floor_v4;
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
    pub fn prove(&mut self, now: Time, path: &Path, mtu: u16) {
        let limits = self.listening.path_limits();
        for sa in self.sad.list_mut().filter(|sa| Path::of(sa).as_ref() == Some(path)) {
            let before = sa.config().path_mtu;
            if sa.prove_mtu(now, mtu, &limits) {
                self.events.push(Event::Pmtu(pmtu::change(sa, before, None, PathCause::Probe)));
            }
        }
    }
}

fn see(sa: &OutboundSa, floor_v4: u16, long: bool) -> Option<SeenPath> {
    let path = Path::of(sa)?;
    let floor = if path.remote.is_ipv4() { floor_v4 } else { sadb::sa::MIN_PATH_MTU_V6 };
    let config = sa.config();
    let (head, step) = ipsec::probe_lengths(config);
    Some(SeenPath {
        lengths: (u16::try_from(head).unwrap_or(u16::MAX), u16::try_from(step).unwrap_or(u16::MAX)),
        path,
        spi: sa.spi(),
        selectors: *sa.selectors(),
        in_force: config.path_mtu,
        configured: sa.path().configured(),
        floor,
        long,
    })
}
