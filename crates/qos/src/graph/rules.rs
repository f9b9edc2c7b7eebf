//! The rules by which classes and tunnels take packets.

use std::net::IpAddr;

use super::spanned::Spanned;
use crate::HeaderKind;

/// The packets that a class takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Matches {
    /// Packets that one of the rules matches.
    Rules(Vec<Rule>),
    /// Packets whose policy item, rule or association names the class.
    Named,
    /// Packets that no other class takes.
    Rest,
}

/// A rule: every field of it must match.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The fields, each once.
    pub fields: Vec<FieldMatch>,
    /// The octets of the whole rule.
    pub span: Spanned<()>,
}

/// A field with the values of which one must match.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldMatch {
    /// The field that is looked at.
    pub field: Spanned<Field>,
    /// The values of which one must match.
    pub values: Vec<Spanned<FieldValue>>,
}

/// A field that rules look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// The DSCP of the inner header, or of the only one.
    Dscp,
    /// The DSCP of the outer header. It chooses only among the classes of its association.
    OuterDscp,
    /// What stands at the front of the packet.
    Header,
    /// The security parameter index.
    Spi,
    /// The name of the association.
    Association,
    /// The address of the far end.
    Peer,
    /// The suite of the association.
    Suite,
    /// The number of the key.
    Key,
    /// The associations of its bundle that are done.
    Index,
    /// The name of the application.
    Application,
    /// The number of the user on this host.
    Uid,
    /// The mark of the packet in the kernel, as `value/mask`.
    Mark,
    /// The source address of the inner packet.
    Source,
    /// The destination address of the inner packet.
    Destination,
    /// The protocol of the inner packet.
    Protocol,
    /// The destination port of the inner packet.
    Port,
    /// The source port of the inner packet.
    SourcePort,
}

impl Field {
    /// The names of the fields.
    pub const WORDS: &[(&str, Field)] = &[
        ("dscp", Field::Dscp),
        ("outer_dscp", Field::OuterDscp),
        ("header", Field::Header),
        ("spi", Field::Spi),
        ("association", Field::Association),
        ("peer", Field::Peer),
        ("suite", Field::Suite),
        ("key", Field::Key),
        ("index", Field::Index),
        ("application", Field::Application),
        ("uid", Field::Uid),
        ("mark", Field::Mark),
        ("source", Field::Source),
        ("destination", Field::Destination),
        ("protocol", Field::Protocol),
        ("port", Field::Port),
        ("source_port", Field::SourcePort),
    ];

    /// Whether the field is of the inner flow, which a packet hides that arrives.
    pub fn is_of_inner_flow(self) -> bool {
        use Field::{Destination, Port, Protocol, Source, SourcePort};
        matches!(self, Source | Destination | Protocol | Port | SourcePort)
    }

    /// Whether only a packet of an association has the field.
    pub fn is_of_associations(self) -> bool {
        use Field::{Association, Index, Key, OuterDscp, Spi, Suite};
        matches!(self, OuterDscp | Spi | Association | Suite | Key | Index)
    }
}

/// A value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// A DSCP, six bits.
    Dscp(u8),
    /// What stands at the front.
    Header(HeaderKind),
    /// A number without a name.
    Number(u32),
    /// A name of some kind.
    Text(String),
    /// Numbers from the first to the second.
    Range(u16, u16),
    /// Addresses with the same first bits.
    Prefix(IpAddr, u8),
    /// A mark, looked at through a mask.
    Mark(u32, u32),
}

impl FieldValue {
    /// Whether every packet that `other` matches is matched by this value too.
    pub fn covers(&self, other: &FieldValue) -> bool {
        match (self, other) {
            (FieldValue::Range(first, last), FieldValue::Range(from, to)) => first <= from && to <= last,
            (FieldValue::Prefix(one, short), FieldValue::Prefix(two, long)) => {
                short <= long && masked(*one, *short) == masked(*two, *short)
            }
            (FieldValue::Mark(one, wide), FieldValue::Mark(two, narrow)) => {
                wide & narrow == *wide && one & wide == two & wide
            }
            (one, two) => one == two,
        }
    }
}

/// The first bits of an address; `None` keeps the two families apart.
fn masked(addr: IpAddr, bits: u8) -> (bool, u128) {
    match addr {
        IpAddr::V4(addr) => {
            let shift = 32_u32.saturating_sub(bits.into());
            (false, u128::from(u32::from(addr).checked_shr(shift).unwrap_or(0)))
        }
        IpAddr::V6(addr) => {
            let shift = 128_u32.saturating_sub(bits.into());
            (true, u128::from(addr).checked_shr(shift).unwrap_or(0))
        }
    }
}

impl Rule {
    /// Whether every packet that `other` matches is matched by this rule too.
    pub fn covers(&self, other: &Rule) -> bool {
        self.fields.iter().all(|mine| {
            let theirs = other.fields.iter().find(|their| their.field == mine.field);
            theirs.is_some_and(|their| {
                let within = |value: &FieldValue| mine.values.iter().any(|own| own.value.covers(value));
                their.values.iter().all(|value| within(&value.value))
            })
        })
    }
}

/// The DSCPs that have names (RFC 2474, RFC 2597, RFC 3246, RFC 5865, RFC 8622).
pub const DSCP: &[(&str, u8)] = &[
    ("BE", 0),
    ("LE", 1),
    ("CS1", 8),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("CS2", 16),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("CS3", 24),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("CS4", 32),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS5", 40),
    ("VA", 44),
    ("EF", 46),
    ("CS6", 48),
    ("CS7", 56),
];

/// The words for what stands at the front of a packet.
pub const HEADERS: &[(&str, HeaderKind)] = &[
    ("esp", HeaderKind::Esp),
    ("esp-in-udp", HeaderKind::EspInUdp),
    ("ah", HeaderKind::Ah),
    ("ipcomp", HeaderKind::IpComp),
    ("ike", HeaderKind::Ike),
    ("keepalive", HeaderKind::Keepalive),
    ("icmp-error", HeaderKind::IcmpError),
    ("clear", HeaderKind::Clear),
];

/// The protocols that have names in rules.
pub const PROTOCOLS: &[(&str, u32)] =
    &[("icmp", 1), ("tcp", 6), ("udp", 17), ("esp", 50), ("ah", 51), ("icmpv6", 58), ("sctp", 132)];

/// The word of a value in a table of words.
pub fn word<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> Option<&'static str> {
    words.iter().find(|(_, v)| v == value).map(|(w, _)| *w)
}

/// The value of a word in a table of words, capitals or not.
pub fn lookup<T: Clone>(words: &[(&str, T)], text: &str) -> Option<T> {
    words.iter().find(|(w, _)| w.eq_ignore_ascii_case(text)).map(|(_, v)| v.clone())
}

/// The prefix that a text writes: an address with the number of its first bits that count, or an address alone.
pub fn prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (addr, bits) = match text.split_once('/') {
        Some((addr, bits)) => (addr, Some(bits.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let addr: IpAddr = addr.parse().ok()?;
    let most = if addr.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(most);
    (bits <= most).then_some((addr, bits))
}
