//! Associations under one suite of a cipher of one's own whose packets might be taken for those of another such suite.

use crypto::SuiteId;
use wire::{AppId, Prefix, Services};

use super::{AppPolicy, Class, Item, RuleId, Spd};
use crate::custom_suite::rests_on_custom;
use crate::{Direction, SaConfig};

/// An item that names another suite of a cipher of one's own than an inbound association has, for flows that the
/// association may carry. The kernel half knows of a packet that it came under a cipher of one's own, and not under
/// which suite, so it would take the packets of the association for those of the item's suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RivalSuite {
    /// The application whose policy has the item.
    pub app: AppId,
    /// The number of the item's line.
    pub rule: RuleId,
    /// The suite that the item names.
    pub suite: SuiteId,
}

impl Spd {
    /// Whether any item names a suite that rests on a cipher of one's own.
    pub fn names_custom(&self) -> bool {
        self.apps()
            .any(|(_, policy)| policy.protections().iter().flatten().any(|item| item.services.is_named()))
    }

    /// The first item that names another suite than this inbound association has, where both suites rest on ciphers of
    /// one's own and the association may carry flows of the item: those of its application, or of any if it is bound to
    /// none, with a peer of its remote selector. Protocols, ports and the order of items are not looked at, and an
    /// application with networks that are names has its items anywhere. So some are found whose packets could be told
    /// apart, and none is missed: from peers beyond the remote selector, as a tunnel inside of the association may bring
    /// them, the engine takes packets as authenticated only.
    pub fn rival_suite(&self, config: &SaConfig) -> Option<RivalSuite> {
        if config.direction != Direction::Inbound || config.services() != Services::CUSTOM {
            return None;
        }
        let selectors = config.effective_selectors();
        let served = self.apps().filter(|(app, _)| selectors.serves(*app));
        served
            .flat_map(|(app, policy)| {
                let anywhere = self.changing.contains(&app);
                items_towards(policy, selectors.remote, anywhere).map(move |item| (app, item))
            })
            .find_map(|(app, item)| {
                let suite =
                    item.terms.suite.filter(|suite| rests_on_custom(*suite) && *suite != config.suite)?;
                Some(RivalSuite { app, rule: item.rule, suite })
            })
    }
}

/// The items that may be for a peer of this prefix; with `anywhere` all there are.
fn items_towards(policy: &AppPolicy, remote: Prefix, anywhere: bool) -> impl Iterator<Item = &Item> {
    // Networks stand with the most specific first: the first around the whole prefix decides where none inside does.
    let around = policy.networks().iter().find(|network| network.prefix.covers(remote));
    let inside = policy.networks().iter().filter(move |network| remote.covers(network.prefix));
    let mut met: Vec<usize> = inside.chain(around).filter_map(|network| protection(network.class)).collect();
    if anywhere {
        met = (0..policy.protections().len()).collect();
    }
    met.sort_unstable();
    met.dedup();
    met.into_iter().filter_map(|index| policy.protections().get(index)).flatten()
}

fn protection(class: Class) -> Option<usize> {
    match class {
        Class::Protected(index) => Some(index),
        Class::Trusted | Class::Untrusted => None,
    }
}
