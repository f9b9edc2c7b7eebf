//! Security associations: the request that makes one, and the documents that describe them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::sa_options::{Encapsulation, Headers, LifeState, Lifetime, SaType, WordOr};
use crate::{Keymat, Spi, SpiRequest};

/// The direction of an association's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Packets come from the wire to this host.
    In,
    /// Packets go from this host to the wire.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// ESP wraps the upper layer of a packet between the two ends.
    Transport,
    /// ESP wraps a whole IP packet.
    Tunnel,
    /// ESP wraps the upper layer, as in transport mode, between fixed inner addresses that do not travel.
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

/// The body of POST `/v1/sa`, and a line of the keys file of `ravelin replay`. With [`crate::ReplaceOne`], it is the
/// only message that holds a key.
///
/// It is flat, so that serde neither buffers the key nor lets an unknown field pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SaAdd {
    /// The direction of the association's packets.
    pub direction: Direction,
    /// The SPI, or `"auto"` (inbound only).
    pub spi: SpiRequest,
    /// The outer address of this host.
    pub local: IpAddr,
    /// The outer address of the peer.
    pub remote: IpAddr,
    /// The UDP port of this host; 4500 if absent.
    #[serde(default = "esp_port")]
    pub local_port: u16,
    /// The UDP port of the peer; 4500 if absent.
    #[serde(default = "esp_port")]
    pub remote_port: u16,
    /// The protocol of the association; ESP if absent.
    #[serde(default, rename = "type")]
    pub kind: SaType,
    /// The mode of encapsulation: transport, tunnel or BEET.
    pub mode: Mode,
    /// Whether ESP travels in UDP. If absent, ESP does and everything else does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encapsulation: Option<Encapsulation>,
    /// The suite's word: `aes128gcm`, `chacha20poly1305`, `aes256cbc-sha256`; for AH an integrity algorithm, `sha256`.
    /// Chain members without a key have none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub suite: String,
    /// Whether sequence numbers have 64 bits (extended sequence numbers).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub esn: bool,
    /// The limits of its lifetime.
    #[serde(default, skip_serializing_if = "Lifetime::is_unlimited")]
    pub lifetime: Lifetime,
    /// The treatment of header fields across the tunnel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<Headers>,
    /// The padding that hides lengths (TFC): `"none"` (default), a number of octets that lengths become a multiple of,
    /// or `"full"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tfc: Option<WordOr<u16>>,
    /// The padding of the ESP trailer: `"least"`, or `"blocks"`, which fills whole blocks of AES-GCM in UDP where there
    /// is room. The default is `blocks` in the daemon and `least` in `ravelin replay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub padding: Option<String>,
    /// The silence in seconds after which an outbound association in UDP sends a NAT keepalive, or `"on"` for the
    /// daemon's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepalive: Option<WordOr<u16>>,
    /// The least number of packets a second that an outbound tunnel sends; dummies fill up (RFC 4303 section 2.6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dummy: Option<u16>,
    /// Whether an association in UDP follows its peer to another address or port, where an authenticated packet shows
    /// it there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow_peer: bool,
    /// Whether an outbound association in UDP may take flows from an association to another peer with the same
    /// addresses on its other side. This is refused otherwise (RFC 3948 section 5). `ravelin replay` ignores it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_over: bool,
    /// The SPI of the next association in an outbound chain, which the result goes through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Spi>,
    /// The fields that an inbound association is found by: `spi` (default), `spi+dst` or `spi+dst+src`; the longest
    /// match comes first.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub found_by: Option<String>,
    /// The class of the graph that its packets are in; none of its own if absent. In this version `spi`, `spi+dst` and
    /// `spi+dst+src` still mean `match`, whose other name the field was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub class: Option<ClassOrMatch>,
    /// The sequence number of the first packet sent, or the highest one received. Only `ravelin replay` takes it; a
    /// daemon refuses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The prefix of inner addresses of this side; `local` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector_local: Option<String>,
    /// The prefix of inner addresses of the peer's side; `remote` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector_remote: Option<String>,
    /// The inner protocol: a word (`tcp`, `udp`, `icmp`, `icmpv6`) or a number; every protocol if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The inner ports of this side, `443` or `1000-2000`. With ICMP, a port is a 16-bit number: type in the upper
    /// half, code in the lower. If absent: every port, and packets without ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_ports: Option<String>,
    /// The inner ports of the peer's side, in the same form as `local_ports`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_ports: Option<String>,
    /// The application that the association is bound to; shared by all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// The size of the replay window in packets; 1024 if absent, and 0 for no replay protection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_window: Option<u32>,
    /// The path's MTU for outer packets; the daemon's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_mtu: Option<u16>,
    /// The cipher key, its salt, the integrity key and its salt, as far as the suite has them, in hexadecimal. They are
    /// wiped after use.
    #[serde(default)]
    pub keymat: Keymat,
}

