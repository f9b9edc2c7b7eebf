//! The syntax tree: the statements of a policy file, each with its place.

mod item;
mod limit;
mod name;
mod subject;

use std::net::IpAddr;

pub use crate::lexer::Span;
pub use item::{
    Aggregate, Demand, Item, Service, failure_word, level_word, negotiating_word, port_text, ports_text,
    protocol_text, same_level,
};
pub use limit::{Limit, Limited, Quantity};
pub use name::{Name, quoted};
pub(crate) use subject::executables;
pub use subject::{Executable, Group, Program, Subject, User, Users};

/// The language that a file is in (`syntax 2005;` as its first statement).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syntax {
    /// The language of paper 000, and nothing else.
    Paper,
    /// The language with everything that docs/design/0010 adds.
    #[default]
    Extended,
}

/// A block: `application SUBJECT, SUBJECT { ... }`, `default { ... }`, or `guard { ... }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The subjects that the block is about, which are all in its list.
    pub subjects: Vec<Subject>,
    /// The selectors of the subjects on this host, one for each. The checks fill them in.
    pub selectors: Vec<crate::Selector>,
    /// The place from `application` to the last subject.
    pub header: Span,
    /// The place of the whole block.
    pub span: Span,
    /// The network settings, in the order of the file.
    pub networks: Vec<Network>,
    /// The protection settings, in the order of the file. Behind them are those of the top of the file that the block's
    /// networks name.
    pub protections: Vec<Protection>,
    /// Limits on what leaves in clear and on what is accepted so, at most one for each unit.
    pub limits: Vec<Limit>,
    /// The place of `observe;`, if the block is only watched.
    pub observed: Option<Span>,
    /// Whether it is `guard { ... }`, about what no application's block decides. It has no subjects.
    pub is_guard: bool,
}

/// The display name of `guard { ... }`; no application has this name.
pub const GUARD: &str = "guard { }";

impl Block {
    /// Makes a block with a header and nothing in it yet.
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

    /// The items of its protections, in order.
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        self.protections.iter().flat_map(|protection| &protection.items)
    }

    /// The header of the block on one line.
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

    /// The header as one subject of it sees it. A reader who asks about a program wants to read its name, not a list of
    /// all others.
    pub fn header_for(&self, subject: &Subject) -> String {
        match self.subjects.len() {
            0 | 1 => self.header_text(),
            count => format!("application {}, and {} more", subject.text(), count - 1),
        }
    }

    /// The names of the block's subjects.
    pub fn names(&self) -> Vec<String> {
        if self.is_guard { vec![GUARD.into()] } else { self.subjects.iter().map(Subject::name).collect() }
    }

    /// The names of the block's subjects as one text for messages.
    pub fn names_text(&self) -> String {
        self.names().join(", ")
    }
}

/// A network setting: `network RANGE TYPE;` (paper 000 section 3.3.1). A list of ranges is one setting for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The range of peers.
    pub range: AddressRange,
    /// The place of the range as written.
    pub range_span: Span,
    /// The category of these peers.
    pub kind: NetworkKind,
    /// Whether `observe` stands in front of the type: the network is only watched.
    pub observed: bool,
    /// The place of the whole statement.
    pub span: Span,
}

/// The peers that a network setting is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressRange {
    /// A single IP address.
    Single(IpAddr),
    /// A prefix `ADDRESS/LENGTH`; host bits may be set.
    Prefix(IpAddr, u8),
    /// A range `ADDRESS-ADDRESS` of one family, the first not above the second.
    Range(IpAddr, IpAddr),
    /// A host name, in lower case and without a dot at its end. It stands for the addresses that it has from time to
    /// time.
    Host(String),
}

/// The three categories of paper 000 section 3.3.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkKind {
    /// Traffic with these peers bypasses protection.
    Trusted,
    /// Traffic with these peers is discarded.
    Untrusted,
    /// The protection of this name decides.
    Protected(Name),
}

/// A protection setting: `protection NAME { ... }` (paper 000 section 3.3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protection {
    /// The name of the protection. It is known inside its block only, or in every block if the protection stands at the
    /// top of the file.
    pub name: Name,
    /// The items in the order of the file; the first that matches decides.
    pub items: Vec<Item>,
    /// The place of the whole setting.
    pub span: Span,
    /// Whether the protection stands at the top of the file.
    pub shared: bool,
}

/// A test `test "NAME" { ... }`, which says what flows must get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// The name of the test.
    pub name: Name,
    /// The lines of the test.
    pub expectations: Vec<Expectation>,
}

/// A line of a test: a program, a flow, and what it must get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The program, and where it runs.
    pub process: crate::Process,
    /// The user as written, if it is given by name.
    pub user: Option<Name>,
    /// The peer of the flow.
    pub target: crate::Target,
    /// The port of this host; zero if it is not given.
    pub local_port: u16,
    /// What the flow must get.
    pub wants: ExpectedTreatment,
    /// The place of the whole line.
    pub span: Span,
    /// The place of what the flow must get.
    pub wants_span: Span,
}

/// The treatment that a flow must get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedTreatment {
    /// The flow passes in clear, by its network or because no policy is about it.
    Trusted,
    /// The flow is refused.
    Untrusted,
    /// The flow passes in clear, by an item.
    Never,
    /// The flow is protected by this service and level.
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
    /// The network kind as the language writes it.
    pub fn text(&self) -> String {
        match self {
            NetworkKind::Trusted => "trusted".into(),
            NetworkKind::Untrusted => "untrusted".into(),
            NetworkKind::Protected(name) => format!("protected {}", quoted(&name.text)),
        }
    }
}

impl Network {
    /// The network setting on one line.
    pub fn text(&self) -> String {
        let observed = if self.observed { "observe " } else { "" };
        format!("network {} {observed}{};", self.range, self.kind.text())
    }
}
