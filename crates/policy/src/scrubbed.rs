//! The profile by which a flow is scrubbed, and the line that says so.
//!
//! The flow decides, not the application: inbound, nobody knows yet whose socket a packet is for, and both directions
//! must meet in one scrubber (docs/design/0025). So the strictest profile counts that any application's items say of
//! the flow.

use sadb::spd::{Action, RuleId};
use scrub::Profile;
use wire::{AppId, Flow};

use crate::Compiled;

/// The profile by which a flow is scrubbed, and the item that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scrubbed {
    /// The name of the profile.
    pub profile: Profile,
    /// The application whose item says so. It is the flow's own where that says the same as the strictest.
    pub app: AppId,
    /// The rule of the item.
    pub rule: RuleId,
    /// The profile that the items of the flow's own application give. It alone counts where an association is bound to
    /// the application.
    pub own: Option<Profile>,
}

impl Compiled {
    /// The profile by which a flow of an application is scrubbed where it is protected; `None` if it is not scrubbed.
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

/// The meaning of a profile, in words.
pub(crate) fn said(profile: Profile) -> String {
    let what = match profile {
        Profile::Observe => {
            "what its packets leave open to interpretation is counted, and nothing is changed"
        }
        _ => "what its packets leave open to interpretation is settled before anybody reads them, both ways",
    };
    format!("scrubbed: {}: {what}", profile.name())
}
