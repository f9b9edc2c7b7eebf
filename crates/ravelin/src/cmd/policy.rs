//! `ravelin policy check|explain|fmt` are pure: no root, no daemon. `reload`, `names` and what is in `change.rs` ask one; `lsp` does if one runs.

mod change;
mod digest;
mod names;
mod suggest;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use api::{
    Finding, FlowInfo, Place, PolicyCheck, PolicyExplanation, PolicyReload, PolicyTests, Position, Related,
    path,
};
use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use documents::qos_plan;
use host_files::HostFiles;
use policy::{AppTable, Host, Parsed, Process, ProgramFile, RunningProgram, Target, counted};
use qos::graph::Aggregates;

use crypto::Suites;

use crate::catalogue::Catalogue;
use crate::client::Connect;
use crate::color;
use crate::complete;
use crate::exit::{Failure, Kind};
use crate::lsp::Lsp;
use crate::output;

/// Applications that a line names.
const NAMED: usize = 10;

/// Look at policy files, or let the daemon read its own again.
#[derive(Debug, Subcommand)]
pub enum Policy {
    Check(Check),
    Explain(Explain),
    Fmt(Fmt),
    Lsp(Lsp),
    Reload(Reload),
    Plan(change::Plan),
    Apply(change::Apply),
    Confirm(change::Confirm),
    Rollback(change::Rollback),
    Names(names::List),
    Suggest(suggest::Suggest),
    Digest(digest::Print),
}

