//! The guards of a scrubber in line, and the choice of the worker that gets a frame (`bpf/line.bpf.c`,
//! docs/design/0024).
//!
//! What enters: an instance's name, the two interfaces, the workers' sockets. What leaves: interfaces at which every frame ends that
//! no worker has sent. The links are pinned: a process that dies leaves them closed. Only [`open`] opens them.

use crate::error::SockmonError;
use crate::folders;
use crate::links;
use crate::sys::{self, LinkTarget, Tcx};
use libbpf_rs::{MapCore, MapFlags, MapHandle, ObjectBuilder, OpenObject};
use siphasher::sip::SipHasher13;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::hash::Hasher;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/line.bpf.o"));

/// The programs of a guard.
const GUARDS: [Guard; 2] = [
    Guard { name: "guard_ingress", twin: "twin_ingress", at: Tcx::Ingress },
    Guard { name: "guard_egress", twin: "twin_egress", at: Tcx::Egress },
];
const SHARD: &str = "shard";
/// The file name of the pinned map of counters. A layout of its own has a name of its own.
const COUNTS: &str = "counts_1";
const LINKS: &str = "links";

/// A program, and another one that does the same.
#[derive(Clone, Copy)]
struct Guard {
    name: &'static str,
    twin: &'static str,
    at: Tcx,
}

/// The key of [`worker`].
pub type LineKey = [u8; 16];

/// The counts of an interface's guard, since the line was first closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Frames that ended at its ingress, which the workers have heard if there were any, and their octets.
    pub arrived: [u64; 2],
    /// Frames of workers that left by it.
    pub sent: [u64; 2],
    /// Frames of anybody else that ended at its egress.
    pub refused: [u64; 2],
}

/// The number of the worker, of `workers`, that gets what these two hosts send to each other, in both directions.
pub fn worker(key: &LineKey, one: IpAddr, other: IpAddr, workers: u32) -> u32 {
    // The kernel takes the program's answer modulo the members of the group.
    hash(key, one, other) % workers.max(1)
}

/// SipHash-1-3 of both addresses, IPv4 ones in their IPv6 form, the lower one first: the lower half.
pub fn hash(key: &LineKey, one: IpAddr, other: IpAddr) -> u32 {
    let mut hasher = SipHasher13::new_with_key(key);
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    let mut pair = [octets(one), octets(other)];
    pair.sort_unstable();
    pair.iter().for_each(|address| hasher.write(address));
    hasher.finish() as u32
}

/// The folder of an instance's pins.
fn root(instance: &str) -> Result<PathBuf, SockmonError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if instance.is_empty() || instance.len() > 32 || !instance.chars().all(fits) {
        return Err(SockmonError::InstanceName(instance.into()));
    }
    Ok(all().join(instance))
}

fn all() -> PathBuf {
    Path::new(sys::BPFFS).join("ravelin-inline")
}

/// The guards of one line.
#[derive(Debug)]
pub struct LineGuard {
    root: PathBuf,
    programs: BTreeMap<&'static str, OwnedFd>,
    counts: MapHandle,
    sockets: MapHandle,
    /// The links of the guards at ingress and egress, by the interface's index.
    links: BTreeMap<u32, [OwnedFd; 2]>,
}

