//! Observed statements, which are only watched: `observe;` in a block, `network RANGE observe TYPE;`
//! (docs/design/0018). In the tables such a network is trusted, so that code that decides needs no special case; what
//! it would be is kept beside. `guard` stays in force for it: no block decides about an observed network, and such
//! networks are what `guard` is about.

use std::collections::BTreeMap;

use sadb::spd::{AppPolicy, Class, Network, RuleId};

/// The observed part of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The name of the application.
    pub name: String,
    /// The line of its block.
    pub line: usize,
    /// Number of network settings that are observed.
    pub networks: usize,
    /// Number of all network settings of the block.
    pub of: usize,
}

impl Observed {
    /// Whether nothing of the application is in force.
    pub fn whole(&self) -> bool {
        self.networks == self.of
    }
}

impl std::fmt::Display for Observed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.whole() {
            return write!(f, "application {} is observed: nothing of it is protected", self.name);
        }
        write!(
            f,
            "application {}: {} of its {} networks are observed, and nothing in them is protected",
            self.name, self.networks, self.of
        )
    }
}

/// Adds to a policy what `guard` says of its observed networks. Where the longest prefix of `guard` closes one, or a
/// part of it that no other network of the block is about, that is refused.
pub(crate) fn guarded(policy: AppPolicy, guard: &AppPolicy) -> AppPolicy {
    if policy.observed().is_empty() || guard.networks().is_empty() {
        return policy;
    }
    let covering = |networks: &[Network], of: wire::Prefix| {
        networks.iter().filter(|n| n.prefix.covers(of)).max_by_key(|n| n.prefix.len()).copied()
    };
    let mut networks = Vec::new();
    // First, so that they stay where a network of the block has the same prefix.
    for own in guard.networks() {
        let Some(around) = covering(policy.networks(), own.prefix) else { continue };
        if policy.would(&around).is_some() {
            // What `guard` opens again is observed as what is around it.
            let rule = if own.class == Class::Untrusted { own.rule } else { around.rule };
            networks.push(Network { rule, ..*own });
        }
    }
    for network in policy.networks() {
        let closes = covering(guard.networks(), network.prefix).filter(|own| own.class == Class::Untrusted);
        networks.push(match closes {
            Some(own) if policy.would(network).is_some() => {
                Network { class: Class::Untrusted, rule: own.rule, ..*network }
            }
            _ => *network,
        });
    }
    let observed = policy.observed().clone();
    let watched = AppPolicy::new(networks, policy.protections().to_vec()).observing(observed);
    watched.limited(policy.clear_limits()).accepting(policy.accept_limits())
}

/// The classes that a block's observed networks would have.
pub(crate) fn intended(
    block: &crate::ast::Block,
    rule: impl Fn(usize) -> RuleId,
    class: impl Fn(&crate::ast::NetworkKind) -> Class,
) -> BTreeMap<RuleId, Class> {
    let observed = block.networks.iter().enumerate();
    let observed = observed.filter(|(_, network)| block.observed.is_some() || network.observed);
    observed.map(|(index, network)| (rule(index + 1), class(&network.kind))).collect()
}
