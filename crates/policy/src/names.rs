//! Host names as networks (paper 000 section 3.3.1; docs/design/0014).
//!
//! A compiled policy enters, with the addresses that each name has now; the caller keeps them and knows how long they
//! are valid. The same policy leaves, with a host prefix for each of these addresses. A name is only ever about whole
//! addresses. Where several settings of equal length are about an address, the strictest wins. An address that an
//! application merely saw in an answer is used only where that makes nothing less strict.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use sadb::spd::{AppPolicy, Class, Network, Order, RuleId};
use wire::{AppId, Prefix, addr};

use crate::compare::compare_classes;
use crate::{Application, Compiled};

/// The most host prefixes of names of all applications together.
pub const MAX_NAMED_ADDRESSES: usize = 32_768;

/// The source of a name's address; the better source comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The daemon's own resolver said so, recently enough.
    Resolver,
    /// The daemon's own resolver said so, longer ago than its answer is valid. Nothing better has been learned since.
    Kept,
    /// An application received an answer with the address.
    Observed,
}

impl Source {
    /// The word for the source.
    pub const fn word(self) -> &'static str {
        match self {
            Source::Resolver => "resolver",
            Source::Kept => "kept",
            Source::Observed => "observed",
        }
    }
}

/// The addresses of host names. Names are in lower case, without the dot at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(BTreeMap<String, BTreeMap<IpAddr, Source>>);

impl Names {
    /// Adds an address of a name. If two sources give the same one, the better counts.
    pub fn insert(&mut self, name: &str, addr: IpAddr, source: Source) {
        let known = self.0.entry(name.to_owned()).or_default().entry(addr.to_canonical()).or_insert(source);
        *known = source.min(*known);
    }

    /// The addresses of one name.
    pub fn of(&self, name: &str) -> impl Iterator<Item = (IpAddr, Source)> {
        self.0.get(name).into_iter().flatten().map(|(addr, source)| (*addr, *source))
    }

    /// The source that says that the name has this address.
    pub fn source(&self, name: &str, addr: IpAddr) -> Option<Source> {
        self.0.get(name)?.get(&addr.to_canonical()).copied()
    }
}

/// A network setting that names a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedNetwork {
    /// The application that has the setting.
    pub app: AppId,
    /// The host name as it is resolved.
    pub name: String,
    /// The class of its addresses for the application.
    pub class: Class,
    /// The rule of the `network` line.
    pub rule: RuleId,
}

/// An address that is refused because two settings of one application about it cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContestedAddress {
    /// The application that has the settings.
    pub app: AppId,
    /// The address that is refused.
    pub addr: IpAddr,
    /// The rules of the two settings.
    pub rules: [RuleId; 2],
}

/// The effects of the names' addresses on a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolution {
    /// Addresses that are refused because their settings do not compare.
    pub contested: Vec<ContestedAddress>,
    /// Number of observed addresses that were not used, because something would have become less strict.
    pub withheld: usize,
    /// Number of addresses for which there was no room.
    pub left_out: usize,
}

/// The named networks of a policy, with their present addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The settings in the order of the file, once for each application.
    pub networks: Vec<NamedNetwork>,
    /// The addresses in force.
    pub names: Names,
    /// The effects of these addresses.
    pub resolution: Resolution,
    /// The policies of these applications without any address of a name.
    pub(crate) fixed: BTreeMap<AppId, AppPolicy>,
}

impl Named {
    /// Every host name of the policy, each once.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        let names: std::collections::BTreeSet<&str> = self.networks.iter().map(|n| n.name.as_str()).collect();
        names.into_iter()
    }

    /// The host name that a rule is about.
    pub fn host_of(&self, rule: RuleId) -> Option<&str> {
        self.networks.iter().find(|n| n.rule == rule).map(|n| n.name.as_str())
    }

    /// The host names of an application that have no address it could use.
    pub(crate) fn unresolved(&self, app: AppId) -> impl Iterator<Item = &str> {
        let own = self.networks.iter().filter(move |n| n.app == app);
        own.filter(|n| self.names.of(&n.name).next().is_none()).map(|n| n.name.as_str())
    }

    /// Takes over what belongs to these applications of another load.
    fn take(&mut self, old: &Named, apps: &BTreeSet<AppId>) {
        let fixed = old.fixed.iter().filter(|(app, _)| apps.contains(app));
        self.fixed.extend(fixed.map(|(app, policy)| (*app, policy.clone())));
        self.networks.extend(old.networks.iter().filter(|network| apps.contains(&network.app)).cloned());
    }
}

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
