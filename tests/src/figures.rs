//! What the daemons and the kernels of a rig have counted.

use lab::rig::Rig;
use lab::{Program, Running, Side};

use crate::{PATIENCE, binary};

/// Packets that ended for this reason at a daemon; `half`: `inbound`, `outbound` or `kernel`.
///
/// # Panics
/// If the daemon does not answer.
pub fn counted(rig: &Rig, side: Side, half: &str, reason: &str) -> u64 {
    let counters = rig.json(side, &["counters"]).unwrap();
    let all = counters[half].as_array().unwrap().iter();
    all.filter(|one| one["reason"] == reason).map(|one| one["count"].as_u64().unwrap()).sum()
}

/// TCP segments that a host has sent again since it exists.
///
/// # Panics
/// If its kernel does not say.
pub fn retransmitted(rig: &Rig, side: Side) -> u64 {
    let snmp =
        rig.lab.host(side).run(|| std::fs::read_to_string("/proc/thread-self/net/snmp")).unwrap().unwrap();
    let mut lines = snmp.lines().filter(|line| line.starts_with("Tcp:"));
    let names = lines.next().unwrap().split(' ');
    let values = lines.next().unwrap().split(' ');
    names.zip(values).find(|(name, _)| *name == "RetransSegs").unwrap().1.parse().unwrap()
}

/// `ravelin sa monitor`, which has begun to listen.
///
/// # Panics
/// If it does not start.
pub fn monitor(rig: &Rig, side: Side) -> Running {
    let monitor = Program::new(binary()).args(["sa", "monitor", "--instance", &rig.instance(side)]);
    let monitor = rig.lab.host(side).spawn(monitor).unwrap();
    monitor.wait_for_output("ready", PATIENCE).unwrap();
    monitor
}
