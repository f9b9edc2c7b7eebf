//! Which application a running process would be under a policy that is not in force. The kernel half answers for the one that is;
//! for another, /proc says who started a process, where it runs and as whom: what a plan tells is what is so now.

use std::collections::{BTreeSet, HashMap};
use std::fs;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use policy::{Executables, Facts, Image, Subjects};
use sockmon::{Identity, SocketInfo};
use wire::AppId;

use crate::monitor::KernelHalf;

/// How far up ancestors are looked for, as in the kernel half.
const GENERATIONS: usize = 64;

/// Answers for one policy.
pub(super) struct Owners<'p> {
    subjects: &'p Subjects,
    /// What policy means by each executable.
    images: HashMap<Identity, BTreeSet<Image>>,
    /// The executables of processes that were asked for already, by process ID; `None`: the kernel half does not know
    /// it.
    known: HashMap<u32, Option<Identity>>,
}

impl<'p> Owners<'p> {
    pub(super) fn new(subjects: &'p Subjects, images: HashMap<Identity, BTreeSet<Image>>) -> Owners<'p> {
        Owners { subjects, images, known: HashMap::new() }
    }

    /// The application of the process that holds this socket.
    pub(super) fn of(&mut self, monitor: &dyn KernelHalf, socket: &SocketInfo) -> AppId {
        let Owners { subjects, images, known } = self;
        let owner = Owner { images, known, monitor, socket, ancestors: None, group: None };
        subjects.choose(owner).unwrap_or(AppId::NONE)
    }
}

/// Looks up what is asked of the process that holds a socket.
struct Owner<'o> {
    images: &'o HashMap<Identity, BTreeSet<Image>>,
    known: &'o mut HashMap<u32, Option<Identity>>,
    monitor: &'o dyn KernelHalf,
    socket: &'o SocketInfo,
    ancestors: Option<Vec<Identity>>,
    group: Option<Option<String>>,
}

impl Owner<'_> {
    fn is(&self, identity: &Identity, image: &Image) -> bool {
        self.images.get(identity).is_some_and(|images| images.contains(image))
    }
}

impl Facts for Owner<'_> {
    fn executes(&mut self, executables: &Executables) -> bool {
        match executables {
            Executables::Named(image) => self.is(&self.socket.identity, image),
            Executables::Anonymous => {
                !self.images.contains_key(&self.socket.identity) && is_anonymous(self.socket.pid)
            }
            Executables::Any => true,
        }
    }

    fn descends_from(&mut self, image: &Image) -> bool {
        let found = match self.ancestors.take() {
            Some(found) => found,
            None => ancestors_of(self.monitor, self.known, self.socket.pid),
        };
        let any = found.iter().any(|identity| self.is(identity, image));
        self.ancestors = Some(found);
        any
    }

    fn group(&mut self) -> Option<&str> {
        self.group.get_or_insert_with(|| group(self.socket.pid)).as_deref()
    }

    fn user(&mut self) -> Option<u32> {
        user(self.socket.pid)
    }
}

fn ancestors_of(
    monitor: &dyn KernelHalf,
    known: &mut HashMap<u32, Option<Identity>>,
    pid: u32,
) -> Vec<Identity> {
    let mut out = Vec::new();
    let mut next = parent(pid);
    for _ in 0..GENERATIONS {
        let Some(pid) = next.filter(|pid| *pid != 0) else { break };
        let identity = known.entry(pid).or_insert_with(|| monitor.identity_of_pid(pid).ok().flatten());
        out.extend(*identity);
        next = parent(pid);
    }
    out
}

fn field(pid: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next().map(str::to_owned)
}

fn parent(pid: u32) -> Option<u32> {
    field(pid, "PPid")?.parse().ok()
}

/// The real user ID of a process.
fn user(pid: u32) -> Option<u32> {
    field(pid, "Uid")?.parse().ok()
}

fn group(pid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
}

fn is_anonymous(pid: u32) -> bool {
    // As the kernel knows it: a file system's server need not answer.
    statx(CWD, format!("/proc/{pid}/exe"), AtFlags::STATX_DONT_SYNC, StatxFlags::NLINK)
        .is_ok_and(|file| file.stx_nlink == 0)
}
