//! One rule (RFC 4301 section 4.4.1.2).

use std::net::IpAddr;

use crypto::SuiteId;
use wire::{AggregateId, ScrubId, Services, addr};

use super::{RuleError, RuleKey, Template};
use crate::MAX_CHAIN;
use crate::custom_suite::rests_on_custom;
use crate::selector::{Condition, PacketKey, SelectorError, TrafficSelector, Unavailable, field};
use crate::spd::{Level, Terms};

/// The direction of the packets that a rule is for (SPD-O, SPD-I, or both as SPD-S).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Packets that this host receives.
    In,
    /// Packets that this host sends.
    Out,
    /// Packets in both directions.
    Both,
}

/// The protection that a rule demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protection {
    /// The associations that a packet passes, the innermost first: the paper's "SPI chain".
    pub bundle: Vec<Template>,
    /// The services that they must give together, at least.
    pub services: Services,
    /// Whether a packet may pass clear where there is no association.
    pub level: Level,
    /// The suite that one of the associations must have; `None`: any that gives the services. What arrives may also
    /// have come under another suite, as long as that is no cipher of one's own.
    pub suite: Option<SuiteId>,
}

impl Protection {
    /// The services as the rule demands them, [named](Services::named) if it names a suite of a cipher of one's own.
    pub fn demanded(&self) -> Services {
        Terms { suite: self.suite, ..Terms::of(self.level) }.demanding(self.services)
    }

    /// What an association of this suite, which gives these services, gives to packets of the rule. One that rests on a
    /// cipher of one's own gives nothing where the rule names another such suite.
    pub fn given(&self, suite: SuiteId, services: Services) -> Services {
        let names_another = self.suite.is_some_and(|named| rests_on_custom(named) && named != suite);
        if services == Services::CUSTOM && names_another { Services::NONE } else { services }
    }
}

/// The action of a rule for packets that match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The packets pass protected.
    Protect(Protection),
    /// The packets pass in clear.
    Bypass,
    /// The packets do not pass.
    Discard,
}

/// The name that a peer claims. It is for responders whose peers have no fixed address (RFC 4301 section 4.4.1.1
/// "Name").
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    /// A mail address, for example `mozart@foo.example.com`.
    Email(String),
    /// A fully qualified domain name, for example `foo.example.com`.
    Fqdn(String),
    /// An X.500 distinguished name, in DER.
    DistinguishedName(Vec<u8>),
    /// A Key_ID of any octets; for an initiator it names a user.
    KeyId(Vec<u8>),
}

/// One rule of the table. The first one in order that matches a packet decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The number of the rule.
    pub key: RuleKey,
    /// A label for people to read.
    pub label: String,
    /// Names of peers by which key management finds the rule; packets do not carry them.
    pub names: Vec<Name>,
    /// The direction of the packets that the rule is for.
    pub direction: Direction,
    /// The selectors of the rule. A packet matches if at least one of them matches.
    pub selectors: Vec<TrafficSelector>,
    /// The action for packets that match.
    pub action: Action,
    /// The profile by which the packets are scrubbed. Only a rule for both directions has one.
    pub scrub: ScrubId,
    /// The class of the graph that the packets are in; the default: the rule does not say.
    pub class: AggregateId,
}

impl Rule {
    /// A rule of one selector, without label and names.
    pub fn new(key: RuleKey, direction: Direction, selector: TrafficSelector, action: Action) -> Rule {
        Rule {
            key,
            label: String::new(),
            names: Vec::new(),
            direction,
            selectors: vec![selector],
            action,
            scrub: ScrubId::NONE,
            class: AggregateId::DEFAULT,
        }
    }

    /// Whether the rule is for packets in this direction.
    pub fn is_for(&self, direction: Direction) -> bool {
        self.direction == Direction::Both || self.direction == direction
    }

    /// Whether one of the selectors matches the packet.
    pub fn matches(&self, packet: &PacketKey) -> bool {
        self.selectors.iter().any(|selector| selector.matches(packet))
    }

    /// The rule with its populate flags on every selector: a flag holds "across all selector sets" (section 4.4.1.2).
    ///
    /// # Errors
    /// The first contradiction found; see [`RuleError`].
    pub fn checked(mut self) -> Result<Rule, RuleError> {
        if self.selectors.is_empty() {
            return Err(RuleError::NoSelector);
        }
        let terms = self.selectors.iter().flat_map(TrafficSelector::terms);
        let populated: Vec<_> = terms.filter(|term| term.populates()).map(|term| term.field()).collect();
        match &self.action {
            Action::Protect(protection) if protection.bundle.is_empty() => return Err(RuleError::NoTemplate),
            Action::Protect(protection) if protection.bundle.len() > MAX_CHAIN => {
                return Err(RuleError::LongBundle(protection.bundle.len()));
            }
            Action::Protect(protection) if protection.services == Services::NONE => {
                return Err(RuleError::NoService);
            }
            Action::Bypass | Action::Discard if !populated.is_empty() => {
                return Err(RuleError::PopulateNothing);
            }
            _ => {}
        }
        if let Action::Protect(protection) = &self.action {
            protection.bundle.iter().try_for_each(Template::check)?;
        }
        for selector in &mut self.selectors {
            for &field in &populated {
                *selector = std::mem::take(selector)
                    .populating(field)
                    .map_err(|_| RuleError::PopulateOpaque(field))?;
            }
        }
        Ok(self)
    }

    /// The rule for one peer that was found by its name: its address takes the place of every remote address (section
    /// 4.4.1.1 "Name", use 1: the address is bound when keys are negotiated).
    ///
    /// # Errors
    /// [`SelectorError::MixedFamilies`] if the rule's local addresses are all of the other family.
    pub fn for_peer(&self, remote: IpAddr) -> Result<Rule, SelectorError> {
        let bind = |selector: &TrafficSelector| {
            selector.clone().with(&field::REMOTE, Condition::one(addr::to_bits(remote)))
        };
        let selectors = self.selectors.iter().map(bind).collect::<Result<_, _>>()?;
        Ok(Rule { selectors, ..self.clone() })
    }

    /// The selectors of the association that this packet asks for. They are those of the rule, narrowed to the packet's
    /// values where they are populated from it (section 4.4.1, "How to Derive the Values for an SAD Entry"). A selector
    /// that does not admit those values is left out, so the association never carries what the rule does not.
    ///
    /// # Errors
    /// [`Unavailable`]: the packet is discarded (section 4.4.2.2).
    pub fn instantiate(&self, packet: &PacketKey) -> Result<Vec<TrafficSelector>, Unavailable> {
        let admits = |selector: &&TrafficSelector| {
            // A flag for a port also populates what stands in its place, whose own term may have no flag.
            let populated = selector.populated(packet).unwrap_or_default();
            selector
                .terms()
                .iter()
                .filter(|term| term.populates() || populated.contains(&term.field()))
                .filter(|term| term.condition() != &Condition::Any)
                .all(|term| term.condition().admits(packet.get(term.field())))
        };
        self.selectors.iter().filter(admits).map(|selector| selector.instantiate(packet)).collect()
    }

    /// The key that keeps associations of this rule apart: two packets that match share an association if their keys
    /// are equal. It is equal for all packets unless the rule populates some field ("unique").
    ///
    /// # Errors
    /// The errors of [`Rule::instantiate`].
    pub fn share(&self, packet: &PacketKey) -> Result<PacketKey, Unavailable> {
        // The flags are those of every selector; which of them admits the packet follows from the values.
        self.selectors.first().map_or(Ok(PacketKey::EMPTY), |selector| selector.share(packet))
    }
}
