//! The BPF file system, where links and maps are pinned so that they outlive the daemon.

use crate::error::{IoContext, Result};
use crate::mountinfo;
use nix::mount::{MsFlags, mount};
use std::path::PathBuf;

/// The directory at which distributions mount the BPF file system.
const USUAL: &str = "/sys/fs/bpf";

/// The mount point of the BPF file system; mounts it at `/sys/fs/bpf` if it is nowhere.
pub fn ensure_mounted() -> Result<PathBuf> {
    let roots = mountinfo::roots_of("bpf")?;
    let usual = PathBuf::from(USUAL);
    if roots.contains(&usual) {
        return Ok(usual);
    }
    if let Some(first) = roots.into_iter().next() {
        return Ok(first);
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("bpf"), &usual, Some("bpf"), flags, Some("mode=0700"))
        .doing(|| format!("mounting the BPF file system at {USUAL}"))?;
    Ok(usual)
}
