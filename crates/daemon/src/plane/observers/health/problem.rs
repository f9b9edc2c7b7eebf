//! What is said of it: to people, to `/v1/health`, and of each application.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use api::{AppHealth, AppState, Problem};
use engine::SPD_RULE;
use sadb::sa::Selectors;
use sadb::spd::{Class, Level};
use wire::{Prefix, Services};

use super::last_of_chain;
use crate::datapath::SaEnd;
use crate::health::{ASSOCIATIONS, HealthBook, TroubleOwner, TroubleReport};
use crate::plane::context::Context;
use crate::plane::observers::Observers;
use documents::associations::protocol_word;

/// Applications that are told one by one.
const TOLD: usize = 256;
/// The code of a problem that concerns long packets alone: short ones arrive all the same.
const LONG_PACKETS: &str = "long_packets";
/// The code of [`Cause::NotSent`], which concerns some associations of an application's and perhaps not all.
const NOT_SENT: &str = "not_sent";

/// Problems of associations, which name none of the applications that share them.
struct Shared<'a> {
    problems: Vec<&'a Problem>,
    /// The associations by which this host's kernel sends nothing.
    not_sent: BTreeSet<SaEnd>,
}

impl<'a> Shared<'a> {
    fn of(health: &HealthBook, problems: &'a [Problem]) -> Shared<'a> {
        let now = netio::clock::monotonic();
        let found = health.found(now).into_iter().filter(|one| one.who.is_none());
        let kinds: BTreeSet<(Option<IpAddr>, &str)> =
            found.map(|one| (Some(one.peer), one.cause.code())).collect();
        let is_shared = |problem: &&Problem| {
            problem.application.is_none() && kinds.contains(&(problem.peer, problem.code.as_str()))
        };
        Shared {
            problems: problems.iter().filter(is_shared).collect(),
            not_sent: health.unsent.found(now).map(|(way, _)| way).collect(),
        }
    }

    /// What is wrong with every way by which an application's traffic leaves: `protected` are its networks, `ways` its
    /// outbound associations.
    fn of_all(&self, protected: &[Prefix], ways: &[SaEnd]) -> Option<&'a Problem> {
        // All associations with a network behind a gateway lead to that gateway.
        let is_met = |peer: IpAddr| {
            protected.iter().any(|network| network.contains(peer))
                || (!ways.is_empty() && ways.iter().all(|way| way.0 == peer))
        };
        // Another association with the peer may work.
        let is_unsent = |peer: IpAddr| {
            let mut to_peer = ways.iter().filter(|way| way.0 == peer).peekable();
            to_peer.peek().is_some() && to_peer.all(|way| self.not_sent.contains(way))
        };
        let concerns = |problem: &&&Problem| match problem.peer {
            Some(peer) if problem.code == NOT_SENT => {
                is_unsent(peer) && (is_met(peer) || ways.iter().all(|way| is_unsent(way.0)))
            }
            Some(peer) => is_met(peer),
            None => false,
        };
        self.problems.iter().find(concerns).copied()
    }
}

impl Observers {
    /// What must be protected and does not get through.
    pub(in crate::plane) fn flow_problems(&self, context: Context<'_>) -> Vec<Problem> {
        let (now, wall) = (netio::clock::monotonic(), netio::clock::wall());
        let found = self.health.found(now).into_iter();
        found.map(|found| told(&found, now.since(found.since), wall, context)).collect()
    }

