//! The mutation check of the kernel half (docs/design/0005): leave each of its programs out in turn and run the test
//! that is known to miss it. If that one passes, run those that guard completeness, until one fails. A program that
//! nothing misses is either not needed or not guarded.

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

/// What can be left out: the programs with a hook that every instance has, and the adoption of what is older. Each has
/// the package and the name of the test that is known to miss it (docs/design/0005).
const PROGRAMS: [(&str, &str, &str); 28] = [
    ("sock_create", "sockmon", "outbound::every_packet_of_a_protected_program_goes_to_the_tun"),
    ("connect4", "sockmon", "outbound::untrusted_peers_and_uncovered_ports_are_refused_with_eperm"),
    ("connect6", "sockmon", "outbound::untrusted_peers_and_uncovered_ports_are_refused_with_eperm"),
    ("sendmsg4", "sockmon", "outbound::untrusted_peers_and_uncovered_ports_are_refused_with_eperm"),
    ("sendmsg6", "sockmon", "outbound::untrusted_peers_and_uncovered_ports_are_refused_with_eperm"),
    ("bind4", "sockmon", "identity::a_socket_that_changes_hands_goes_only_to_a_stricter_policy"),
    ("bind6", "sockmon", "identity::a_socket_that_changes_hands_goes_only_to_a_stricter_policy"),
    ("sock_ops", "sockmon", "identity::listen_stamps_the_listener_and_its_connections"),
    ("set_option", "sockmon", "outbound::a_program_cannot_change_the_stamp"),
    ("get_option", "sockmon", "sockopt::a_demand_only_grows"),
    ("guard", "sockmon", "identity::sockets_without_a_hook_follow_who_sends"),
    ("proof", "sockmon", "inbound::the_proof_is_what_policy_demands"),
    ("uplink_egress", "sockmon", "outbound::every_packet_of_a_protected_program_goes_to_the_tun"),
    ("uplink_ingress", "sockmon", "icmp::forged_icmp_does_not_reach_protected_flows"),
    ("other_ingress", "sockmon", "icmp::forged_icmp_by_another_device_reaches_no_protected_flow"),
    ("other_egress", "sockmon", "bystander::frames_leave_by_no_other_device_either"),
    ("lo_ingress", "sockmon", "inbound::forged_marks_on_the_loopback_are_worth_nothing"),
    ("tun_egress", "sockmon", "outbound::every_packet_of_a_protected_program_goes_to_the_tun"),
    ("tun_ingress", "sockmon", "inbound::a_listener_answers_a_proven_syn_only"),
    ("tun_queue", "tests", "strangers::nobody_writes_records_of_his_own_to_the_tun"),
    ("task_prepare", "sockmon", "escape::exec_by_a_second_thread_keeps_the_ancestors"),
    ("task_exec", "sockmon", "identity::fork_keeps_and_exec_changes_the_identity"),
    ("task_fork", "sockmon", "identity::fork_keeps_and_exec_changes_the_identity"),
    ("stream_write", "sockmon", "activated::data_leaves_as_its_writers_while_that_waits_for_room"),
    ("stream_written", "sockmon", "activated::what_a_service_leaves_in_the_queue_is_not_its_supervisors"),
    ("group_made", "sockmon", "subjects::a_group_counts_as_soon_as_it_is_made_and_made_again"),
    ("adopt_sockets", "sockmon", "identity::sockets_older_than_the_monitor_are_adopted"),
    (
        "adopt_closed",
        "sockmon",
        "older::what_is_left_of_a_closed_connection_is_held_where_a_program_must_protect_it",
    ),
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
    for (program, package, first) in PROGRAMS {
        if !options.programs.is_empty() && !options.programs.iter().any(|wanted| wanted == program) {
            continue;
        }
        let modules = TESTS.map(|(package, module)| (package, format!("{module}::")));
        let mut missed = false;
        for (package, tests) in std::iter::once((package, first.to_owned())).chain(modules) {
            if missed && !options.all {
                break;
            }
            for failure in failures(program, package, &tests, options.all)? {
                println!("{program:<16} {:<22} {failure}", tests.trim_end_matches("::"));
                missed = true;
            }
        }
        if !missed {
            println!("{program:<16} NOTHING FAILS WITHOUT IT");
            all_missed = false;
        }
    }
    Ok(all_missed)
}

/// Run the tests whose names contain `tests` without `omitted`: the failing rows (or the first), or tests where there are none.
fn failures(omitted: &str, package: &str, tests: &str, all: bool) -> Result<Vec<String>> {
    let mut command = Command::new(cargo());
    command.args(["test", "--locked", "--quiet", "--package", package, "--test", "suite", "--"]);
    command
        .args([tests, "--test-threads=1", "--nocapture"])
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
