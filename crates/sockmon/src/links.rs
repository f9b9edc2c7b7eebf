//! Links: every program's hold on its hook, pinned so that it outlives the daemon, exchanged in place when a new
//! daemon comes. The daemon holds them too: who removes a pin takes no program off its hook.

use crate::error::SockmonError;
use crate::model::Fault;
use crate::programs::{Hook, Loaded, PROGRAMS, Pins, Program, is_offered};
use crate::sys::{self, LinkTarget, Tcx};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Index of `lo` in every network namespace.
const LOOPBACK: u32 = 1;

/// What becomes of a fault.
const REMEDY: &str = "the daemon sets it right again within seconds; `ravelin status` tells";

/// The hooks at which the programs of an instance belong.
#[derive(Debug)]
pub struct Places {
    /// The directory of the watched cgroup.
    pub cgroup: OwnedFd,
    /// The kernel's id of that cgroup.
    pub cgroup_id: u64,
    /// The interface index of the TUN.
    pub tun: u32,
    /// The interface indices of the guarded devices.
    pub uplinks: BTreeSet<u32>,
    /// The devices of networks behind this host.
    pub insides: BTreeSet<u32>,
    /// Devices that are neither; `lo` is one of them unsaid.
    pub others: BTreeSet<u32>,
    /// Whether the programs that tell what sockets do are attached.
    pub per_socket: bool,
    /// The names of programs that are not attached, for tests.
    pub omit: Vec<String>,
}

/// One link that must exist.
#[derive(Clone, Debug)]
struct RequiredLink {
    program: &'static str,
    pin: String,
    target: Target,
    /// The device may be gone before anybody hears of it: then nothing is missing.
    may_be_gone: bool,
}

#[derive(Clone, Copy, Debug)]
enum Target {
    Cgroup(u32),
    Tracepoint,
    Device(u32, Tcx),
}

impl RequiredLink {
    /// Whether the link's device no longer exists, which is no fault of the link.
    fn is_gone(&self) -> bool {
        match self.target {
            Target::Device(ifindex, _) => self.may_be_gone && !sys::has_device(ifindex),
            _ => false,
        }
    }
}

impl Places {
    fn wanted(&self, only_device: Option<u32>) -> Vec<RequiredLink> {
        let mut out = Vec::new();
        let left_out = |name: &str| self.omit.iter().any(|o| o == name) || !is_offered(name);
        for Program { name, hook } in PROGRAMS.iter().filter(|p| !left_out(p.name)) {
            let mut want = |pin: String, target| {
                let device = match target {
                    Target::Device(ifindex, _) => Some(ifindex),
                    _ => None,
                };
                if only_device.is_none() || only_device == device {
                    let may_be_gone = matches!(hook, Hook::Other(_));
                    out.push(RequiredLink { program: name, pin, target, may_be_gone });
                }
            };
            match *hook {
                Hook::Cgroup(attach_type) => want((*name).into(), Target::Cgroup(attach_type)),
                Hook::PerSocket(attach_type) if self.per_socket => {
                    want((*name).into(), Target::Cgroup(attach_type));
                }
                Hook::PerSocket(_) => {}
                Hook::Tracepoint | Hook::Security => want((*name).into(), Target::Tracepoint),
                Hook::Tun(at) => want((*name).into(), Target::Device(self.tun, at)),
                Hook::Loopback(at) => want((*name).into(), Target::Device(LOOPBACK, at)),
                Hook::Uplink(at) | Hook::Inside(at) => {
                    let is_uplink = matches!(hook, Hook::Uplink(_));
                    for ifindex in if is_uplink { &self.uplinks } else { &self.insides } {
                        want(format!("{name}_{ifindex}"), Target::Device(*ifindex, at));
                    }
                }
                Hook::Other(at) => {
                    // What arrives by `lo` has a program of its own.
                    let with_lo = matches!(at, Tcx::Egress).then_some(&LOOPBACK);
                    for ifindex in self.others.iter().chain(with_lo) {
                        want(format!("{name}_{ifindex}"), Target::Device(*ifindex, at));
                    }
                }
                Hook::TunQueue | Hook::Sockets | Hook::Iterator => {}
            }
        }
        out
    }
}

/// The links that hold now, by their pins' names.
#[derive(Debug, Default)]
pub struct Links(BTreeMap<String, OwnedFd>);

