//! What a compiled policy says of networks that are only observed (docs/design/0018).

use sadb::spd::{Action, AppPolicy, Decision};
use wire::{AppId, Flow};

use super::{Application, Compiled};
use crate::ast::level_word;
use crate::observe::{Observed, guarded};

impl Compiled {
    /// Keeps `guard` in force for what is observed. It must be called again after either changed.
    pub(crate) fn guard_observed(&mut self) {
        let observing: Vec<(AppId, AppPolicy)> = self
            .spd
            .apps()
            .filter(|(_, policy)| !policy.observed().is_empty())
            .map(|(app, policy)| (app, guarded(AppPolicy::clone(policy), &self.spd.guard)))
            .collect();
        for (app, policy) in observing {
            self.spd.insert(app, policy);
        }
    }

    /// The applications of which something is observed, in the order of the file.
    pub fn observed(&self) -> Vec<Observed> {
        let of = |app: &Application| {
            let policy = self.spd.get(app.id)?;
            let networks = policy.observed().len();
            let of = self.rules.networks(app.id);
            (networks > 0).then(|| Observed { name: app.name.clone(), line: app.block_line, networks, of })
        };
        self.applications.iter().filter_map(of).collect()
    }

    /// The decision for the flow if its network were not observed, with what it means in words. `None` if the network
    /// is not observed.
    pub fn would(&self, app: AppId, flow: &Flow) -> Option<(Decision, String)> {
        let decision = self.spd.get(app)?.would_decide(flow)?;
        let line = self.rule(decision.rule()).map_or(0, |rule| rule.line);
        let said = match decision.action {
            Action::Bypass => format!("would be clear (observed), line {line}"),
            Action::Discard => format!("would be refused (observed), line {line}"),
            Action::Protect { services, level } => {
                let service = if services.encrypts() { "encryption" } else { "authentication" };
                format!("would be protected, {service} {} (observed), line {line}", level_word(level))
            }
        };
        Some((decision, said))
    }
}
