//! Security associations: the request that makes one, and what is told about them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::sa_options::{Encapsulation, Headers, LifeState, Lifetime, SaType, WordOr};
use crate::{Keymat, Spi, SpiRequest};

/// Which way an association's packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the wire to this host.
    In,
    /// From this host to the wire.
    Out,
}

impl std::fmt::Display for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Direction::In => "in",
            Direction::Out => "out",
        })
    }
}

/// What ESP wraps (RFC 4301 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The upper layer of a packet between the two ends.
    Transport,
    /// A whole IP packet.
    Tunnel,
    /// As transport, between fixed inner addresses that do not travel.
    Beet,
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mode::Transport => "transport",
            Mode::Tunnel => "tunnel",
            Mode::Beet => "beet",
        })
    }
}

fn esp_port() -> u16 {
    4500
}

fn in_udp() -> Encapsulation {
    Encapsulation::Udp
}

/// POST `/v1/sa`, and one line of the keys file of `ravelin replay`. The only message of the API with a key in it.
///
/// Flat, so that serde neither buffers the key nor lets an unknown field pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaAdd {
    /// Which way.
    pub direction: Direction,
    /// Its SPI, or `"auto"` (inbound only).
    pub spi: SpiRequest,
    /// This host's outer address.
    pub local: IpAddr,
    /// The peer's outer address.
    pub remote: IpAddr,
    /// This host's UDP port; 4500 if absent.
    #[serde(default = "esp_port")]
    pub local_port: u16,
    /// The peer's UDP port; 4500 if absent.
    #[serde(default = "esp_port")]
    pub remote_port: u16,
    /// ESP if absent.
    #[serde(default, rename = "type")]
    pub kind: SaType,
    /// Transport, tunnel or BEET.
    pub mode: Mode,
    /// In UDP or bare; in UDP for ESP, bare for everything else, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encapsulation: Option<Encapsulation>,
    /// The suite's word: `aes128gcm`, `chacha20poly1305`, `aes256cbc-sha256`; for AH an integrity algorithm, `sha256`. Not
    /// for chains without key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub suite: String,
    /// Sequence numbers of 64 bits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub esn: bool,
    /// Its end.
    #[serde(default, skip_serializing_if = "Lifetime::is_unlimited")]
    pub lifetime: Lifetime,
    /// Header fields across the tunnel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<Headers>,
    /// Padding that hides lengths: `"none"` (default), a number of octets that lengths become a multiple of, or `"full"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tfc: Option<WordOr<u16>>,
    /// How much the ESP trailer pads besides: `"least"`, or `"blocks"`: to whole blocks of AES-GCM in UDP, where there is room.
    /// Default: `blocks` in the daemon, `least` in `ravelin replay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub padding: Option<String>,
    /// Outbound, in UDP: a NAT keepalive after so many seconds of silence, or `"on"`: after the daemon's number of seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepalive: Option<WordOr<u16>>,
    /// Outbound, tunnel mode: at least so many packets a second leave, dummies if there are no others (RFC 4303 section 2.6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dummy: Option<u16>,
    /// In UDP: go with the peer to another address or port, where an authentic packet shows it there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow_peer: bool,
    /// Outbound, in UDP: it may take flows from an association to another peer with the same addresses on its other side, which is
    /// refused otherwise (RFC 3948 section 5). Nothing to `ravelin replay`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_over: bool,
    /// Outbound: the SPI of the association that the result goes through next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Spi>,
    /// Inbound: found by `spi` (default), `spi+dst` or `spi+dst+src`, the longest match first.
    #[serde(default, rename = "match", alias = "class", skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// `ravelin replay` only: the sequence number of the first packet it sends, or the highest it has received. A daemon
    /// refuses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// Inner addresses of this side, as a prefix; `local` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector_local: Option<String>,
    /// Inner addresses of the peer's side, as a prefix; `remote` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector_remote: Option<String>,
    /// The inner protocol: a word (`tcp`, `udp`, `icmp`, `icmpv6`) or a number; every protocol if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Inner ports of this side, `443` or `1000-2000`; with ICMP the type (`type` in the upper half of 16 bits, code in the
    /// lower); every port, and packets without ports, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_ports: Option<String>,
    /// Inner ports of the peer's side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_ports: Option<String>,
    /// The application it is bound to; shared by all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Packets in the replay window; 1024 if absent, 0: no replay protection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_window: Option<u32>,
    /// The path's MTU for outer packets; the daemon's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_mtu: Option<u16>,
    /// Cipher key, its salt, integrity key, its salt, as the suite has them, in hexadecimal; wiped after use.
    #[serde(default)]
    pub keymat: Keymat,
}

/// The answer to [`SaAdd`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SaAdded {
    /// The association as it is now.
    pub sa: SaInfo,
}

/// GET `/v1/sa`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SaList {
    /// Every association, inbound first, by SPI.
    pub sas: Vec<SaInfo>,
}

/// The answer to DELETE `/v1/sa/{spi}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SaDeleted {
    /// The association as it was.
    pub sa: SaInfo,
}

