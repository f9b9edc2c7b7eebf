//! Explanations of why a flow gets what it gets: the block, the lines and the verdict, from the tables that the data
//! path itself asks.

use std::fmt;

use sadb::spd::{Action, Class, Decision, DecisionReason, Failure, Level, Negotiating, RuleId, Terms};
use serde::{Deserialize, Serialize};
use wire::{AppId, Flow};

use crate::ast::{failure_word, level_word, negotiating_word};
use crate::compiled::{Application, LimitLine, Reason};
use crate::names::Source;
use crate::scrubbed::{self, Scrubbed};
use crate::sources::RuleKind;
use crate::subjects::{Process, RunningProgram};
use crate::{Compiled, STANDARD_DIRECTORIES};

/// Sentences about statements, also for [`mod@crate::meaning`].
pub(crate) mod sentences {
    use crate::ast::Limited;

    pub const TRUSTED: &str = "the network is trusted: its traffic passes in clear";
    pub const OBSERVED: &str =
        "the network is observed: its traffic passes in clear, and what would become of it is counted";
    pub const UNTRUSTED: &str = "the network is untrusted: its traffic is refused";
    pub fn class(name: &str) -> String {
        format!(
            "class {name}: the graph says how long its packets may wait, and before which others they leave"
        )
    }
    pub const NO_ITEM: &str = "what no item matches is refused, since clear would be a guess";
    pub const fn limit(limited: Limited) -> &'static str {
        match limited {
            Limited::Clear => {
                "all that its sockets send in clear together is held to that, and what is more is dropped"
            }
            Limited::Accept => {
                "what its sockets accept in clear of each source (an IPv4 address, an IPv6 /64) is held to that, and \
                 what is more is dropped"
            }
        }
    }
    pub const AUTHENTICATION: &str = "`authentication` demands no secrecy: AH or ESP with NULL encryption serves it, \
                                      and where there is none an association that also encrypts";
}

/// A line of the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleRef {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The statement on one line.
    pub text: String,
}

/// The application block that speaks for a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatchedBlock {
    /// The name or path in the block's header that matched.
    pub name: String,
    /// The number of the application.
    pub id: u16,
    /// The line of that name, counted from 1.
    pub line: usize,
    /// The header of the block. Of several subjects, it has the one that matched and how many more there are.
    pub text: String,
}

/// The verdict of the policy on a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The flow passes in clear.
    Bypass,
    /// The flow is refused.
    Discard,
    /// The flow is protected.
    Protect,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Bypass => "bypass",
            Verdict::Discard => "discard",
            Verdict::Protect => "protect",
        })
    }
}

/// The profile by which a flow is scrubbed, and the item that says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubbedBy {
    /// The name of the profile: `observe`, `minimal`, `standard` or `strict`.
    pub profile: String,
    /// The application whose item says so; it is not always the one asked about.
    pub application: String,
    /// The item that says so.
    pub item: Option<RuleRef>,
}

/// The answer to "what does this program's flow get, and why".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The name of the policy file.
    pub file: String,
    /// The program that was asked about.
    pub program: String,
    /// The flow that was asked about.
    pub flow: String,
    /// The verdict on the flow.
    pub verdict: Verdict,
    /// The service, `encryption` or `authentication`, if the flow is protected.
    pub service: Option<String>,
    /// The level, `mandatory`, `optional` or `accept-only`, if the flow is protected.
    pub level: Option<String>,
    /// The suite that the association must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// What happens to the flow while an association is negotiated, if it asks for one: `hold`, `pass` or `drop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub while_negotiating: Option<String>,
    /// What happens to the flow when there will be no association, if it asks for one: `drop` or `pass`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<String>,
    /// The class of the graph that the packets are in, if the item says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The profile by which the packets are scrubbed where they are protected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrub: Option<ScrubbedBy>,
    /// The block that speaks for the program.
    pub application: Option<MatchedBlock>,
    /// The network setting that decided.
    pub network: Option<RuleRef>,
    /// The name of the protection that the network refers to.
    pub protection: Option<String>,
    /// The item that decided.
    pub item: Option<RuleRef>,
    /// What would become of the flow if its network were not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<String>,
    /// How the answer came about, step by step.
    pub why: Vec<String>,
    /// Further remarks about the decision.
    pub notes: Vec<String>,
}

/// Explains what a flow of `program` (a name, a path, or a subject as the policy has it) gets.
pub fn explain(compiled: &Compiled, program: &str, flow: &Flow) -> Explanation {
    about(compiled, program, compiled.find(program), flow)
}

