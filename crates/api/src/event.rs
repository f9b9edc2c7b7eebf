//! The events that a key manager hears: a stream from GET `/v1/events`, one JSON object a line.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Direction, LifeState, Position, SpdRule, Spi};

/// One line of the event stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The stream has begun: events from here on are told.
    Ready(Ready),
    /// A flow needs an association, and none serves it.
    Acquire(Acquire),
    /// An association reached a soft or a hard limit.
    Expire(Expire),
    /// Somebody had the daemon do something that must leave a trace.
    Audit(Audit),
    /// The path MTU of an association changed.
    Pmtu(Pmtu),
    /// A peer now sends from another address or port.
    PeerMoved(PeerMoved),
    /// An ICMP error about a packet of an association was accepted and changed nothing.
    Icmp(IcmpSeen),
    /// Rules were added to the SPD or deleted from it.
    Spd(SpdChanged),
    /// A cipher of one's own failed, works again, or is not used any more.
    Cipher(CipherChanged),
    /// Events were lost because the reader, or the daemon, was too slow.
    Lost(LostEvents),
}

/// The first line of every event stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ready {
    /// Whether packets wait for the associations that this reader brings.
    pub acquires: bool,
}

/// A flow of an application that must or may be protected, and no association does it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Acquire {
    /// The number of this request; DELETE `/v1/acquire/{id}` says that there will be no association.
    pub id: u32,
    /// The application whose flow it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// What the policy demands: `authenticated` or `encrypted`.
    pub need: String,
    /// The suite that the policy demands.
    #[serde(flatten)]
    pub wanted: WantedSuite,
    /// Whether packets wait for an association. Otherwise they pass in clear meanwhile, or end, as the policy says.
    pub held: bool,
    /// The IP protocol number of the packet.
    pub protocol: u8,
    /// The address of this host in the flow.
    pub local: IpAddr,
    /// The port of this host; with ICMP, type and code.
    pub local_port: u16,
    /// The address of the peer in the flow.
    pub remote: IpAddr,
    /// The port of the peer.
    pub remote_port: u16,
    /// The line of the policy that demands protection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Position>,
    /// The rule of the SPD that demands protection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spd_rule: Option<String>,
    /// Selectors that the association is to have, narrowed to the packet where the SPD rule says so. Empty unless a
    /// rule of the SPD demands protection.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selectors: Vec<String>,
    /// Templates of the associations that the SPD rule wants, innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bundle: Vec<String>,
}

/// The suite that an association is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WantedSuite {
    /// The name of the suite; absent if any will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// What both ends must agree on about that suite, if it is one of a cipher of one's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<Box<CustomSuite>>,
}

/// What key managers must agree on about a suite of a cipher of one's own. The number of its transform is a private
/// one, which means nothing without whose it is (RFC 7296 section 3.12): here the fingerprint says that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CustomSuite {
    /// The name of the cipher.
    pub cipher: String,
    /// The private-use number of the encryption transform (RFC 7296 section 3.3.2), 1024 to 65535.
    pub transform_id: u16,
    /// Bits of the encryption key, without salt.
    pub key_bits: usize,
    /// The integrity algorithm beside it; absent where the transform brings its own integrity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrity: Option<String>,
    /// Octets of the keying material of an association, salts and integrity key included.
    pub keymat_octets: usize,
    /// The fingerprint of what the cipher computes, 64 hexadecimal digits: equal fingerprints are equal ciphers. Absent
    /// where the cipher is known and could not be loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

/// An association that reached a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Expire {
    /// The SPI of the association.
    pub spi: Spi,
    /// The direction of the association.
    pub direction: Direction,
    /// The address of the peer.
    pub remote: IpAddr,
    /// The new state: `dying` (a successor is needed) or `dead` (the association is deleted).
    pub state: LifeState,
    /// Number of packets that the association carried.
    pub packets: u64,
    /// Number of octets that the association carried.
    pub bytes: u64,
}

