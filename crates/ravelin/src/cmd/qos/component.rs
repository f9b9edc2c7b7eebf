//! `ravelin qos component check`: whether a library with a component keeps the rules, and what it does with packets.

use std::path::PathBuf;

use api::{QosComponentCheck, QosComponentChecked, QosComponentState, QosComponentTrial};
use cipher_loader::shared::SharedLibrary;
use cipher_loader::{Trial, Trust};
use cipher_manifest::Digest;
use clap::{Args, Subcommand};
use config::ComponentConfig;
use qos::behaviour::foreign::Library;
use qos::graph::quantity;
use qos_loader::LoadError;
use qos_loader::abi::SYMBOL;
use qos_loader::trial::{self, Order, Tried};

use crate::exit::{Failure, Kind};
use crate::output;

/// Libraries with components for graphs of classes.
#[derive(Debug, Subcommand)]
pub enum Component {
    Check(Check),
}

/// Check a library: its file, its description, and what it answers to random metadata of packets, in a process of its own
/// under a filter of system calls.
///
/// The check finds mistakes, and it is no border against an author who means harm: a library that is loaded is code of
/// the daemon. Whoever calls answers for the file; whether a daemon would load it where it lies is told beside.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ravelin qos component check quota.so --parameters 'packets=100 window=1000'
  ravelin qos component check /usr/lib/ravelin/quota.so --sha256 DIGEST --ports 1 --json

The exit status is 1 if a check fails.")]
pub struct Check {
    /// The path of the shared library.
    file: PathBuf,
    /// The text that a graph gives the component.
    #[arg(long, value_name = "TEXT", default_value = "")]
    parameters: String,
    /// The ports that a graph gives the component.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=16))]
    ports: u32,
    /// The digest that the library must have.
    #[arg(long, value_name = "DIGEST")]
    sha256: Option<Digest>,
    /// The processor time that a call may take for each of its packets: 10us, 1ms.
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = time)]
    budget: u64,
    /// The packets that it judges.
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    packets: u32,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

fn time(text: &str) -> Result<u64, String> {
    quantity::time(text).ok_or_else(|| "write a time: 10us, 1ms".to_owned())
}

impl Component {
    pub(super) fn execute(self) -> anyhow::Result<()> {
        match self {
            Component::Check(check) => check.execute(),
        }
    }
}

impl Check {
    fn execute(self) -> anyhow::Result<()> {
        let json = self.json;
        let report = self.report();
        if json {
            output::json(&report)?;
        } else {
            output::text(&text(&report))?;
        }
        if report.ok { Ok(()) } else { Err(Failure::silent(Kind::Failed)) }
    }

    fn report(self) -> QosComponentChecked {
        let mut report =
            QosComponentChecked { file: self.file.display().to_string(), ..QosComponentChecked::default() };
        let note = |report: &mut QosComponentChecked, name: &str, outcome: Result<String, String>| {
            let ok = outcome.is_ok();
            let detail = outcome.unwrap_or_else(|why| why);
            report.checks.push(QosComponentCheck { name: name.to_owned(), ok, detail });
        };
        let library = match SharedLibrary::examine(&self.file, self.sha256, Trust::Caller, SYMBOL) {
            Ok(library) => library,
            Err(error) => {
                note(&mut report, "file", Err(format!("{error}; {}", error.remedy())));
                return report;
            }
        };
        let digest = library.digest();
        report.sha256 = Some(digest.to_string());
        note(&mut report, "file", Ok(format!("a shared library that exports {}", SYMBOL.to_string_lossy())));
        let installed = std::path::absolute(&self.file).unwrap_or_else(|_| self.file.clone());
        if let Err(error) = SharedLibrary::examine(&installed, Some(digest), Trust::Root, SYMBOL) {
            report.not_installed = Some(format!("{error}; {}", error.remedy()));
        }
        let order = Order {
            parameters: self.parameters,
            ports: self.ports,
            budget_ns: self.budget,
            packets: self.packets,
            may_refuse: false,
        };
        match trial::run(&Trial::own([trial::COMMAND]), &library, &order) {
            Ok(tried) => {
                let Tried {
                    name, version, packets, passed, marked, dropped, moved, mean_ns, longest_ns, ..
                } = tried;
                note(&mut report, "trial", Ok(format!("{packets} packets of random metadata were judged")));
                (report.name, report.version) = (Some(name), Some(version));
                report.trial =
                    Some(QosComponentTrial { packets, passed, marked, dropped, moved, mean_ns, longest_ns });
                report.ok = true;
            }
            Err(why) => {
                let error = LoadError::Trial { path: self.file, why };
                note(&mut report, "trial", Err(error.to_string()));
            }
        }
        report
    }
}

fn text(report: &QosComponentChecked) -> String {
    let word = |ok| if ok { "ok" } else { "FAILED" }.to_owned();
    let row = |check: &QosComponentCheck| vec![check.name.clone(), word(check.ok), check.detail.clone()];
    let rows: Vec<_> = report.checks.iter().map(row).collect();
    let mut out = output::table(&["CHECK", "VERDICT", "DETAIL"], &rows);
    if let (Some(trial), Some(name), Some(version)) = (&report.trial, &report.name, &report.version) {
        out += &format!(
            "\n{name} {version}: {} passed, {} marked, {} dropped, {} sent to a port; {} ns a packet, the longest call {} ns\n",
            trial.passed, trial.marked, trial.dropped, trial.moved, trial.mean_ns, trial.longest_ns
        );
    }
    if let Some(digest) = &report.sha256 {
        out += &format!("sha256 = \"{digest}\"\n");
    }
    if let Some(why) = &report.not_installed {
        out += &format!("a daemon would not load it where it lies: {why}\n");
    }
    out
}

/// What the components from outside have done in one direction, for `ravelin qos show`.
pub(super) fn table(components: &[QosComponentState]) -> String {
    if components.is_empty() {
        return String::new();
    }
    let row = |of: &QosComponentState| {
        let state = match &of.detached {
            None => "attached".to_owned(),
            Some(why) => format!("DETACHED, packets {}: {why}", of.on_fault),
        };
        vec![
            of.hook.clone(),
            of.library.clone(),
            of.packets.to_string(),
            of.dropped.to_string(),
            of.unjudged.to_string(),
            state,
        ]
    };
    let rows: Vec<_> = components.iter().map(row).collect();
    format!("\n{}", output::table(&["HOOK", "COMPONENT", "JUDGED", "DROPPED", "UNJUDGED", "STATE"], &rows))
}

/// A library that the configuration names, loaded into this process.
pub(super) fn loaded(component: &ComponentConfig) -> anyhow::Result<Library> {
    let ComponentConfig { name, path, sha256 } = component;
    qos_loader::load_named(name, path, *sha256).map_err(|error| {
        Failure::with_remedy(Kind::BadInput, format!("the component {name:?}: {error}"), error.remedy())
    })
}
