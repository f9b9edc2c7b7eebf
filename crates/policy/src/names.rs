//! Host names as networks (paper 000 section 3.3.1; docs/design/0014).
//!
//! A compiled policy enters, with the addresses that each name has now; the caller keeps them and knows how long they
//! are valid. The same policy leaves, with a host prefix for each of these addresses. A name is only ever about whole
//! addresses. Where several settings of equal length are about an address, the strictest wins. An address that an
//! application merely saw in an answer is used only where that makes nothing less strict.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use sadb::spd::{AppPolicy, Class, RuleId};
use wire::AppId;

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
    pub(crate) fn take(&mut self, old: &Named, apps: &BTreeSet<AppId>) {
        let fixed = old.fixed.iter().filter(|(app, _)| apps.contains(app));
        self.fixed.extend(fixed.map(|(app, policy)| (*app, policy.clone())));
        self.networks.extend(old.networks.iter().filter(|network| apps.contains(&network.app)).cloned());
    }
}
