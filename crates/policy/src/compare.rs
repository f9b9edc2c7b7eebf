//! The comparison of policies: whether one is at least as strict as another for every flow there can be. It is exact,
//! without sampling: the peers are cut into the stretches on which both policies name one network each, the ports into
//! the rectangles on which both choose one item each.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use sadb::spd::{
    Action, AppPolicy, Class, Failure, Item, Level, Negotiating, Order, PortRange, RuleId, Terms,
    is_same_protocol,
};

use wire::protocol::has_ports;

use crate::ports;

/// Compares `a` with `b`. Discard is stricter than everything, and everything is stricter than bypass. Between
/// protections, each of these must be at least as strict: `mandatory` over `optional` over `accept-only`; encryption
/// (which implies authentication) over authentication; a suite over any; keeping packets in over letting them pass in
/// clear. The scrub profile of a flow makes none stricter, and neither does its class.
pub fn compare(a: &AppPolicy, b: &AppPolicy) -> Order {
    PartitionedPolicy::of(a).compare(&PartitionedPolicy::of(b))
}

/// A policy that is cut into stretches of peers once, to be compared with many.
pub struct PartitionedPolicy<'p> {
    policy: &'p AppPolicy,
    stretches: Vec<(u128, Peer)>,
}

impl<'p> PartitionedPolicy<'p> {
    /// Cuts a policy into its stretches.
    pub fn of(policy: &'p AppPolicy) -> PartitionedPolicy<'p> {
        PartitionedPolicy { policy, stretches: stretches(policy) }
    }

    /// Compares two policies as [`compare`] does.
    pub fn compare(&self, other: &PartitionedPolicy<'_>) -> Order {
        let (mut a_holds, mut b_holds) = (true, true);
        let mut seen: HashSet<(Peer, Peer)> = HashSet::new();
        let mut last = None;
        let _ = merge(&self.stretches, &other.stretches, |_, left, right| {
            if last.replace((left, right)) != Some((left, right)) && seen.insert((left, right)) {
                let holds = peers(self.policy, left, other.policy, right);
                a_holds &= holds.0;
                b_holds &= holds.1;
            }
            if a_holds || b_holds { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        order(a_holds, b_holds)
    }

    /// The opinion of the policy on the peers of each stretch.
    pub(crate) fn opinions(&self) -> impl Iterator<Item = Opinion> {
        let mut known: HashMap<Peer, (bool, bool)> = HashMap::new();
        self.stretches.iter().enumerate().filter_map(move |(at, &(first, peer))| {
            let (speaks, refuses) = *known.entry(peer).or_insert_with(|| {
                let versus = |other| peers(self.policy, peer, self.policy, other);
                (!versus(Peer::Bypass).1, versus(Peer::Discard).0)
            });
            let last = match self.stretches.get(at + 1) {
                // The last entry for an address holds.
                Some((next, _)) if *next == first => return None,
                Some((next, _)) => next - 1,
                None => u128::MAX,
            };
            Some(Opinion { first, last, speaks, refuses })
        })
    }
}

/// The opinion of a policy on a stretch of peers.
pub(crate) struct Opinion {
    pub first: u128,
    pub last: u128,
    /// Whether some flow is not bypassed.
    pub speaks: bool,
    /// Whether every flow is discarded.
    pub refuses: bool,
}

/// Compares two classes of one policy, whatever the peers. Here the stricter scrub profile counts too: one of the two
/// is to decide, and no flow must lose it.
pub(crate) fn compare_classes(policy: &AppPolicy, a: Class, b: Class) -> Order {
    let holds = |a: Demand, b: Demand| at_least(a, b) && scrubs_at_least(a, b);
    let (a_holds, b_holds) = peers_by((policy, Peer::of(a)), (policy, Peer::of(b)), holds);
    order(a_holds, b_holds)
}

fn order(a_holds: bool, b_holds: bool) -> Order {
    match (a_holds, b_holds) {
        (true, true) => Order::Same,
        (true, false) => Order::Stricter,
        (false, true) => Order::Weaker,
        (false, false) => Order::Incomparable,
    }
}

/// Whether each opinion is at least as strict as the other, for every flow with such a peer.
fn peers(a: &AppPolicy, left: Peer, b: &AppPolicy, right: Peer) -> (bool, bool) {
    peers_by((a, left), (b, right), at_least)
}

fn peers_by(
    a: (&AppPolicy, Peer),
    b: (&AppPolicy, Peer),
    at_least: impl Fn(Demand, Demand) -> bool,
) -> (bool, bool) {
    let (mut a_holds, mut b_holds) = (true, true);
    for_each_cell(a, b, |cell| {
        a_holds &= at_least(cell.a.0, cell.b.0);
        b_holds &= at_least(cell.b.0, cell.a.0);
    });
    (a_holds, b_holds)
}

/// A set of flows with one peer that each of two policies treats alike.
pub(crate) struct Cell {
    /// The protocol; `None` for one that no item names.
    pub protocol: Option<u8>,
    pub local: PortRange,
    pub remote: PortRange,
    /// The first policy's demand for the flows, and the item behind it.
    pub a: (Demand, RuleId),
    pub b: (Demand, RuleId),
}

/// Calls `see` for each cell. The flows with a peer are cut where either policy can change its treatment.
pub(crate) fn for_each_cell(a: (&AppPolicy, Peer), b: (&AppPolicy, Peer), mut see: impl FnMut(Cell)) {
    let (a_items, b_items) = (items(a.0, a.1), items(b.0, b.1));
    let all = || a_items.iter().chain(b_items);
    for protocol in ports::protocols(all().map(|i| i.protocol)) {
        let [a_items, b_items] = [a_items, b_items].map(|items| of(items, protocol));
        let all = || a_items.iter().chain(&b_items);
        let ported = protocol.is_none_or(has_ports);
        let one = || vec![0];
        let locals = if ported { ports::starts(all().map(|i| i.local)) } else { one() };
        let remotes = if ported { ports::starts(all().map(|i| i.remote)) } else { one() };
        for (at, &local) in locals.iter().enumerate() {
            for (to, &remote) in remotes.iter().enumerate() {
                see(Cell {
                    protocol,
                    local: until_next(&locals, at),
                    remote: until_next(&remotes, to),
                    a: demand(a.1, &a_items, local, remote),
                    b: demand(b.1, &b_items, local, remote),
                });
            }
        }
    }
}

/// The ports from one start up to the port before the next start.
fn until_next(starts: &[u16], at: usize) -> PortRange {
    let last = starts.get(at + 1).map_or(u16::MAX, |next| next - 1);
    PortRange { first: starts[at], last }
}

/// The opinion of a policy on a peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    Bypass,
    Discard,
    Protected(usize),
}

impl Peer {
    fn of(class: Class) -> Peer {
        match class {
            Class::Trusted => Peer::Bypass,
            Class::Untrusted => Peer::Discard,
            Class::Protected(index) => Peer::Protected(index),
        }
    }
}

fn items(policy: &AppPolicy, peer: Peer) -> &[Item] {
    match peer {
        Peer::Protected(index) => policy.protections().get(index).map_or(&[], Vec::as_slice),
        _ => &[],
    }
}

/// The items about this protocol; `None` stands for a protocol that no item names.
fn of(items: &[Item], protocol: Option<u8>) -> Vec<Item> {
    let speaks = |item: &&Item| match (item.protocol, protocol) {
        (None, _) => true,
        (Some(own), Some(number)) => is_same_protocol(own, number),
        (Some(_), None) => false,
    };
    items.iter().filter(speaks).copied().collect()
}

/// An action, with its terms where it protects.
pub(crate) type Demand = (Action, Terms);

fn demand(peer: Peer, items: &[Item], local: u16, remote: u16) -> (Demand, RuleId) {
    let terms = Terms::of(Level::Mandatory);
    match peer {
        Peer::Bypass => ((Action::Bypass, terms), RuleId::NONE),
        Peer::Discard => ((Action::Discard, terms), RuleId::NONE),
        Peer::Protected(_) => {
            match items.iter().find(|i| i.local.contains(local) && i.remote.contains(remote)) {
                Some(item) => ((item.action(), item.terms), item.rule),
                None => ((Action::Discard, terms), RuleId::NONE),
            }
        }
    }
}

fn at_least(a: Demand, b: Demand) -> bool {
    match (a.0, b.0) {
        (Action::Discard, _) | (_, Action::Bypass) => true,
        (_, Action::Discard) | (Action::Bypass, _) => false,
        (Action::Protect { services: s, level: l }, Action::Protect { services: t, level: m }) => {
            s.satisfies(t) && strictness(l) >= strictness(m) && at_least_terms(&a.1, &b.1)
        }
    }
}

fn scrubs_at_least(a: Demand, b: Demand) -> bool {
    let protect = |demand: Demand| matches!(demand.0, Action::Protect { .. });
    !(protect(a) && protect(b)) || a.1.scrub >= b.1.scrub
}

fn strictness(level: Level) -> u8 {
    match level {
        Level::Mandatory => 2,
        Level::Optional => 1,
        Level::AcceptOnly => 0,
    }
}

fn at_least_terms(a: &Terms, b: &Terms) -> bool {
    // Without `..`, so that a new term does not compile until it has its place in the order. Scrubbing has an order of
    // its own: see `scrubs_at_least`. Classes have none: they say when a packet leaves, and not whether it may.
    let Terms { suite: a_suite, negotiating: a_negotiating, failure: a_failure, scrub: _, class: _ } = *a;
    let Terms { suite: b_suite, negotiating: b_negotiating, failure: b_failure, scrub: _, class: _ } = *b;
    let waits = |negotiating| negotiating != Negotiating::Pass;
    let ends = |failure| failure != Failure::Pass;
    (b_suite.is_none() || a_suite == b_suite)
        && waits(a_negotiating) >= waits(b_negotiating)
        && ends(a_failure) >= ends(b_failure)
}

/// The addresses from which on either policy has another opinion, in order, with both opinions.
pub(crate) fn both(a: &AppPolicy, b: &AppPolicy) -> Vec<(u128, Peer, Peer)> {
    let mut out = Vec::new();
    let _ = merge(&stretches(a), &stretches(b), |first, left, right| {
        out.push((first, left, right));
        ControlFlow::<()>::Continue(())
    });
    out
}

fn merge<B>(
    a: &[(u128, Peer)],
    b: &[(u128, Peer)],
    mut see: impl FnMut(u128, Peer, Peer) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let (mut left, mut right) = (Peer::Bypass, Peer::Bypass);
    let (mut i, mut j) = (0, 0);
    loop {
        let next = match (a.get(i), b.get(j)) {
            (None, None) => return ControlFlow::Continue(()),
            (Some(x), None) => x.0,
            (None, Some(y)) => y.0,
            (Some(x), Some(y)) => x.0.min(y.0),
        };
        while let Some((_, peer)) = a.get(i).filter(|x| x.0 == next) {
            left = *peer;
            i += 1;
        }
        while let Some((_, peer)) = b.get(j).filter(|y| y.0 == next) {
            right = *peer;
            j += 1;
        }
        see(next, left, right)?;
    }
}

/// The addresses from which on a policy has another opinion, in order. The last entry for an address holds.
fn stretches(policy: &AppPolicy) -> Vec<(u128, Peer)> {
    let mut networks: Vec<_> = policy.networks().iter().collect();
    networks.sort_by_key(|n| (n.prefix.first(), n.prefix.len()));
    let mut out = vec![(0, Peer::Bypass)];
    let mut open: Vec<(u128, Peer)> = Vec::new();
    let close = |open: &mut Vec<(u128, Peer)>, out: &mut Vec<(u128, Peer)>| {
        if let Some((last, _)) = open.pop()
            && let Some(next) = last.checked_add(1)
        {
            out.push((next, open.last().map_or(Peer::Bypass, |o| o.1)));
        }
    };
    for network in networks {
        while open.last().is_some_and(|o| o.0 < network.prefix.first()) {
            close(&mut open, &mut out);
        }
        let peer = Peer::of(network.class);
        out.push((network.prefix.first(), peer));
        open.push((network.prefix.last(), peer));
    }
    while !open.is_empty() {
        close(&mut open, &mut out);
    }
    out
}