/// A record of what somebody had the daemon do. The kernel's credentials of the socket's other end say who. It never
/// holds a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// The kind of action: `keys_exported`, `capture_started` or `log_filter_changed`.
    pub action: String,
    /// The user ID of the one who asked.
    pub uid: u32,
    /// The process that asked, if it still was one of this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// What exactly was done, in words.
    pub detail: String,
}

/// A change of an association's path MTU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pmtu {
    /// The SPI of the outbound association.
    pub spi: Spi,
    /// The address of the peer.
    pub remote: IpAddr,
    /// Octets of the largest outer packet before the change.
    pub before: u16,
    /// Octets of the largest outer packet after the change.
    pub mtu: u16,
    /// Octets of the largest inner packet after the change.
    pub inner_mtu: u32,
    /// The source address of the ICMP error that caused the change. It is not authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<IpAddr>,
    /// The cause of the change: `icmp`, `age` (what was learned is too old to be believed), `route` (the route to the
    /// peer takes more or less than before) or `refused` (the kernel did not take a packet for the route).
    #[serde(default)]
    pub cause: String,
}

/// A peer that now sends from another address or port, as an authenticated packet shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeerMoved {
    /// The SPI of the inbound association.
    pub spi: Spi,
    /// The address that the peer had before.
    pub old: IpAddr,
    /// The UDP port that the peer had before; 0 if it is not known.
    pub old_port: u16,
    /// The address that the peer has now.
    pub new: IpAddr,
    /// The UDP port that the peer has now.
    pub new_port: u16,
    /// Number of outbound associations that send to the new address and port from now on (`follow_peer`).
    pub followed: usize,
}

/// An ICMP error about a packet of an association that was accepted and changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IcmpSeen {
    /// The SPI of the outbound association whose packet the error is about.
    pub spi: Spi,
    /// The address of the peer.
    pub remote: IpAddr,
    /// The source address of the error. It is not authenticated.
    pub from: IpAddr,
    /// The version of ICMP: 4 (ICMP) or 6 (ICMPv6).
    pub version: u8,
    /// The ICMP type of the error.
    #[serde(rename = "type")]
    pub kind: u8,
    /// The ICMP code of the error.
    pub code: u8,
}

/// Rules that were added to the SPD or deleted from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpdChanged {
    /// Whether the rules were added or deleted.
    pub change: SpdChange,
    /// The rules that were added or deleted, each with the counts of what it had decided until then.
    pub rules: Vec<SpdRule>,
}

/// What happened to rules of the SPD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpdChange {
    /// The rules were added.
    Added,
    /// The rules were deleted.
    Deleted,
}

/// A change of what a cipher of one's own does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CipherChanged {
    /// The name of the cipher.
    pub cipher: String,
    /// What happened to it.
    pub change: CipherChange,
    /// The reason, in words.
    pub text: String,
    /// Changes of this cipher before this one that were not told, since there were too many in a minute.
    #[serde(default)]
    pub left_out: u64,
}

/// What happened to a cipher of one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CipherChange {
    /// Its worker process failed. Its packets are dropped (`unit_failed`) until it is restarted.
    Failed,
    /// A new worker process has all keys and takes packets.
    Restarted,
    /// It gave wrong known answers and is not used any more until the daemon starts again.
    Withdrawn,
}

impl CipherChange {
    /// The name of the change, as in the audit log.
    pub const fn name(self) -> &'static str {
        match self {
            CipherChange::Failed => "cipher_failed",
            CipherChange::Restarted => "cipher_restarted",
            CipherChange::Withdrawn => "cipher_withdrawn",
        }
    }
}

/// Report that events did not reach this reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostEvents {
    /// Number of events that were lost.
    pub count: u64,
}

/// The answer to POST `/v1/spi`: an SPI for an association that a peer will send on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpiAllocated {
    /// The reserved SPI; it stays reserved until an inbound association uses it, it is released, or a minute has
    /// passed.
    pub spi: Spi,
}

/// The answer to DELETE `/v1/spi/{spi}` and DELETE `/v1/acquire/{id}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Released {
    /// The value is always true.
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
