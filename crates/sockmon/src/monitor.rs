//! The socket monitor: the attached programs of one instance and their maps.

mod flows;
mod gateway;
mod names;
mod pins;
mod socket_events;
mod sockets;
mod traffic;
mod users;

use crate::abi::{self, Live, PeerKey};
use crate::adopt;
use crate::detach;
use crate::error::SockmonError;

use crate::folders;
use crate::gateway::Span;
use crate::identities;
use crate::inside_icmp::InsideIcmp;
use crate::links::{self, Links, Places};
use crate::lists::Lists;
use crate::live::{Change, LiveTable};
use crate::locals;
use crate::model::{
    Adopted, Event, Fault, FlowCounting, Identity, LoadWarning, Options, ProgramStats, SocketInfo,
};
use crate::pins::PinnedFile;
use crate::places::{self, PathAnswers};
use crate::policy;
use crate::programs::{self, Loaded, Pins};
use crate::reserved::{self, ReservedClass, ReservedName};
use wire::Marks;

use crate::queue_counts::QueueTable;
use crate::spans::BypassTable;
use crate::sys;
use crate::tables::{LoadStats, Tables};
use crate::tun_queues::{self, QueueSplit};
use ::policy::{Image, Subjects};
use libbpf_rs::{MapCore, MapFlags, RingBufferBuilder};
use sadb::Selectors;
use sadb::spd::{Order, Spd};
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::{AppId, Prefix};

/// The attached programs and their maps. Dropping it leaves them attached: only [`crate::detach`] ends them.
#[derive(Debug)]
pub struct Sockmon {
    instance: String,
    pub(crate) loaded: Loaded,
    pub(crate) pins: Pins,
    pub(crate) places: Places,
    pub(crate) links: Links,
    netns: u64,
    /// Keeps the inode numbers of the executables from being given to other files.
    held: Vec<Arc<OwnedFd>>,
    /// The files that the last load found at the paths of the policy.
    found: PathAnswers,
    /// The files whose digests the policy gives.
    pub(crate) pinned: Vec<PinnedFile>,
    directories: Vec<PathBuf>,
    /// The content of the table of prefixes that bypass on a gateway.
    pub(crate) spans: BypassTable,
    /// The content of the table of associations, from the first [`Sockmon::set_live_sas`] on.
    live: LiveTable,
    /// The content of the maps of policy; `None` if it has to be read from them.
    pub(crate) tables: Option<Tables>,
    last_load: LoadStats,
    /// Connections may have been closed before the programs were attached, and [`Sockmon::adopt`] has not looked at them yet.
    unseen_closed: Cell<bool>,
}

