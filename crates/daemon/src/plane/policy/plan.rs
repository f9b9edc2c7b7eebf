//! What a policy would change: compiled as a load would, compared by meaning, asked for every open socket. Nothing changes here.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use api::{
    ApplicationChange, Change, FlowChange, FlowInfo, LimitChange, PeersChange, PolicyAnswer, PolicyPlan,
    PolicyText, Position, SocketChange,
};
use policy::ast::{failure_word, level_word, negotiating_word};
use policy::{Compiled, Difference, Scrubbed};
use sadb::spd::{Action, AppPolicy, Decision, PortRange, RuleId, Terms};
use scrub::Profile;
use sockmon::SocketInfo;
use wire::{AppId, Flow, ScrubId};

use super::PolicyInForce;
use super::process::Owners;
use crate::monitor::Monitor;
use crate::policy_store::{self, Candidate, is_same};
use documents::api_error::{ApiError, Blame};
use documents::associations::protocol_word;
use documents::decision::{block_position, rule_position};

/// Ranges of peers that are told for one application.
const PEERS: usize = 64;
/// Sockets that are told.
const SOCKETS: usize = 1024;

impl PolicyInForce {
    /// What the policy of the request, else the policy file as it is now, would change.
    ///
    /// # Errors
    /// If it cannot be read, or its own tests fail, or the kernel half does not answer.
    pub(in crate::plane) fn plan(
        &self,
        asked: &PolicyText,
        monitor: &Monitor,
    ) -> Result<PolicyPlan, ApiError> {
        let own = self.store.file().display().to_string();
        let (name, octets) = match &asked.text {
            Some(text) => (asked.file.clone().unwrap_or(own), text.clone().into_bytes()),
            None => {
                let octets = std::fs::read(self.store.file())
                    .map_err(|error| ApiError::new(Blame::NotFound, format!("{own}: {error}")))?;
                (own, octets)
            }
        };
        let candidate = self.store.read_text(&name, &octets);
        let mut candidate = candidate.map_err(|error| ApiError::new(Blame::BadRequest, error.to_string()))?;
        let executables = policy_store::executables(&candidate.compiled);
        let subjects = candidate.compiled.subjects.clone();
        let mut moved = policy_store::moved_paths(&self.executables, &executables);
        let (images, mut sockets) = {
            let monitor = monitor.get();
            moved.extend(monitor.moved(&subjects)?);
            (monitor.images(&subjects)?, monitor.sockets()?)
        };
        // What another control group holds has no policy, neither before nor after.
        sockets.retain(|socket| socket.watched);
        let applications = self.application_changes(&candidate.compiled);
        candidate.follow(&moved);
        let mut plan = PolicyPlan {
            changes: !applications.is_empty(),
            file: name,
            generation: self.store.compiled.spd.generation,
            unchanged: self
                .store
                .compiled
                .applications
                .len()
                .saturating_sub(applications.iter().filter(|a| a.change != Change::Added).count()),
            applications,
            pins: self.pins_under(subjects.pins(), monitor),
            refused_blocks: candidate.refused.clone(),
            diagnostics: candidate.diagnostics.clone(),
            missing: policy_store::missing(&candidate.compiled, &executables),
            ..PolicyPlan::default()
        };
        self.socket_changes(&candidate, (Owners::new(&subjects, images), monitor), &sockets, &mut plan);
        plan.changes |= !plan.sockets.is_empty() || subjects.pins() != self.store.compiled.subjects.pins();
        Ok(plan)
    }

