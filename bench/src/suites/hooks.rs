//! `hooks.connect.ns`: what the hooks add to a connect() of a policed program, against the same program in the same
//! network namespace, but in a cgroup to which nothing is attached, in turns. `hooks.tcp_connection.ns`: run time of all BPF
//! programs of a host for one TCP connection of such a program, as the kernel counts it while its statistics are on; the
//! counting adds two readings of the clock to every run, so this is too much rather than too little. `hooks.load.ms`: from
//! `ravelin policy reload` to its answer, with a policy of 10,000 lines, every one of them changed; `hooks.reload_one.ms`: the same
//! with one of them changed. `hooks.spread.*`: ten thousand applications of a hundred networks ([`crate::spread`]).

use super::FigureFilter;
use crate::figure::{Figure, Report, Target};
use crate::interleave::median;
use crate::process::{Runs, runs_of_programs};
use crate::product;
use crate::spread;
use crate::stage::{Stage, succeeded};
use anyhow::{Context, ensure};
use lab::rig::Rig;
use lab::{Lab, LabOptions, Program, Side, Transport};
use sockmon::Sockmon;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CONNECT: &str = "hooks.connect.ns";
const CONNECTION: &str = "hooks.tcp_connection.ns";
/// The beginning of figures about one program's share of a TCP connection.
const CONNECTION_OF: &str = "hooks.tcp_connection.of.";
const LOAD: &str = "hooks.load.ms";
const RELOAD: &str = "hooks.reload_one.ms";
const RELOAD_UNITS: &str = "hooks.reload_one.tables";
const SPREAD: &str = "hooks.spread.ratio";
const SPREAD_LOAD: &str = "hooks.spread.load.ms";
const SPREAD_RELOAD: &str = "hooks.spread.reload_one.ms";

const ROUNDS: usize = 15;
/// connect() calls of one round, on each side.
const CALLS: usize = 200_000;
/// TCP connections of one round.
const CONNECTIONS: u64 = 500;
/// Applications of the large policy, and networks of each: with their headers 10,000 lines.
const APPLICATIONS: usize = 100;
const NETWORKS: usize = 98;
const PORT: u16 = 7007;
/// A peer that the policy refuses; nobody has this address.
const FORBIDDEN: &str = "198.51.100.77";
const PATIENCE: Duration = Duration::from_secs(120);

struct Hosts {
    rig: Rig,
    /// The policed program: this one.
    program: PathBuf,
}

/// Measure the figures `hooks.*` that `filter` asks for.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let mut figures = FigureFilter { filter, report };
    if [SPREAD, SPREAD_LOAD, SPREAD_RELOAD].into_iter().any(|name| figures.wants(name)) {
        spread_over_all(&mut figures)?;
    }
    let own = [CONNECT, CONNECTION, LOAD, RELOAD, RELOAD_UNITS];
    if !own.into_iter().any(|name| figures.wants(name)) {
        return Ok(());
    }
    let program = product::own()?;
    let networks = format!("network {FORBIDDEN} untrusted;");
    // The daemons are other executables: what is policed here is this one.
    let stage = Stage { name: "hooks", daemon: None, args: &[], program: &program, networks: &networks };
    let hosts = Hosts { rig: stage.build()?, program: program.clone() };
    if figures.wants(CONNECT) {
        figures.push(hosts.connect()?);
    }
    if figures.wants(CONNECTION) {
        hosts.tcp_connection()?.into_iter().for_each(|figure| figures.push(figure));
    }
    // The last ones: their policy is another.
    if figures.wants(LOAD) {
        figures.push(hosts.load()?);
    }
    if figures.wants(RELOAD) || figures.wants(RELOAD_UNITS) {
        hosts.reload_one()?.into_iter().for_each(|figure| figures.push(figure));
    }
    Ok(())
}