impl LineGuard {
    /// Load the BPF programs of a line. What an earlier process pinned stays as it is until [`LineGuard::close`].
    ///
    /// # Errors
    /// If the kernel refuses, or the name is none.
    pub fn load(instance: &str, key: &LineKey) -> Result<LineGuard, SockmonError> {
        let root = root(instance)?;
        sys::ensure_bpffs().map_err(SockmonError::system("mount the BPF file system"))?;
        folders::make(&root.join(LINKS))?;
        let fail = |source| SockmonError::Load { source };
        let mut open: OpenObject = ObjectBuilder::default().open_memory(OBJECT).map_err(fail)?;
        for mut map in open.maps_mut().filter(|map| map.name() == OsStr::new("line_counts")) {
            map.set_pin_path(root.join(COUNTS)).map_err(fail)?;
        }
        let object = open.load().map_err(fail)?;
        let map = |name: &'static str| {
            let found = object.maps().find(|map| map.name() == OsStr::new(name));
            let found = found.ok_or(SockmonError::Answer("a map of line.bpf.o"))?;
            MapHandle::try_from(&found).map_err(SockmonError::bpf(format!("open the map {name}")))
        };
        let program = |name: &'static str| {
            let found = object.progs().find(|program| program.name() == OsStr::new(name));
            let found = found.ok_or(SockmonError::Answer("a program of line.bpf.o"))?;
            let fd = found.as_fd().try_clone_to_owned();
            Ok((name, fd.map_err(SockmonError::system(format!("keep the program {name}")))?))
        };
        map("line_key")?
            .update(&0u32.to_ne_bytes(), key, MapFlags::ANY)
            .map_err(SockmonError::bpf("write the line's key"))?;
        let names = GUARDS.iter().flat_map(|guard| [guard.name, guard.twin]).chain([SHARD]);
        Ok(LineGuard {
            programs: names.map(program).collect::<Result<_, SockmonError>>()?,
            counts: map("line_counts")?,
            sockets: map("line_sockets")?,
            links: BTreeMap::new(),
            root,
        })
    }

    fn program(&self, name: &'static str) -> Result<BorrowedFd<'_>, SockmonError> {
        self.programs.get(name).map(AsFd::as_fd).ok_or(SockmonError::Answer(name))
    }

    /// The program for PACKET_FANOUT_EBPF.
    ///
    /// # Errors
    /// Never after [`LineGuard::load`].
    pub fn shard(&self) -> Result<BorrowedFd<'_>, SockmonError> {
        self.program(SHARD)
    }

    /// Close an interface: from now on nothing passes it but frames of sockets that [`LineGuard::admit`] has admitted.
    /// If an earlier process closed it, there is no moment without a guard.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn close(&mut self, interface: u32) -> Result<(), SockmonError> {
        // Keep what was counted before.
        match self.counts.update(&interface.to_ne_bytes(), &[0; 48], MapFlags::NO_EXIST) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::AlreadyExists => {
                return Err(SockmonError::bpf("write the line's counters")(error));
            }
            _ => {}
        }
        let held = self.links.remove(&interface).map(|[ingress, egress]| [Some(ingress), Some(egress)]);
        let [ingress, egress] = held.unwrap_or([None, None]);
        let [first, second] = GUARDS;
        let both = [self.ensure(interface, first, ingress)?, self.ensure(interface, second, egress)?];
        self.links.insert(interface, both);
        Ok(())
    }

    /// Have a guard be there and first. `held`: our link, whose pin may be gone.
    fn ensure(&self, interface: u32, guard: Guard, held: Option<OwnedFd>) -> Result<OwnedFd, SockmonError> {
        let Guard { name, twin, at } = guard;
        let path = self.root.join(LINKS).join(format!("{name}_{interface}"));
        let fresh = path.with_file_name(format!("{name}_{interface}_new"));
        let fail = |step: &str| SockmonError::system(format!("{step} {name} at interface {interface}"));
        let pin = |link: &OwnedFd| {
            sys::unpin(&fresh)?;
            sys::obj_pin_over(link.as_fd(), &fresh, &path).map_err(fail("pin"))
        };
        let old = match sys::obj_get(&path) {
            Ok(link) => Some(link),
            Err(error) if error.kind() == io::ErrorKind::NotFound => held,
            Err(error) => return Err(fail("open the pinned link of")(error)),
        };
        if let Some(link) = &old
            && holds(link.as_fd(), interface, at).unwrap_or(false)
        {
            sys::link_update(link.as_fd(), self.program(name)?).map_err(fail("exchange"))?;
            pin(link)?;
            return old.ok_or(SockmonError::Answer("a link"));
        }
        let attach = |name| Ok(sys::link_tcx(self.program(name)?, interface, at));
        let link = match attach(name)? {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => attach(twin)?,
            answer => answer,
        };
        let link = link.map_err(fail("attach"))?;
        // The new one holds before the old one is let go: for a moment both may run, never none.
        pin(&link)?;
        if let Some(old) = old {
            let _ = sys::link_detach(old.as_fd());
        }
        Ok(link)
    }

    /// Frames of this socket may leave by this interface.
    ///
    /// # Errors
    /// If there are too many.
    pub fn admit(&self, socket: BorrowedFd<'_>, interface: u32) -> Result<(), SockmonError> {
        let cookie: u64 = sys::socket_option(socket, libc::SO_COOKIE)
            .map_err(SockmonError::system("ask for a socket's cookie"))?;
        self.sockets
            .update(&cookie.to_ne_bytes(), &interface.to_ne_bytes(), MapFlags::ANY)
            .map_err(SockmonError::bpf("admit a socket"))
    }

    /// Forget an interface that is gone, and its sockets.
    ///
    /// # Errors
    /// If a pin cannot be removed.
    pub fn forget(&mut self, interface: u32) -> Result<(), SockmonError> {
        self.links.remove(&interface);
        for Guard { name, .. } in GUARDS {
            sys::unpin(&self.root.join(LINKS).join(format!("{name}_{interface}")))?;
        }
        let cookies: Vec<Vec<u8>> = self.sockets.keys().collect();
        for cookie in cookies {
            if self.sockets.lookup(&cookie, MapFlags::ANY).ok().flatten().as_deref()
                == Some(interface.to_ne_bytes().as_slice())
            {
                let _ = self.sockets.delete(&cookie);
            }
        }
        let _ = self.counts.delete(&interface.to_ne_bytes());
        Ok(())
    }

    /// The faults of an interface's guard, in words; [`LineGuard::close`] mends them.
    pub fn faults(&self, interface: u32) -> Vec<String> {
        let fault = |Guard { name, at, .. }| {
            let path = self.root.join(LINKS).join(format!("{name}_{interface}"));
            let link = match sys::obj_get(&path) {
                Ok(link) => link,
                Err(error) => return Some(format!("{name}: its pin is gone: {error}")),
            };
            match holds(link.as_fd(), interface, at) {
                Ok(true) => None,
                Ok(false) => Some(format!("{name}: it is not the first program of the interface")),
                Err(error) => Some(format!("{name}: {error}")),
            }
        };
        GUARDS.into_iter().filter_map(fault).collect()
    }

    /// Interfaces that an earlier configuration of the instance closed and this one has not; they stay closed.
    pub fn others(&self) -> Vec<u32> {
        pinned(&self.root).into_iter().filter(|index| !self.links.contains_key(index)).collect()
    }

    /// The counts of an interface's guard.
    pub fn counts(&self, interface: u32) -> LineCounts {
        read_counts(&self.counts, interface)
    }

    /// The hash of a frame, as the kernel's program has it: for a test.
    #[doc(hidden)]
    pub fn ask_shard(&self, frame: &[u8]) -> Result<u32, SockmonError> {
        sys::prog_run(self.shard()?, frame).map_err(SockmonError::system("run the shard program"))
    }
}

