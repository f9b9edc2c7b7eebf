//! What is said of it: to people, to `/v1/health`, and of each application.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use api::{AppHealth, AppState, Problem};
use engine::SPD_RULE;
use sadb::sa::Selectors;
use sadb::spd::{Class, Level};
use wire::{Prefix, Services};

use crate::associations::protocol_word;
use crate::health::{ASSOCIATIONS, Found, Who};
use crate::plane::Plane;

/// Applications that are told one by one.
const TOLD: usize = 256;

impl Plane {
    /// What must be protected and does not get through.
    pub(crate) fn flow_problems(&self) -> Vec<Problem> {
        let (now, wall) = (netio::clock::monotonic(), netio::clock::wall());
        let found = self.health.found(now).into_iter();
        found.map(|found| self.told(&found, now.since(found.since), wall)).collect()
    }

    fn told(&self, found: &Found, age: Duration, wall: Duration) -> Problem {
        let Found { peer, cause, flow, .. } = *found;
        let (application, rule, who) = match found.who {
            Some(Who::App(app)) => {
                let name = self.policy.app_name(app);
                (Some(name.clone()), None, format!("application {name}"))
            }
            Some(Who::Rule(number)) => {
                let name = self.rules.name_of(number).unwrap_or_else(|| (number & !SPD_RULE).to_string());
                let who = format!("traffic under rule {name}");
                (None, Some(name), who)
            }
            Some(Who::Rules) => {
                (None, Some("unknown".to_owned()), "traffic under the rules of the SPD".to_owned())
            }
            None => (None, None, "traffic".to_owned()),
        };
        let explain = match (&application, flow) {
            (Some(name), Some(flow)) => {
                let to = match flow.remote_port {
                    0 => peer.to_string(),
                    port => SocketAddr::new(peer, port).to_string(),
                };
                let protocol = protocol_word(flow.protocol);
                format!("`ravelin explain --app {name} --to {to}/{protocol}` says what is demanded")
            }
            _ if rule.is_some() => {
                "`ravelin spd list` shows the rules, `ravelin explain --drop all` says what ended".to_owned()
            }
            _ => "`ravelin explain --drop all` says what ended".to_owned(),
        };
        let local = flow.map(|flow| flow.local).filter(|local| !local.is_unspecified());
        let from = local.map_or_else(String::new, |local| format!(" from {local}"));
        let (seconds, text) = (age.as_secs(), cause.text());
        Problem {
            code: cause.code().to_owned(),
            message: format!("{who} gets nothing through to {peer}{from} for {seconds} s: {text}"),
            remedy: Some(cause.remedy(&explain)),
            application,
            rule,
            peer: Some(peer),
            since_unix_seconds: Some(wall.saturating_sub(age).as_secs()),
        }
    }

