//! The policy database as the data path asks it: keyed by application first, then by the longest prefix of the
//! peer, then by the first matching item.
//!
//! Keying by application makes the exclusiveness of paper 000 section 3.4 true by construction: no lookup for one
//! application ever reads a rule of another. The same structure is evaluated by the engine, by `explain` and (in
//! C, from the same tables) by the socket monitor.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crypto::SuiteId;
use wire::{AppId, Flow, Prefix, ScrubId, Services, addr, protocol};

/// A rule's number within one load of the policy; the policy room maps it to file, line and text.
/// [`RuleId::NONE`]: nothing in the file decided, the default did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub u32);

impl RuleId {
    /// The default, not a rule.
    pub const NONE: RuleId = RuleId(0);
}

/// What a network is to an application (paper 000 section 3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Bypass.
    Trusted,
    /// Discard.
    Untrusted,
    /// The items of this protection decide; an index into [`AppPolicy::protections`].
    Protected(usize),
}

/// One network of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Peers it covers.
    pub prefix: Prefix,
    /// What they are.
    pub class: Class,
    /// The `network` line.
    pub rule: RuleId,
}

/// Ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortRange {
    /// First port.
    pub first: u16,
    /// Last port.
    pub last: u16,
}

impl PortRange {
    /// Every port, and flows without ports.
    pub const ANY: PortRange = PortRange { first: 0, last: u16::MAX };

    /// One port.
    pub const fn one(port: u16) -> PortRange {
        PortRange { first: port, last: port }
    }

    /// Whether `port` is inside.
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }

    /// Whether some port is in both.
    pub fn meets(self, other: PortRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// `mandatory` or `optional` (paper 000 section 3.2), and what lies below them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Without protection the flow does not pass.
    Mandatory,
    /// Protected where an association exists, and then nothing else is accepted; clear otherwise. Asks for an association.
    Optional,
    /// As [`Level::Optional`], but never asks for an association.
    AcceptOnly,
}

/// What becomes of a flow while an association for it is negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Negotiating {
    /// Its packets wait (RFC 4301 section 4.4.1), as far as there is room.
    Hold,
    /// They pass in clear.
    Pass,
    /// They end.
    Drop,
}

/// What becomes of a flow for which there will be no association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// Its packets end.
    Drop,
    /// They pass in clear.
    Pass,
}

/// How a demand is to be met, besides its services and its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The suite that the association must have; `None`: any that gives the services.
    pub suite: Option<SuiteId>,
    /// Until there is an association.
    pub negotiating: Negotiating,
    /// When there will be none.
    pub failure: Failure,
    /// By which profile the flow is scrubbed.
    pub scrub: ScrubId,
}

impl Terms {
    /// Those of a level by itself: `mandatory` holds and drops, the others pass.
    pub const fn of(level: Level) -> Terms {
        match level {
            Level::Mandatory => Terms {
                suite: None,
                negotiating: Negotiating::Hold,
                failure: Failure::Drop,
                scrub: ScrubId::NONE,
            },
            Level::Optional | Level::AcceptOnly => Terms {
                suite: None,
                negotiating: Negotiating::Pass,
                failure: Failure::Pass,
                scrub: ScrubId::NONE,
            },
        }
    }

    /// The same for a flow that is scrubbed.
    #[must_use]
    pub const fn scrubbed(self, scrub: ScrubId) -> Terms {
        Terms { scrub, ..self }
    }
}

/// One item of a protection (paper 000 section 3.3.2). The first that matches decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The flow's protocol, `None` for all. The ICMP of both families is one: either number means both.
    pub protocol: Option<u8>,
    /// This host's ports.
    pub local: PortRange,
    /// The peer's ports.
    pub remote: PortRange,
    /// Services demanded: [`Services::AUTHENTICATED`] or [`Services::ENCRYPTED`]; [`Services::NONE`]: never protected.
    pub services: Services,
    /// How strictly.
    pub level: Level,
    /// Under which terms.
    pub terms: Terms,
    /// The item's line.
    pub rule: RuleId,
}

impl Item {
    /// An item for every protocol that demands these services, on the terms of its level.
    pub const fn new(
        local: PortRange,
        remote: PortRange,
        services: Services,
        level: Level,
        rule: RuleId,
    ) -> Item {
        Item { protocol: None, local, remote, services, level, terms: Terms::of(level), rule }
    }