    fn application_changes(&self, after: &Compiled) -> Vec<ApplicationChange> {
        let before = &self.store.compiled;
        let names: BTreeSet<&str> =
            before.applications.iter().chain(&after.applications).map(|app| app.name.as_str()).collect();
        fn named(compiled: &Compiled) -> HashMap<&str, &policy::Application> {
            compiled.applications.iter().rev().map(|app| (app.name.as_str(), app)).collect()
        }
        let (had, has) = (named(before), named(after));
        let nobody = Arc::default();
        let mut out = Vec::new();
        for name in names {
            let (old, new) = (had.get(name).copied(), has.get(name).copied());
            let change = match (&old, &new) {
                (Some(_), Some(_)) => Change::Changed,
                (None, _) => Change::Added,
                (_, None) => Change::Removed,
            };
            let policy = |compiled: &Compiled, app: Option<&policy::Application>| -> Arc<AppPolicy> {
                Arc::clone(app.and_then(|app| compiled.spd.shared(app.id)).unwrap_or(&nobody))
            };
            let (was, is) = (policy(before, old), policy(after, new));
            if change == Change::Changed && (Arc::ptr_eq(&was, &is) || is_same(&was, &is)) {
                continue;
            }
            let statements = |app: Option<&policy::Application>| {
                app.iter().flat_map(|app| &app.limits).map(|limit| limit.text.clone()).collect()
            };
            let limits = (was.clear_limits() != is.clear_limits()
                || was.accept_limits() != is.accept_limits())
            .then(|| LimitChange { before: statements(old), after: statements(new) });
            out.push(ApplicationChange {
                limits,
                before: old.map(|app| block_position(before, app)),
                after: new.map(|app| block_position(after, app)),
                ..compared(name, change, (before, &was), (after, &is))
            });
        }
        let (was, is) = (&before.spd.guard, &after.spd.guard);
        if !is_same(was, is) {
            let change = match (was.networks().is_empty(), is.networks().is_empty()) {
                (true, _) => Change::Added,
                (_, true) => Change::Removed,
                _ => Change::Changed,
            };
            out.push(compared(policy::GUARD, change, (before, was), (after, is)));
        }
        out
    }

