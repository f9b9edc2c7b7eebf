//! The addresses of host names in a compiled policy (docs/design/0014), and what one policy keeps of another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sadb::spd::{AppPolicy, Class, Network, Order, RuleId};
use wire::{AppId, Prefix, addr};

use super::{Application, Compiled};
use crate::compare::compare_classes;
use crate::names::{ContestedAddress, MAX_NAMED_ADDRESSES, NamedNetwork, Names, Resolution, Source};

/// The opinion of an application's policy on one address.
#[derive(Clone, Copy)]
struct Opinion {
    class: Class,
    rule: RuleId,
}

impl Compiled {
    /// Gives the named networks these addresses, and no others.
    pub fn resolve(&mut self, names: &Names) {
        let mut resolution = Resolution::default();
        let mut chosen_of: BTreeMap<AppId, BTreeMap<u128, Opinion>> = BTreeMap::new();
        for (&app, fixed) in &self.named.fixed {
            let own: Vec<&NamedNetwork> = self.named.networks.iter().filter(|n| n.app == app).collect();
            chosen_of.insert(app, choose(app, fixed, &own, names, &mut resolution));
        }
        resolution.left_out = leave_out(&mut chosen_of, MAX_NAMED_ADDRESSES);
        for (&app, fixed) in &self.named.fixed {
            let chosen = chosen_of.remove(&app).unwrap_or_default();
            let mut networks: Vec<Network> = chosen
                .into_iter()
                .map(|(bits, Opinion { class, rule })| Network {
                    prefix: Prefix::from_bits(bits, 128),
                    class,
                    rule,
                })
                .collect();
            // Of equal prefixes the first stays: these have been compared with what is written.
            networks.extend_from_slice(fixed.networks());
            let observed = fixed.observed().clone();
            let policy = AppPolicy::new(networks, fixed.protections().to_vec()).observing(observed);
            let policy = policy.limited(fixed.clear_limits()).accepting(fixed.accept_limits());
            self.spd.insert(app, policy);
        }
        self.named.names = names.clone();
        self.named.resolution = resolution;
        self.guard_observed();
    }

    /// Lets applications go on with the policy that another load gave them, their rules and names included. Returns
    /// those for which that was done: the others have no policy there.
    pub fn keep_applications<'o>(
        &mut self,
        old: &Compiled,
        applications: impl IntoIterator<Item = &'o Application>,
    ) -> BTreeSet<AppId> {
        let mut kept = BTreeSet::new();
        for application in applications {
            let id = application.id;
            let Some(policy) = old.spd.shared(id).filter(|_| kept.insert(id)) else { continue };
            self.spd.insert(id, Arc::clone(policy));
            if old.spd.changing.contains(&id) {
                self.spd.changing.insert(id);
            }
            self.rules.keep(&old.rules, id);
            self.applications.push(application.clone());
        }
        self.named.take(&old.named, &kept);
        kept
    }
}

/// Removes addresses until no more than `room` are left in all, and returns how many it removed. An address without an
/// entry has the policy of the network around it, so those that may pass in clear go first.
fn leave_out(chosen_of: &mut BTreeMap<AppId, BTreeMap<u128, Opinion>>, room: usize) -> usize {
    let all: usize = chosen_of.values().map(BTreeMap::len).sum();
    let surplus = all.saturating_sub(room);
    let mut left = surplus;
    for of_trusted in [true, false] {
        for chosen in chosen_of.values_mut().rev() {
            let fits = |opinion: &Opinion| (opinion.class == Class::Trusted) == of_trusted;
            let last: Vec<u128> =
                chosen.iter().rev().filter(|(_, o)| fits(o)).map(|(bits, _)| *bits).take(left).collect();
            left -= last.len();
            for bits in last {
                chosen.remove(&bits);
            }
        }
    }
    surplus
}

fn choose(
    app: AppId,
    fixed: &AppPolicy,
    own: &[&NamedNetwork],
    names: &Names,
    resolution: &mut Resolution,
) -> BTreeMap<u128, Opinion> {
    let mut chosen: BTreeMap<u128, Opinion> = BTreeMap::new();
    // Observed ones behind the others, for they are measured by them.
    for observed in [false, true] {
        for network in own {
            let known =
                names.of(&network.name).filter(|(_, source)| (*source == Source::Observed) == observed);
            for (peer, source) in known {
                // What lets pass in clear needs an answer to our own question, and a fresh one.
                if network.class == Class::Trusted && source != Source::Resolver {
                    resolution.withheld += usize::from(observed);
                    continue;
                }
                let bits = addr::to_bits(peer);
                let new = Opinion { class: network.class, rule: network.rule };
                let before = chosen.get(&bits).copied().or_else(|| written(fixed, bits));
                if observed {
                    let around = fixed.network(peer).map_or(Class::Trusted, |n| n.class);
                    let now = before.map_or(around, |opinion| opinion.class);
                    if !matches!(compare_classes(fixed, new.class, now), Order::Same | Order::Stricter) {
                        resolution.withheld += 1;
                        continue;
                    }
                }
                let opinion = match before {
                    None => new,
                    Some(old) => match compare_classes(fixed, old.class, new.class) {
                        Order::Same | Order::Stricter => old,
                        Order::Weaker => new,
                        Order::Incomparable => {
                            let rules = [old.rule, new.rule];
                            resolution.contested.push(ContestedAddress { app, addr: peer, rules });
                            Opinion { class: Class::Untrusted, ..old }
                        }
                    },
                };
                chosen.insert(bits, opinion);
            }
        }
    }
    chosen
}

/// The written network setting for this very address.
fn written(fixed: &AppPolicy, bits: u128) -> Option<Opinion> {
    let host = Prefix::from_bits(bits, 128);
    let network = fixed.networks().iter().find(|n| n.prefix == host)?;
    Some(Opinion { class: network.class, rule: network.rule })
}