/// The value of `class` in a request for an association: a class, or what an association is found by.
///
/// The field was another name of `match` before there were classes. In this version the words of `match` keep that
/// meaning, so a class of such a name cannot be named here. Behind this version every value is a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassOrMatch {
    /// The name of a class of the graph.
    Class(String),
    /// A word of `match`.
    Match(String),
}

impl ClassOrMatch {
    /// The meaning of this value.
    pub fn of(text: String) -> ClassOrMatch {
        match text.as_str() {
            "spi" | "spi+dst" | "spi+dst+src" => ClassOrMatch::Match(text),
            _ => ClassOrMatch::Class(text),
        }
    }
}

impl Serialize for ClassOrMatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (ClassOrMatch::Class(text) | ClassOrMatch::Match(text)) = self;
        serializer.serialize_str(text)
    }
}

impl<'de> Deserialize<'de> for ClassOrMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ClassOrMatch, D::Error> {
        String::deserialize(deserializer).map(ClassOrMatch::of)
    }
}

impl SaAdd {
    /// The word that says what an inbound association is found by, in whichever field it stands.
    pub fn match_word(&self) -> Option<&str> {
        match (&self.found_by, &self.class) {
            (Some(word), _) | (None, Some(ClassOrMatch::Match(word))) => Some(word),
            (None, _) => None,
        }
    }

    /// The name of the class that the association is to be in.
    pub fn class_name(&self) -> Option<&str> {
        match &self.class {
            Some(ClassOrMatch::Class(name)) => Some(name),
            Some(ClassOrMatch::Match(_)) | None => None,
        }
    }
}

/// The answer to [`SaAdd`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SaAdded {
    /// The association as it is now.
    pub sa: SaInfo,
}

/// The answer to GET `/v1/sa`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SaList {
    /// Every association, inbound first, by SPI.
    pub sas: Vec<SaInfo>,
}

/// The answer to DELETE `/v1/sa/{spi}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SaDeleted {
    /// The association as it was.
    pub sa: SaInfo,
}

/// The description of an association. It has no field for a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SaInfo {
    /// The SPI of the association.
    pub spi: Spi,
    /// The direction of the association's packets.
    pub direction: Direction,
    /// The protocol: ESP, AH, or a member of a chain.
    #[serde(default, rename = "type")]
    pub kind: SaType,
    /// The mode: transport, tunnel or BEET.
    pub mode: Mode,
    /// Whether the outer packets travel in UDP.
    #[serde(default = "in_udp")]
    pub encapsulation: Encapsulation,
    /// The suite's word; empty for a chain member without a key.
    pub suite: String,
    /// The place where the code of its cipher runs, if that is one of one's own: `compiled in`, `worker`
    /// or `in process`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    /// Whether sequence numbers have 64 bits (extended sequence numbers).
    #[serde(default)]
    pub esn: bool,
    /// The limits of its lifetime.
    #[serde(default)]
    pub lifetime: Lifetime,
    /// The stage of its life.
    #[serde(default)]
    pub state: LifeState,
    /// The SPI of the next association in its chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Spi>,
    /// The fields that an inbound association is found by, if not by its SPI alone.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub found_by: Option<String>,
    /// The class of the graph that its packets are in, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The outer address of this host.
    pub local: IpAddr,
    /// The outer address of the peer.
    pub remote: IpAddr,
    /// The UDP port of this host.
    pub local_port: u16,
    /// The UDP port of the peer.
    pub remote_port: u16,
    /// The packets that it may carry.
    pub selectors: SelectorInfo,
    /// The size of the replay window in packets (inbound).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_window: Option<u32>,
    /// Octets of the longest outer packet: what the route takes, or less where the configuration or ICMP errors say so.
    pub path_mtu: u16,
    /// The path MTU of an outbound association, and where it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pmtu: Option<PmtuInfo>,
    /// The silence in seconds after which an outbound association sends a NAT keepalive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepalive: Option<u16>,
    /// The least number of packets that an outbound association sends in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dummy: Option<u16>,
    /// Whether it follows its peer to another address or port.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow_peer: bool,
    /// Octets of the longest inner packet that fits.
    pub inner_mtu: u32,
    /// The last sequence number sent or accepted; 0 before the first.
    pub sequence: u64,
    /// The counters of the association.
    pub counters: SaCounters,
}

