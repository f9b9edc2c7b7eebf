//! The policy database that the data path asks. It is keyed by application first, then by the longest prefix of the
//! peer, then by the first matching item.
//!
//! Keying by application makes the exclusiveness of paper 000 section 3.4 true by construction: no lookup for one
//! application ever reads a rule of another. The engine, `explain` and the socket monitor (in C, from the same tables)
//! evaluate the same structure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crypto::SuiteId;
use wire::{AggregateId, AppId, Flow, Prefix, ScrubId, Services, addr, protocol};

mod rival_suite;

pub use rival_suite::RivalSuite;

use crate::custom_suite::rests_on_custom;

/// The number of a rule within one load of the policy; the policy room maps it to file, line and text. [`RuleId::NONE`]
/// says that no rule but the default decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub u32);

impl RuleId {
    /// The number that stands for the default, not for a rule.
    pub const NONE: RuleId = RuleId(0);
}

/// The class of a network for an application (paper 000 section 3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Packets pass in clear (bypass).
    Trusted,
    /// Packets are refused (discard).
    Untrusted,
    /// The items of this protection decide; the number is an index into [`AppPolicy::protections`].
    Protected(usize),
}

/// One network of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The peers that the network covers.
    pub prefix: Prefix,
    /// The class of these peers.
    pub class: Class,
    /// The number of the `network` line.
    pub rule: RuleId,
}

/// A range of ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortRange {
    /// The first port of the range.
    pub first: u16,
    /// The last port of the range.
    pub last: u16,
}

impl PortRange {
    /// The range of every port; it also takes flows without ports.
    pub const ANY: PortRange = PortRange { first: 0, last: u16::MAX };

    /// The range of one port.
    pub const fn one(port: u16) -> PortRange {
        PortRange { first: port, last: port }
    }

    /// Whether `port` is inside the range.
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }

    /// Whether some port is in both ranges.
    pub fn meets(self, other: PortRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The strictness of an item: `mandatory` or `optional` (paper 000 section 3.2), and one level below them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// The flow does not pass without protection.
    Mandatory,
    /// The flow is protected where an association exists, and then nothing else is accepted. Otherwise it passes in
    /// clear. An association is asked for.
    Optional,
    /// The flow is treated like one of [`Level::Optional`], but no association is ever asked for.
    AcceptOnly,
}

/// The treatment of a flow while an association for it is negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Negotiating {
    /// The packets wait (RFC 4301 section 4.4.1), as far as there is room.
    Hold,
    /// The packets pass in clear.
    Pass,
    /// The packets are dropped.
    Drop,
}

/// The treatment of a flow for which there will be no association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The packets are dropped.
    Drop,
    /// The packets pass in clear.
    Pass,
}

/// The terms of a demand, besides its services and its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The suite that the association must have; `None`: any that gives the services.
    pub suite: Option<SuiteId>,
    /// The treatment of packets until there is an association.
    pub negotiating: Negotiating,
    /// The treatment of packets when there will be no association.
    pub failure: Failure,
    /// The profile by which the flow is scrubbed.
    pub scrub: ScrubId,
    /// The class of the graph that the flow's packets are in; the default: no item says.
    pub class: AggregateId,
}

impl Terms {
    /// The default terms of a level: `mandatory` holds and drops, the others pass.
    pub const fn of(level: Level) -> Terms {
        match level {
            Level::Mandatory => Terms {
                suite: None,
                negotiating: Negotiating::Hold,
                failure: Failure::Drop,
                scrub: ScrubId::NONE,
                class: AggregateId::DEFAULT,
            },
            Level::Optional | Level::AcceptOnly => Terms {
                suite: None,
                negotiating: Negotiating::Pass,
                failure: Failure::Pass,
                scrub: ScrubId::NONE,
                class: AggregateId::DEFAULT,
            },
        }
    }

    /// These services as an item with these terms demands them: with the name of the suite, if that is one of a cipher
    /// of one's own.
    #[must_use]
    pub fn demanding(&self, services: Services) -> Services {
        if self.suite.is_some_and(rests_on_custom) { services.named() } else { services }
    }

    /// The same terms with this scrubbing profile.
    #[must_use]
    pub const fn scrubbed(self, scrub: ScrubId) -> Terms {
        Terms { scrub, ..self }
    }

    /// The same terms with this class.
    #[must_use]
    pub const fn classed(self, class: AggregateId) -> Terms {
        Terms { class, ..self }
    }
}

