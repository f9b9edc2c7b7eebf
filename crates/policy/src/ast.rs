//! The syntax tree: what the file says, with the place of everything it says.

mod item;
mod limit;
mod subject;

use std::net::IpAddr;

pub use crate::lexer::Span;
pub use item::{
    Demand, Item, Service, failure_word, level_word, negotiating_word, port_text, ports_text, protocol_text,
    same_level,
};
pub use limit::{Limit, Limited, Quantity};
pub use subject::{Executable, Group, Program, Subject, User, Users};

/// Which language a file is in (`syntax 2005;` as its first statement).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syntax {
    /// That of paper 000, and nothing else.
    Paper,
    /// With everything that docs/design/0010 adds.
    #[default]
    Extended,
}

/// A name and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Without quotes and escapes.
    pub text: String,
    /// As written.
    pub span: Span,
}

/// `application SUBJECT, SUBJECT { ... }`, `default { ... }`, or `guard { ... }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Whom it speaks for: every subject of the list.
    pub subjects: Vec<Subject>,
    /// What they are on this host, one for each; filled in by the checks.
    pub selectors: Vec<crate::Selector>,
    /// From `application` to the last subject.
    pub header: Span,
    /// The whole of it.
    pub span: Span,
    /// Network settings, in the order of the file.
    pub networks: Vec<Network>,
    /// Protection settings, in the order of the file; behind them those of the top of the file that its networks name.
    pub protections: Vec<Protection>,
    /// Limits on what leaves in clear and on what is accepted so, one for each unit at most.
    pub limits: Vec<Limit>,
    /// `observe;`: what it says is only watched.
    pub observed: Option<Span>,
    /// It is `guard { ... }`, about what no application's block decides: it has no subjects.
    pub is_guard: bool,
}

/// What `guard { ... }` is called; no application's name is so.
pub const GUARD: &str = "guard { }";

impl Block {
    /// One with a header and nothing in it yet.
    pub(crate) fn new(subjects: Vec<Subject>, header: Span) -> Block {
        Block {
            subjects,
            selectors: Vec::new(),
            header,
            span: header,
            networks: Vec::new(),
            protections: Vec::new(),
            limits: Vec::new(),
            observed: None,
            is_guard: false,
        }
    }

    /// Its header on one line.
    pub fn header_text(&self) -> String {
        match &self.subjects[..] {
            _ if self.is_guard => "guard".into(),
            [one] if one.is_default() => "default".into(),
            list => {
                let list: Vec<String> = list.iter().map(Subject::text).collect();
                format!("application {}", list.join(", "))
            }
        }
    }

    /// The header as one subject of it sees it: whoever asks about a program wants to read its name, not a list of all others.
    pub fn header_for(&self, subject: &Subject) -> String {
        match self.subjects.len() {
            0 | 1 => self.header_text(),
            count => format!("application {}, and {} more", subject.text(), count - 1),
        }
    }

    /// What its subjects are called.
    pub fn names(&self) -> Vec<String> {
        if self.is_guard { vec![GUARD.into()] } else { self.subjects.iter().map(Subject::name).collect() }
    }

    /// The same for messages.
    pub fn names_text(&self) -> String {
        self.names().join(", ")
    }
}

/// `network RANGE TYPE;` (paper 000 section 3.3.1). A list of ranges is a setting for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The peers.
    pub range: AddressRange,
    /// As written.
    pub range_span: Span,
    /// What they are.
    pub kind: NetworkKind,
    /// `observe` in front of the type: that is only watched.
    pub observed: bool,
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
    /// A host name, in lower case and without a dot at its end: the addresses that it has from time to time.
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
    /// Its name, known inside the block only, or at the top of the file in every block.
    pub name: Name,
    /// In the order of the file: the first that matches decides.
    pub items: Vec<Item>,
    /// The whole setting.
    pub span: Span,
    /// It stands at the top of the file.
    pub shared: bool,
}

/// `test "NAME" { ... }`: what flows must get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// What it is about.
    pub name: Name,
    /// Its lines.
    pub expectations: Vec<Expectation>,
}

/// One line of a test: a program, a flow, and what it must get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The program, and where it runs.
    pub process: crate::Process,
    /// The user as written, if by name.
    pub user: Option<Name>,
    /// The peer.
    pub target: crate::Target,
    /// This host's port; zero: not said.
    pub local_port: u16,
    /// What it must get.
    pub wants: Wants,
    /// The whole line.
    pub span: Span,
    /// What it must get, as written.
    pub wants_span: Span,
}

/// What a flow must get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Clear, by its network or because nothing speaks for it.
    Trusted,
    /// Refused.
    Untrusted,
    /// Clear, by an item.
    Never,
    /// Protected.
    Protect(Service, sadb::spd::Level),
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
        let observed = if self.observed { "observe " } else { "" };
        format!("network {} {observed}{};", self.range, self.kind.text())
    }
}

/// The name as the language writes it: in quotes where it needs them.
pub fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:+@%~-".contains(c);
    if !name.is_empty() && name.chars().all(plain) && !name.starts_with("//") && !name.ends_with('/') {
        return name.into();
    }
    always_quoted(name)
}

/// The name in quotes.
pub(crate) fn always_quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}