/// The numbers behind a word on lines of an output.
fn columns(printed: &str, word: &str) -> anyhow::Result<Vec<[f64; 2]>> {
    let mut out = Vec::new();
    for line in printed.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' ')) {
        let (first, second) =
            line.split_once(' ').with_context(|| format!("`{line}` is no pair of figures"))?;
        out.push([first.parse()?, second.parse()?]);
    }
    ensure!(!out.is_empty(), "no `{word}` in: {printed}");
    Ok(out)
}

fn spread_over_all(figures: &mut FigureFilter<'_>) -> anyhow::Result<()> {
    const INSTANCE: &str = "bench-spread";
    sockmon::detach(INSTANCE).context("removing what a crash left")?;
    let lab = Lab::build(&LabOptions { name: "rvl-bench-spread".into(), segmentation: true })?;
    let folder = folder()?;
    let program = Program::new(product::own()?)
        .args(["spread", INSTANCE])
        .arg(lab.alice().cgroup().path())
        .arg(&folder.0)
        .arg(Side::Bob.v4().to_string());
    let finished = lab.alice().run_program(program, PATIENCE);
    let detached = sockmon::detach(INSTANCE);
    let printed = succeeded("spreading", &finished?)?;
    detached.context("removing the kernel half")?;
    let connects = columns(&printed, "connects")?;
    let ratios: Vec<f64> = connects.iter().map(|[spread, one]| spread / one).collect();
    let mut one: Vec<f64> = connects.iter().map(|[_, one]| *one).collect();
    let (apps, each, one_has) = (spread::APPLICATIONS, spread::NETWORKS, spread::ONE);
    let anchor = format!(
        "{apps} applications of {each} networks; connect() on {one_has} sockets of one of them {:.0} ns, in turns",
        median(&mut one)
    );
    figures.push(Figure::new(SPREAD, "ratio", &ratios, anchor, Target::AtMost(2.0)));
    let [taken, networks] = columns(&printed, "load")?[0];
    let anchor = format!("{networks:.0} networks into empty maps, without text and without daemon");
    figures.push(Figure::new(SPREAD_LOAD, "ms", &[taken], anchor, Target::Recorded));
    let reloads = columns(&printed, "reload")?;
    ensure!(reloads.iter().all(|[_, tables]| *tables == 1.0), "not one table a reload: {printed}");
    let taken: Vec<f64> = reloads.iter().map(|[taken, _]| *taken).collect();
    let anchor = format!("one network of {} is another; one table written", apps * each);
    figures.push(Figure::new(SPREAD_RELOAD, "ms", &taken, anchor, Target::Recorded));
    Ok(())
}

/// A folder for copies of programs, removed at the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn folder() -> anyhow::Result<Folder> {
    let folder = Folder(std::env::temp_dir().join("rvl-bench-spread"));
    let _ = std::fs::remove_dir_all(&folder.0);
    std::fs::create_dir(&folder.0).with_context(|| format!("making {}", folder.0.display()))?;
    Ok(folder)
}