/// Explains what a flow of a process gets.
pub fn explain_process(compiled: &Compiled, process: &Process, flow: &Flow) -> Explanation {
    let program = match &process.program {
        RunningProgram::Program(program) => program.as_str(),
        RunningProgram::Anonymous => "anonymous",
        RunningProgram::Unnamed => "any program",
    };
    about(compiled, program, compiled.find_process(process), flow)
}

fn about(compiled: &Compiled, program: &str, application: Option<&Application>, flow: &Flow) -> Explanation {
    let mut out = answer(compiled, program, application, flow);
    match application {
        Some(app) if app.name != program && !app.selector.is_plain() => {
            out.why.insert(0, format!("`{}` is the most specific subject that fits `{program}`", app.name));
        }
        Some(app) if app.name != program => {
            let what = format!("`{program}` is an executable of the name `{}`", app.name);
            out.why.insert(0, what);
            let folder = program.rsplit_once('/').map_or("", |p| p.0);
            if !STANDARD_DIRECTORIES.contains(&folder) {
                out.notes.push(format!(
                    "a bare name stands for executables in {}: one in `{folder}` has no policy unless its path is named",
                    STANDARD_DIRECTORIES.join(", ")
                ));
            }
        }
        Some(_) => {}
        None => without_block(compiled, program, &mut out),
    }
    out
}

fn without_block(compiled: &Compiled, program: &str, out: &mut Explanation) {
    if let Some(left) = compiled.left_out.iter().find(|l| l.name == program) {
        out.notes.push(match left.reason {
            Reason::Broken => format!(
                "the block at line {} names it but has errors: it is left out; a running daemon keeps what it had",
                left.line
            ),
            Reason::NoNumber => format!("line {} names it but all application numbers are in use", left.line),
        });
    }
    let path = compiled.applications.iter().find(|a| a.name.rsplit_once('/').is_some_and(|p| p.1 == program));
    if let Some(app) = path {
        out.notes.push(format!("the policy names the path `{}`: ask with the whole path", app.name));
    }
}

pub(crate) fn answer(
    compiled: &Compiled,
    program: &str,
    application: Option<&Application>,
    flow: &Flow,
) -> Explanation {
    let id = application.map_or(AppId::NONE, |a| a.id);
    let decision = compiled.spd.decide(id, flow);
    let reference = |id: RuleId| {
        compiled.rule(id).map(|r| RuleRef { line: r.line, column: r.column, text: r.text.clone() })
    };
    let protection = compiled.rule(decision.network).and_then(|r| match &r.kind {
        RuleKind::Network(protection) => protection.clone(),
        RuleKind::Item(_) => None,
    });
    let (verdict, service, level) = match decision.action {
        Action::Bypass => (Verdict::Bypass, None, None),
        Action::Discard => (Verdict::Discard, None, None),
        Action::Protect { services, level } => {
            let service = if services.encrypts() { "encryption" } else { "authentication" };
            (Verdict::Protect, Some(service.to_string()), Some(level_word(level).to_string()))
        }
    };
    let protect = matches!(decision.action, Action::Protect { .. }).then_some(());
    let accepts = matches!(decision.action, Action::Protect { level: Level::AcceptOnly, .. });
    let asks = protect.filter(|()| !accepts);
    let scrubbed = compiled.scrubbed(id, flow);
    let named = |app: AppId| {
        compiled.application(app).map_or_else(|| format!("application {}", app.0), |a| a.name.clone())
    };
    let mut out = Explanation {
        file: compiled.file.clone(),
        program: program.into(),
        flow: flow.to_string(),
        verdict,
        service,
        level,
        suite: protect.and(decision.terms.suite).map(|suite| suite.to_string()),
        while_negotiating: asks.map(|()| negotiating_word(decision.terms.negotiating).into()),
        on_failure: asks.map(|()| failure_word(decision.terms.failure).into()),
        class: protect.and_then(|()| compiled.class(decision.item)).map(str::to_owned),
        scrub: scrubbed.map(|by| ScrubbedBy {
            profile: by.profile.name().into(),
            application: named(by.app),
            item: reference(by.rule),
        }),
        application: application.map(|a| MatchedBlock {
            name: a.name.clone(),
            id: a.id.0,
            line: a.line,
            text: a.block.clone(),
        }),
        network: reference(decision.network),
        protection,
        item: reference(decision.item),
        observed: compiled.would(id, flow).map(|(_, said)| said),
        why: Vec::new(),
        notes: Vec::new(),
    };
    out.why = why(&out, &decision, flow);
    out.why.extend(out.class.as_deref().map(sentences::class));
    out.why.extend(scrubbed.map(|by| scrubbed_why(&out, id, &by)));
    if let Some(text) = by_name(compiled, &decision, flow) {
        let behind = out.why.len().min(2);
        out.why.insert(behind, text);
    }
    out.notes = notes(compiled, id, &out, &decision, flow);
    out
}