/// One item of a protection (paper 000 section 3.3.2). The first that matches decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The protocol of the flow, `None` for all. The ICMP of both families is one: either number means both.
    pub protocol: Option<u8>,
    /// The ports of this host.
    pub local: PortRange,
    /// The ports of the peer.
    pub remote: PortRange,
    /// The services demanded: [`Services::AUTHENTICATED`] or [`Services::ENCRYPTED`], either one
    /// [named](Terms::demanding) where the terms name a suite of a cipher of one's own; [`Services::NONE`] says that
    /// flows are never protected.
    pub services: Services,
    /// The strictness of the demand.
    pub level: Level,
    /// The other terms of the demand.
    pub terms: Terms,
    /// The number of the item's line.
    pub rule: RuleId,
}

impl Item {
    /// An item for every protocol that demands these services, with the default terms of its level.
    pub const fn new(
        local: PortRange,
        remote: PortRange,
        services: Services,
        level: Level,
        rule: RuleId,
    ) -> Item {
        Item { protocol: None, local, remote, services, level, terms: Terms::of(level), rule }
    }

    /// The action for a flow that the item matches.
    pub fn action(&self) -> Action {
        if self.services == Services::NONE {
            Action::Bypass
        } else {
            Action::Protect { services: self.services, level: self.level }
        }
    }

    fn matches(&self, flow: &Flow) -> bool {
        // What stands in the ports of an ICMP flow is type and code (of a Mobility Header, its type): for selectors of
        // associations, not for policy.
        let ports =
            if protocol::has_type(flow.protocol) { (0, 0) } else { (flow.local_port, flow.remote_port) };
        self.protocol.is_none_or(|own| is_same_protocol(own, flow.protocol))
            && self.local.contains(ports.0)
            && self.remote.contains(ports.1)
    }
}

/// Whether two protocol numbers are one protocol to policy: both ICMPs are one.
pub const fn is_same_protocol(a: u8, b: u8) -> bool {
    const fn one(number: u8) -> u8 {
        if number == protocol::ICMPV6 { protocol::ICMP } else { number }
    }
    one(a) == one(b)
}

/// The amount of something that an application may send: `rate` each second, and after a rest `burst` at once. Neither
/// is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// The amount for each second.
    pub rate: u64,
    /// The amount at once after a rest.
    pub burst: u64,
}

/// The limits on what an application may send in clear, or accept in clear from each source. The kernel half enforces
/// them. They decide nothing about protection, so they do not make a policy stricter or weaker than another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClearLimits {
    /// The limit on octets of IP packets, as on the wire.
    pub octets: Option<Limit>,
    /// The limit on packets, as on the wire.
    pub packets: Option<Limit>,
}

impl ClearLimits {
    /// Whether nothing is limited.
    pub const fn is_none(&self) -> bool {
        self.octets.is_none() && self.packets.is_none()
    }
}

/// The compiled policy of one application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppPolicy {
    /// The networks, the longest prefix first; no two prefixes are equal.
    networks: Vec<Network>,
    /// The protections, each a list of items in the order of the file.
    protections: Vec<Vec<Item>>,
    clear: ClearLimits,
    accept: ClearLimits,
    /// The class that an observed network would have, by its rule. Among `networks` it is trusted, so that nobody who
    /// decides has to know.
    observed: BTreeMap<RuleId, Class>,
}

impl AppPolicy {
    /// A compiled policy of these networks and protections. Networks are sorted here; of equal prefixes the first stays
    /// (the policy room has reported the others). A [`Class::Protected`] that names no protection becomes
    /// [`Class::Untrusted`].
    pub fn new(mut networks: Vec<Network>, protections: Vec<Vec<Item>>) -> AppPolicy {
        for network in &mut networks {
            if matches!(network.class, Class::Protected(index) if index >= protections.len()) {
                network.class = Class::Untrusted;
            }
        }
        networks.sort_by_key(|n| (std::cmp::Reverse(n.prefix.len()), n.prefix.first()));
        networks.dedup_by_key(|n| n.prefix);
        AppPolicy { networks, protections, ..AppPolicy::default() }
    }

    /// The same policy with limits on what leaves in clear.
    #[must_use]
    pub fn limited(self, clear: ClearLimits) -> AppPolicy {
        AppPolicy { clear, ..self }
    }

    /// The limits on what may leave in clear.
    pub fn clear_limits(&self) -> ClearLimits {
        self.clear
    }

