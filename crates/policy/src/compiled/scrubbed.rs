//! The profile by which a compiled policy has a flow scrubbed (docs/design/0025).

use sadb::spd::Action;
use scrub::Profile;
use wire::{AppId, Flow};

use super::Compiled;
use crate::scrubbed::Scrubbed;

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