fn why(out: &Explanation, decision: &Decision, flow: &Flow) -> Vec<String> {
    let remote = flow.remote;
    let mut why = Vec::new();
    if let Some(matched) = &out.application {
        why.push(format!("line {}: the block `{}` speaks for it", matched.line, matched.text));
    }
    if let Some(network) = &out.network {
        why.push(format!("line {}: of its networks that cover {remote}, the longest decides", network.line));
    }
    let protection = out.protection.as_deref().unwrap_or("");
    why.push(match decision.why {
        DecisionReason::NoApplication => "no block names it: the host's default is bypass".into(),
        // The entry that keeps IPv4 out of an IPv6 network around it has no rule: no network covers the peer.
        _ if decision.network == RuleId::NONE => {
            format!("no network of the block covers {remote}: the host's default is bypass")
        }
        DecisionReason::NoNetwork => format!("no network of the block covers {remote}: the host's default is bypass"),
        DecisionReason::Trusted if out.observed.is_some() => sentences::OBSERVED.into(),
        DecisionReason::Trusted => sentences::TRUSTED.into(),
        DecisionReason::Untrusted => sentences::UNTRUSTED.into(),
        DecisionReason::Item if decision.action == Action::Bypass => {
            let line = out.item.as_ref().map_or(0, |i| i.line);
            format!("line {line}: of the items of protection `{protection}` it is the first that matches: never protected")
        }
        DecisionReason::Item => {
            let line = out.item.as_ref().map_or(0, |i| i.line);
            format!("line {line}: of the items of protection `{protection}` it is the first that matches the ports")
        }
        DecisionReason::NoItem => {
            format!("no item of protection `{protection}` matches the ports: refused, since clear would be a guess")
        }
    });
    why.extend(out.observed.clone());
    if let Action::Protect { level, .. } = decision.action {
        why.extend(demanded(level, &decision.terms));
    }
    why
}

/// A sentence about the profile by which the flow is scrubbed, and for whose sake if that is another application's.
fn scrubbed_why(out: &Explanation, app: AppId, by: &Scrubbed) -> String {
    let said = match out.level.as_deref() {
        Some("mandatory") => scrubbed::said(by.profile),
        _ => format!("{}, while an association protects it", scrubbed::said(by.profile)),
    };
    if by.app == app {
        return said;
    }
    let other = out.scrub.as_ref();
    let name = other.map_or("", |other| other.application.as_str());
    let line = other.and_then(|other| other.item.as_ref()).map_or(0, |item| item.line);
    let bound = match by.own {
        Some(own) => format!("is scrubbed: {}", own.name()),
        None => "is not scrubbed".into(),
    };
    format!(
        "{said}; line {line} says so for the sake of `{name}`, since whose socket a packet is for is not known on its way in; what comes by \
         an association bound to `{}` {bound}",
        out.program
    )
}

/// Sentences about what a level and the terms beyond it demand.
pub(crate) fn demanded(level: Level, beyond: &Terms) -> Vec<String> {
    let said = match level {
        Level::Optional => {
            "optional: protected where an association exists, and then nothing else is accepted; clear otherwise"
        }
        Level::AcceptOnly => {
            "accept-only: protected where an association exists, and then nothing else is accepted; none is asked for"
        }
        Level::Mandatory => "mandatory: nothing passes unprotected",
    };
    let mut out = vec![said.to_string()];
    out.extend(terms(level, beyond));
    out
}

/// A sentence about the name that the peer's address belongs to, if one decided.
fn by_name(compiled: &Compiled, decision: &Decision, flow: &Flow) -> Option<String> {
    let contested =
        |c: &&crate::ContestedAddress| c.addr == flow.remote && c.rules.contains(&decision.network);
    if let Some(contested) = compiled.named.resolution.contested.iter().find(contested) {
        let lines = contested.rules.map(|rule| compiled.rule(rule).map_or(0, |rule| rule.line));
        return Some(format!(
            "lines {} and {} both speak of {}, and neither is at least as strict as the other: refused",
            lines[0], lines[1], flow.remote
        ));
    }
    let name = compiled.named.host_of(decision.network)?;
    let said = match compiled.named.names.source(name, flow.remote)? {
        Source::Resolver => "the resolver's answer".to_owned(),
        Source::Kept => "an earlier answer of the resolver's, since it gives no better one".to_owned(),
        Source::Observed => "an answer that an application received".to_owned(),
    };
    Some(format!("by name `{name}`: {} is its address by {said}", flow.remote))
}