    /// The same policy with limits on what each source (an IPv4 address, an IPv6 /64) may send to it in clear.
    #[must_use]
    pub fn accepting(self, accept: ClearLimits) -> AppPolicy {
        AppPolicy { accept, ..self }
    }

    /// The limits on what each source may send to it in clear.
    pub fn accept_limits(&self) -> ClearLimits {
        self.accept
    }

    /// The same policy with the networks of these rules only observed: they become trusted, and the class that they
    /// would have is remembered.
    #[must_use]
    pub fn observing(mut self, observed: BTreeMap<RuleId, Class>) -> AppPolicy {
        for network in &mut self.networks {
            if observed.contains_key(&network.rule) {
                network.class = Class::Trusted;
            }
        }
        self.observed = observed;
        self
    }

    /// The class that each observed network would have, by its rule.
    pub fn observed(&self) -> &BTreeMap<RuleId, Class> {
        &self.observed
    }

    /// The class that an observed network would have; `None` if it is not observed.
    pub fn would(&self, network: &Network) -> Option<Class> {
        self.observed.get(&network.rule).copied()
    }

    /// The decision for the flow as if its network were not observed; `None` if it is not observed.
    pub fn would_decide(&self, flow: &Flow) -> Option<Decision> {
        let network = self.network(flow.remote)?;
        Some(self.by_class(self.would(network)?, network.rule, flow))
    }

    /// The networks, the longest prefix first.
    pub fn networks(&self) -> &[Network] {
        &self.networks
    }

    /// Whether an item says how its flows are scrubbed.
    pub fn scrubs(&self) -> bool {
        self.protections.iter().flatten().any(|item| item.terms.scrub != ScrubId::NONE)
    }

    /// The protections, each a list of items.
    pub fn protections(&self) -> &[Vec<Item>] {
        &self.protections
    }

    /// The network that covers the peer, by longest prefix.
    pub fn network(&self, remote: std::net::IpAddr) -> Option<&Network> {
        let bits = addr::to_bits(remote);
        self.networks.iter().find(|n| n.prefix.contains_bits(bits))
    }

    /// The decision for a flow of this application.
    pub fn decide(&self, flow: &Flow) -> Decision {
        let Some(network) = self.network(flow.remote) else {
            return Decision {
                action: Action::Bypass,
                terms: NO_TERMS,
                network: RuleId::NONE,
                item: RuleId::NONE,
                why: DecisionReason::NoNetwork,
            };
        };
        self.by_class(network.class, network.rule, flow)
    }

    fn by_class(&self, class: Class, network: RuleId, flow: &Flow) -> Decision {
        let (action, terms, item, why) = match class {
            Class::Trusted => (Action::Bypass, NO_TERMS, RuleId::NONE, DecisionReason::Trusted),
            Class::Untrusted => (Action::Discard, NO_TERMS, RuleId::NONE, DecisionReason::Untrusted),
            Class::Protected(index) => match self.items(index).iter().find(|item| item.matches(flow)) {
                Some(item) => (item.action(), item.terms, item.rule, DecisionReason::Item),
                None => (Action::Discard, NO_TERMS, RuleId::NONE, DecisionReason::NoItem),
            },
        };
        Decision { action, terms, network, item, why }
    }

    fn items(&self, index: usize) -> &[Item] {
        self.protections.get(index).map_or(&[], Vec::as_slice)
    }
}

/// PROTECT, BYPASS or DISCARD (RFC 4301 section 4.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The packets pass in clear.
    Bypass,
    /// The packets are refused.
    Discard,
    /// The packets must be protected.
    Protect {
        /// The services that they must get, at least.
        services: Services,
        /// The strictness of the demand.
        level: Level,
    },
}

/// The part of a policy that led to an [`Action`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecisionReason {
    /// No application block names the program, so the host default holds.
    NoApplication,
    /// No network of the block covers the peer, so the host default holds.
    NoNetwork,
    /// The network is trusted.
    Trusted,
    /// The network is untrusted.
    Untrusted,
    /// An item of the network's protection matched; with [`Action::Bypass`] it is one that says `never`.
    Item,
    /// The network is protected but no item covers these ports. The flow is refused, since clear would be a guess.
    NoItem,
}

/// The terms of a decision that does not protect.
const NO_TERMS: Terms = Terms::of(Level::Mandatory);