    /// Which applications are protected and which not, and why; those that are not first. `closed` is why nothing that
    /// must be protected leaves this host, if that is so.
    pub(in crate::plane) async fn protection(
        &self,
        problems: &[Problem],
        closed: Option<&str>,
        context: Context<'_>,
    ) -> Vec<AppHealth> {
        let out = context.halves.ask_outbound(|half| {
            let sad = half.engine.sad();
            let of = |(index, sa): (sadb::SaIndex, &sadb::OutboundSa)| {
                let last = last_of_chain(sad, index).unwrap_or(sa);
                (sa.config().effective_selectors(), (last.config().endpoints.remote, last.spi()))
            };
            sad.list().take(ASSOCIATIONS).map(of).collect::<Vec<_>>()
        });
        let (out, ends): (Vec<Selectors>, Vec<SaEnd>) = out.await.unwrap_or_default().into_iter().unzip();
        let shared = Shared::of(&self.health, problems);
        let into = context.halves.ask_inbound(|half| {
            let all = half.engine.sad().list().take(ASSOCIATIONS);
            all.map(|sa| sa.config().effective_selectors()).collect::<Vec<_>>()
        });
        let into = into.await.unwrap_or_default();
        let missing = context.policy.missing();
        let observed = context.policy.compiled().observed();
        let mut told: Vec<AppHealth> = Vec::new();
        for app in &context.policy.compiled().applications {
            let say = |state, why: String| AppHealth { application: app.name.clone(), state, why };
            let is_its = |problem: &&Problem| {
                problem.application.as_ref() == Some(&app.name) && problem.code != LONG_PACKETS
            };
            if let Some(problem) = problems.iter().find(is_its) {
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
            let Some(policy) = context.policy.compiled().spd.get(app.id) else { continue };
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
            let meets = |sa: &Selectors| {
                protected
                    .iter()
                    .any(|network| sa.meets(&Selectors { remote: *network, app: sa.app, ..Selectors::ANY }))
            };
            let serves = |sas: &[Selectors]| sas.iter().any(|sa| sa.serves(app.id) && meets(sa));
            let ends = out.iter().zip(&ends).filter(|(sa, _)| sa.serves(app.id) && meets(sa));
            let ends: Vec<SaEnd> = ends.map(|(_, end)| *end).collect();
            if let Some(problem) = shared.of_all(&protected, &ends).filter(|_| demands) {
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

/// A problem as it is told; it is of this age.
fn told(found: &TroubleReport, age: Duration, wall: Duration, context: Context<'_>) -> Problem {
    let TroubleReport { peer, cause, flow, .. } = *found;
    let (application, rule, who) = match found.who {
        Some(TroubleOwner::App(app)) => {
            let name = context.policy.app_name(app);
            (Some(name.clone()), None, format!("application {name}"))
        }
        Some(TroubleOwner::Rule(number)) => {
            let name = context.rules.name_of(number).unwrap_or_else(|| (number & !SPD_RULE).to_string());
            let who = format!("traffic under rule {name}");
            (None, Some(name), who)
        }
        Some(TroubleOwner::Answers) => {
            (None, None, "this host's kernel, answering protected packets,".to_owned())
        }
        None => match found.by {
            Some(spi) => (None, None, format!("traffic of the association {spi}")),
            None => (None, None, "traffic".to_owned()),
        },
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

#[cfg(test)]
mod tests {
    use sadb::Spi;

    use super::*;

    fn problem(code: &str, peer: [u8; 4]) -> Problem {
        Problem {
            code: code.to_owned(),
            message: String::new(),
            remedy: None,
            application: None,
            rule: None,
            peer: Some(peer.into()),
            since_unix_seconds: Some(1),
        }
    }

    #[test]
    fn a_problem_of_associations_concerns_who_has_no_other_way() {
        let (gateway, other) = ([203, 0, 113, 2], [203, 0, 113, 3]);
        let network: Vec<Prefix> = vec![Prefix::new([10, 2, 0, 0].into(), 16).unwrap()];
        let way = |peer: [u8; 4], spi| (IpAddr::from(peer), Spi(spi));
        let problems = [problem("not_authentic", gateway), problem(NOT_SENT, other)];
        let shared = Shared {
            problems: problems.iter().collect(),
            not_sent: BTreeSet::from([way(other, 1), way(other, 2)]),
        };
        let code = |ways: &[SaEnd]| shared.of_all(&network, ways).map(|problem| problem.code.as_str());
        // A network behind a gateway.
        assert_eq!(code(&[way(gateway, 1), way(gateway, 2)]), Some("not_authentic"));
        assert_eq!(code(&[way(gateway, 1), way(other, 3)]), None, "by the other one it gets through");
        assert_eq!(code(&[way(other, 1), way(other, 2)]), Some(NOT_SENT));
        assert_eq!(code(&[way(other, 1), way(other, 3)]), None, "the third is sent");
        assert_eq!(code(&[]), None);
        let peers: Vec<Prefix> = vec![Prefix::host(other.into())];
        let not_sent = |ways: &[SaEnd]| shared.of_all(&peers, ways).is_some();
        assert!(not_sent(&[way(other, 1), way([192, 0, 2, 9], 7)]), "nothing reaches that peer");
        assert!(!not_sent(&[way(other, 1), way(other, 3)]), "by the other association it does");
        // The peer itself is protected, whatever the associations are.
        let host: Vec<Prefix> = vec![Prefix::host(gateway.into())];
        assert!(shared.of_all(&host, &[]).is_some());
    }
}