impl Hosts {
    fn connect(&self) -> anyhow::Result<Figure> {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            // Each goes first every other time.
            if round % 2 == 0 {
                with.push(self.inside()?);
                without.push(self.outside()?);
            } else {
                without.push(self.outside()?);
                with.push(self.inside()?);
            }
        }
        let added: Vec<f64> = with.iter().zip(&without).map(|(with, without)| with - without).collect();
        let least = |costs: &[f64]| costs.iter().copied().fold(f64::INFINITY, f64::min);
        // The best round of each side is the one least disturbed by other load.
        let best = least(&with) - least(&without);
        let bare = median(&mut without);
        let anchor = format!(
            "without hooks {bare:.0} ns in turns; best of both sides {best:.0}; {CALLS} UDP calls a round"
        );
        Ok(Figure::new(CONNECT, "ns", &added, anchor, Target::AtMost(600.0)))
    }

    fn arguments() -> [String; 5] {
        let peer = format!("{}:{PORT}", Side::Bob.v4());
        ["load".into(), "connects".into(), peer, format!("{FORBIDDEN}:{PORT}"), CALLS.to_string()]
    }

    /// Nanoseconds of a connect() by the policed program, with the hooks.
    fn inside(&self) -> anyhow::Result<f64> {
        let program = Program::new(&self.program).args(Hosts::arguments());
        let finished = self.rig.lab.alice().run_program(program, PATIENCE)?;
        cost(&succeeded("connecting", &finished)?, "refused")
    }

    /// Nanoseconds of a connect() in alice's namespace, but outside the cgroup that the hooks are attached to.
    fn outside(&self) -> anyhow::Result<f64> {
        let mut command = Command::new(&self.program);
        command.args(Hosts::arguments()).stdin(Stdio::null());
        let output = self.rig.lab.alice().netns().prepare(&mut command, None)?.output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "connecting without hooks: {}: {error}", output.status);
        cost(&String::from_utf8_lossy(&output.stdout), "allowed")
    }

    fn tcp_connection(&self) -> anyhow::Result<Vec<Figure>> {
        let address = format!("{}:{PORT}", Side::Bob.v4());
        let bob = self.rig.lab.bob();
        let mut server = bob.spawn(Program::new(&self.program).args(["load", "serve", &address]))?;
        bob.wait_for_listener(Transport::Tcp, PORT, &mut server, PATIENCE)?;
        self.ask(&address, 20)?;

        let statistics = Sockmon::enable_stats()?;
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let before = (self.runs(Side::Alice)?, self.runs(Side::Bob)?);
            self.ask(&address, CONNECTIONS)?;
            let ours = each_since(&before.0, &self.runs(Side::Alice)?);
            let theirs = each_since(&before.1, &self.runs(Side::Bob)?);
            rounds.push((ours, theirs));
        }
        drop(statistics);
        let sums = |of: &dyn Fn(&Round) -> f64| rounds.iter().map(of).collect::<Vec<f64>>();
        let time = |costs: &Costs| costs.values().map(|cost| cost.nanoseconds).sum();
        let runs = median(&mut sums(&|round| round.0.values().map(|cost| cost.runs).sum()));
        let peer = median(&mut sums(&|round| time(&round.1)));
        ensure!(runs >= 1.0, "no BPF program ran: the connections were not policed");
        let anchor = format!(
            "client's host, {runs:.1} runs, inflated by the kernel's statistics; server's host {peer:.0} ns"
        );
        let whole =
            Figure::new(CONNECTION, "ns", &sums(&|round| time(&round.0)), anchor, Target::AtMost(5000.0));
        let mut out = vec![whole];
        for number in rounds[0].0.keys() {
            let cost = |round: &Round| round.0.get(number).copied().unwrap_or_default();
            let runs = median(&mut sums(&|round| cost(round).runs));
            if runs < 0.5 {
                continue;
            }
            let name = format!("{CONNECTION_OF}{}.ns", Sockmon::program_name(*number)?);
            let times = sums(&|round| cost(round).nanoseconds);
            out.push(Figure::new(
                &name,
                "ns",
                &times,
                format!("{runs:.1} runs a connection"),
                Target::Recorded,
            ));
        }
        Ok(out)
    }

    fn load(&self) -> anyhow::Result<Figure> {
        let mut taken = Vec::new();
        let (mut lines, mut parsing) = (0, Vec::new());
        for round in 0..ROUNDS {
            let text = large(round);
            lines = text.lines().count();
            self.rig.set_policy(Side::Alice, &text)?;
            let start = Instant::now();
            self.rig.ravelin(
                Side::Alice,
                &["policy", "check", &self.rig.policy_file(Side::Alice).display().to_string()],
                "",
            )?;
            parsing.push(start.elapsed().as_secs_f64() * 1e3);
            let start = Instant::now();
            self.rig.reload(Side::Alice)?;
            taken.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let anchor = format!(
            "{lines} lines, {APPLICATIONS} applications; `ravelin policy check` of the same, without a kernel: {:.0} ms",
            median(&mut parsing)
        );
        Ok(Figure::new(LOAD, "ms", &taken, anchor, Target::AtMost(200.0)))
    }

    fn reload_one(&self) -> anyhow::Result<[Figure; 2]> {
        let (mut taken, mut tables) = (Vec::new(), Vec::new());
        let text = large(0);
        self.rig.set_policy(Side::Alice, &text)?;
        self.rig.reload(Side::Alice)?;
        for round in 1..=ROUNDS {
            self.rig
                .set_policy(Side::Alice, &text.replacen("10.0.0.0/24", &format!("11.0.{round}.0/24"), 1))?;
            let start = Instant::now();
            let answer = self.rig.ravelin(
                Side::Alice,
                &[
                    "policy",
                    "reload",
                    "--allow-missing",
                    "--json",
                    "--instance",
                    &self.rig.instance(Side::Alice),
                ],
                "",
            )?;
            taken.push(start.elapsed().as_secs_f64() * 1e3);
            let answer: api::PolicyReload =
                serde_json::from_str(&answer).context("the answer to a reload")?;
            tables.push(answer.kernel.context("no kernel half")?.tables_written as f64);
        }
        let anchor = || format!("one line of {} changed", text.lines().count());
        Ok([
            Figure::new(RELOAD, "ms", &taken, anchor(), Target::AtMost(200.0)),
            Figure::new(RELOAD_UNITS, "tables", &tables, anchor(), Target::AtMost(1.0)),
        ])
    }

    fn ask(&self, address: &str, count: u64) -> anyhow::Result<()> {
        let client = Program::new(&self.program).args(["load", "ask", address, &count.to_string()]);
        let finished = self.rig.lab.alice().run_program(client, PATIENCE)?;
        succeeded("asking", &finished).map(drop)
    }

    fn runs(&self, side: Side) -> anyhow::Result<BTreeMap<u32, Runs>> {
        runs_of_programs(self.rig.daemon(side)?.pid())
    }
}

