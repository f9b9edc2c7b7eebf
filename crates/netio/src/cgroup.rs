//! Control groups (version 2), as places to attach BPF programs to and to put programs in.
//!
//! The id of a cgroup is what `bpf_skb_cgroup_id` and `bpf_get_current_cgroup_id` answer. A socket keeps the cgroup in
//! which it was *made*: enter first, open sockets then (research: host path, section 5).

use crate::error::{Error, IoContext, Result};
use crate::{clock, mountinfo, poll};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time that killed processes may take to die.
const PATIENCE: Duration = Duration::from_secs(5);

/// The mount point of the unified hierarchy in this mount namespace.
pub fn unified_root() -> Result<PathBuf> {
    mountinfo::roots_of("cgroup2")?.into_iter().next().ok_or_else(|| {
        Error::unfit(
            "no cgroup2 file system is mounted here",
            "mount one (mount -t cgroup2 none /sys/fs/cgroup/unified) or leave `ip netns exec`, which hides it",
        )
    })
}

/// The kernel's id of the cgroup at `path` (the inode number, which is the id on 64-bit kernels).
pub fn id(path: &Path) -> Result<u64> {
    Ok(fs::metadata(path).doing(|| format!("looking at the cgroup {}", path.display()))?.ino())
}

/// A cgroup by its directory. Dropping it leaves the directory; see [`Cgroup::remove`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// The cgroup `name` (which may have several parts) under `parent`; made if it is not there.
    pub fn create(parent: &Path, name: &str) -> Result<Cgroup> {
        let path = parent.join(name);
        fs::create_dir_all(&path).doing(|| format!("making the cgroup {}", path.display()))?;
        Cgroup::open(path)
    }

    /// The cgroup at `path`.
    pub fn open(path: impl Into<PathBuf>) -> Result<Cgroup> {
        let path = path.into();
        if path.join("cgroup.procs").exists() {
            return Ok(Cgroup { path });
        }
        Err(Error::unfit(
            format!("{} is not a cgroup", path.display()),
            "give a directory under the unified cgroup tree",
        ))
    }

    /// The directory of this cgroup in the mounted hierarchy.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The id of this cgroup as the kernel's hooks see it.
    pub fn id(&self) -> Result<u64> {
        id(&self.path)
    }

    /// Move the calling *process* in. Sockets it made before keep the cgroup they were made in.
    pub fn enter(&self) -> Result<()> {
        self.door()?.write_all(b"0").doing(|| format!("entering the cgroup {}", self.path.display()))
    }

    /// The file to write a process id to: opened before fork, written ("0") after it.
    pub fn door(&self) -> Result<File> {
        let path = self.path.join("cgroup.procs");
        OpenOptions::new().write(true).open(&path).doing(|| format!("opening {}", path.display()))
    }

    /// Ids of the processes in it (not in its children).
    pub fn processes(&self) -> Result<Vec<u32>> {
        let path = self.path.join("cgroup.procs");
        let text = fs::read_to_string(&path).doing(|| format!("reading {}", path.display()))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Kill every process in it and below, and wait until none is left (cgroup.kill, Linux 5.14).
    pub fn kill(&self) -> Result<()> {
        let path = self.path.join("cgroup.kill");
        fs::write(&path, "1").doing(|| format!("writing {}", path.display()))?;
        let path = self.path.join("cgroup.events");
        let what = || format!("reading {}", path.display());
        let mut events = File::open(&path).doing(what)?;
        let deadline = clock::monotonic() + PATIENCE;
        loop {
            let mut text = String::new();
            events.rewind().and_then(|()| events.read_to_string(&mut text)).doing(what)?;
            if text.lines().any(|line| line == "populated 0") {
                return Ok(());
            }
            let left = deadline.since(clock::monotonic());
            if left.is_zero() {
                return Err(Error::unfit(
                    format!("processes in {} do not die", self.path.display()),
                    "look for ones in uninterruptible sleep",
                ));
            }
            poll::changed(events.as_fd(), left).doing(what)?;
        }
    }

    /// Remove it with its children; none may hold a process. Fine if it is gone already.
    pub fn remove(self) -> Result<()> {
        let removed = remove_tree(&self.path);
        // The root of the hierarchy is writable for nobody, and a daemon that is up has no right beyond that.
        if removed.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
            return Err(Error::unfit(
                format!(
                    "the cgroup {} is empty and stays: its folder cannot be written",
                    self.path.display()
                ),
                "remove it as root with `rmdir`",
            ));
        }
        removed.doing(|| format!("removing the cgroup {}", self.path.display()))
    }
}

/// Directories only: the files of a cgroup go with it.
fn remove_tree(path: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(path)
}