/// Check a policy; exit status 2 if it has errors, or if the graph of classes has that a named configuration names.
#[derive(Debug, Args)]
pub struct Check {
    /// The policy (`-`: standard input).
    file: PathBuf,
    #[command(flatten)]
    catalogue: Catalogue,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

/// Say what a program's flow gets, and which lines say so.
#[derive(Debug, Args)]
pub struct Explain {
    /// The policy (`-`: standard input).
    file: PathBuf,
    #[command(flatten)]
    catalogue: Catalogue,
    /// The program: a name, a path or `anonymous`.
    #[arg(long, value_name = "PROGRAM", add = ArgValueCandidates::new(complete::applications))]
    app: String,
    /// A program that started it, directly or through others (may be given several times).
    #[arg(long, value_name = "PROGRAM")]
    parent: Vec<String>,
    /// The control group it runs in.
    #[arg(long, value_name = "PATH", conflicts_with = "unit")]
    cgroup: Option<String>,
    /// The systemd unit it runs in.
    #[arg(long, value_name = "UNIT")]
    unit: Option<String>,
    /// The user it runs as: a name or a number.
    #[arg(long, value_name = "USER")]
    uid: Option<String>,
    /// The peer: 192.0.2.1:443/tcp, [2001:db8::1]:53/udp, 192.0.2.1/icmp.
    #[arg(long, value_name = "ADDRESS:PORT/PROTOCOL")]
    to: Target,
    /// An address of a host name in the policy: nothing is asked for here (may be given several times).
    #[arg(long, value_name = "NAME=ADDRESS", value_parser = names::known)]
    name: Vec<(String, std::net::IpAddr)>,
    /// This host's port, where it is known.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    from_port: u16,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

/// Rewrite a policy in the usual form. Comments stay.
#[derive(Debug, Args)]
pub struct Fmt {
    /// The policy (`-`: standard input, to standard output).
    file: PathBuf,
    #[command(flatten)]
    catalogue: Catalogue,
    /// Change nothing; exit status 1 if it is not in the usual form.
    #[arg(long)]
    check: bool,
    /// Write to standard output instead of the file.
    #[arg(long, conflicts_with = "check")]
    stdout: bool,
}

/// Let the daemon read its policy file again. Broken blocks keep their last good version.
#[derive(Debug, Args)]
pub struct Reload {
    #[command(flatten)]
    connect: Connect,
    /// Take a policy that names no application any more: everything goes out in clear then.
    #[arg(long)]
    allow_empty: bool,
    /// Take subjects that no program of this host matches: of programs that come later.
    #[arg(long)]
    allow_missing: bool,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

impl Policy {
    pub fn execute(self) -> anyhow::Result<()> {
        match self {
            Policy::Check(check) => check.execute(),
            Policy::Explain(explain) => explain.execute(),
            Policy::Fmt(fmt) => fmt.execute(),
            Policy::Lsp(lsp) => lsp.execute(),
            Policy::Reload(reload) => reload.execute(),
            Policy::Plan(plan) => plan.execute(),
            Policy::Apply(apply) => apply.execute(),
            Policy::Confirm(confirm) => confirm.execute(),
            Policy::Rollback(rollback) => rollback.execute(),
            Policy::Names(names) => names.execute(),
            Policy::Suggest(suggest) => suggest.execute(),
            Policy::Digest(digest) => digest.execute(),
        }
    }
}

/// The octets of a policy file and the name it has in messages.
fn read(file: &Path) -> anyhow::Result<(String, Vec<u8>)> {
    if file == Path::new("-") {
        let mut octets = Vec::new();
        std::io::stdin().lock().take(policy::MAX_TEXT as u64 + 1).read_to_end(&mut octets)?;
        return Ok(("<stdin>".to_owned(), octets));
    }
    let octets =
        fs::read(file).map_err(|error| Failure::bad_input(format!("{}: {error}", file.display())))?;
    Ok((file.display().to_string(), octets))
}

fn parse(file: &Path, catalogue: &Catalogue) -> anyhow::Result<Parsed> {
    let (name, octets) = read(file)?;
    Ok(policy::parse_bytes_for(&name, &octets, &catalogue.host()?))
}

impl Check {
    fn execute(self) -> anyhow::Result<()> {
        let parsed = parse(&self.file, &self.catalogue)?;
        let graph = self.catalogue.broken_graph()?;
        let compiled = policy::compile(&parsed, &mut AppTable::new(), 1);
        let of_graph = graph.as_deref().map(|graph| qos_plan::broken(graph).findings).unwrap_or_default();
        let place = |at: policy::Position| Place { line: at.line, column: at.column };
        let related = |r: &policy::Related| Related { message: r.message.clone(), at: place(r.at) };
        let finding = |d: &policy::Diagnostic| Finding {
            code: d.code.to_string(),
            severity: d.severity.to_string(),
            at: Position { file: d.file.clone(), line: d.line, column: Some(d.column), text: String::new() },
            message: d.message.clone(),
            end: place(d.end),
            remedy: (!d.help.is_empty()).then(|| d.help.clone()),
            related: d.related.iter().map(related).collect(),
        };
        let report = PolicyCheck {
            ok: !parsed.has_errors() && graph.is_none(),
            file: parsed.file.clone(),
            applications: compiled.applications.iter().map(|app| app.name.clone()).collect(),
            findings: of_graph.into_iter().chain(parsed.diagnostics.iter().map(finding)).collect(),
            tests: (!parsed.tests.is_empty()).then_some(PolicyTests {
                passed: parsed.tested.passed,
                failed: parsed.tested.failed,
                skipped: parsed.tested.skipped,
            }),
            pins: host_files::on_this_host(compiled.subjects.pins()),
        };
        if self.json {
            output::json(&report)?;
        } else {
            if let Some(graph) = &graph {
                eprintln!(
                    "{graph}\nravelin: no class that the policy names is known until the graph is mended"
                );
            }
            eprint!("{}", parsed.render(color::on_stderr()));
            eprint!("{}", digest::warnings(&report.pins));
            output::text(&summary(&report, &parsed))?;
        }
        if report.ok { Ok(()) } else { Err(Failure::silent(Kind::BadInput)) }
    }
}

fn summary(report: &PolicyCheck, parsed: &Parsed) -> String {
    let count = |severity: policy::Severity, word: &str| {
        counted(parsed.diagnostics.iter().filter(|d| d.severity == severity).count(), word)
    };
    let mut out = format!(
        "{}: {} ({}), {}, {}, {}\n",
        report.file,
        counted(report.applications.len(), "application"),
        some(&report.applications),
        count(policy::Severity::Error, "error"),
        count(policy::Severity::Warning, "warning"),
        count(policy::Severity::Note, "note")
    );
    if let Some(tests) = report.tests {
        let all = tests.passed + tests.failed + tests.skipped;
        out.push_str(&format!("{}: {} of {all} expectations came true", report.file, tests.passed));
        if tests.skipped > 0 {
            out.push_str(&format!(", {} not asked: their block has errors", tests.skipped));
        }
        out.push('\n');
    }
    out
}

/// Names of a list as long as a line; [`PolicyCheck`] has all of them.
fn some(names: &[String]) -> String {
    match names.get(..NAMED).filter(|_| names.len() > NAMED) {
        Some(first) => format!("{} and {} more; --json has all", first.join(", "), names.len() - NAMED),
        None => names.join(", "),
    }
}

impl Explain {
    /// The process asked about, if more than its program is said.
    fn process(&self) -> anyhow::Result<Option<Process>> {
        let host = HostFiles::here(&Suites::standard(), &Aggregates::without_graph());
        if self.parent.is_empty() && self.cgroup.is_none() && self.unit.is_none() && self.uid.is_none() {
            return Ok(None);
        }
        let unknown =
            |name: &str| Failure::bad_input(format!("no user is called {name:?}; write the number"));
        let user = |name: &String| name.parse().ok().or_else(|| host.user(name)).ok_or_else(|| unknown(name));
        let unit =
            self.unit.as_ref().map(|unit| policy::control_group(unit, host.unit_file(unit).as_deref()));
        Ok(Some(Process {
            program: match self.app.as_str() {
                "anonymous" => RunningProgram::Anonymous,
                program => RunningProgram::Program(program.to_owned()),
            },
            ancestors: self.parent.clone(),
            group: self.cgroup.clone().or(unit),
            user: self.uid.as_ref().map(user).transpose()?,
        }))
    }