/// A guard: the kernel counts runs of programs while this value lives; see [`Sockmon::program_stats`].
#[derive(Debug)]
pub struct Statistics(#[allow(dead_code, reason = "held, not read")] OwnedFd);

fn directory(path: &Path) -> Result<(OwnedFd, u64), SockmonError> {
    let fail = || SockmonError::system(format!("open the cgroup {}", path.display()));
    let directory = std::fs::File::open(path).map_err(fail())?;
    let id = directory.metadata().map_err(fail())?.ino();
    Ok((directory.into(), id))
}

/// Check that this version can take over what an earlier daemon of the instance left pinned, if anything.
///
/// # Errors
/// [`SockmonError::Abi`].
pub fn check_pins(instance: &str) -> Result<(), SockmonError> {
    programs::check_abi(instance, &Pins::of(instance)?)
}

/// Check that the marks of an instance are in these bits. Sockets and packets on their way have their marks there.
pub fn check_marks(instance: &str, before: &abi::Config, marks: Marks) -> Result<(), SockmonError> {
    if before.mark == 0 || before.mark == marks.mask() {
        return Ok(());
    }
    Err(SockmonError::OtherMarks { instance: instance.into(), found: before.mark, wanted: marks.mask() })
}

/// Exempt the control group of this daemon in the programs that an earlier daemon of the instance left, before this
/// daemon makes sockets. Until then the programs treat its sockets like those of any other process. [`Sockmon::attach`]
/// does it again. Without earlier programs nothing is done.
///
/// # Errors
/// [`SockmonError`]; what was left is then as it was.
pub fn exempt(instance: &str, cgroup: &Path) -> Result<(), SockmonError> {
    let (_, id) = directory(cgroup)?;
    programs::change_config(instance, &Pins::of(instance)?, |config| abi::Config { exempt: id, ..config })
}

/// Let the programs that an earlier daemon of the instance left refuse what they would redirect to its TUN, before that
/// device goes: another device may get its index. [`Sockmon::attach`] names the next one. Without earlier programs nothing
/// is done.
///
/// # Errors
/// [`SockmonError`]; what was left is then as it was.
pub fn forget_tun(instance: &str) -> Result<(), SockmonError> {
    programs::change_config(instance, &Pins::of(instance)?, |config| abi::Config { tun: 0, ..config })
}

impl Sockmon {
    /// Load the programs, attach them, pin them. What an earlier daemon of this instance left is taken over without a
    /// gap: its policy stays in force, its programs are exchanged in place. On an error in a new instance nothing stays.
    pub fn attach(options: &Options) -> Result<Sockmon, SockmonError> {
        let pins = Pins::of(&options.instance)?;
        let (cgroup, cgroup_id) = directory(&options.cgroup)?;
        let (_, exempt) = directory(&options.exempt_cgroup)?;
        let netns =
            sys::netns_cookie().map_err(SockmonError::system("read the network namespace's cookie"))?;
        sys::ensure_bpffs().map_err(SockmonError::system(format!("mount bpffs on {}", sys::BPFFS)))?;
        let is_new = !pins.root.exists();
        folders::make(&pins.links())?;
        let places = Places {
            cgroup,
            cgroup_id,
            tun: options.tun_ifindex,
            uplinks: options.uplinks.iter().copied().collect(),
            insides: options.insides.iter().copied().collect(),
            others: options.others.iter().copied().collect(),
            per_socket: options.per_socket.is_some(),
            omit: options.omit.clone(),
        };
        let (again, locals) = (options.per_socket.unwrap_or(0), locals::table_of(&options.locals));
        let attached = Sockmon::attach_at(
            &options.instance,
            pins,
            places,
            (exempt, netns, again, options.no_requests),
            options.marks,
            options.flows,
            (&options.spans, &options.inside_icmp, &locals),
        )
        .map(|monitor| Sockmon { directories: options.directories.clone(), ..monitor });
        if is_new && attached.is_err() {
            // The error that matters is the one above.
            if let Err(error) = detach::detach(&options.instance) {
                tracing::warn!(%error, "cannot clean up behind a failed attach");
            }
        }
        attached
    }

    fn attach_at(
        instance: &str,
        pins: Pins,
        places: Places,
        (exempt, netns, per_socket, no_requests): (u64, u64, u32, bool),
        marks: Marks,
        counted: FlowCounting,
        (first_spans, inside, locals): (&[Span], &InsideIcmp, &HashSet<PeerKey>),
    ) -> Result<Sockmon, SockmonError> {
        let loaded = programs::load(instance, &pins, marks, inside, &places.omit)?;
        let maps = &loaded.maps;
        let before = maps.config()?;
        check_marks(instance, &before, marks)?;
        maps.set_config(&abi::Config {
            abi: abi::ABI,
            mark: marks.mask(),
            netns,
            exempt,
            cgroup: places.cgroup_id,
            // Another TUN than before has no programs yet: until then what would be redirected to one is refused.
            tun: if before.tun == places.tun { places.tun } else { 0 },
            // Nobody listens to it yet, as far as this daemon knows.
            enc: 0,
            per_socket,
            // Until somebody wants them.
            observe: 0,
            flows: crate::flows::bits(counted),
            no_requests: no_requests.into(),
            ..before
        })?;
        crate::socket_events::begin(maps)?;
        if counted == FlowCounting::Nothing {
            crate::flows::forget(maps)?;
        }
        // A device counts as guarded only while its programs are there.
        maps.retain("uplinks", |ifindex: &u32| !places.uplinks.contains(ifindex))?;
        let spans = crate::gateway::prepare(maps, &places.insides, first_spans)?;
        locals::write(maps, locals)?;
        // Where nothing of a daemon before is attached, processes have been made without a record, and connections closed.
        let is_first = !pins.links().join("task_fork").exists();
        if is_first {
            maps.write(programs::RECORDS_SINCE, &0u32, &0u64)?;
        }
        let mut links = Links::default();
        links.attach(&loaded, &pins, &places)?;
        maps.set_config(&abi::Config { tun: places.tun, ..maps.config()? })?;
        for ifindex in &places.uplinks {
            maps.write("uplinks", ifindex, &1u32)?;
        }
        adopt::tasks(&loaded)?;
        Ok(Sockmon {
            instance: instance.into(),
            loaded,
            pins,
            places,
            links,
            netns,
            held: Vec::new(),
            found: PathAnswers::new(),
            pinned: Vec::new(),
            directories: Vec::new(),
            spans,
            live: LiveTable::default(),
            tables: None,
            last_load: LoadStats::default(),
            // A daemon that died before it had looked leaves its programs behind.
            unseen_closed: Cell::new(is_first || before.generation == 0),
        })
    }

    /// Replace the policy for every program at once; no verdict mixes the old and the new one. `subjects` say which application a
    /// process belongs to: by its executable, user, control group, and what it and its ancestors executed before. Whose socket may
    /// change hands follows from comparing their tables: to one that is at least as strict, and where two do not compare the socket
    /// is refused; `orders` says otherwise for pairs of applications. No policy is the weakest. An error leaves the old policy in
    /// force; what fails when the new one is in force already is a [`LoadWarning::Unfinished`]. Call [`Sockmon::adopt`] next.
    ///
    /// An executable that comes to a place of the policy later is known when it is executed first ([`Attempt::Execute`] tells of
    /// it): load again, so that its file is held. Files that digests speak of are refused until [`Sockmon::verify`]. Executables of before stay as long as their place, or an application that they
    /// can belong to, is in the policy, for they may be running. An application that `spd` leaves out has no policy from then on,
    /// its open sockets included: see [`Sockmon::moved`].
    ///
    /// [`Attempt::Execute`]: crate::Attempt::Execute
    pub fn load_policy(
        &mut self,
        spd: &Spd,
        subjects: &Subjects,
        orders: &[((AppId, AppId), Order)],
    ) -> Result<Vec<LoadWarning>, SockmonError> {
        let (directories, found) = (&self.directories, &self.found);
        let policy = policy::Policy { spd, subjects, directories, orders, found };
        let done = policy::load(&self.loaded, &policy, &mut self.tables)?;
        (self.held, self.found) = (done.held, done.found);
        self.pinned = crate::pins::carried(done.pinned, &self.pinned);
        self.last_load = done.stats;
        Ok(done.warnings)
    }

    /// The counts of what the last load of this daemon wrote, with the size of each table since.
    pub fn last_load(&self) -> LoadStats {
        self.last_load
    }

    /// The pairs of applications of the policy in force of which the first would lose processes to the second. A socket
    /// belongs to the first until [`Sockmon::adopt`] and sometimes longer, so a policy without that application must
    /// not be loaded.
    pub fn moved(&self, subjects: &Subjects) -> Result<Vec<(AppId, AppId)>, SockmonError> {
        policy::moved(&self.loaded, subjects, &self.directories, &self.found)
    }

    /// Whether the policy must be loaded again so that new programs are known from their first instruction. That is so
    /// if a directory of the policy in force has appeared or was replaced, or if a name among
    /// [`Sockmon::foreign_names`] no longer leads to another user's file.
    pub fn directories_changed(&self) -> bool {
        places::directories_changed(&self.found)
    }

    /// The paths of the policy in force that lead, by a name of one user, to a file of another, each with the reason.
    /// No process matches such a path.
    pub fn foreign_names(&self) -> Vec<(PathBuf, String)> {
        places::foreign_names(&self.found)
    }

    /// The images of a policy for each executable that exists, by the kernel's identity of the file. The policy need
    /// not be in force.
    pub fn images(&self, subjects: &Subjects) -> Result<HashMap<Identity, BTreeSet<Image>>, SockmonError> {
        let found = places::find(&self.loaded, subjects, &self.directories, &self.found)?;
        let mut out: HashMap<Identity, BTreeSet<Image>> = HashMap::new();
        for place in found.list {
            if let Some(file) = place.file {
                out.entry(file).or_default().extend(place.images);
            }
        }
        Ok(out)
    }

    /// Stamp the sockets that were open before [`Sockmon::attach`], or before a policy named their program. It must run
    /// in the guarded network namespace.
    pub fn adopt(&self) -> Result<Adopted, SockmonError> {
        let is_omitted = |program| self.places.omit.iter().any(|omitted| omitted == program);
        if is_omitted("adopt_sockets") {
            return Ok(Adopted::default());
        }
        let adopted = adopt::sockets(&self.loaded, self.netns)?;
        if self.unseen_closed.get() && self.loaded.maps.config()?.generation != 0 {
            if !is_omitted("adopt_closed") {
                adopt::closed(&self.loaded)?;
            }
            self.unseen_closed.set(false);
        }
        Ok(adopted)
    }

    /// The filter for the TUN's queue (`tun_queue`), which the reader of the queue attaches; `None` if it was left out.
    pub fn queue_filter(&self) -> Result<Option<BorrowedFd<'_>>, SockmonError> {
        if self.places.omit.iter().any(|omitted| omitted == programs::QUEUE_FILTER) {
            return Ok(None);
        }
        self.loaded.program(programs::QUEUE_FILTER).map(Some)
    }

    /// The program that chooses the queue of the TUN for a packet (`tun_steering`), which whoever has the device open
    /// attaches.
    pub fn steering(&self) -> Result<BorrowedFd<'_>, SockmonError> {
        self.loaded.program(programs::STEERING)
    }

    /// Split packets among the queues of the TUN from now on, or no more (`None`). The counts begin anew. `seed` is
    /// random and secret.
    ///
    /// # Errors
    /// The kernel half cannot be told.
    pub fn split_queues(
        &self,
        split: Option<&QueueSplit>,
        seed: [u64; abi::SPLIT_WORDS],
    ) -> Result<QueueTable, SockmonError> {
        tun_queues::split(&self.loaded.maps, split, seed)
    }

    /// Split packets among the same queues in another way from now on. The counts go on, and with the same `seed` users
    /// stay in their queues.
    ///
    /// # Errors
    /// The kernel half cannot be told, and splits as before.
    pub fn change_split(
        &self,
        queues: &QueueTable,
        split: &QueueSplit,
        seed: [u64; abi::SPLIT_WORDS],
    ) -> Result<(), SockmonError> {
        tun_queues::change(&self.loaded.maps, queues, split, seed)
    }

    /// Give packets of a flow that are within a rate a class from now on, in place of what was reserved for it; or no more
    /// (`None`).
    ///
    /// # Errors
    /// The kernel half cannot be told, or has no room.
    pub fn set_reserved(
        &self,
        flow: &ReservedName,
        reserved: Option<&ReservedClass>,
    ) -> Result<(), SockmonError> {
        reserved::set(&self.loaded.maps, flow, reserved)
    }

    /// Forget every reserved flow, as at a start: the flows of a daemon before are not this one's.
    ///
    /// # Errors
    /// The kernel half cannot be told.
    pub fn clear_reserved(&self) -> Result<(), SockmonError> {
        reserved::clear(&self.loaded.maps)
    }

    /// Set the selectors that inbound associations serve, each once. Clear text of their flows is refused from then on
    /// where policy says `optional`. Selectors that are no longer served are removed, even after an error.
    pub fn set_live_sas(&mut self, served: &[Selectors]) -> Result<(), SockmonError> {
        self.live = LiveTable::of(served);
        let wanted: HashMap<PeerKey, Live> = self.live.all().collect();
        self.loaded.maps.retain("live_sa", |key: &PeerKey| !wanted.contains_key(key))?;
        wanted.iter().try_for_each(|(key, value)| self.loaded.maps.write("live_sa", key, value))
    }

    /// Count one more association's selectors as served, beside those of [`Sockmon::set_live_sas`]. An error leaves
    /// everything as it was.
    pub fn add_live_sa(&mut self, served: &Selectors) -> Result<(), SockmonError> {
        let changes = self.live.add(served);
        let written = self.change_live(changes);
        if written.is_err() {
            let back = self.live.remove(served);
            if let Err(error) = self.change_live(back) {
                tracing::debug!(%error, "more than is served counts as served");
            }
        }
        written
    }

    /// Stop counting one association's selectors as served; the others of [`Sockmon::set_live_sas`] stay.
    pub fn remove_live_sa(&mut self, served: &Selectors) -> Result<(), SockmonError> {
        let changes = self.live.remove(served);
        self.change_live(changes)
    }

    /// The number of prefixes of peers for which more selectors are served than the kernel half can tell apart. The
    /// kernel half takes every flow with such peers for a served one.
    pub fn live_widened(&self) -> usize {
        self.live.widened()
    }

    fn change_live(&self, changes: Vec<Change>) -> Result<(), SockmonError> {
        changes.into_iter().try_for_each(|change| match change {
            Change::Write(key, value) => self.loaded.maps.write("live_sa", &key, &value),
            Change::Delete(key) => self.loaded.maps.delete("live_sa", &key),
        })
    }

    /// Guard these devices (interface indices) and no others. A device that is not guarded carries no protected
    /// traffic.
    pub fn set_uplinks(&mut self, uplinks: &[u32]) -> Result<(), SockmonError> {
        let gone: Vec<u32> = self.places.uplinks.iter().copied().filter(|i| !uplinks.contains(i)).collect();
        for ifindex in gone {
            self.loaded.maps.retain("uplinks", |known: &u32| *known == ifindex)?;
            self.links.detach_device(&self.pins, ifindex)?;
            self.places.uplinks.remove(&ifindex);
        }
        for &ifindex in uplinks {
            self.places.uplinks.insert(ifindex);
            if let Err(error) = self.links.attach_device(&self.loaded, &self.pins, &self.places, ifindex) {
                self.places.uplinks.remove(&ifindex);
                return Err(error);
            }
            self.loaded.maps.write("uplinks", &ifindex, &1u32)?;
        }
        Ok(())
    }

    /// Set the other devices: those that are neither uplinks nor inside interfaces nor Ravelin's own. If a device
    /// changes sides, call [`Sockmon::set_uplinks`] and [`Sockmon::set_insides`] first.
    ///
    /// # Errors
    /// A program cannot be attached to a device that exists.
    pub fn set_others(&mut self, others: &[u32]) -> Result<(), SockmonError> {
        let gone: Vec<u32> = self.places.others.iter().copied().filter(|i| !others.contains(i)).collect();
        for ifindex in gone {
            self.links.detach_other(&self.pins, ifindex)?;
            self.places.others.remove(&ifindex);
        }
        for &ifindex in others {
            if self.places.others.insert(ifindex)
                && let Err(error) = self.links.attach_device(&self.loaded, &self.pins, &self.places, ifindex)
            {
                self.places.others.remove(&ifindex);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Set the addresses of this host, which may be the source of a packet on `lo`. The addresses of `lo` need not be
    /// among them, and packets from an address to the same address always pass.
    ///
    /// # Errors
    /// The kernel did not take them. A packet from an address that it lacks is refused as one with a foreign source.
    pub fn set_locals(&self, locals: &[Prefix]) -> Result<(), SockmonError> {
        locals::write(&self.loaded.maps, &locals::table_of(locals))
    }

    /// Show protected packets in clear on this device (an interface index); zero turns it off.
    pub fn set_enc(&self, ifindex: u32) -> Result<(), SockmonError> {
        let config = self.loaded.maps.config()?;
        self.loaded.maps.set_config(&abi::Config { enc: ifindex, ..config })
    }

    /// Everything that is not attached as it should be, or not first at its hook; empty if all is well.
    pub fn health(&self) -> Vec<Fault> {
        match sys::netns_cookie() {
            Ok(cookie) if cookie == self.netns => {}
            found => {
                return vec![Fault {
                    what: "network namespace".into(),
                    detail: format!("asked from another one than the guarded ({found:?})"),
                    remedy: "ask from a thread in the guarded namespace".into(),
                }];
            }
        }
        links::faults(&self.loaded, &self.pins, &self.places)
    }

    /// Attach again what [`Sockmon::health`] finds missing or not first, and pin what is not pinned. An uplink that no longer exists
    /// must be taken out with [`Sockmon::set_uplinks`] before. The maps are those that there were, with the policy in force: whoever
    /// removes their pins removes no policy. As [`Sockmon::adopt`], for what began while something was missing.
    ///
    /// The programs are loaded anew: a device does not take one that it has a second time, and the one it has must not
    /// leave before the new one stands in front.
    pub fn repair(&mut self) -> Result<Adopted, SockmonError> {
        sys::ensure_bpffs().map_err(SockmonError::system(format!("mount bpffs on {}", sys::BPFFS)))?;
        folders::make(&self.pins.links())?;
        self.loaded.maps.pin_again(&self.pins)?;
        self.loaded = programs::load(
            &self.instance,
            &self.pins,
            self.loaded.marks,
            &self.loaded.inside,
            &self.places.omit,
        )?;
        self.links.attach(&self.loaded, &self.pins, &self.places)?;
        self.adopt()
    }

    /// Every counter of the kernel half since the instance was created.
    pub fn counters(&self) -> Result<Vec<(&'static str, u64)>, SockmonError> {
        let map = self.loaded.maps.get("counters")?;
        let mut out = Vec::with_capacity(abi::COUNTERS.len());
        for (number, name) in (0u32..).zip(abi::COUNTERS) {
            let per_cpu = map
                .lookup_percpu(&number.to_ne_bytes(), MapFlags::ANY)
                .map_err(SockmonError::bpf("read map counters"))?
                .unwrap_or_default();
            let sum =
                per_cpu.iter().filter_map(|v| Some(u64::from_ne_bytes(v.get(..8)?.try_into().ok()?))).sum();
            out.push((name, sum));
        }
        Ok(out)
    }

    /// Every IPv4 and IPv6 socket that a process of the host holds, one entry for each descriptor.
    pub fn sockets(&self) -> Result<Vec<SocketInfo>, SockmonError> {
        adopt::list(&self.loaded)
    }

    /// The identity of the executable that a process runs. `None` if there is no such process, or if it has no
    /// executable (a kernel thread).
    pub fn identity_of_pid(&self, pid: u32) -> Result<Option<Identity>, SockmonError> {
        Ok(adopt::process(&self.loaded, pid)?.map(|process| process.identity))
    }

    /// The application of a process, as the kernel half decides it. [`AppId::NONE`]: no application's policy covers it.
    /// `None`: there is no such process.
    pub fn app_of_pid(&self, pid: u32) -> Result<Option<AppId>, SockmonError> {
        Ok(adopt::process(&self.loaded, pid)?.map(|process| AppId(process.app)))
    }

    /// The executables of the policy in force as the kernel holds them, each with the application of those of its
    /// processes that no qualifier covers. Files that were replaced since are among them.
    pub fn executables(&self) -> Result<Vec<(Identity, AppId)>, SockmonError> {
        let lists = Lists::in_force(&self.loaded.maps)?;
        let app = |number| AppId(lists.numbered.get(&number).map_or(0, |list| list.app));
        let all = identities::all(&self.loaded.maps)?;
        Ok(all.into_iter().map(|(identity, known)| (identity, app(known.list))).collect())
    }

    /// The names that an earlier daemon of this instance gave its applications, so that numbers need not change.
    pub fn names(&self) -> Result<Vec<(AppId, String)>, SockmonError> {
        let map = self.loaded.maps.get("names")?;
        let mut out = Vec::new();
        for key in map.keys() {
            let number = <u32 as abi::Wire>::read(&key).ok_or(SockmonError::Answer("names"))?;
            if let Some(name) = self.loaded.maps.read::<abi::Name>("names", &number)? {
                out.push((AppId(number as u16), abi::text(&name.text)));
            }
        }
        out.sort();
        Ok(out)
    }

    /// Remember the name of each application, and forget all others.
    pub fn set_names(&self, names: &[(AppId, &str)]) -> Result<(), SockmonError> {
        let max = abi::NAME - 1;
        for (app, name) in names {
            if name.len() > max || name.contains('\0') {
                return Err(SockmonError::Name { name: (*name).into(), max });
            }
            let mut value = abi::Name { text: [0; abi::NAME] };
            value.text[..name.len()].copy_from_slice(name.as_bytes());
            self.loaded.maps.write("names", &u32::from(app.0), &value)?;
        }
        let wanted: HashSet<u32> = names.iter().map(|(app, _)| u32::from(app.0)).collect();
        let unwanted = |number: &u32| !wanted.contains(number);
        self.loaded.maps.retain("names", unwanted).map(drop)
    }

    /// The refusals since the last call. It does not wait; [`Sockmon::events_fd`] becomes readable when there are some.
    pub fn events(&self) -> Result<Vec<Event>, SockmonError> {
        let mut out = Vec::new();
        {
            let fail = || SockmonError::bpf("read map events");
            let mut ring = RingBufferBuilder::new();
            ring.add(self.loaded.maps.get("events")?, |bytes| {
                if let Some(event) = <abi::Event as abi::Wire>::read(bytes) {
                    out.push(Event::from_kernel(&event));
                }
                0
            })
            .map_err(fail())?;
            ring.build().map_err(fail())?.consume().map_err(fail())?;
        }
        Ok(out)
    }

    /// A descriptor that is readable (poll, epoll) when there are events.
    pub fn events_fd(&self) -> Result<BorrowedFd<'_>, SockmonError> {
        Ok(self.loaded.maps.get("events")?.as_fd())
    }

    /// The generation of the policy in force; 0 if none was ever loaded.
    pub fn generation(&self) -> Result<u32, SockmonError> {
        Ok(self.loaded.maps.config()?.generation)
    }

    /// The kernel's cookie of the guarded network namespace.
    pub fn netns(&self) -> u64 {
        self.netns
    }

    /// Let the kernel count runs and time of all BPF programs of the host while the returned value lives.
    pub fn enable_stats() -> Result<Statistics, SockmonError> {
        sys::enable_stats().map(Statistics).map_err(SockmonError::system("switch BPF statistics on"))
    }

    /// The kernel's name for the BPF program of this number, which is the first 15 octets of its name.
    pub fn program_name(number: u32) -> Result<String, SockmonError> {
        let named = sys::prog_by_id(number).and_then(|program| sys::prog_name(program.as_fd()));
        named.map_err(SockmonError::system(format!("ask for the name of program {number}")))
    }

    /// The runs and the time of every program since it was loaded, counted while statistics were on.
    pub fn program_stats(&self) -> Result<Vec<ProgramStats>, SockmonError> {
        self.loaded
            .programs()
            .map(|(name, fd)| {
                let (_, runs, nanoseconds) =
                    sys::prog_info(fd).map_err(SockmonError::system(format!("ask for {name}")))?;
                Ok(ProgramStats { name, runs, nanoseconds })
            })
            .collect()
    }
}
