//! What key managers and operators must hear: a missing association, one that ends, a path or a peer that changed.
//!
//! Each half of the engine keeps a bounded list; what does not fit is counted, never waited for.

use std::collections::VecDeque;
use std::net::IpAddr;

use crypto::SuiteId;
use sadb::rules::Template;
use sadb::sa::LifeState;
use sadb::{Direction, Selectors, Spi, TrafficSelector};
use wire::probe::Message;
use wire::{AcquireId, AppId, Flow, Services, Time};

/// Events that wait to be taken at most.
pub const MAX_EVENTS: usize = 1024;

/// Messages about paths that are told of in a second at most: an authentic peer may send as many as it likes, and they must push
/// nothing else out. A message that is not heard is as one that was lost on the way.
pub const MAX_MESSAGES: u32 = 512;

/// Something for a key manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A flow must or may be protected and no association does it (RFC 4301 section 4.4.1, "acquire").
    Acquire(Acquire),
    /// An association went behind a limit; behind a hard one it is gone.
    Expire(Expire),
    /// The path MTU of an association is another.
    Pmtu(PathChange),
    /// A peer sends from another place.
    PeerMoved(PeerMoved),
    /// An ICMP error about a packet of an association, accepted, that says nothing about the path's MTU.
    Icmp(SeenError),
    /// The peer asks whether long packets arrive, or says that one did.
    Path(PathMessage),
}

/// What a peer says of the path, in an authentic packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMessage {
    /// The inbound association.
    pub spi: Spi,
    /// This host's end.
    pub local: IpAddr,
    /// The peer's.
    pub remote: IpAddr,
    /// What it says.
    pub message: Message,
}

/// What is known of a path now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// The outbound association.
    pub spi: Spi,
    /// Its peer.
    pub remote: IpAddr,
    /// The path MTU before.
    pub before: u16,
    /// The path MTU now.
    pub mtu: u16,
    /// The largest inner packet that fits it.
    pub inner_mtu: usize,
    /// Who said so, unproved, where an ICMP error did.
    pub from: Option<IpAddr>,
    /// Why.
    pub cause: PathCause,
}

/// Why the path MTU of an association is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathCause {
    /// An ICMP error said that a packet did not fit.
    Error,
    /// What was learned is too old to be believed any longer.
    Age,
    /// The route to the peer takes more or less than before.
    Route,
    /// The kernel did not take a packet of this size for the route, whatever it says of the route.
    Refused,
    /// Probes of ours showed what arrives.
    Probe,
}

impl PathCause {
    /// Its word.
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

/// A peer that sends from another address or port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerMoved {
    /// The inbound association.
    pub spi: Spi,
    /// This host's address.
    pub local: IpAddr,
    /// Address and UDP port before; port zero: not known.
    pub old: (IpAddr, u16),
    /// Address and UDP port now.
    pub new: (IpAddr, u16),
    /// The pair is to follow.
    pub follow: bool,
    /// The selectors of the pair.
    pub selectors: Selectors,
}

/// An ICMP error that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenError {
    /// The outbound association.
    pub spi: Spi,
    /// Its peer.
    pub remote: IpAddr,
    /// Who sent it, unproved.
    pub from: IpAddr,
    /// 4 (ICMP) or 6 (ICMPv6).
    pub version: u8,
    /// The type.
    pub kind: u8,
    /// The code.
    pub code: u8,
}

/// What is missing, and for which packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    /// Its number; later packets for the same pair of hosts share it.
    pub id: AcquireId,
    /// When.
    pub at: Time,
    /// The application of the packet.
    pub app: AppId,
    /// The packet's own selectors.
    pub flow: Flow,
    /// What the policy demands.
    pub services: Services,
    /// The suite that the policy demands.
    pub suite: Option<SuiteId>,
    /// The rule that demands it; with [`crate::SPD_RULE`], one of the SPD.
    pub rule: u32,
    /// Whether packets wait for the answer; otherwise they pass in clear meanwhile (*optional*).
    pub held: bool,
    /// Where a rule of the SPD demands it: the selectors that the association is to have, those of the rule narrowed to the
    /// packet where it says so (RFC 4301 section 4.4.1). Empty otherwise.
    pub selectors: Vec<TrafficSelector>,
    /// What the rule says the association, or the bundle from the innermost outward, must be.
    pub bundle: Vec<Template>,
}

/// An association on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expire {
    /// Which.
    pub spi: Spi,
    /// Which way.
    pub direction: Direction,
    /// The peer.
    pub remote: IpAddr,
    /// Dying: ask for a successor. Dead: it carries nothing more and is deleted.
    pub state: LifeState,
    /// Packets it carried.
    pub packets: u64,
    /// Octets it carried.
    pub bytes: u64,
}

/// Events that wait to be taken.
#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: VecDeque<Event>,
    lost: u64,
    /// The second of the last message about a path, and how many it had.
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

    /// What a peer says of a path.
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