    /// What the program asked about is on this host, if no process has it as its executable.
    fn on_this_host(&self) -> Option<String> {
        let host = HostFiles::here(&Suites::standard(), &Aggregates::without_graph());
        let near = || host.near_program(&self.app);
        match host.program(&self.app) {
            _ if self.app == "anonymous" => None,
            ProgramFile::Executable | ProgramFile::NotKnown => None,
            ProgramFile::Missing => {
                let near = near().map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                Some(format!("no executable {} is on this host{near}", self.app))
            }
            ProgramFile::Script { path, interpreter } => {
                let near =
                    near().map(|near| format!(": ask for {near}, which it starts")).unwrap_or_default();
                Some(format!("{path} is a script here, so that its processes execute {interpreter}{near}"))
            }
        }
    }

    fn execute(self) -> anyhow::Result<()> {
        let parsed = parse(&self.file, &self.catalogue)?;
        let mut compiled = policy::compile(&parsed, &mut AppTable::new(), 1);
        let mut known = policy::Names::default();
        for (name, addr) in &self.name {
            known.insert(name, *addr, policy::Source::Resolver);
        }
        compiled.resolve(&known);
        let flow = self.to.flow(None, self.from_port);
        let mut explanation = match self.process()? {
            Some(process) => policy::explain_process(&compiled, &process, &flow),
            None => policy::explain(&compiled, &self.app, &flow),
        };
        explanation.notes.extend(self.on_this_host());
        if explanation.verdict == policy::Verdict::Protect
            && explanation.class.is_none()
            && let Some(graph) = self.catalogue.graph()
        {
            let unless = "the item names no class: unless an association does";
            explanation.why.push(documents::decision::class_by_graph(&graph.description, unless));
        }
        if parsed.has_errors() {
            eprint!("{}", parsed.render(color::on_stderr()));
        }
        let pins = match compiled.find(&self.app) {
            Some(app) => host_files::on_this_host(&app.pins),
            None => Vec::new(),
        };
        if self.json {
            let at = |address, port| std::net::SocketAddr::new(address, port).to_string();
            output::json(&PolicyExplanation {
                application: self.app,
                flow: FlowInfo {
                    protocol: documents::associations::protocol_word(flow.protocol),
                    local: (self.from_port != 0).then(|| at(flow.local, self.from_port)),
                    remote: Some(at(flow.remote, flow.remote_port)),
                },
                decision: documents::decision::decision(&explanation),
                pins,
            })?;
        } else {
            output::text(&format!("{explanation}{}", digest::lines(&pins)))?;
        }
        // The answer holds for the sound blocks; a script must still hear of the broken ones.
        if parsed.has_errors() { Err(Failure::silent(Kind::BadInput)) } else { Ok(()) }
    }
}

impl Fmt {
    fn execute(self) -> anyhow::Result<()> {
        let (name, octets) = read(&self.file)?;
        let parsed = policy::parse_bytes_for(&name, &octets, &self.catalogue.host()?);
        if parsed.has_errors() {
            eprint!("{}", parsed.render(color::on_stderr()));
        }
        // Of octets that are not text, or too many, there is no whole text.
        if parsed.text.as_bytes() != octets {
            return Err(Failure::bad_input(format!("{name} has errors and was left as it is")));
        }
        let formatted = policy::format(&parsed.text);
        let same = formatted.as_bytes() == octets;
        self.write(&name, &formatted, same)?;
        if parsed.has_errors() {
            return Err(Failure::bad_input(format!("{name} has errors: broken statements stay as they are")));
        }
        Ok(())
    }

