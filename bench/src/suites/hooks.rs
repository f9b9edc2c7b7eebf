//! `hooks.connect.ns`: what the hooks add to a connect() of a policed program, against the same program in the same
//! network namespace, but in a cgroup to which nothing is attached, in turns. `hooks.tcp_connection.ns`: run time of all BPF
//! programs of a host for one TCP connection of such a program, as the kernel counts it while its statistics are on; the
//! counting adds two readings of the clock to every run, so this is too much rather than too little. `hooks.load.ms`: from
//! `ravelin policy reload` to its answer, with a policy of 10,000 lines, every one of them changed.

use super::Wanted;
use crate::figure::{Figure, Report, Target};
use crate::interleave::median;
use crate::process::{Runs, bpf_runs};
use crate::product;
use crate::stage::{Stage, succeeded};
use anyhow::{Context, ensure};
use netio::lab::{Program, Side, Transport};
use ravelin::rig::Rig;
use sockmon::Sockmon;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CONNECT: &str = "hooks.connect.ns";
const CONNECTION: &str = "hooks.tcp_connection.ns";
const LOAD: &str = "hooks.load.ms";

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

/// Fill the report.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let mut figures = Wanted { filter, report };
    if ![CONNECT, CONNECTION, LOAD].into_iter().any(|name| figures.wants(name)) {
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
        figures.push(hosts.tcp_connection()?);
    }
    // The last one: its policy is another.
    if figures.wants(LOAD) {
        figures.push(hosts.load()?);
    }
    Ok(())
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

    /// The same, in alice's namespace, but outside the cgroup that the hooks are attached to.
    fn outside(&self) -> anyhow::Result<f64> {
        let mut command = Command::new(&self.program);
        command.args(Hosts::arguments()).stdin(Stdio::null());
        let output = self.rig.lab.alice().netns().prepare(&mut command, None)?.output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "connecting without hooks: {}: {error}", output.status);
        cost(&String::from_utf8_lossy(&output.stdout), "allowed")
    }

    fn tcp_connection(&self) -> anyhow::Result<Figure> {
        let address = format!("{}:{PORT}", Side::Bob.v4());
        let bob = self.rig.lab.bob();
        let mut server = bob.spawn(Program::new(&self.program).args(["load", "serve", &address]))?;
        bob.wait_for_listener(Transport::Tcp, PORT, &mut server, PATIENCE)?;
        self.ask(&address, 20)?;

        let statistics = Sockmon::enable_stats()?;
        let [mut client, mut runs, mut peer] = [const { Vec::new() }; 3];
        for _ in 0..ROUNDS {
            let before = (self.runs(Side::Alice)?, self.runs(Side::Bob)?);
            self.ask(&address, CONNECTIONS)?;
            let ours = self.runs(Side::Alice)? - before.0;
            let theirs = self.runs(Side::Bob)? - before.1;
            let each = |sum: u64| sum as f64 / CONNECTIONS as f64;
            client.push(each(ours.nanoseconds));
            runs.push(each(ours.count));
            peer.push(each(theirs.nanoseconds));
        }
        drop(statistics);
        let (runs, peer) = (median(&mut runs), median(&mut peer));
        ensure!(runs >= 1.0, "no BPF program ran: the connections were not policed");
        let anchor = format!(
            "client's host, {runs:.1} runs, inflated by the kernel's statistics; server's host {peer:.0} ns"
        );
        Ok(Figure::new(CONNECTION, "ns", &client, anchor, Target::AtMost(5000.0)))
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

    fn ask(&self, address: &str, count: u64) -> anyhow::Result<()> {
        let client = Program::new(&self.program).args(["load", "ask", address, &count.to_string()]);
        let finished = self.rig.lab.alice().run_program(client, PATIENCE)?;
        succeeded("asking", &finished).map(drop)
    }

    fn runs(&self, side: Side) -> anyhow::Result<Runs> {
        bpf_runs(self.rig.daemon(side)?.pid())
    }
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
