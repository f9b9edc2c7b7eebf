//! A bound on the processor time of processes, so that one host of a lab is the weaker one (paper 004 Table 1).

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Where the controller is, if the host has it in a hierarchy of its own (cgroup v1).
const V1: &str = "/sys/fs/cgroup/cpu";
/// Microseconds of a period of the bound.
const PERIOD: u32 = 100_000;

/// A control group whose processes together get a part of one processor. It goes with this value.
#[derive(Debug)]
pub struct CpuLimit {
    folder: PathBuf,
}

impl CpuLimit {
    /// A group that gets so many hundredths of a processor. `beside` is a group of the unified hierarchy, for hosts
    /// whose controller is there.
    ///
    /// # Errors
    /// If the host has no such controller, or without root.
    pub fn new(name: &str, hundredths: u32, beside: &Path) -> anyhow::Result<CpuLimit> {
        let quota = PERIOD / 100 * hundredths;
        let is_v1 = Path::new(V1).join("cpu.cfs_quota_us").exists();
        let folder = if is_v1 { Path::new(V1).join(name) } else { beside.join(name) };
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let limit = CpuLimit { folder };
        if is_v1 {
            limit.write("cpu.cfs_period_us", &PERIOD.to_string())?;
            limit.write("cpu.cfs_quota_us", &quota.to_string())?;
        } else {
            limit.write("cpu.max", &format!("{quota} {PERIOD}"))?;
        }
        Ok(limit)
    }

    /// Bound a process, and those that it starts from now on.
    ///
    /// # Errors
    /// If it has ended.
    pub fn take(&self, pid: u32) -> anyhow::Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    fn write(&self, file: &str, text: &str) -> anyhow::Result<()> {
        let path = self.folder.join(file);
        fs::write(&path, text).with_context(|| format!("writing {text} to {}", path.display()))
    }
}

impl Drop for CpuLimit {
    fn drop(&mut self) {
        // What still runs goes back to the group above; a group with processes cannot be removed.
        let running = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        if let Some(above) = self.folder.parent() {
            for pid in running.lines() {
                let _ = fs::write(above.join("cgroup.procs"), pid);
            }
        }
        let _ = fs::remove_dir(&self.folder);
    }
}