    fn write(&self, name: &str, formatted: &str, same: bool) -> anyhow::Result<()> {
        if self.check {
            let text = format!("{name} is not in the usual form; `ravelin policy fmt {name}` rewrites it");
            return if same { Ok(()) } else { Err(Failure::of(Kind::Failed, text)) };
        }
        if self.stdout || self.file == Path::new("-") {
            return output::text(formatted);
        }
        if same { Ok(()) } else { replace(&self.file, formatted) }
    }
}

/// Subjects that no program of this host matches, for people.
fn missing(programs: &[api::MissingProgram]) -> String {
    let line = |one: &api::MissingProgram| {
        format!("warning[{}]: {}: {}\n  {}\n", one.code, one.at, one.message, one.remedy)
    };
    programs.iter().map(line).collect()
}

/// Exchange the content of a file in one step; its permissions stay.
fn replace(file: &Path, text: &str) -> anyhow::Result<()> {
    // A link stays a link.
    let file = fs::canonicalize(file)?;
    let mut aside = file.clone().into_os_string();
    aside.push(".new");
    let written = fs::File::create(&aside)
        .and_then(|mut new| new.write_all(text.as_bytes()).and_then(|()| new.sync_all()))
        .and_then(|()| fs::set_permissions(&aside, fs::metadata(&file)?.permissions()))
        .and_then(|()| fs::rename(&aside, &file));
    written.inspect_err(|_| drop(fs::remove_file(&aside)))?;
    Ok(())
}

impl Reload {
    fn execute(self) -> anyhow::Result<()> {
        let path = format!(
            "{}?allow_empty={}&allow_missing={}",
            path::POLICY_RELOAD,
            self.allow_empty,
            self.allow_missing
        );
        let answer: PolicyReload = self.connect.post(&path, &serde_json::json!({}))?;
        if self.json {
            output::json(&answer)?;
        } else {
            eprint!("{}{}", answer.diagnostics, missing(&answer.missing));
            output::text(&format!(
                "generation {} is in force, {}, {} of them changed\n",
                answer.generation,
                counted(answer.applications, "application"),
                answer.changed.len()
            ))?;
            if let Some(did) = &answer.kernel {
                output::text(&format!(
                    "{} tables with {} networks; {} tables with {} networks were written, {} removed\n",
                    did.tables, did.networks, did.tables_written, did.networks_written, did.tables_removed
                ))?;
            }
        }
        for note in answer.notes.iter().filter(|_| !self.json) {
            eprintln!("ravelin: {note}");
        }
        for application in &answer.lost {
            eprintln!("ravelin: {application} has no policy any more: its traffic is in clear");
        }
        for block in &answer.refused_blocks {
            let kept = if block.kept_last_good { "keeps its last good version" } else { "has no policy" };
            eprintln!("ravelin: {}: the block of {} is broken: it {kept}", block.at, block.application);
        }
        if answer.refused_blocks.is_empty() { Ok(()) } else { Err(Failure::silent(Kind::BadInput)) }
    }
}
