//! What the processes that send have executed, by path. The kernel half notes identity, number and name of a process; its path
//! is read while it lives, and remembered for those of its kind that are gone before anybody looks.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use sockmon::{Identity, Sender};

/// Paths that are remembered.
const KEPT: usize = 4096;

/// Paths of executables by identity.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    paths: HashMap<Identity, String>,
    /// Those of which no path was found: they are gone, and looking again for each of their flows would find no more.
    unknown: HashSet<(Identity, u32)>,
}

impl Programs {
    /// Learn the path of whoever sends.
    pub(crate) fn meet(&mut self, sender: Option<&Sender>) {
        let Some(sender) = sender else { return };
        if sender.identity.inode == 0 || self.paths.contains_key(&sender.identity) {
            return;
        }
        if self.unknown.contains(&(sender.identity, sender.pid)) {
            return;
        }
        let Some(path) = of_process(sender).or_else(|| of_name(sender)) else {
            if self.unknown.len() == KEPT {
                self.unknown.clear();
            }
            self.unknown.insert((sender.identity, sender.pid));
            return;
        };
        if self.paths.len() == KEPT {
            self.paths.clear();
        }
        self.paths.insert(sender.identity, path);
    }

    /// Its path, else the name that the process gave itself.
    pub(crate) fn name_of(&self, sender: &Sender) -> String {
        self.paths.get(&sender.identity).unwrap_or(&sender.comm).clone()
    }
}

/// The process may be another one by now, or have executed another file.
fn of_process(sender: &Sender) -> Option<String> {
    let link = format!("/proc/{}/exe", sender.pid);
    let path = fs::read_link(&link).ok()?;
    (number(&link)? == sender.identity.inode).then_some(path)?.into_os_string().into_string().ok()
}

/// The number of the file that a process executes. What the kernel knows of it is enough: its file system may have a server that
/// does not answer, and this thread has no time to wait for one.
fn number(link: &str) -> Option<u64> {
    let about = statx(CWD, link, AtFlags::STATX_DONT_SYNC, StatxFlags::INO).ok()?;
    Some(about.stx_ino)
}

/// A file of the standard directories with the name of the process and the number of its executable.
fn of_name(sender: &Sender) -> Option<String> {
    if sender.comm.is_empty() || sender.comm.contains('/') {
        return None;
    }
    let candidates = policy::STANDARD_DIRECTORIES.iter().map(|folder| Path::new(folder).join(&sender.comm));
    let found = candidates.into_iter().find(|path| {
        fs::metadata(path).is_ok_and(|about| about.is_file() && about.ino() == sender.identity.inode)
    })?;
    found.into_os_string().into_string().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_that_of_the_file_that_was_executed() {
        let own = fs::read_link("/proc/self/exe").unwrap();
        let identity =
            Identity { inode: fs::metadata("/proc/self/exe").unwrap().ino(), device: 1, generation: 0 };
        let pid = std::process::id();
        let sender = Sender { pid, comm: "any".into(), identity };
        let mut programs = Programs::default();
        assert_eq!(programs.name_of(&sender), "any");
        programs.meet(Some(&sender));
        assert_eq!(programs.name_of(&sender), own.to_str().unwrap());
        // Gone, but its kind is known.
        let gone = Sender { pid: u32::MAX, ..sender.clone() };
        assert_eq!(programs.name_of(&gone), own.to_str().unwrap());
        // Another file under the number of a process is not believed.
        let other = Sender { identity: Identity { inode: identity.inode + 1, ..identity }, ..sender };
        programs.meet(Some(&other));
        assert_eq!(programs.name_of(&other), "any");
    }
}
