//! By which profile a flow is scrubbed, and whose line says so.
//!
//! The flow decides, not the application: inbound, nobody knows yet whose socket a packet is for, and both directions must meet in one
//! scrubber (docs/design/0025). So the strictest profile counts that any application's items say of it.

use sadb::spd::{Action, RuleId};
use scrub::Profile;
use wire::{AppId, Flow};

use crate::Compiled;

/// By which profile a flow is scrubbed, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scrubbed {
    /// The profile.
    pub profile: Profile,
    /// Whose item says so: the flow's own application where it says the same as the strictest.
    pub app: AppId,
    /// The item.
    pub rule: RuleId,
    /// What the items of the flow's own application say, which alone count where an association is bound to it.
    pub own: Option<Profile>,
}

impl Compiled {
    /// By which profile a flow of an application is scrubbed, as far as it is protected; `None`: it is not.
    pub fn scrubbed(&self, app: AppId, flow: &Flow) -> Option<Scrubbed> {
        let strictest = self.spd.scrub(flow);
        let profile = Profile::of_id(strictest)?;
        let decision = self.spd.decide(app, flow);
        if !matches!(decision.action, Action::Protect { .. }) {
            // In clear it goes past user space, and the scrubber with it.
            return None;
        }
        let own = Profile::of_id(decision.terms.scrub);
        if own == Some(profile) {
            return Some(Scrubbed { profile, app, rule: decision.item, own });
        }
        let mut all = self.spd.apps().map(|(other, policy)| (other, policy.decide(flow)));
        let (other, said) = all.find(|(_, said)| said.terms.scrub == strictest)?;
        Some(Scrubbed { profile, app: other, rule: said.item, own })
    }
}

/// What being scrubbed means, in words.
pub(crate) fn said(profile: Profile) -> String {
    let what = match profile {
        Profile::Observe => {
            "what its packets leave open to interpretation is counted, and nothing is changed"
        }
        _ => "what its packets leave open to interpretation is settled before anybody reads them, both ways",
    };
    format!("scrubbed: {}: {what}", profile.name())
}
