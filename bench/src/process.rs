//! What the kernel says of another process: its CPU time, and its BPF programs' run time.

use anyhow::Context;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// CPU time of all threads of a process, in user and kernel mode, to the nanosecond (what `utime` and `stime` are scaled
/// to). Without interrupt accounting in the kernel it includes the network's soft interrupts that ran on its back.
///
/// # Errors
/// If it has ended, or the kernel does not account (`CONFIG_SCHED_INFO`).
pub fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let mut sum = 0;
    let folder = format!("/proc/{pid}/task");
    for task in fs::read_dir(&folder).with_context(|| format!("reading {folder}"))? {
        let path = task?.path().join("schedstat");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let first = text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        sum += first.with_context(|| format!("{}: `{text}`", path.display()))?;
    }
    Ok(Duration::from_nanos(sum))
}

/// CPU time of everything that ever ran in a cgroup and below it, in user and kernel mode (`cpu.stat`): as [`cpu_time`], but
/// programs that have ended count too.
///
/// # Errors
/// If it is gone.
pub fn cgroup_time(cgroup: &Path) -> anyhow::Result<Duration> {
    let path = cgroup.join("cpu.stat");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let micros = text.lines().find_map(|line| line.strip_prefix("usage_usec ")?.trim().parse::<u64>().ok());
    Ok(Duration::from_micros(micros.with_context(|| format!("{}: `{text}`", path.display()))?))
}

/// CPU time of the kernel's threads for soft interrupts (`ksoftirqd`). What they do is on nobody's account.
///
/// # Errors
/// If /proc cannot be read.
pub fn softirq_time() -> anyhow::Result<Duration> {
    let mut sum = Duration::ZERO;
    for entry in fs::read_dir("/proc").context("reading /proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if name.starts_with("ksoftirqd/") {
            sum += cpu_time(pid)?;
        }
    }
    Ok(sum)
}

/// Runs and nanoseconds of BPF programs, while statistics were on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// Number of runs of the programs.
    pub count: u64,
    /// Nanoseconds of all runs together.
    pub nanoseconds: u64,
}

impl std::ops::Sub for Runs {
    type Output = Runs;

    fn sub(self, before: Runs) -> Runs {
        Runs { count: self.count - before.count, nanoseconds: self.nanoseconds - before.nanoseconds }
    }
}

/// Program types whose runs belong to packets and sockets; the others follow fork and exec of the whole host, or are
/// iterators. Numbers of `enum bpf_prog_type`: sched_cls, cgroup_skb, cgroup_sock, sock_ops, cgroup_sock_addr,
/// cgroup_sockopt.
const NETWORK: [u64; 6] = [3, 8, 9, 13, 18, 25];

/// Sum over the BPF programs of the network that a process holds open.
///
/// # Errors
/// If it has ended, or holds none.
pub fn bpf_runs(pid: u32) -> anyhow::Result<Runs> {
    let add = |sum: Runs, runs: &Runs| Runs {
        count: sum.count + runs.count,
        nanoseconds: sum.nanoseconds + runs.nanoseconds,
    };
    Ok(runs_of_programs(pid)?.values().fold(Runs::default(), add))
}

/// Runs of each BPF program of the network that a process holds open, by its number (`/proc/PID/fdinfo`).
///
/// # Errors
/// If the process has ended, or holds none.
pub fn runs_of_programs(pid: u32) -> anyhow::Result<BTreeMap<u32, Runs>> {
    let folder = format!("/proc/{pid}/fdinfo");
    // By id: the process may hold a program twice.
    let mut programs = BTreeMap::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {folder}"))? {
        // A descriptor may be closed between the two.
        let Ok(text) = fs::read_to_string(entry?.path()) else { continue };
        if let Some((id, runs)) = program(&text) {
            programs.insert(id, runs);
        }
    }
    anyhow::ensure!(!programs.is_empty(), "process {pid} holds no BPF program");
    Ok(programs)
}

/// Id and runs, if the descriptor is a BPF program of the network.
fn program(fdinfo: &str) -> Option<(u32, Runs)> {
    let field = |name: &str| {
        let line = fdinfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().parse::<u64>().ok()
    };
    NETWORK.contains(&field("prog_type")?).then_some(())?;
    let runs = Runs { count: field("run_cnt")?, nanoseconds: field("run_time_ns")? };
    Some((u32::try_from(field("prog_id")?).ok()?, runs))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FDINFO: &str = "pos:\t0\nflags:\t02000002\nmnt_id:\t15\nino:\t1059\nprog_type:\t18\nprog_jited:\t1\n\
                          prog_tag:\tb3\nmemlock:\t8192\nprog_id:\t77\nrun_time_ns:\t5400\nrun_cnt:\t12\n";

    #[test]
    fn a_descriptor_of_a_program_says_its_runs() {
        assert_eq!(program(FDINFO), Some((77, Runs { count: 12, nanoseconds: 5400 })));
        // A tracepoint, and a descriptor of something else.
        assert_eq!(program(&FDINFO.replace("prog_type:\t18", "prog_type:\t17")), None);
        assert_eq!(program("pos:\t0\nflags:\t02\n"), None);
    }

    #[test]
    fn cpu_time_grows_with_work() {
        let pid = std::process::id();
        let before = cpu_time(pid).unwrap();
        let mut number = 1u64;
        for i in 0..10_000_000 {
            number = std::hint::black_box(number.wrapping_mul(i | 1));
        }
        assert!(cpu_time(pid).unwrap() > before);
    }
}
