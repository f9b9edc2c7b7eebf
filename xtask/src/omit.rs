//! The mutation check of the kernel half (docs/design/0005): leave each of its programs out in turn and run the tests that guard
//! completeness, until one fails. A program that nothing misses is either not needed or not guarded.

use crate::process::cargo;
use anyhow::{Context, Result};
use std::process::{Command, Stdio};

/// Options of the task `cargo xtask omit`.
#[derive(clap::Args)]
pub struct Options {
    /// Programs of the kernel half to leave out, one at a time; default: all
    programs: Vec<String>,
    /// Go on behind the first module that fails, for the whole list of rows
    #[arg(long)]
    all: bool,
}

/// What can be left out: the programs with a hook that every instance has, and the adoption of what is older.
const PROGRAMS: [&str; 27] = [
    "sock_create",
    "connect4",
    "connect6",
    "sendmsg4",
    "sendmsg6",
    "bind4",
    "bind6",
    "sock_ops",
    "set_option",
    "get_option",
    "guard",
    "proof",
    "uplink_egress",
    "uplink_ingress",
    "other_ingress",
    "other_egress",
    "lo_ingress",
    "tun_egress",
    "tun_ingress",
    "tun_queue",
    "task_prepare",
    "task_exec",
    "task_fork",
    "stream_write",
    "stream_written",
    "group_made",
    "adopt_sockets",
];

/// Packages and modules of their test program: first the tables of traffic over the whole product, then the rooms' own.
const TESTS: [(&str, &str); 17] = [
    ("tests", "completeness_sockets"),
    ("tests", "completeness_udp"),
    ("tests", "completeness_hands"),
    ("tests", "completeness_life"),
    ("tests", "completeness_tcp"),
    ("tests", "beyond"),
    ("tests", "exclusiveness"),
    ("tests", "strangers"),
    ("sockmon", "outbound"),
    ("sockmon", "inbound"),
    ("sockmon", "identity"),
    ("sockmon", "subjects"),
    ("sockmon", "escape"),
    ("sockmon", "activated"),
    ("sockmon", "older"),
    ("sockmon", "sockopt"),
    ("sockmon", "bystander"),
];

/// Check; whether every program is missed.
pub fn run(options: &Options) -> Result<bool> {
    // The daemon that the tests run.
    let built = Command::new(cargo()).args(["build", "--locked", "--package", "ravelin"]).status()?;
    anyhow::ensure!(built.success(), "cannot build the daemon");
    let mut all_missed = true;
    for program in PROGRAMS {
        if !options.programs.is_empty() && !options.programs.iter().any(|wanted| wanted == program) {
            continue;
        }
        let mut missed = false;
        for (package, test) in TESTS {
            let failures = failures(program, package, test, options.all)?;
            for failure in &failures {
                println!("{program:<16} {test:<22} {failure}");
            }
            missed |= !failures.is_empty();
            if missed && !options.all {
                break;
            }
        }
        if !missed {
            println!("{program:<16} NOTHING FAILS WITHOUT IT");
            all_missed = false;
        }
    }
    Ok(all_missed)
}

/// Run the tests of one module without `omitted`: its failing rows (or the first), or tests where it has none.
fn failures(omitted: &str, package: &str, module: &str, all: bool) -> Result<Vec<String>> {
    let mut command = Command::new(cargo());
    command.args(["test", "--locked", "--quiet", "--package", package, "--test", "suite", "--"]);
    command
        .args([&format!("{module}::"), "--test-threads=1", "--nocapture"])
        .env("SOCKMON_TEST_OMIT", omitted)
        .stdin(Stdio::null());
    if !all {
        command.env("RAVELIN_FIRST_FAILURE", "1");
    }
    let output = command.output().with_context(|| format!("cannot run the tests of {package}"))?;
    if output.status.success() {
        return Ok(Vec::new());
    }
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let rows: Vec<String> =
        text.lines().filter(|line| line.contains(" FAILED: ")).map(str::to_owned).collect();
    if !rows.is_empty() {
        return Ok(rows);
    }
    // libtest lists what failed, indented, behind the last `failures:`.
    let list = text.rsplit_once("\nfailures:\n").map_or("", |(_, list)| list);
    let tests: Vec<String> =
        list.lines().take_while(|line| line.starts_with("    ")).map(|line| line.trim().to_owned()).collect();
    Ok(if tests.is_empty() { vec!["it does not end well".to_owned()] } else { tests })
}