fn read_counts(map: &MapHandle, interface: u32) -> LineCounts {
    let octets = map.lookup(&interface.to_ne_bytes(), MapFlags::ANY).ok().flatten().unwrap_or_default();
    let mut numbers = octets.chunks_exact(8).map(|c| c.try_into().map_or(0, u64::from_ne_bytes));
    let mut pair = || [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)];
    LineCounts { arrived: pair(), sent: pair(), refused: pair() }
}

/// Whether a link is at this interface of this namespace, in front of every other program. (The number of an interface in another
/// namespace may be the same.)
fn holds(link: BorrowedFd<'_>, interface: u32, at: Tcx) -> io::Result<bool> {
    let (program, target) = sys::link_info(link)?;
    let is_there = target == LinkTarget::Tcx { ifindex: interface, attach_type: sys::tcx_attach_type(at) };
    Ok(is_there && sys::tcx_programs(interface, at)?.first() == Some(&program))
}

/// Interfaces that have pins.
fn pinned(root: &Path) -> BTreeSet<u32> {
    let list = std::fs::read_dir(root.join(LINKS)).into_iter().flatten().filter_map(Result::ok);
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.rsplit_once('_')?.1.parse().ok();
    list.filter_map(number).collect()
}

/// Lines that have pins.
///
/// # Errors
/// If the kernel refuses.
pub fn lines() -> Result<Vec<String>, SockmonError> {
    match std::fs::read_dir(all()) {
        Ok(list) => {
            let names = list.filter_map(Result::ok).map(|e| e.file_name().to_string_lossy().into_owned());
            let mut names: Vec<String> = names.collect();
            names.sort();
            Ok(names)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(SockmonError::system("list the lines")(error)),
    }
}

/// Interfaces that a line has closed, and what their guards did, whether or not a process lives.
///
/// # Errors
/// If the name is none.
pub fn closed(instance: &str) -> Result<Vec<(u32, bool, LineCounts)>, SockmonError> {
    let root = root(instance)?;
    let counts = MapHandle::from_pinned_path(root.join(COUNTS)).ok();
    let holds = |interface: u32| {
        GUARDS.into_iter().all(|Guard { name, at, .. }| {
            let link = sys::obj_get(&root.join(LINKS).join(format!("{name}_{interface}")));
            link.is_ok_and(|link| holds(link.as_fd(), interface, at).unwrap_or(false))
        })
    };
    let one = |interface: u32| {
        let counts = counts.as_ref().map(|map| read_counts(map, interface)).unwrap_or_default();
        (interface, holds(interface), counts)
    };
    Ok(pinned(&root).into_iter().map(one).collect())
}

/// Open a line: its interfaces pass what the host lets pass. How many guards went.
///
/// # Errors
/// If the kernel refuses.
pub fn open(instance: &str) -> Result<usize, SockmonError> {
    let root = root(instance)?;
    let mut gone = 0;
    let folder = root.join(LINKS);
    for entry in std::fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
        links::remove(&entry.path())?;
        gone += 1;
    }
    for folder in [folder, root.clone()] {
        if folder == root {
            sys::unpin(&root.join(COUNTS))?;
        }
        match std::fs::remove_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(SockmonError::system(format!("remove {}", folder.display()))(error));
            }
            _ => {}
        }
    }
    // The last one closes the door; others may still be there.
    let _ = std::fs::remove_dir(all());
    Ok(gone)
}
