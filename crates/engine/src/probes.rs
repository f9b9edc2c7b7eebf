//! Probes of the path on their way: the dummy packets that ask whether long packets arrive, and their answers
//! (docs/design/0029).
//!
//! Inbound, the message of an authentic dummy packet becomes an event. Outbound, the control plane orders probes and
//! answers, which leave with the next turn of the thread (`outbound/protector/probes.rs`). [`crate::Prober`] decides
//! what to ask and what follows from the answers.

use crate::event::{Events, PathMessage};
use sadb::sa::{DontFragment, Encapsulation, SaProtocol, Selectors};
use sadb::{InboundSa, OutboundSa, Spi};
use std::collections::VecDeque;
use std::net::IpAddr;
use wire::Time;
use wire::probe::Message;

/// The largest number of orders that wait.
const MAX_ORDERS: usize = 512;

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
    pub(crate) fn of(sa: &OutboundSa) -> Option<Path> {
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

impl Orders {
    /// Let an order wait. One that finds no room is lost.
    pub(crate) fn push(&mut self, order: Order) {
        if self.0.len() < MAX_ORDERS {
            self.0.push_back(order);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Order> {
        self.0.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Report the messages about the path that came in dummy packets of this association.
#[cold]
pub(crate) fn hear(now: Time, sa: &mut InboundSa, events: &mut Events) {
    for message in sa.take_messages() {
        let ends = &sa.config().endpoints;
        let (spi, local, remote) = (sa.spi(), ends.local, ends.remote);
        events.push_message(now, PathMessage { spi, local, remote, message });
    }
}

/// The path of an association as it is now, if it can be probed. `long` says whether long packets left by it.
pub(crate) fn see(sa: &OutboundSa, floor_v4: u16, long: bool) -> Option<SeenPath> {
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