/// One association. No field for a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SaInfo {
    /// Its SPI.
    pub spi: Spi,
    /// Which way.
    pub direction: Direction,
    /// ESP, AH, or a member of a chain.
    #[serde(default, rename = "type")]
    pub kind: SaType,
    /// Transport, tunnel or BEET.
    pub mode: Mode,
    /// In UDP or bare.
    #[serde(default = "in_udp")]
    pub encapsulation: Encapsulation,
    /// The suite's word; empty for a chain's member without key.
    pub suite: String,
    /// Sequence numbers of 64 bits.
    #[serde(default)]
    pub esn: bool,
    /// Its limits.
    #[serde(default)]
    pub lifetime: Lifetime,
    /// Where it is in its life.
    #[serde(default)]
    pub state: LifeState,
    /// The association that follows in its chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Spi>,
    /// Inbound: what it is found by, if not by its SPI alone.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// This host's outer address.
    pub local: IpAddr,
    /// The peer's outer address.
    pub remote: IpAddr,
    /// This host's UDP port.
    pub local_port: u16,
    /// The peer's UDP port.
    pub remote_port: u16,
    /// What it may carry.
    pub selectors: SelectorInfo,
    /// Packets in the replay window (inbound).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_window: Option<u32>,
    /// Outer packets up to this size: what the route takes, or less where so is configured or ICMP errors taught so.
    pub path_mtu: u16,
    /// Outbound: what is known of the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pmtu: Option<PmtuInfo>,
    /// Outbound: seconds of silence behind which a NAT keepalive is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepalive: Option<u16>,
    /// Outbound: packets that leave in a second at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dummy: Option<u16>,
    /// It goes with its peer to another address or port.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow_peer: bool,
    /// Inner packets up to this size fit.
    pub inner_mtu: u32,
    /// The last sequence number sent or accepted; 0 before the first.
    pub sequence: u64,
    /// What it has done so far.
    pub counters: SaCounters,
}

/// The path MTU of an outbound association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PmtuInfo {
    /// What it is without anything learned.
    pub configured: u16,
    /// Whether the one in force was learned from an ICMP error.
    pub learned: bool,
    /// Seconds since that was last heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<u64>,
}

/// What an association may carry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectorInfo {
    /// Inner addresses of this side.
    pub local: String,
    /// Inner addresses of the peer's side.
    pub remote: String,
    /// Protocol number; absent: every protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// Ports of this side; absent: every port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_ports: Option<String>,
    /// Ports of the peer's side; absent: every port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_ports: Option<String>,
    /// The application it is bound to; absent: shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
}

/// The counters of an association.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaCounters {
    /// Packets sealed or opened.
    pub packets: u64,
    /// Octets of inner packets.
    pub bytes: u64,
    /// Packets with a wrong integrity check value (inbound).
    #[serde(default)]
    pub auth_failed: u64,
    /// Packets seen before or too old (inbound).
    #[serde(default)]
    pub replayed: u64,
    /// NAT keepalives sent (outbound).
    #[serde(default)]
    pub keepalives: u64,
    /// Dummy packets among those sealed (outbound); those that arrive are in `drops`.
    #[serde(default)]
    pub dummies: u64,
    /// Every packet that ended here, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drops: BTreeMap<String, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &str = r#"{"direction":"out","spi":"0x1000","local":"192.0.2.1","remote":"192.0.2.2",
        "mode":"transport","suite":"aes128gcm","keymat":"000102030405060708090a0b0c0d0e0f10111213"}"#;

    #[test]
    fn a_request_round_trips_with_its_defaults_and_hides_its_key() {
        let request: SaAdd = serde_json::from_str(REQUEST).unwrap();
        assert_eq!((request.local_port, request.remote_port), (4500, 4500));
        assert_eq!(request.spi, SpiRequest::This(Spi(0x1000)));
        let again: SaAdd = serde_json::from_str(&serde_json::to_string(&request).unwrap()).unwrap();
        assert_eq!(request, again);
        assert!(!format!("{request:?}").contains("0102"));
    }

    #[test]
    fn unknown_and_missing_fields_are_refused() {
        let extra = REQUEST.replacen('{', "{\"replay\":32,", 1);
        assert!(serde_json::from_str::<SaAdd>(&extra).unwrap_err().to_string().contains("`replay`"));
        let missing = REQUEST.replace("\"mode\":\"transport\",", "");
        assert!(serde_json::from_str::<SaAdd>(&missing).unwrap_err().to_string().contains("`mode`"));
    }

    #[test]
    fn no_answer_has_a_field_for_a_key() {
        let info = SaInfo {
            spi: Spi(0x1000),
            direction: Direction::In,
            kind: SaType::Esp,
            mode: Mode::Tunnel,
            encapsulation: Encapsulation::Udp,
            suite: "aes256gcm".into(),
            esn: false,
            lifetime: Lifetime::default(),
            state: LifeState::Mature,
            next: None,
            class: None,
            local: "192.0.2.1".parse().unwrap(),
            remote: "192.0.2.2".parse().unwrap(),
            local_port: 4500,
            remote_port: 4500,
            selectors: SelectorInfo {
                local: "192.0.2.1".into(),
                remote: "192.0.2.2".into(),
                protocol: Some(6),
                local_ports: None,
                remote_ports: None,
                app: None,
            },
            replay_window: Some(1024),
            path_mtu: 1500,
            pmtu: None,
            keepalive: None,
            dummy: None,
            follow_peer: false,
            inner_mtu: 1438,
            sequence: 0,
            counters: SaCounters::default(),
        };
        let text = serde_json::to_string(&info).unwrap();
        assert!(!text.contains("key"), "{text}");
        assert_eq!(serde_json::from_str::<SaInfo>(&text).unwrap(), info);
    }
}
