//! What is said of it: to people, to `/v1/health`, and of each application.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use api::{AppHealth, AppState, Problem};
use sadb::Direction;
use sadb::sa::Selectors;
use sadb::spd::{Class, Level};
use wire::{AppId, Flow, Prefix, Services, Time};

use super::{Cause, EVIDENCE, HealthBook, PATIENCE};
use crate::associations::protocol_word;
use crate::plane::Plane;

/// Applications that are told one by one.
const TOLD: usize = 256;

impl Cause {
    /// The code of the problem.
    pub fn code(self) -> &'static str {
        match self {
            Cause::NoAssociation => "no_association",
            Cause::NoGroup => "no_group_association",
            Cause::NoUplink => "no_uplink",
            Cause::OneDirection => "one_direction",
            Cause::AcquireUnanswered => "acquire_unanswered",
            Cause::AcquireRefused => "acquire_refused",
            Cause::TooWeak => "weak_association",
            Cause::LimitReached => "limit_reached",
            Cause::Replayed => "replayed",
            Cause::NotAuthentic => "not_authentic",
            Cause::Unanswered => "unanswered",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Cause::NoAssociation => "no association serves it",
            Cause::NoGroup => "no association takes it to the group, so its sender is refused (EPERM)",
            Cause::NoUplink => "it leaves by a device that is no uplink, where nothing would protect it",
            Cause::OneDirection => "what it sends is protected, and no inbound association takes the answers",
            Cause::AcquireUnanswered => "the key manager was asked for an association and did not answer",
            Cause::AcquireRefused => "the key manager said that there will be no association",
            Cause::TooWeak => "the association gives less than the policy demands",
            Cause::LimitReached => "the association has reached its limit",
            Cause::Replayed => "every packet of the peer is dropped as a replay",
            Cause::NotAuthentic => "every packet of the peer has a wrong integrity check value",
            Cause::Unanswered => "its packets leave protected, and nothing comes back",
        }
    }

    fn remedy(self, explain: &str) -> String {
        let what = match self {
            Cause::NoAssociation => {
                "start the key manager, or add an association for each direction on both hosts (`ravelin sa add`)"
            }
            Cause::NoGroup => {
                "add an outbound association whose selectors hold the group (`ravelin sa add --direction out --selector-remote`), \
                 and an inbound one on its members: no key manager is asked for one"
            }
            Cause::NoUplink => {
                "`ip route get` says by which device; name that one in `uplinks` of the configuration, and restart the daemon"
            }
            Cause::OneDirection => {
                "add the inbound association (`ravelin sa add --direction in`) with the key that the peer sends by"
            }
            Cause::AcquireUnanswered => {
                "look at the key manager's log; `ravelin sa monitor` shows what it is asked"
            }
            Cause::AcquireRefused => "look at the key manager's log, here and at the peer",
            Cause::TooWeak => "`ravelin sa list` shows the suites; add an association with the demanded one",
            Cause::LimitReached => {
                "`ravelin sa replace` with new keys, or let the key manager do that at the soft limit"
            }
            Cause::Replayed => {
                "the peer counts from the beginning again: give both hosts new keys (`ravelin sa replace`)"
            }
            Cause::NotAuthentic => {
                "the keys or suites differ: compare `ravelin sa list` on both hosts, give both new keys"
            }
            Cause::Unanswered => {
                "look at the peer (`ravelin status` there): it may be down, or have no association for its answers"
            }
        };
        format!("{what}; {explain}")
    }
}

impl HealthBook {
    /// Who gets nothing through for long enough: whose, to whom, why, since when, and a flow of it.
    fn found(&self, now: Time) -> Vec<(AppId, IpAddr, Cause, Time, Option<Flow>)> {
        let troubles = self.troubles.iter().filter(|(_, one)| now.since(one.since) >= PATIENCE);
        let mut out: Vec<_> = troubles
            .map(|((app, peer, _), one)| (*app, *peer, one.cause, one.since, Some(one.flow)))
            .collect();
        let told: BTreeSet<IpAddr> = out.iter().map(|one| one.1).collect();
        for ((direction, peer, _), one) in &self.suspicions {
            let waits = one.waits.filter(|(_, at)| now.since(*at) < EVIDENCE);
            // Datagrams that nobody answers are no fault by themselves.
            let counts = one.cause != Cause::Unanswered || waits.is_some();
            let until = if one.cause.is_of_arrivals() { one.last } else { now };
            let late = until.since(one.since) >= PATIENCE;
            if late && counts && !(told.contains(peer) && *direction == Direction::Outbound) {
                let app = one.selectors.app.or(one.waits.map(|(app, _)| app)).unwrap_or(AppId::NONE);
                out.push((app, *peer, one.cause, one.since, None));
            }
        }
        out
    }
}

#[cfg(test)]
impl HealthBook {
    /// The causes of all problems.
    pub(super) fn causes(&self, now: Time) -> Vec<Cause> {
        self.found(now).into_iter().map(|one| one.2).collect()
    }
}

impl Plane {
    /// What must be protected and does not get through.
    pub(crate) fn flow_problems(&self) -> Vec<Problem> {
        let (now, wall) = (netio::clock::monotonic(), netio::clock::wall());
        let found = self.health.found(now).into_iter();
        found
            .map(|(app, peer, cause, since, flow)| {
                self.told((app, peer), cause, now.since(since), wall, flow)
            })
            .collect()
    }

    fn told(
        &self,
        (app, peer): (AppId, IpAddr),
        cause: Cause,
        age: Duration,
        wall: Duration,
        flow: Option<Flow>,
    ) -> Problem {
        let application = (app != AppId::NONE).then(|| self.policy.app_name(app));
        let who =
            application.as_ref().map_or_else(|| "traffic".to_owned(), |name| format!("application {name}"));
        let explain = match (&application, flow) {
            (Some(name), Some(flow)) => {
                let to = match flow.remote_port {
                    0 => peer.to_string(),
                    port => SocketAddr::new(peer, port).to_string(),
                };
                let protocol = protocol_word(flow.protocol);
                format!("`ravelin explain --app {name} --to {to}/{protocol}` says what is demanded")
            }
            _ => "`ravelin explain --drop all` says what ended".to_owned(),
        };
        let local = flow.map(|flow| flow.local).filter(|local| !local.is_unspecified());
        let from = local.map_or_else(String::new, |local| format!(" from {local}"));
        Problem {
            code: cause.code().to_owned(),
            message: format!(
                "{who} gets nothing through to {peer}{from} for {} s: {}",
                age.as_secs(),
                cause.text()
            ),
            remedy: Some(cause.remedy(&explain)),
            application,
            peer: Some(peer),
            since_unix_seconds: Some(wall.saturating_sub(age).as_secs()),
        }
    }

    /// Which applications are protected and which not, and why; those that are not first.
    pub(crate) async fn protection(&self, problems: &[Problem]) -> Vec<AppHealth> {
        let out = self.outbound.ask(|half| {
            let all = half.engine.sad().list().take(super::ASSOCIATIONS);
            all.map(|(_, sa)| sa.config().effective_selectors()).collect::<Vec<_>>()
        });
        let out = out.await.unwrap_or_default();
        let into = self.inbound.ask(|half| {
            let all = half.engine.sad().list().take(super::ASSOCIATIONS);
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
            // A trouble of an association that applications share names none of them.
            let shared = problems.iter().find(|problem| {
                let to = |peer: IpAddr| protected.iter().any(|network| network.contains(peer));
                problem.application.is_none()
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