    /// What it makes of a flow that it matches.
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

/// Whether two protocol numbers mean one protocol to policy: both ICMPs are one.
pub const fn is_same_protocol(a: u8, b: u8) -> bool {
    const fn one(number: u8) -> u8 {
        if number == protocol::ICMPV6 { protocol::ICMP } else { number }
    }
    one(a) == one(b)
}

/// How much of something an application may send: `rate` each second, and after a rest `burst` at once. Neither is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// A second.
    pub rate: u64,
    /// At once.
    pub burst: u64,
}

/// How much an application may send in clear, or how much of each source it accepts so. The kernel half keeps it; it decides nothing about
/// protection, so it does not make a policy stricter or weaker than another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClearLimits {
    /// Octets of IP packets, as on the wire.
    pub octets: Option<Limit>,
    /// Packets, as on the wire.
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
    /// Longest prefix first; no two equal prefixes.
    networks: Vec<Network>,
    /// Each a list of items in the order of the file.
    protections: Vec<Vec<Item>>,
    clear: ClearLimits,
    accept: ClearLimits,
    /// Networks that are observed, by their rule: what they would be. Among `networks` they are trusted, so that nobody who decides
    /// has to know.
    observed: BTreeMap<RuleId, Class>,
}

impl AppPolicy {
    /// A compiled policy. Networks are sorted here; of equal prefixes the first stays (the policy room has
    /// reported the others). A [`Class::Protected`] that names no protection becomes [`Class::Untrusted`].
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

    /// The same with limits on what leaves in clear.
    #[must_use]
    pub fn limited(self, clear: ClearLimits) -> AppPolicy {
        AppPolicy { clear, ..self }
    }

    /// How much may leave in clear.
    pub fn clear_limits(&self) -> ClearLimits {
        self.clear
    }

    /// The same with limits on what each source (an IPv4 address, an IPv6 /64) may send to it in clear.
    #[must_use]
    pub fn accepting(self, accept: ClearLimits) -> AppPolicy {
        AppPolicy { accept, ..self }
    }

    /// How much each source may send to it in clear.
    pub fn accept_limits(&self) -> ClearLimits {
        self.accept
    }

    /// Only watch these rules' networks: they become trusted, and what they would be is remembered.
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

    /// What is only watched, by rule.
    pub fn observed(&self) -> &BTreeMap<RuleId, Class> {
        &self.observed
    }

    /// What a network would be that is only watched.
    pub fn would(&self, network: &Network) -> Option<Class> {
        self.observed.get(&network.rule).copied()
    }

    /// What the flow would get if its network were not observed; `None`: it is not.
    pub fn would_decide(&self, flow: &Flow) -> Option<Decision> {
        let network = self.network(flow.remote)?;
        Some(self.by_class(self.would(network)?, network.rule, flow))
    }

    /// The networks, longest prefix first.
    pub fn networks(&self) -> &[Network] {
        &self.networks
    }

    /// Whether an item says how its flows are scrubbed.
    pub fn scrubs(&self) -> bool {
        self.protections.iter().flatten().any(|item| item.terms.scrub != ScrubId::NONE)
    }

    /// The protections.
    pub fn protections(&self) -> &[Vec<Item>] {
        &self.protections
    }

    /// The network that covers the peer, by longest prefix.
    pub fn network(&self, remote: std::net::IpAddr) -> Option<&Network> {
        let bits = addr::to_bits(remote);
        self.networks.iter().find(|n| n.prefix.contains_bits(bits))
    }

    /// What the flow must get.
    pub fn decide(&self, flow: &Flow) -> Decision {
        let Some(network) = self.network(flow.remote) else {
            return Decision {
                action: Action::Bypass,
                terms: NO_TERMS,
                network: RuleId::NONE,
                item: RuleId::NONE,
                why: Why::NoNetwork,
            };
        };
        self.by_class(network.class, network.rule, flow)
    }

