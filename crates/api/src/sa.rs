//! Security associations: the request that makes one, and what is told about them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

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
    /// Transport or tunnel.
    pub mode: Mode,
    /// The suite's word: `aes128gcm`, `aes256gcm`, `chacha20poly1305`.
    pub suite: String,
    /// Inner addresses of this side, as a prefix; `local` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector_local: Option<String>,
    /// Inner addresses of the peer's side, as a prefix; `remote` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector_remote: Option<String>,
    /// The inner protocol: a word (`tcp`, `udp`, `icmp`, `icmpv6`) or a number; every protocol if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The application it is bound to; shared by all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Packets in the replay window; 1024 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_window: Option<u32>,
    /// The path's MTU for outer packets; the daemon's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_mtu: Option<u16>,
    /// Cipher key and salt, hexadecimal; wiped after use.
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
    /// Transport or tunnel.
    pub mode: Mode,
    /// The suite's word.
    pub suite: String,
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
    /// Outer packets up to this size.
    pub path_mtu: u16,
    /// Inner packets up to this size fit.
    pub inner_mtu: u32,
    /// The last sequence number sent or accepted; 0 before the first.
    pub sequence: u64,
    /// What it has done so far.
    pub counters: SaCounters,
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
    /// The application it is bound to; absent: shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
}

/// The counters of an association.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
            mode: Mode::Tunnel,
            suite: "aes256gcm".into(),
            local: "192.0.2.1".parse().unwrap(),
            remote: "192.0.2.2".parse().unwrap(),
            local_port: 4500,
            remote_port: 4500,
            selectors: SelectorInfo {
                local: "192.0.2.1".into(),
                remote: "192.0.2.2".into(),
                protocol: Some(6),
                app: None,
            },
            replay_window: Some(1024),
            path_mtu: 1500,
            inner_mtu: 1438,
            sequence: 0,
            counters: SaCounters::default(),
        };
        let text = serde_json::to_string(&info).unwrap();
        assert!(!text.contains("key"), "{text}");
        assert_eq!(serde_json::from_str::<SaInfo>(&text).unwrap(), info);
    }
}
