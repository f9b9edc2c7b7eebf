//! Items of protections: which flows, and what they must get.

use crypto::SuiteId;
use sadb::spd::{Failure, Level, Negotiating, PortRange};
use scrub::Profile;
use wire::protocol;

use super::Span;

/// `protocol=P localport=L remoteport=L SERVICE LEVEL OPTIONS;` (paper 000 section 3.3.2, docs/design/0010).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The protocol; `None`: every one. 1 stands for the ICMP of both families.
    pub protocol: Option<u8>,
    /// This host's ports; empty: not said, which is any.
    pub local: Vec<PortRange>,
    /// The peer's ports; empty: not said.
    pub remote: Vec<PortRange>,
    /// What such flows must get.
    pub demand: Demand,
    /// The whole item.
    pub span: Span,
}

/// What the flows of an item must get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Clear.
    Never,
    /// Protection.
    Protect {
        /// What is demanded.
        service: Service,
        /// How strictly.
        level: Level,
        /// The suite, if one is demanded.
        suite: Option<SuiteId>,
        /// Until there is an association, if said.
        negotiating: Option<Negotiating>,
        /// When there will be none, if said.
        failure: Option<Failure>,
        /// By which profile their packets are scrubbed, if they are.
        scrub: Option<Profile>,
    },
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
        Level::AcceptOnly => "accept-only",
    }
}

/// The level behind a word: those of the paper and their synonyms.
pub fn same_level(word: &str) -> Option<Level> {
    match word {
        "mandatory" | "require" => Some(Level::Mandatory),
        "optional" | "prefer" => Some(Level::Optional),
        "accept-only" => Some(Level::AcceptOnly),
        _ => None,
    }
}

/// The word of the language.
pub fn negotiating_word(negotiating: Negotiating) -> &'static str {
    match negotiating {
        Negotiating::Hold => "hold",
        Negotiating::Pass => "pass",
        Negotiating::Drop => "drop",
    }
}

/// The word of the language.
pub fn failure_word(failure: Failure) -> &'static str {
    match failure {
        Failure::Drop => "drop",
        Failure::Pass => "pass",
    }
}

/// A protocol as the language writes it.
pub fn protocol_text(number: u8) -> String {
    match number {
        protocol::TCP => "tcp".into(),
        protocol::UDP => "udp".into(),
        protocol::SCTP => "sctp".into(),
        protocol::ICMP | protocol::ICMPV6 => "icmp".into(),
        other => other.to_string(),
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

/// A list of ports as the language writes it.
pub fn ports_text(ports: &[PortRange]) -> String {
    ports.iter().map(|range| port_text(*range)).collect::<Vec<_>>().join(",")
}

impl Item {
    /// This host's and the peer's ports, each pair of both lists in order.
    pub fn pairs(&self) -> impl Iterator<Item = (PortRange, PortRange)> + '_ {
        const ANY: [PortRange; 1] = [PortRange::ANY];
        let local = if self.local.is_empty() { &ANY[..] } else { &self.local };
        let remote = if self.remote.is_empty() { &ANY[..] } else { &self.remote };
        local.iter().flat_map(move |l| remote.iter().map(move |r| (*l, *r)))
    }

    /// How many pairs of ports it comes to.
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
        match self.demand {
            Demand::Never => words.push("never".into()),
            Demand::Protect { service, level, suite, negotiating, failure, scrub } => {
                words.push(format!("{} {}", service.word(), level_word(level)));
                words.extend(suite.map(|suite| format!("suite {suite}")));
                words.extend(negotiating.map(|n| format!("while-negotiating {}", negotiating_word(n))));
                words.extend(failure.map(|f| format!("on-failure {}", failure_word(f))));
                words.extend(scrub.map(|profile| format!("scrub {}", profile.name())));
            }
        }
        words.join(" ") + ";"
    }
}