/// What one program did for each connection.
#[derive(Clone, Copy, Default)]
struct Cost {
    runs: f64,
    nanoseconds: f64,
}

/// Costs of BPF programs, by their numbers.
type Costs = BTreeMap<u32, Cost>;
/// Costs on the client's host and on the server's.
type Round = (Costs, Costs);

fn each_since(before: &BTreeMap<u32, Runs>, after: &BTreeMap<u32, Runs>) -> Costs {
    let each = |sum: u64| sum as f64 / CONNECTIONS as f64;
    let since = |number: &u32, runs: &Runs| *runs - before.get(number).copied().unwrap_or_default();
    let cost = |runs: Runs| Cost { runs: each(runs.count), nanoseconds: each(runs.nanoseconds) };
    after.iter().map(|(number, runs)| (*number, cost(since(number, runs)))).collect()
}

/// A large policy, no line of which is that of another round.
fn large(round: usize) -> String {
    let mut text = String::new();
    for app in 0..APPLICATIONS {
        let _ = writeln!(text, "application /usr/local/bin/bench-{round}-{app} {{");
        for network in 0..NETWORKS {
            let kind = ["trusted", "untrusted"][(network + round) % 2];
            let _ = writeln!(text, "  network 10.{}.{network}.0/24 {kind};", (app + round) % 256);
        }
        text.push_str("}\n");
    }
    text
}

/// What the load printed: the answer for the forbidden peer, which proves hooks or their absence, and nanoseconds.
fn cost(printed: &str, expected: &str) -> anyhow::Result<f64> {
    let (word, number) = printed.trim().split_once(' ').context("the load printed no figure")?;
    ensure!(word == expected, "the forbidden peer was {word}, not {expected}");
    number.parse().with_context(|| format!("`{number}` is no figure"))
}

#[cfg(test)]
mod tests {
    use super::cost;

    #[test]
    fn a_figure_counts_only_if_the_hooks_were_as_expected() {
        assert_eq!(cost("refused 412.50\n", "refused").unwrap(), 412.5);
        assert!(cost("allowed 412.50\n", "refused").is_err());
        assert!(cost("", "refused").is_err());
    }
}