    fn socket_changes(
        &self,
        candidate: &Candidate,
        (mut owners, monitor): (Owners<'_>, &Monitor),
        sockets: &[SocketInfo],
        plan: &mut PolicyPlan,
    ) {
        let (before, after) = (&self.store.compiled, &candidate.compiled);
        let changed: HashSet<&str> = plan.applications.iter().map(|a| a.application.as_str()).collect();
        let mut seen = HashSet::new();
        let name = |compiled: &Compiled, app: AppId| match compiled.application(app) {
            Some(app) => Some(app.name.clone()),
            None => (app != AppId::NONE).then(|| self.store.app_name(app)),
        };
        let (mut found, mut more, mut servers) = (Vec::new(), 0, 0);
        for socket in sockets.iter().filter(|socket| seen.insert((socket.pid, socket.inode))) {
            let becomes = match after.spd.get(socket.app) {
                Some(_) => socket.app,
                None => owners.of(&**monitor.get(), socket),
            };
            let Some(flow) = socket.flow() else {
                let named = [name(before, socket.app), name(after, becomes)];
                servers += usize::from(named.iter().flatten().any(|name| changed.contains(name.as_str())));
                continue;
            };
            let (was, is) = (before.spd.decide(socket.app, &flow), after.spd.decide(becomes, &flow));
            let scrubbed = (before.scrubbed(socket.app, &flow), after.scrubbed(becomes, &flow));
            let profiles = (scrubbed.0.map(|by| by.profile), scrubbed.1.map(|by| by.profile));
            if !policy::differ((was.action, was.terms), (is.action, is.terms)) && profiles.0 == profiles.1 {
                continue;
            }
            if found.len() == SOCKETS {
                more += 1;
                continue;
            }
            let (application, then) = (name(before, socket.app), name(after, becomes));
            found.push(SocketChange {
                pid: socket.pid,
                comm: socket.comm.clone(),
                fd: socket.fd,
                becomes: then.filter(|then| Some(then) != application.as_ref()),
                application,
                flow: flow_info(&flow),
                before: said_of_flow(before, socket.app, &was, scrubbed.0),
                after: said_of_flow(after, becomes, &is, scrubbed.1),
            });
        }
        (plan.sockets, plan.more_sockets, plan.servers) = (found, more, servers);
    }
}

/// Where two policies of one name differ.
fn compared(
    name: &str,
    change: Change,
    before: (&Compiled, &AppPolicy),
    after: (&Compiled, &AppPolicy),
) -> ApplicationChange {
    let differences = policy::differences(before.1, after.1);
    let told = differences.iter().take(PEERS);
    ApplicationChange {
        application: name.to_owned(),
        change,
        before: None,
        after: None,
        peers: told.map(|difference| peers(difference, before.0, after.0)).collect(),
        more_peers: differences.len().saturating_sub(PEERS),
        limits: None,
    }
}

fn flow_info(flow: &Flow) -> FlowInfo {
    let at = |address, port| Some(std::net::SocketAddr::new(address, port).to_string());
    FlowInfo {
        protocol: protocol_word(flow.protocol),
        local: at(flow.local, flow.local_port),
        remote: at(flow.remote, flow.remote_port),
    }
}

fn peers(difference: &Difference, before: &Compiled, after: &Compiled) -> PeersChange {
    let network = |compiled, side: policy::Side| rule_position(compiled, side.network);
    let flow = |fares: &policy::FlowDifference| FlowChange {
        protocol: fares.protocol.map_or_else(|| "any".to_owned(), protocol_word),
        local_ports: ports(fares.local),
        remote_ports: ports(fares.remote),
        before: said_in(before, &fares.before, difference.before.network),
        after: said_in(after, &fares.after, difference.after.network),
    };
    PeersChange {
        peers: difference.peers(),
        before: network(before, difference.before),
        after: network(after, difference.after),
        flows: difference.flows.iter().map(flow).collect(),
    }
}

fn ports(range: PortRange) -> String {
    match (range.first, range.last) {
        (0, u16::MAX) => "any".to_owned(),
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    }
}

/// The item's line, else the network's.
fn said_in(compiled: &Compiled, demand: &(Action, Terms, RuleId), network: RuleId) -> PolicyAnswer {
    let rule = if demand.2 == RuleId::NONE { network } else { demand.2 };
    said(compiled, demand.0, &demand.1, rule)
}

/// What is said of a flow: where it is scrubbed for another application's sake, that is said instead of what its own
/// item says.
fn said_of_flow(
    compiled: &Compiled,
    app: AppId,
    decision: &Decision,
    scrubbed: Option<Scrubbed>,
) -> PolicyAnswer {
    let Some(by) = scrubbed.filter(|by| by.app != app) else {
        return said(compiled, decision.action, &decision.terms, decision.rule());
    };
    let terms = decision.terms.scrubbed(ScrubId::NONE);
    let mut said = said(compiled, decision.action, &terms, decision.rule());
    let other = compiled.application(by.app).map_or("another application", |app| app.name.as_str());
    said.verdict.push_str(&format!(" scrub {} for {other}", by.profile.name()));
    said
}

/// A verdict in words.
fn said(compiled: &Compiled, action: Action, terms: &Terms, rule: RuleId) -> PolicyAnswer {
    let verdict = match action {
        Action::Bypass => "clear".to_owned(),
        Action::Discard => "refused".to_owned(),
        Action::Protect { services, level } => {
            let service = if services.encrypts() { "encryption" } else { "authentication" };
            let mut text = format!("{service} {}", level_word(level));
            let usual = Terms::of(level);
            // Without `..`, so that a new term does not compile until a plan names it.
            let Terms { suite, negotiating, failure, scrub, class: _ } = *terms;
            if let Some(suite) = suite {
                text.push_str(&format!(" suite {suite}"));
            }
            if negotiating != usual.negotiating {
                text.push_str(&format!(" while-negotiating {}", negotiating_word(negotiating)));
            }
            if failure != usual.failure {
                text.push_str(&format!(" on-failure {}", failure_word(failure)));
            }
            // The item has the name of the class, which the terms have by number alone.
            if let Some(class) = compiled.class(rule) {
                text.push_str(&format!(" class {class}"));
            }
            if let Some(profile) = Profile::of_id(scrub) {
                text.push_str(&format!(" scrub {}", profile.name()));
            }
            text
        }
    };
    let line: Option<Position> = rule_position(compiled, rule);
    PolicyAnswer { verdict, line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_that_is_scrubbed_for_another_application_says_so() {
        let text = "application a { network 192.0.2.0/24 protected P; protection P { encryption require scrub minimal; } }
                    application b { network 192.0.2.0/24 protected P;
                      protection P { remoteport=443 encryption require scrub strict; encryption require; } }
                    application c { network 192.0.2.0/24 protected P; protection P { encryption prefer; } }
                    application d { network 192.0.2.0/24 trusted; }";
        let compiled = policy::compile(&policy::parse("p", text), &mut policy::AppTable::new(), 1);
        let verdict = |name: &str, to: &str| {
            let app = compiled.find(name).unwrap().id;
            let flow = to.parse::<policy::Target>().unwrap().flow(None, 40_000);
            let scrubbed = compiled.scrubbed(app, &flow);
            said_of_flow(&compiled, app, &compiled.spd.decide(app, &flow), scrubbed).verdict
        };
        for (name, port, want) in [
            ("a", 443, "encryption mandatory scrub strict for b"),
            ("a", 80, "encryption mandatory scrub minimal"),
            ("b", 443, "encryption mandatory scrub strict"),
            ("b", 80, "encryption mandatory scrub minimal for a"),
            ("c", 443, "encryption optional scrub strict for b"),
            ("d", 443, "clear"),
        ] {
            assert_eq!(verdict(name, &format!("192.0.2.1:{port}/tcp")), want, "{name} {port}");
        }
    }
}
