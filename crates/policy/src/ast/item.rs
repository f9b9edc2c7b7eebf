//! Items of protections: the flows that they are about, and what these must get.

use crypto::SuiteId;
use sadb::spd::{Failure, Level, Negotiating, PortRange};
use scrub::Profile;
use wire::{AggregateId, protocol};

use super::name::quoted;
use crate::lexer::Span;

/// An item: `protocol=P localport=L remoteport=L SERVICE LEVEL OPTIONS;` (paper 000 section 3.3.2, docs/design/0010).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The protocol; `None` for every one. 1 stands for the ICMP of both families.
    pub protocol: Option<u8>,
    /// The ports of this host; empty if none are given, which means any.
    pub local: Vec<PortRange>,
    /// The ports of the peer; empty if none are given, which means any.
    pub remote: Vec<PortRange>,
    /// The treatment that such flows must get.
    pub demand: Demand,
    /// The place of the whole item.
    pub span: Span,
}

/// A class of the graph, as an item names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// The number of the class.
    pub id: AggregateId,
    /// The name of the class in the graph.
    pub name: String,
}

/// The treatment that an item demands for its flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// The flows pass in clear.
    Never,
    /// The flows are protected.
    Protect {
        /// The service that is demanded.
        service: Service,
        /// The strictness of the demand.
        level: Level,
        /// The suite, if one is demanded.
        suite: Option<SuiteId>,
        /// What happens until there is an association, if the item says so.
        negotiating: Option<Negotiating>,
        /// What happens when there will be no association, if the item says so.
        failure: Option<Failure>,
        /// The class of the graph that the packets are in, if the item says so.
        class: Option<Box<Aggregate>>,
        /// The profile by which the packets are scrubbed, if they are.
        scrub: Option<Profile>,
    },
}

/// The service that an item demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Confidentiality, and with it authentication.
    Encryption,
    /// Authentication and integrity, without confidentiality.
    Authentication,
}

impl Service {
    /// The word of the language for the service.
    pub fn word(self) -> &'static str {
        match self {
            Service::Encryption => "encryption",
            Service::Authentication => "authentication",
        }
    }
}

/// The word of the language for the level.
pub fn level_word(level: Level) -> &'static str {
    match level {
        Level::Mandatory => "mandatory",
        Level::Optional => "optional",
        Level::AcceptOnly => "accept-only",
    }
}

/// The level that a word stands for: the words of the paper and their synonyms.
pub fn same_level(word: &str) -> Option<Level> {
    match word {
        "mandatory" | "require" => Some(Level::Mandatory),
        "optional" | "prefer" => Some(Level::Optional),
        "accept-only" => Some(Level::AcceptOnly),
        _ => None,
    }
}

/// The word of the language for the treatment while negotiating.
pub fn negotiating_word(negotiating: Negotiating) -> &'static str {
    match negotiating {
        Negotiating::Hold => "hold",
        Negotiating::Pass => "pass",
        Negotiating::Drop => "drop",
    }
}

/// The word of the language for the treatment on failure.
pub fn failure_word(failure: Failure) -> &'static str {
    match failure {
        Failure::Drop => "drop",
        Failure::Pass => "pass",
    }
}

/// A protocol number as the language writes it.
pub fn protocol_text(number: u8) -> String {
    match number {
        protocol::TCP => "tcp".into(),
        protocol::UDP => "udp".into(),
        protocol::SCTP => "sctp".into(),
        protocol::ICMP | protocol::ICMPV6 => "icmp".into(),
        other => other.to_string(),
    }
}

/// A range of ports as the language writes it.
pub fn port_text(ports: PortRange) -> String {
    match ports {
        PortRange::ANY => "any".into(),
        PortRange { first, last } if first == last => first.to_string(),
        PortRange { first, last } => format!("{first}-{last}"),
    }
}

/// A list of ports as the language writes it.
pub fn ports_text(ports: &[PortRange]) -> String {
    ports.iter().map(|range| port_text(*range)).collect::<Vec<_>>().join(",")
}

impl Item {
    /// The class that the item gives its flows, if it says so.
    pub fn class(&self) -> Option<&Aggregate> {
        match &self.demand {
            Demand::Protect { class, .. } => class.as_deref(),
            Demand::Never => None,
        }
    }

    /// The pairs of this host's and the peer's ports: each of one list with each of the other, in order.
    pub fn pairs(&self) -> impl Iterator<Item = (PortRange, PortRange)> + '_ {
        const ANY: [PortRange; 1] = [PortRange::ANY];
        let local = if self.local.is_empty() { &ANY[..] } else { &self.local };
        let remote = if self.remote.is_empty() { &ANY[..] } else { &self.remote };
        local.iter().flat_map(move |l| remote.iter().map(move |r| (*l, *r)))
    }

    /// Number of pairs of ports that the item stands for.
    pub fn count(&self) -> usize {
        self.local.len().max(1) * self.remote.len().max(1)
    }

    /// The item on one line.
    pub fn text(&self) -> String {
        let mut words = Vec::new();
        if let Some(number) = self.protocol {
            words.push(format!("protocol={}", protocol_text(number)));
        }
        if !self.local.is_empty() {
            words.push(format!("localport={}", ports_text(&self.local)));
        }
        if !self.remote.is_empty() {
            words.push(format!("remoteport={}", ports_text(&self.remote)));
        }
        match &self.demand {
            Demand::Never => words.push("never".into()),
            Demand::Protect { service, level, suite, negotiating, failure, class, scrub } => {
                words.push(format!("{} {}", service.word(), level_word(*level)));
                words.extend(suite.map(|suite| {
                    let alone = if suite.is_alone() { " alone" } else { "" };
                    format!("suite {suite}{alone}")
                }));
                words.extend(negotiating.map(|n| format!("while-negotiating {}", negotiating_word(n))));
                words.extend(failure.map(|f| format!("on-failure {}", failure_word(f))));
                words.extend(class.iter().map(|class| format!("class {}", quoted(&class.name))));
                words.extend(scrub.map(|profile| format!("scrub {}", profile.name())));
            }
        }
        words.join(" ") + ";"
    }
}
