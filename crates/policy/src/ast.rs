//! The syntax tree: what the file says, with the place of everything it says.

use std::net::IpAddr;

use sadb::spd::{Level, PortRange};

pub use crate::lexer::Span;

/// A name and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Without quotes and escapes.
    pub text: String,
    /// As written.
    pub span: Span,
}

/// `application NAME, NAME { ... }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Every name or path of the list.
    pub names: Vec<Name>,
    /// From `application` to the last name.
    pub header: Span,
    /// Network settings, in the order of the file.
    pub networks: Vec<Network>,
    /// Protection settings, in the order of the file.
    pub protections: Vec<Protection>,
}

/// `network RANGE TYPE;` (paper 000 section 3.3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The peers.
    pub range: AddressRange,
    /// As written.
    pub range_span: Span,
    /// What they are.
    pub kind: NetworkKind,
    /// The whole statement.
    pub span: Span,
}

/// Which peers a network setting speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressRange {
    /// One address.
    Single(IpAddr),
    /// `ADDRESS/LENGTH`; host bits may be set.
    Prefix(IpAddr, u8),
    /// `ADDRESS-ADDRESS`, one family, the first not above the second.
    Range(IpAddr, IpAddr),
    /// A host name: not resolved yet, matches nothing.
    Host(String),
}

/// The three categories of paper 000 section 3.3.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkKind {
    /// Bypass.
    Trusted,
    /// Discard.
    Untrusted,
    /// The protection of this name decides.
    Protected(Name),
}

/// `protection NAME { ... }` (paper 000 section 3.3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protection {
    /// Its name, known inside the block only.
    pub name: Name,
    /// In the order of the file: the first that matches decides.
    pub items: Vec<Item>,
    /// The whole setting.
    pub span: Span,
}

/// `localport=P remoteport=P TYPE LEVEL;`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// This host's ports.
    pub local: PortRange,
    /// The peer's ports.
    pub remote: PortRange,
    /// What is demanded.
    pub service: Service,
    /// How strictly.
    pub level: Level,
    /// The whole item.
    pub span: Span,
}

/// What an item demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Confidentiality, and with it authentication.
    Encryption,
    /// Authentication and integrity.
    Authentication,
}

impl Service {
    /// The word of the language.
    pub fn word(self) -> &'static str {
        match self {
            Service::Encryption => "encryption",
            Service::Authentication => "authentication",
        }
    }
}

/// The word of the language.
pub fn level_word(level: Level) -> &'static str {
    match level {
        Level::Mandatory => "mandatory",
        Level::Optional => "optional",
    }
}

/// Ports as the language writes them.
pub fn port_text(ports: PortRange) -> String {
    match ports {
        PortRange::ANY => "any".into(),
        PortRange { first, last } if first == last => first.to_string(),
        PortRange { first, last } => format!("{first}-{last}"),
    }
}

impl Item {
    /// The item on one line.
    pub fn text(&self) -> String {
        format!(
            "localport={} remoteport={} {} {};",
            port_text(self.local),
            port_text(self.remote),
            self.service.word(),
            level_word(self.level)
        )
    }
}

impl std::fmt::Display for AddressRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AddressRange::Single(addr) => write!(f, "{addr}"),
            AddressRange::Prefix(addr, len) => write!(f, "{addr}/{len}"),
            AddressRange::Range(first, last) => write!(f, "{first}-{last}"),
            AddressRange::Host(name) => f.write_str(name),
        }
    }
}

impl NetworkKind {
    /// As the language writes it.
    pub fn text(&self) -> String {
        match self {
            NetworkKind::Trusted => "trusted".into(),
            NetworkKind::Untrusted => "untrusted".into(),
            NetworkKind::Protected(name) => format!("protected {}", quoted(&name.text)),
        }
    }
}

impl Network {
    /// The setting on one line.
    pub fn text(&self) -> String {
        format!("network {} {};", self.range, self.kind.text())
    }
}

/// The name as the language writes it: in quotes where it needs them.
pub fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:+@%~-".contains(c);
    if !name.is_empty() && name.chars().all(plain) && !name.starts_with("//") && !name.ends_with('/') {
        return name.into();
    }
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}