    /// Which applications are protected and which not, and why; those that are not first. `closed` is why nothing that
    /// must be protected leaves this host, if that is so.
    pub(crate) async fn protection(&self, problems: &[Problem], closed: Option<&str>) -> Vec<AppHealth> {
        let out = self.outbound.ask(|half| {
            let all = half.engine.sad().list().take(ASSOCIATIONS);
            let of =
                |sa: &sadb::OutboundSa| (sa.config().effective_selectors(), sa.config().endpoints.remote);
            all.map(|(_, sa)| of(sa)).collect::<Vec<_>>()
        });
        let (out, ends): (Vec<Selectors>, Vec<IpAddr>) = out.await.unwrap_or_default().into_iter().unzip();
        let into = self.inbound.ask(|half| {
            let all = half.engine.sad().list().take(ASSOCIATIONS);
            all.map(|sa| sa.config().effective_selectors()).collect::<Vec<_>>()
        });
        let into = into.await.unwrap_or_default();
        let missing = crate::policy_store::missing(&self.policy.compiled, &self.executables);
        let observed = self.policy.compiled.observed();
        let mut told: Vec<AppHealth> = Vec::new();
        for app in &self.policy.compiled.applications {
            let say = |state, why: String| AppHealth { application: app.name.clone(), state, why };
            if let Some(problem) = problems.iter().find(|p| p.application.as_ref() == Some(&app.name)) {
                told.push(say(AppState::Blocked, format!("{}: {}", problem.code, problem.message)));
                continue;
            }
            if let Some(one) = missing.iter().find(|one| one.application == app.name) {
                told.push(say(AppState::Clear, format!("{}: {}", one.code, one.remedy)));
                continue;
            }
            if let Some(one) = observed.iter().find(|one| one.name == app.name) {
                told.push(say(AppState::Clear, one.to_string()));
                continue;
            }
            let Some(policy) = self.policy.compiled.spd.get(app.id) else { continue };
            let networks = policy.networks();
            let items = || policy.protections().iter().flatten();
            let protects = networks.iter().any(|n| matches!(n.class, Class::Protected(_)));
            let demands =
                items().any(|item| item.services != Services::NONE && item.level == Level::Mandatory);
            let protected: Vec<Prefix> = networks
                .iter()
                .filter(|network| matches!(network.class, Class::Protected(_)))
                .map(|network| network.prefix)
                .collect();
            if let Some(why) = closed.filter(|_| protects && demands) {
                told.push(say(AppState::Blocked, format!("failed: {why}")));
                continue;
            }
            // A trouble of an association that applications share names none of them.
            let shared = problems.iter().find(|problem| {
                let to = |peer: IpAddr| protected.iter().any(|network| network.contains(peer));
                // Short packets arrive all the same.
                problem.code != "long_packets"
                    && problem.application.is_none()
                    && problem.rule.is_none()
                    && problem.peer.is_some_and(to)
                    && problem.since_unix_seconds.is_some()
            });
            if let Some(problem) = shared.filter(|_| demands) {
                told.push(say(AppState::Blocked, format!("{}: {}", problem.code, problem.message)));
                continue;
            }
            let meets = |sa: &Selectors| {
                protected
                    .iter()
                    .any(|network| sa.meets(&Selectors { remote: *network, app: sa.app, ..Selectors::ANY }))
            };
            let serves = |sas: &[Selectors]| sas.iter().any(|sa| sa.serves(app.id) && meets(sa));
            // All of its associations lead to peers to whom this host's kernel sends nothing.
            let mut ends = out.iter().zip(&ends).filter(|(sa, _)| sa.serves(app.id) && meets(sa)).peekable();
            let unsent =
                |end: &IpAddr| problems.iter().find(|p| p.code == "not_sent" && p.peer == Some(*end));
            if demands
                && let Some(problem) = ends.peek().and_then(|(_, end)| unsent(end))
                && ends.all(|(_, end)| unsent(end).is_some())
            {
                told.push(say(AppState::Blocked, format!("{}: {}", problem.code, problem.message)));
                continue;
            }
            let (state, why) = match (protects, serves(&out), serves(&into)) {
                (false, _, _)
                    if networks.iter().all(|n| matches!(n.class, Class::Untrusted))
                        && !networks.is_empty() =>
                {
                    (AppState::Refused, "every network that its policy names is untrusted")
                }
                (false, _, _) => (AppState::Clear, "its policy protects no network"),
                (true, true, true) => (AppState::Protected, "associations serve both directions"),
                (true, true, false) => {
                    (AppState::Waiting, "no inbound association may serve it: one direction only")
                }
                (true, false, true) => {
                    (AppState::Waiting, "no outbound association may serve it: one direction only")
                }
                (true, false, false) if demands => {
                    (AppState::Waiting, "no association yet: what must be protected is refused")
                }
                (true, false, false) => {
                    (AppState::Clear, "no association, and its policy does not insist on one")
                }
            };
            told.push(say(state, why.to_owned()));
        }
        told.sort_by(|a, b| (a.state, &a.application).cmp(&(b.state, &b.application)));
        told.truncate(TOLD);
        told
    }
}
