//! What a key manager hears: a stream of one JSON object a line, from GET `/v1/events`.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{Direction, LifeState, Position, Spi};

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// The stream has begun: events from here on are told.
    Ready(Ready),
    /// A flow has no association.
    Acquire(Acquire),
    /// An association went behind a limit.
    Expire(Expire),
    /// Somebody had the daemon do what must leave a trace.
    Audit(Audit),
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
    /// Whether packets wait; otherwise they pass in clear meanwhile.
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
