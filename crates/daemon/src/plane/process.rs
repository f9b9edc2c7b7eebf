//! Which application a running process would be under a policy that is not in force. The kernel half answers for the one that is;
//! for another, /proc says who started a process, where it runs and as whom: what a plan tells is what is so now.

use std::collections::{BTreeSet, HashMap};
use std::fs;

use policy::{Executables, Image, Selector, Subjects};
use sockmon::{Identity, SocketInfo, Sockmon};
use wire::AppId;

/// How far up ancestors are looked for, as in the kernel half.
const GENERATIONS: usize = 64;

/// Answers for one policy.
pub(super) struct Owners<'p> {
    subjects: &'p Subjects,
    /// What policy means by each executable.
    images: HashMap<Identity, BTreeSet<Image>>,
    /// By process: what has been asked already.
    known: HashMap<u32, Option<Identity>>,
}

impl<'p> Owners<'p> {
    pub(super) fn new(subjects: &'p Subjects, images: HashMap<Identity, BTreeSet<Image>>) -> Owners<'p> {
        Owners { subjects, images, known: HashMap::new() }
    }

    /// The application of the process that holds this socket.
    pub(super) fn of(&mut self, monitor: Option<&Sockmon>, socket: &SocketInfo) -> AppId {
        let is_any =
            |set: Option<&BTreeSet<Image>>, image: &Image| set.is_some_and(|set| set.contains(image));
        let mut ancestors: Option<Vec<Identity>> = None;
        for (selector, app) in self.subjects.iter() {
            let executable = match &selector.executables {
                Executables::Named(image) => is_any(self.images.get(&socket.identity), image),
                Executables::Anonymous => {
                    !self.images.contains_key(&socket.identity) && is_anonymous(socket.pid)
                }
                Executables::Any => true,
            };
            if !executable || !fits_place(selector, socket.pid) {
                continue;
            }
            let Some(from) = &selector.from else { return app };
            let list = match &ancestors {
                Some(list) => list,
                None => {
                    let found = ancestors_of(monitor, &mut self.known, socket.pid);
                    ancestors.insert(found)
                }
            };
            if list.iter().any(|identity| is_any(self.images.get(identity), from)) {
                return app;
            }
        }
        AppId::NONE
    }
}

/// Control group and user.
fn fits_place(selector: &Selector, pid: u32) -> bool {
    let below = |path: &str| {
        let own = group(pid).unwrap_or_default();
        own.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let within = |(first, last): (u32, u32)| user(pid).is_some_and(|user| (first..=last).contains(&user));
    selector.group.as_deref().is_none_or(below) && selector.users.is_none_or(within)
}

fn ancestors_of(
    monitor: Option<&Sockmon>,
    known: &mut HashMap<u32, Option<Identity>>,
    pid: u32,
) -> Vec<Identity> {
    let Some(monitor) = monitor else { return Vec::new() };
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

/// The real user.
fn user(pid: u32) -> Option<u32> {
    field(pid, "Uid")?.parse().ok()
}

fn group(pid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
}

fn is_anonymous(pid: u32) -> bool {
    fs::metadata(format!("/proc/{pid}/exe"))
        .is_ok_and(|file| std::os::unix::fs::MetadataExt::nlink(&file) == 0)
}