/// An action for a flow, and the rules behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// The action for the flow.
    pub action: Action,
    /// The terms on which the flow is protected.
    pub terms: Terms,
    /// The number of the `network` line that decided.
    pub network: RuleId,
    /// The number of the protection item that decided.
    pub item: RuleId,
    /// The part of the policy that led to the action.
    pub why: DecisionReason,
}

impl Decision {
    /// The most specific rule behind the decision.
    pub fn rule(&self) -> RuleId {
        if self.item == RuleId::NONE { self.network } else { self.item }
    }
}

/// The order of two policies: it tells whether one application's policy may stand in for another's (a socket handed
/// over, an exec).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Both decide alike for every flow.
    Same,
    /// The first is at least as strict for every flow.
    Stricter,
    /// The second is at least as strict for every flow.
    Weaker,
    /// Each is stricter for some flow.
    Incomparable,
}

/// The policies of all applications. A copy shares their tables with the original.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spd {
    apps: Vec<Option<Arc<AppPolicy>>>,
    /// The networks, trusted or untrusted, for packets that no application's policy decides about. The kernel half
    /// enforces them; the engine sees no such packet.
    pub guard: AppPolicy,
    /// The applications whose networks come and go one at a time, since some of them are names (docs/design/0014).
    pub changing: BTreeSet<AppId>,
    /// The applications with items that say how their flows are scrubbed.
    scrubbing: BTreeSet<AppId>,
    /// A number that grows with each load; caches compare it.
    pub generation: u64,
}

impl Spd {
    /// A database without rules: everything is bypassed.
    pub fn new(generation: u64) -> Spd {
        Spd { generation, ..Spd::default() }
    }

    /// Set the policy of one application; [`AppId::NONE`] cannot have one and is ignored.
    pub fn insert(&mut self, app: AppId, policy: impl Into<Arc<AppPolicy>>) {
        if app == AppId::NONE {
            return;
        }
        let index = usize::from(app.0);
        if self.apps.len() <= index {
            self.apps.resize(index + 1, None);
        }
        let policy = policy.into();
        if policy.scrubs() {
            self.scrubbing.insert(app);
        } else {
            self.scrubbing.remove(&app);
        }
        self.apps[index] = Some(policy);
    }

    /// The policy of one application.
    pub fn get(&self, app: AppId) -> Option<&AppPolicy> {
        self.shared(app).map(Arc::as_ref)
    }

    /// The policy of one application, to be held elsewhere too.
    pub fn shared(&self, app: AppId) -> Option<&Arc<AppPolicy>> {
        self.apps.get(usize::from(app.0))?.as_ref()
    }

    /// Whether any item says that its flows are scrubbed.
    pub fn scrubs(&self) -> bool {
        !self.scrubbing.is_empty()
    }

    /// The profile by which a flow is scrubbed, whatever application it belongs to: the strictest of those that
    /// applications with such items say. For an inbound packet nobody knows yet whose socket it is for, and both
    /// directions of a flow must meet in one scrubber.
    pub fn scrub(&self, flow: &Flow) -> ScrubId {
        let of = |app: &AppId| self.scrub_of(*app, flow);
        self.scrubbing.iter().map(of).max().unwrap_or_default()
    }

    /// The profile by which a flow of this application is scrubbed.
    pub fn scrub_of(&self, app: AppId, flow: &Flow) -> ScrubId {
        self.get(app).map_or(ScrubId::NONE, |policy| policy.decide(flow).terms.scrub)
    }

    /// Every application that has a policy.
    pub fn apps(&self) -> impl Iterator<Item = (AppId, &Arc<AppPolicy>)> {
        self.apps.iter().enumerate().filter_map(|(id, p)| Some((AppId(u16::try_from(id).ok()?), p.as_ref()?)))
    }

    /// Share the tables that are equal to those of `before`, so that both databases together take only the room of what
    /// differs.
    pub fn share(&mut self, before: &Spd) {
        for (own, old) in self.apps.iter_mut().zip(&before.apps) {
            if let (Some(own), Some(old)) = (own, old)
                && own == old
            {
                *own = Arc::clone(old);
            }
        }
    }

    /// The decision for a flow of this application.
    pub fn decide(&self, app: AppId, flow: &Flow) -> Decision {
        match self.get(app) {
            Some(policy) => policy.decide(flow),
            None => Decision {
                action: Action::Bypass,
                terms: NO_TERMS,
                network: RuleId::NONE,
                item: RuleId::NONE,
                why: DecisionReason::NoApplication,
            },
        }
    }
}