/// Sentences about the terms beyond the level.
fn terms(level: Level, terms: &Terms) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(suite) = terms.suite {
        out.push(match level {
            Level::Mandatory => format!("suite {suite}: an association of another suite does not serve"),
            _ => format!(
                "suite {suite}: one of another suite serves only where there is none of it, before clear"
            ),
        });
    }
    let usual = Terms::of(level);
    if terms.negotiating != usual.negotiating {
        out.push(format!(
            "while an association is negotiated, packets {}",
            match terms.negotiating {
                Negotiating::Hold => "wait",
                Negotiating::Pass => "pass in clear",
                Negotiating::Drop => "are dropped",
            }
        ));
    }
    if terms.failure != usual.failure {
        out.push(format!(
            "where there will be none, packets {}",
            match terms.failure {
                Failure::Drop => "are dropped",
                Failure::Pass => "pass in clear",
            }
        ));
    }
    out
}

fn notes(
    compiled: &Compiled,
    app: AppId,
    out: &Explanation,
    decision: &Decision,
    flow: &Flow,
) -> Vec<String> {
    let mut notes = Vec::new();
    if compiled.application(app).is_some_and(|a| a.carried) {
        notes.push(
            "the file has errors: this is the last good version of the block, with the lines it had then"
                .into(),
        );
    }
    if out.verdict == Verdict::Bypass || matches!(out.level.as_deref(), Some("optional" | "accept-only")) {
        let limits = compiled.application(app).map_or(&[][..], |app| &app.limits);
        let said = |limit: &LimitLine| {
            format!("line {}: `{}` {}", limit.line, limit.text, sentences::limit(limit.limited))
        };
        notes.extend(limits.iter().map(said));
    }
    if out.service.as_deref() == Some("authentication") {
        notes.push(sentences::AUTHENTICATION.into());
    }
    let policy = compiled.spd.get(app);
    let items = policy.and_then(|p| match p.network(flow.remote)?.class {
        Class::Protected(index) => p.protections().get(index),
        _ => None,
    });
    let names_local =
        items.is_some_and(|items| items.iter().any(|i| (i.local.first, i.local.last) != (0, u16::MAX)));
    if flow.local_port == 0 && matches!(flow.protocol, 6 | 17) && names_local {
        notes.push("the local port is not known: an item that names one was taken not to match".into());
    }
    if matches!(decision.why, DecisionReason::NoItem | DecisionReason::Item)
        && !matches!(flow.protocol, 6 | 17 | 132 | 136)
        && names_local
    {
        notes.push(
            "this protocol has no ports: use `localport=any remoteport=any`, or leave both out, for it"
                .into(),
        );
    }
    let unresolved: Vec<&str> = compiled.named.unresolved(app).take(4).collect();
    if !unresolved.is_empty() {
        notes.push(format!(
            "no address is known here of {}: it matches nothing, and the next shorter network decides",
            unresolved.join(", ")
        ));
    }
    if flow.remote.is_multicast() {
        notes.push("multicast is outside what the policy protects (paper 000 section 1)".into());
    }
    notes
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.program, self.flow, self.verdict)?;
        if let (Some(service), Some(level)) = (&self.service, &self.level) {
            write!(f, " ({service} {level})")?;
        }
        writeln!(f)?;
        let mut row =
            |what: &str, line: usize, text: &str| writeln!(f, "  {what:<8} {}:{line}: {text}", self.file);
        if let Some(application) = &self.application {
            row("block", application.line, &application.text)?;
        }
        if let Some(network) = &self.network {
            row("network", network.line, &network.text)?;
        }
        if let Some(item) = &self.item {
            row("item", item.line, &item.text)?;
        }
        let other = self.scrub.as_ref().filter(|by| by.item != self.item);
        if let Some(item) = other.and_then(|by| by.item.as_ref()) {
            row("scrub", item.line, &item.text)?;
        }
        for why in &self.why {
            writeln!(f, "  why      {why}")?;
        }
        for note in &self.notes {
            writeln!(f, "  note     {note}")?;
        }
        Ok(())
    }
}