impl Links {
    /// Attach everything that is wanted, reusing what an earlier daemon left, then remove what is no longer wanted.
    pub fn attach(&mut self, loaded: &Loaded, pins: &Pins, places: &Places) -> Result<(), SockmonError> {
        let wanted = places.wanted(None);
        for want in &wanted {
            match self.ensure(loaded, pins, places, want) {
                Err(_) if want.is_gone() => {}
                done => done?,
            }
        }
        let keep: BTreeSet<&str> = wanted.iter().map(|w| w.pin.as_str()).collect();
        for (name, path) in pinned(pins)? {
            if !keep.contains(name.as_str()) {
                remove(&path)?;
            }
        }
        self.0.retain(|name, _| keep.contains(name.as_str()));
        Ok(())
    }

    /// Attach the programs of one device.
    pub fn attach_device(
        &mut self,
        loaded: &Loaded,
        pins: &Pins,
        places: &Places,
        ifindex: u32,
    ) -> Result<(), SockmonError> {
        for want in places.wanted(Some(ifindex)) {
            match self.ensure(loaded, pins, places, &want) {
                Err(_) if want.is_gone() => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Remove the programs of one guarded device, or one of a network behind this host.
    pub fn detach_device(&mut self, pins: &Pins, ifindex: u32) -> Result<(), SockmonError> {
        self.detach(pins, ifindex, |hook| matches!(hook, Hook::Uplink(_) | Hook::Inside(_)))
    }

    /// Remove the program of a device that is neither.
    pub fn detach_other(&mut self, pins: &Pins, ifindex: u32) -> Result<(), SockmonError> {
        self.detach(pins, ifindex, |hook| matches!(hook, Hook::Other(_)))
    }

    fn detach(&mut self, pins: &Pins, ifindex: u32, of: impl Fn(Hook) -> bool) -> Result<(), SockmonError> {
        for program in PROGRAMS.iter().filter(|program| of(program.hook)) {
            let name = format!("{}_{ifindex}", program.name);
            let path = pins.links().join(&name);
            if path.exists() {
                remove(&path)?;
            }
            if let Some(link) = self.0.remove(&name) {
                // Where the pin was gone already.
                let _ = sys::link_detach(link.as_fd());
            }
        }
        Ok(())
    }

    /// Make one link be there with our program, without a moment in which no program of ours is attached.
    fn ensure(
        &mut self,
        loaded: &Loaded,
        pins: &Pins,
        places: &Places,
        want: &RequiredLink,
    ) -> Result<(), SockmonError> {
        let program = loaded.program(want.program)?;
        let path = pins.links().join(&want.pin);
        let fail = |step: &str| SockmonError::system(format!("{step} {}", want.pin));
        let old = match sys::obj_get(&path) {
            Ok(link) => Some(link),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                // Or only its pin went.
                self.0.get(&want.pin).map(|held| repin(held, &path)).transpose().map_err(fail("pin"))?
            }
            Err(e) => return Err(fail("open the pinned link")(e)),
        };
        if let Some(link) = &old
            && update(link.as_fd(), program, places, want).map_err(fail("update the link"))?
        {
            self.0.extend(old.map(|link| (want.pin.clone(), link)));
            return Ok(());
        }
        let link = create(program, places, want).map_err(fail("attach"))?;
        // The new one holds before the old one is let go: for a moment both may run, never none.
        let fresh = pins.links().join(format!("{}_new", want.pin));
        remove(&fresh)?;
        sys::obj_pin_over(link.as_fd(), &fresh, &path).map_err(fail("pin"))?;
        if let Some(old) = old {
            let _ = sys::link_detach(old.as_fd());
        }
        self.0.insert(want.pin.clone(), link);
        Ok(())
    }
}

fn repin(link: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    sys::obj_pin(link.as_fd(), path)?;
    sys::obj_get(path)
}

/// The pinned links of an instance.
pub fn pinned(pins: &Pins) -> Result<Vec<(String, PathBuf)>, SockmonError> {
    let list = match std::fs::read_dir(pins.links()) {
        Ok(list) => list,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(SockmonError::system(format!("list {}", pins.links().display()))(e)),
    };
    Ok(list
        .filter_map(Result::ok)
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .collect())
}

/// Take a pinned link off its hook and remove the pin.
pub fn remove(path: &Path) -> Result<(), SockmonError> {
    if let Ok(link) = sys::obj_get(path) {
        // A tracepoint's ends with its pin; a link whose device is gone has nothing to be taken off.
        let _ = sys::link_detach(link.as_fd());
    }
    sys::unpin(path)
}

/// Exchange the program of an old link, if it is still where it belongs and (on a device) the first; `false` if it is not.
fn update(
    link: BorrowedFd<'_>,
    program: BorrowedFd<'_>,
    places: &Places,
    wanted: &RequiredLink,
) -> io::Result<bool> {
    let (id, target) = sys::link_info(link)?;
    let in_place = match (wanted.target, target) {
        (Target::Cgroup(kind), LinkTarget::Cgroup { id, attach_type }) => {
            id == places.cgroup_id && attach_type == kind
        }
        (Target::Device(want, at), LinkTarget::Tcx { ifindex, attach_type }) => {
            ifindex == want
                && attach_type == sys::tcx_attach_type(at)
                && runs_where_it_must(&sys::tcx_programs(ifindex, at)?, id, wanted)
        }
        // The kernel cannot exchange the program of a tracepoint.
        _ => false,
    };
    if in_place {
        sys::link_update(link, program)?;
    }
    Ok(in_place)
}

/// Whether the program `id` runs where it must: first, but on devices that are not ours to guard, where a line (`ravelin inline`) has its
/// own in front.
fn runs_where_it_must(ids: &[u32], id: u32, wanted: &RequiredLink) -> bool {
    if wanted.may_be_gone { ids.contains(&id) } else { ids.first() == Some(&id) }
}

fn create(program: BorrowedFd<'_>, places: &Places, want: &RequiredLink) -> io::Result<OwnedFd> {
    match want.target {
        Target::Cgroup(kind) => sys::link_cgroup(program, places.cgroup.as_fd(), kind),
        Target::Tracepoint => sys::link_tracepoint(program),
        Target::Device(ifindex, at) => sys::link_tcx(program, ifindex, at),
    }
}

/// The faults of an instance's links: those that are missing, not pinned, or not first.
pub fn faults(loaded: &Loaded, pins: &Pins, places: &Places) -> Vec<Fault> {
    let unpinned = loaded.maps.unpinned(pins).map(|(name, _)| Fault {
        what: format!("map {name}"),
        detail: "its pin is gone: the next daemon would not find the policy".into(),
        remedy: REMEDY.into(),
    });
    let wanted = places.wanted(None);
    let there = wanted.iter().filter(|want| !want.is_gone());
    unpinned.chain(there.filter_map(|want| fault(loaded, pins, places, want))).collect()
}

fn fault(loaded: &Loaded, pins: &Pins, places: &Places, wanted: &RequiredLink) -> Option<Fault> {
    let report = |detail: String| Some(Fault { what: wanted.pin.clone(), detail, remedy: REMEDY.into() });
    let link = match sys::obj_get(&pins.links().join(&wanted.pin)) {
        Ok(link) => link,
        Err(e) => return report(format!("its pin is gone: {e}")),
    };
    let (id, target) = match sys::link_info(link.as_fd()) {
        Ok(info) => info,
        Err(e) => return report(format!("its link cannot be read: {e}")),
    };
    match loaded.program(wanted.program).map(sys::prog_info) {
        Ok(Ok((ours, ..))) if ours == id => {}
        _ => return report("another program is attached in its place".into()),
    }
    match (wanted.target, target) {
        (Target::Cgroup(_), LinkTarget::Cgroup { id, .. }) if id != places.cgroup_id => {
            report(format!("attached to cgroup {id}, not {}", places.cgroup_id))
        }
        (Target::Device(want, at), LinkTarget::Tcx { ifindex, .. }) => {
            if ifindex != want {
                return report(format!("attached to device {ifindex}, not {want}"));
            }
            match sys::tcx_programs(ifindex, at) {
                Ok(ids) if runs_where_it_must(&ids, id, wanted) => None,
                Ok(ids) => report(format!(
                    "{} other programs run before it",
                    ids.iter().take_while(|i| **i != id).count()
                )),
                Err(e) => report(format!("the device cannot be asked: {e}")),
            }
        }
        _ => None,
    }
}