    fn by_class(&self, class: Class, network: RuleId, flow: &Flow) -> Decision {
        let (action, terms, item, why) = match class {
            Class::Trusted => (Action::Bypass, NO_TERMS, RuleId::NONE, Why::Trusted),
            Class::Untrusted => (Action::Discard, NO_TERMS, RuleId::NONE, Why::Untrusted),
            Class::Protected(index) => match self.items(index).iter().find(|item| item.matches(flow)) {
                Some(item) => (item.action(), item.terms, item.rule, Why::Item),
                None => (Action::Discard, NO_TERMS, RuleId::NONE, Why::NoItem),
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
    /// Clear.
    Bypass,
    /// Refused.
    Discard,
    /// Protected.
    Protect {
        /// At least these services.
        services: Services,
        /// How strictly.
        level: Level,
    },
}

/// What led to an [`Action`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// No application block names the program: host default.
    NoApplication,
    /// No network of the block covers the peer: host default.
    NoNetwork,
    /// The network is trusted.
    Trusted,
    /// The network is untrusted.
    Untrusted,
    /// An item of the network's protection matched; with [`Action::Bypass`], one that says `never`.
    Item,
    /// The network is protected but no item covers these ports: refused, since clear would be a guess.
    NoItem,
}

/// Of what is not protected.
const NO_TERMS: Terms = Terms::of(Level::Mandatory);

/// An action and the rules behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// What the flow must get.
    pub action: Action,
    /// On which terms, where it is protected.
    pub terms: Terms,
    /// The `network` line that decided.
    pub network: RuleId,
    /// The protection item that decided.
    pub item: RuleId,
    /// Why.
    pub why: Why,
}

impl Decision {
    /// The most specific rule behind the decision.
    pub fn rule(&self) -> RuleId {
        if self.item == RuleId::NONE { self.network } else { self.item }
    }
}

/// Whether one application's policy may stand in for another's (a socket handed over, an exec).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// They decide alike for every flow.
    Same,
    /// The first is at least as strict for every flow.
    Stricter,
    /// The second is at least as strict for every flow.
    Weaker,
    /// Each is stricter somewhere.
    Incomparable,
}

/// The policy of every application. A copy shares their tables with the original.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spd {
    apps: Vec<Option<Arc<AppPolicy>>>,
    /// Where nothing may go that no application's policy decides about: networks alone, trusted or untrusted. The kernel
    /// half keeps it; the engine sees no such packet.
    pub guard: AppPolicy,
    /// Applications whose networks come and go one at a time, since some of them are names (docs/design/0014).
    pub changing: BTreeSet<AppId>,
    /// Applications with items that say how their flows are scrubbed.
    scrubbing: BTreeSet<AppId>,
    /// Grows with each load; caches compare it.
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

    /// As [`Spd::get`], to be held elsewhere too.
    pub fn shared(&self, app: AppId) -> Option<&Arc<AppPolicy>> {
        self.apps.get(usize::from(app.0))?.as_ref()
    }

    /// Whether any item says that its flows are scrubbed.
    pub fn scrubs(&self) -> bool {
        !self.scrubbing.is_empty()
    }

    /// By which profile a flow is scrubbed, whoever's it is: the strictest of those that applications with such items say. Inbound,
    /// nobody knows yet whose socket a packet is for, and both directions of a flow must meet in one scrubber.
    pub fn scrub(&self, flow: &Flow) -> ScrubId {
        let of = |app: &AppId| self.scrub_of(*app, flow);
        self.scrubbing.iter().map(of).max().unwrap_or_default()
    }

    /// As [`Spd::scrub`], for this application alone.
    pub fn scrub_of(&self, app: AppId, flow: &Flow) -> ScrubId {
        self.get(app).map_or(ScrubId::NONE, |policy| policy.decide(flow).terms.scrub)
    }

    /// Every application that has a policy.
    pub fn apps(&self) -> impl Iterator<Item = (AppId, &Arc<AppPolicy>)> {
        self.apps.iter().enumerate().filter_map(|(id, p)| Some((AppId(u16::try_from(id).ok()?), p.as_ref()?)))
    }

    /// Hold the tables that are equal to those of `before` once, so that both together cost what differs.
    pub fn share(&mut self, before: &Spd) {
        for (own, old) in self.apps.iter_mut().zip(&before.apps) {
            if let (Some(own), Some(old)) = (own, old)
                && own == old
            {
                *own = Arc::clone(old);
            }
        }
    }

    /// What the flow of this application must get.
    pub fn decide(&self, app: AppId, flow: &Flow) -> Decision {
        match self.get(app) {
            Some(policy) => policy.decide(flow),
            None => Decision {
                action: Action::Bypass,
                terms: NO_TERMS,
                network: RuleId::NONE,
                item: RuleId::NONE,
                why: Why::NoApplication,
            },
        }
    }
}
