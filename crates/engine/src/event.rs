//! The events for key managers and operators: a missing association, one that ends, a path or a peer that changed.
//!
//! Each half of the engine keeps a bounded list; an event that does not fit is counted, never waited for.

use std::collections::VecDeque;
use std::net::IpAddr;

use crypto::SuiteId;
use sadb::rules::Template;
use sadb::sa::LifeState;
use sadb::{Direction, OutboundSa, Selectors, Spi, TrafficSelector};
use wire::probe::Message;
use wire::{AcquireId, AppId, Flow, Services, Time};

/// The largest number of events that wait to be taken.
pub const MAX_EVENTS: usize = 1024;

/// The largest number of messages about paths that are reported in a second. An authentic peer may send any number, and
/// they must push nothing else out. A message that is left out counts as lost on the way.
pub const MAX_MESSAGES: u32 = 512;

/// One event for a key manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A flow must or may be protected and no association does it (RFC 4301 section 4.4.1, "acquire").
    Acquire(Acquire),
    /// An association passed a limit of its life; behind a hard limit it is gone.
    Expire(Expire),
    /// The path MTU of an association changed.
    Pmtu(PathChange),
    /// A peer sends from another address or port.
    PeerMoved(PeerMoved),
    /// An ICMP error about a packet of an association was accepted, and it says nothing about the path MTU.
    Icmp(SeenError),
    /// The peer asks whether long packets arrive, or says that one did.
    Path(PathMessage),
}

/// A message about the path that a peer sent in an authentic packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMessage {
    /// The SPI of the inbound association that it came by.
    pub spi: Spi,
    /// The outer address of this host.
    pub local: IpAddr,
    /// The outer address of the peer.
    pub remote: IpAddr,
    /// The message of the peer.
    pub message: Message,
}

/// A change of the path MTU of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// The SPI of the outbound association.
    pub spi: Spi,
    /// The outer address of its peer.
    pub remote: IpAddr,
    /// The path MTU before the change, in octets.
    pub before: u16,
    /// The path MTU after the change, in octets.
    pub mtu: u16,
    /// The largest inner packet that fits the path MTU, in octets.
    pub inner_mtu: usize,
    /// The source address of the ICMP error that caused the change, if one did; it is unproved.
    pub from: Option<IpAddr>,
    /// The cause of the change.
    pub cause: PathCause,
}

impl PathChange {
    /// The change to the path MTU that the association has now.
    pub(crate) fn of(sa: &OutboundSa, before: u16, from: Option<IpAddr>, cause: PathCause) -> PathChange {
        let config = sa.config();
        PathChange {
            spi: sa.spi(),
            remote: config.endpoints.remote,
            before,
            mtu: config.path_mtu,
            inner_mtu: ipsec::inner_mtu(config),
            from,
            cause,
        }
    }
}

/// The cause of a change of the path MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathCause {
    /// An ICMP error said that a packet did not fit.
    Error,
    /// The learned value is too old to be believed any longer.
    Age,
    /// The route to the peer takes longer or only shorter packets than before.
    Route,
    /// The kernel refused a packet of this size for the route, whatever size it says for the route.
    Refused,
    /// Our own probes showed which packets arrive.
    Probe,
}

impl PathCause {
    /// The word for the cause in texts.
    pub fn word(self) -> &'static str {
        match self {
            PathCause::Error => "icmp",
            PathCause::Age => "age",
            PathCause::Route => "route",
            PathCause::Refused => "refused",
            PathCause::Probe => "probe",
        }
    }
}

/// The move of a peer to another address or port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerMoved {
    /// The SPI of the inbound association.
    pub spi: Spi,
    /// The outer address of this host.
    pub local: IpAddr,
    /// The address and UDP port of the peer before; port zero means not known.
    pub old: (IpAddr, u16),
    /// The address and UDP port of the peer now.
    pub new: (IpAddr, u16),
    /// Whether the pair of associations is to follow.
    pub follow: bool,
    /// The selectors of the pair.
    pub selectors: Selectors,
}

/// An ICMP error that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenError {
    /// The SPI of the outbound association.
    pub spi: Spi,
    /// The outer address of its peer.
    pub remote: IpAddr,
    /// The sender of the error, which is unproved.
    pub from: IpAddr,
    /// The version of the error: 4 (ICMP) or 6 (ICMPv6).
    pub version: u8,
    /// The ICMP type of the error.
    pub kind: u8,
    /// The ICMP code of the error.
    pub code: u8,
}

/// A request for a missing association, with the packet that needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    /// The number of the request; later packets for the same pair of hosts share it.
    pub id: AcquireId,
    /// The time of the request.
    pub at: Time,
    /// The application that sent the packet.
    pub app: AppId,
    /// The selectors of the packet itself.
    pub flow: Flow,
    /// The services that the policy demands.
    pub services: Services,
    /// The suite that the policy demands; `None`: any.
    pub suite: Option<SuiteId>,
    /// The rule that demands it; with [`crate::SPD_RULE`] it is a rule of the SPD.
    pub rule: u32,
    /// Whether packets wait for the answer; otherwise they pass in clear meanwhile (*optional*).
    pub held: bool,
    /// The selectors for the association, where a rule of the SPD demands it: those of the rule narrowed to the packet
    /// where it says so (RFC 4301 section 4.4.1). The list is empty otherwise.
    pub selectors: Vec<TrafficSelector>,
    /// The demands of the rule on the association, or on the bundle from the innermost outward.
    pub bundle: Vec<Template>,
}

/// The report that an association passed a limit of its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expire {
    /// The SPI of the association.
    pub spi: Spi,
    /// The direction in which it carries packets.
    pub direction: Direction,
    /// The outer address of its peer.
    pub remote: IpAddr,
    /// The stage of its life. Dying means that a successor is needed; dead means that it carries nothing more and is
    /// deleted.
    pub state: LifeState,
    /// The number of packets that it carried.
    pub packets: u64,
    /// The number of octets that it carried.
    pub bytes: u64,
}

/// The events that wait to be taken.
#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: VecDeque<Event>,
    lost: u64,
    /// The second of the last message about a path, and the number of messages in it.
    messages: (u64, u32),
}

impl Events {
    pub(crate) fn push(&mut self, event: Event) {
        if self.waiting.len() < MAX_EVENTS {
            self.waiting.push_back(event);
        } else {
            self.lost += 1;
        }
    }

    /// Report a peer's message about a path, unless this second has too many.
    pub(crate) fn push_message(&mut self, now: Time, message: PathMessage) {
        let second = now.since(Time::default()).as_secs();
        if self.messages.0 != second {
            self.messages = (second, 0);
        }
        if self.messages.1 < MAX_MESSAGES {
            self.messages.1 += 1;
            self.push(Event::Path(message));
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.waiting.pop_front()
    }

    pub(crate) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}
