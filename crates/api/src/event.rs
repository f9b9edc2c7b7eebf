//! What a key manager hears: a stream of one JSON object a line, from GET `/v1/events`.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{Direction, LifeState, Position, SpdRule, Spi};

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The stream has begun: events from here on are told.
    Ready(Ready),
    /// A flow has no association.
    Acquire(Acquire),
    /// An association went behind a limit.
    Expire(Expire),
    /// Somebody had the daemon do what must leave a trace.
    Audit(Audit),
    /// The path MTU of an association is another.
    Pmtu(Pmtu),
    /// A peer sends from another address or port.
    PeerMoved(PeerMoved),
    /// An ICMP error about a packet of an association was accepted and changed nothing.
    Icmp(IcmpSeen),
    /// The rules of the SPD are others.
    Spd(SpdChanged),
    /// Events were lost because the reader, or the daemon, was too slow.
    Lost(Lost),
}

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Packets wait for this reader's answers.
    pub acquires: bool,
}

/// A flow of an application that must or may be protected, and no association does it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Acquire {
    /// Its number: DELETE `/v1/acquire/{id}` says that there will be none.
    pub id: u32,
    /// The application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// What the policy demands: `authenticated` or `encrypted`.
    pub need: String,
    /// The suite that the policy demands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// Whether packets wait; otherwise they pass in clear meanwhile, or end, as the policy says.
    pub held: bool,
    /// The packet's protocol number.
    pub protocol: u8,
    /// This host's address.
    pub local: IpAddr,
    /// This host's port; with ICMP type and code.
    pub local_port: u16,
    /// The peer's address.
    pub remote: IpAddr,
    /// The peer's port.
    pub remote_port: u16,
    /// The line of the policy that demands it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Position>,
    /// The rule of the SPD that demands it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spd_rule: Option<String>,
    /// Where a rule of the SPD demands it: the selectors that the association is to have, narrowed to the packet where the
    /// rule says so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selectors: Vec<String>,
    /// What the rule says the associations must be, innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bundle: Vec<String>,
}

/// An association on its way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expire {
    /// Which.
    pub spi: Spi,
    /// Which way.
    pub direction: Direction,
    /// The peer.
    pub remote: IpAddr,
    /// `dying`: a successor is needed. `dead`: it is deleted.
    pub state: LifeState,
    /// Packets it carried.
    pub packets: u64,
    /// Octets it carried.
    pub bytes: u64,
}

/// What somebody had the daemon do: who, as the kernel says of the other end of the socket, and what. Never a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// `keys_exported`, `capture_started`, `log_filter_changed`.
    pub action: String,
    /// The user.
    pub uid: u32,
    /// The process, if it still was one of this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// What exactly, in words.
    pub detail: String,
}

/// What is known of a path now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pmtu {
    /// The outbound association.
    pub spi: Spi,
    /// Its peer.
    pub remote: IpAddr,
    /// Octets of the largest outer packet before.
    pub before: u16,
    /// The same now.
    pub mtu: u16,
    /// Octets of the largest inner packet now.
    pub inner_mtu: u32,
    /// Who said so, unproved, where an ICMP error did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<IpAddr>,
    /// Why: `icmp`, `age` (what was learned is too old to be believed), `route` (the route to the peer takes more or less than
    /// before), `refused` (the kernel did not take a packet for the route).
    #[serde(default)]
    pub cause: String,
}

/// A peer that moved, as an authentic packet of it shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerMoved {
    /// The inbound association.
    pub spi: Spi,
    /// The address before.
    pub old: IpAddr,
    /// The UDP port before; 0: not known.
    pub old_port: u16,
    /// The address now.
    pub new: IpAddr,
    /// The UDP port now.
    pub new_port: u16,
    /// Outbound associations that send there from now on (`follow_peer`).
    pub followed: usize,
}

/// An ICMP error that was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IcmpSeen {
    /// The outbound association whose packet it is about.
    pub spi: Spi,
    /// Its peer.
    pub remote: IpAddr,
    /// Who sent it, unproved.
    pub from: IpAddr,
    /// 4 (ICMP) or 6 (ICMPv6).
    pub version: u8,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: u8,
    /// Its code.
    pub code: u8,
}

/// Rules of the SPD that came or went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpdChanged {
    /// Which way.
    pub change: SpdChange,
    /// Those that came, or went, with what each had decided until then.
    pub rules: Vec<SpdRule>,
}

/// What happened to rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SpdChange {
    /// They came.
    Added,
    /// They went.
    Deleted,
}

/// How many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// How many.
    pub count: u64,
}

/// POST `/v1/spi`: an SPI for an association that a peer will send on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpiAllocated {
    /// Held until an inbound association uses it, it is released, or a minute has passed.
    pub spi: Spi,
}

/// The answer to DELETE `/v1/spi/{spi}` and DELETE `/v1/acquire/{id}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Released {
    /// Always true.
    pub released: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_flat_object_with_its_name() {
        let event = Event::Expire(Expire {
            spi: Spi(0x1000),
            direction: Direction::Out,
            remote: [192, 0, 2, 1].into(),
            state: LifeState::Dying,
            packets: 3,
            bytes: 4,
        });
        let text = serde_json::to_string(&event).unwrap();
        assert!(text.starts_with(r#"{"event":"expire","spi":"0x00001000""#), "{text}");
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
    }
}
