//! What the machine says of a run: time that the host of a virtual machine took away, and packets that the class-blind
//! backlog of the kernel's soft interrupts lost.

use std::fs;

use anyhow::{Context, ensure};

/// A reading of the machine's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// Ticks of all processors, and those of them that were stolen (proc_stat(5)).
    ticks: [u64; 2],
    /// Packets that the backlog of each processor lost (`/proc/net/softnet_stat`, second column).
    lost: Vec<u64>,
}

/// What was between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Trouble {
    /// Percent of the time that was stolen.
    pub(super) steal: f64,
    /// Packets that the backlog of the gateway's processor lost, and that of the other one.
    pub(super) lost: [u64; 2],
}

impl Reading {
    /// Read the counters now.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub(super) fn take() -> anyhow::Result<Reading> {
        let read = |path: &str| fs::read_to_string(path).with_context(|| format!("reading {path}"));
        parse(&read("/proc/stat")?, &read("/proc/net/softnet_stat")?)
    }

    /// What was since then.
    pub(super) fn since(&self, before: &Reading) -> Trouble {
        let [all, stolen] = [0, 1].map(|at| self.ticks[at].saturating_sub(before.ticks[at]));
        let lost = |cpu: usize| {
            let [after, before] = [self, before].map(|reading| reading.lost.get(cpu).copied().unwrap_or(0));
            after.saturating_sub(before)
        };
        Trouble { steal: 100.0 * stolen as f64 / all.max(1) as f64, lost: [lost(0), lost(1)] }
    }
}

fn parse(stat: &str, softnet: &str) -> anyhow::Result<Reading> {
    let line = stat.lines().next().and_then(|line| line.strip_prefix("cpu ")).context("/proc/stat")?;
    let ticks: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    ensure!(ticks.len() >= 8, "/proc/stat has {} columns", ticks.len());
    let lost = |line: &str| -> Option<u64> { u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok() };
    let lost = softnet.lines().map(lost).collect::<Option<Vec<_>>>().context("/proc/net/softnet_stat")?;
    // Guests are counted in the first two columns already.
    Ok(Reading { ticks: [ticks[..8].iter().sum(), ticks[7]], lost })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_and_losses_are_what_was_between() {
        let softnet = |lost: u32| format!("0001 {lost:08x} 0 0\n0002 00000001 0 0\n");
        let before = parse("cpu  10 0 10 70 0 0 5 5 9 9\ncpu0 1\n", &softnet(1)).unwrap();
        let after = parse("cpu  20 0 20 130 0 0 15 15 9 9\ncpu0 1\n", &softnet(17)).unwrap();
        assert_eq!(after.since(&before), Trouble { steal: 10.0, lost: [16, 0] });
        assert!(parse("cpu 1 2\n", "").is_err());
        assert!(parse("cpu  10 0 10 70 0 0 5 5 9 9\n", "x\n").is_err());
    }

    #[test]
    fn this_machine_can_be_read() {
        let reading = Reading::take().unwrap();
        assert!(!reading.lost.is_empty() && reading.ticks[0] > 0, "{reading:?}");
    }
}