/// The path MTU of an outbound association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PmtuInfo {
    /// The path MTU in octets without anything learned.
    pub configured: u16,
    /// Whether the path MTU in force was learned from an ICMP error.
    pub learned: bool,
    /// Seconds since the learned path MTU was last reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<u64>,
}

/// The selectors of an association.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SelectorInfo {
    /// The prefix of inner addresses of this side.
    pub local: String,
    /// The prefix of inner addresses of the peer's side.
    pub remote: String,
    /// The inner protocol number; absent for every protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// The ports of this side; absent for every port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_ports: Option<String>,
    /// The ports of the peer's side; absent for every port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_ports: Option<String>,
    /// The application that it is bound to; absent if it is shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
}

/// The counters of an association.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SaCounters {
    /// Number of packets sealed or opened.
    pub packets: u64,
    /// Number of octets of inner packets.
    pub bytes: u64,
    /// Number of inbound packets with a wrong integrity check value.
    #[serde(default)]
    pub auth_failed: u64,
    /// Number of inbound packets that were seen before or are too old.
    #[serde(default)]
    pub replayed: u64,
    /// Number of NAT keepalives sent (outbound).
    #[serde(default)]
    pub keepalives: u64,
    /// Number of dummy packets among those sealed (outbound). Dummies that arrive are counted in `drops`.
    #[serde(default)]
    pub dummies: u64,
    /// Number of packets that were dropped, by reason.
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
    fn a_class_is_named_and_the_words_of_match_keep_their_meaning() {
        let read = |fields: &str| {
            let text = REQUEST.replacen('{', &format!("{{{fields},"), 1);
            serde_json::from_str::<SaAdd>(&text)
        };
        for (fields, match_word, class) in [
            (r#""class":"voice""#, None, Some("voice")),
            (r#""class":"spi""#, Some("spi"), None),
            (r#""class":"spi+dst""#, Some("spi+dst"), None),
            (r#""class":"spi+dst+src""#, Some("spi+dst+src"), None),
            (r#""class":"spi-destination""#, None, Some("spi-destination")),
            (r#""class":"SPI""#, None, Some("SPI")),
            (r#""match":"spi+dst""#, Some("spi+dst"), None),
            (r#""match":"spi+dst","class":"voice""#, Some("spi+dst"), Some("voice")),
            (r#""match":null,"class":null"#, None, None),
        ] {
            let request = read(fields).unwrap();
            assert_eq!((request.match_word(), request.class_name()), (match_word, class), "{fields}");
            let again: SaAdd = serde_json::from_str(&serde_json::to_string(&request).unwrap()).unwrap();
            assert_eq!(again, request, "{fields}");
        }
        assert!(read(r#""class":7"#).is_err() && read(r#""class":["voice"]"#).is_err());
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
            isolation: None,
            esn: false,
            lifetime: Lifetime::default(),
            state: LifeState::Mature,
            next: None,
            found_by: None,
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
