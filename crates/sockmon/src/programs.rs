//! The programs: their table, and how they are loaded on pinned maps.

use crate::abi::{self, Wire};
use crate::error::SockmonError;
use crate::inside_icmp::InsideIcmp;
use crate::security::{self, OptionHook};
use crate::sys::{self, Tcx};
use libbpf_rs::{MapCore, MapFlags, MapHandle, ObjectBuilder, OpenObject};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use wire::Marks;

/// The object that is compiled from `bpf/sockmon.bpf.c`.
pub static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sockmon.bpf.o"));

/// The hook that a program is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// The cgroup, with this attach type.
    Cgroup(u32),
    /// The cgroup, with this attach type, where entries are made socket by socket.
    PerSocket(u32),
    /// The tracepoint it was loaded for.
    Tracepoint,
    /// The security hook that it was loaded for, where this kernel has it.
    Security,
    /// The ingress or egress of every guarded device.
    Uplink(Tcx),
    /// Every interface of a network behind this host.
    Inside(Tcx),
    /// Every other device, `lo` too, which may be gone at any time.
    Other(Tcx),
    /// The ingress or egress of `lo`.
    Loopback(Tcx),
    /// The ingress or egress of the TUN.
    Tun(Tcx),
    /// The queues of the TUN, by whoever has the device open ([`crate::Sockmon::queue_filter`],
    /// [`crate::Sockmon::steering`]).
    TunQueue,
    /// The daemon's sockets for outer packets, by whoever has them ([`crate::Sockmon::socket_choice`],
    /// [`crate::Sockmon::socket_filter`]).
    Sockets,
    /// The program has no hook: an iterator runs when user space reads it.
    Iterator,
}

/// A program of the object.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The name of its function in `bpf/`.
    pub name: &'static str,
    /// The hook of the program.
    pub hook: Hook,
}

const fn program(name: &'static str, hook: Hook) -> Program {
    Program { name, hook }
}

/// Every program, in the order in which they are attached: identity first, then the hooks that stamp, then those that
/// refuse; the TUN before the uplinks that redirect to it.
pub static PROGRAMS: &[Program] = &[
    program("task_prepare", Hook::Tracepoint),
    program("task_exec", Hook::Tracepoint),
    program("task_fork", Hook::Tracepoint),
    program("task_gone", Hook::Tracepoint),
    program("group_made", Hook::Tracepoint),
    program(STREAM_WRITE, Hook::Tracepoint),
    program("stream_written", Hook::Tracepoint),
    program("set_option", Hook::Cgroup(libbpf_sys::BPF_CGROUP_SETSOCKOPT)),
    program("option_lsm", Hook::Security),
    program("option_return", Hook::Security),
    program("sender_lsm", Hook::Security),
    program("sender_entry", Hook::Security),
    program("sender_return", Hook::Security),
    program("session_lsm", Hook::Security),
    program("session_return", Hook::Security),
    program("get_option", Hook::Cgroup(libbpf_sys::BPF_CGROUP_GETSOCKOPT)),
    program("sock_create", Hook::Cgroup(libbpf_sys::BPF_CGROUP_INET_SOCK_CREATE)),
    program("sock_ops", Hook::Cgroup(libbpf_sys::BPF_CGROUP_SOCK_OPS)),
    program("bind4", Hook::Cgroup(libbpf_sys::BPF_CGROUP_INET4_BIND)),
    program("bind6", Hook::Cgroup(libbpf_sys::BPF_CGROUP_INET6_BIND)),
    program("sock_release", Hook::PerSocket(libbpf_sys::BPF_CGROUP_INET_SOCK_RELEASE)),
    program("bound4", Hook::PerSocket(libbpf_sys::BPF_CGROUP_INET4_POST_BIND)),
    program("bound6", Hook::PerSocket(libbpf_sys::BPF_CGROUP_INET6_POST_BIND)),
    program("connect4", Hook::Cgroup(libbpf_sys::BPF_CGROUP_INET4_CONNECT)),
    program("connect6", Hook::Cgroup(libbpf_sys::BPF_CGROUP_INET6_CONNECT)),
    program("sendmsg4", Hook::Cgroup(libbpf_sys::BPF_CGROUP_UDP4_SENDMSG)),
    program("sendmsg6", Hook::Cgroup(libbpf_sys::BPF_CGROUP_UDP6_SENDMSG)),
    program("guard", Hook::Cgroup(libbpf_sys::BPF_CGROUP_INET_EGRESS)),
    program("proof", Hook::Cgroup(libbpf_sys::BPF_CGROUP_INET_INGRESS)),
    program("tun_egress", Hook::Tun(Tcx::Egress)),
    program("tun_ingress", Hook::Tun(Tcx::Ingress)),
    program(QUEUE_FILTER, Hook::TunQueue),
    program(STEERING, Hook::TunQueue),
    program(SOCKET_CHOICE, Hook::Sockets),
    program(SOCKET_FILTER, Hook::Sockets),
    program(RAW_FILTER, Hook::Sockets),
    program(FRAME_CHOICE, Hook::Sockets),
    program("lo_ingress", Hook::Loopback(Tcx::Ingress)),
    program("inside_ingress", Hook::Inside(Tcx::Ingress)),
    program("inside_egress", Hook::Inside(Tcx::Egress)),
    program("uplink_ingress", Hook::Uplink(Tcx::Ingress)),
    program("uplink_egress", Hook::Uplink(Tcx::Egress)),
    program("other_ingress", Hook::Other(Tcx::Ingress)),
    program("other_egress", Hook::Other(Tcx::Egress)),
    program("adopt_tasks", Hook::Iterator),
    program("report_task", Hook::Iterator),
    program("adopt_sockets", Hook::Iterator),
    program("adopt_tcp", Hook::Iterator),
    program("adopt_unseen", Hook::Iterator),
    program("adopt_closed", Hook::Iterator),
    program("report_files", Hook::Iterator),
    program("report_sockets", Hook::Iterator),
];

/// The program that sees what is written on a TCP socket before it can leave.
const STREAM_WRITE: &str = "stream_write";

/// The filter of the TUN's queue.
pub const QUEUE_FILTER: &str = "tun_queue";

/// The program that chooses the queue of the TUN for a packet.
pub const STEERING: &str = "tun_steering";

/// The program that chooses the UDP socket for a datagram.
pub const SOCKET_CHOICE: &str = "udp_class";

/// The filter of each UDP socket that has a queue.
pub const SOCKET_FILTER: &str = "socket_queue";

/// The filter of each raw socket that has a queue.
pub const RAW_FILTER: &str = "raw_queue";

/// The program that chooses the packet socket for a frame.
pub const FRAME_CHOICE: &str = "frame_class";

/// Programs whose hook not every kernel has, and the hook's name in the kernel's BTF. Where it is missing, what depends on it is
/// refused (docs/design/0012).
const NEWER: [(&str, &[u8]); 3] = [
    ("task_prepare", b"\0btf_trace_sched_prepare_exec\0"),
    (STREAM_WRITE, b"\0btf_trace_tcp_sendmsg_locked\0"),
    ("stream_written", b"\0btf_trace_sock_send_length\0"),
];

/// Whether programs of every kind reach the storage of a task here; else the kernel half keeps a table of its own (`bpf/include/record.h`).
pub fn tasks_have_storage() -> bool {
    static REACHED: OnceLock<bool> = OnceLock::new();
    *REACHED.get_or_init(|| {
        let kinds = [libbpf_sys::BPF_PROG_TYPE_CGROUP_SOCK, libbpf_sys::BPF_PROG_TYPE_SCHED_CLS];
        kinds.into_iter().all(|kind| sys::offers_helper(kind, libbpf_sys::BPF_FUNC_task_storage_get))
    })
}

/// Whether the running kernel has the hook of a program.
pub fn is_offered(program: &str) -> bool {
    match program {
        "option_lsm" | "sender_lsm" | "session_lsm" => {
            return security::option_hook() == Some(OptionHook::Module);
        }
        "option_return" | "sender_entry" | "sender_return" | "session_return" => {
            return security::option_hook() == Some(OptionHook::Return);
        }
        _ => {}
    }
    static MISSING: OnceLock<Vec<&str>> = OnceLock::new();
    let missing = MISSING.get_or_init(|| {
        // Without BTF no program can be loaded, and the error says so.
        let types = std::fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
        let lacks = |hook: &[u8]| memchr::memmem::find(&types, hook).is_none();
        NEWER.iter().filter(|(_, hook)| lacks(hook)).map(|(name, _)| *name).collect()
    });
    !missing.contains(&program)
}

/// The names of the pinned maps.
pub static MAPS: &[&str] = &[
    "config",
    "executables",
    "places",
    "lists",
    "choices",
    "ancestors",
    "groups",
    "group_paths",
    "applications",
    "networks",
    "protections",
    "order",
    "live_sa",
    "split",
    "split_apps",
    "reserved_flows",
    "reserved_shapes",
    TUN_QUEUES,
    SOCKET_SPLIT,
    SOCKET_QUEUES,
    SA_CLASSES,
    FRAME_PORT,
    UDP_SOCKETS,
    SOCKET_PLACES,
    "uplinks",
    "insides",
    "spans",
    "locals",
    "users",
    "owners",
    "listeners",
    "sctp_listeners",
    "names",
    "counters",
    "events",
    "socket_events",
    "announced",
    "tasks",
    "records",
    RECORDS_SINCE,
    "traffic",
    "limits",
    "spent",
    "accepts",
    "sources",
    "flows",
    "questions",
    "answers",
    "asked",
    "sockets",
    "behind",
    "unclaimed",
];

/// The map that holds since when each new process gets a record.
pub const RECORDS_SINCE: &str = "records_since";

/// The map of what waits in each queue of the TUN.
pub const TUN_QUEUES: &str = "tun_queues";

/// The map of the one split of outer packets among sockets.
pub const SOCKET_SPLIT: &str = "socket_split";

/// The map of what waits in each queue of sockets.
pub const SOCKET_QUEUES: &str = "socket_queues";

/// The map of the classes of inbound associations.
pub const SA_CLASSES: &str = "sa_classes";

/// The map of the UDP port of ESP, where outer packets come as frames.
pub const FRAME_PORT: &str = "frame_port";

/// The map of the daemon's UDP sockets.
pub const UDP_SOCKETS: &str = "udp_sockets";

/// The map of the queue of each socket.
pub const SOCKET_PLACES: &str = "socket_places";

/// The map of counters.
pub(crate) const COUNTERS: &str = "counters";

/// The folder of an instance's pins.
#[derive(Clone, Debug)]
pub struct Pins {
    /// Directory of the maps.
    pub root: PathBuf,
}

impl Pins {
    /// Directory of all instances.
    pub fn all() -> PathBuf {
        Path::new(sys::BPFFS).join("ravelin")
    }

    /// The pins of one instance, if its name is one.
    pub fn of(instance: &str) -> Result<Pins, SockmonError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if instance.is_empty() || instance.len() > 32 || !instance.chars().all(fits) {
            return Err(SockmonError::InstanceName(instance.into()));
        }
        Ok(Pins { root: Pins::all().join(instance) })
    }

    /// Directory of the links.
    pub fn links(&self) -> PathBuf {
        self.root.join("links")
    }

    /// The path of a map's pin.
    pub fn map(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

/// Entries of one call at most.
const BATCH: usize = 4096;

/// The maps, by name.
#[derive(Debug)]
pub struct Maps(BTreeMap<&'static str, MapHandle>);

impl Maps {
    /// The maps that an instance has pinned; `None`: it has none.
    pub fn pinned(pins: &Pins) -> Result<Option<Maps>, SockmonError> {
        let mut out = BTreeMap::new();
        for name in MAPS {
            let path = pins.map(name);
            if path.exists() {
                let map = MapHandle::from_pinned_path(&path);
                out.insert(*name, map.map_err(SockmonError::bpf(format!("open {}", path.display())))?);
            }
        }
        Ok(Some(Maps(out)).filter(|maps| maps.0.contains_key("config")))
    }

    /// A map of [`MAPS`].
    pub fn get(&self, name: &'static str) -> Result<&MapHandle, SockmonError> {
        self.0.get(name).ok_or(SockmonError::Answer(name))
    }

    /// Read one value of a map; `None`: there is no such key.
    pub fn read<V: Wire>(&self, map: &'static str, key: &impl Wire) -> Result<Option<V>, SockmonError> {
        let value = self
            .get(map)?
            .lookup(key.bytes(), MapFlags::ANY)
            .map_err(SockmonError::bpf(format!("read map {map}")))?;
        value.map(|bytes| V::read(&bytes).ok_or(SockmonError::Answer(map))).transpose()
    }

    /// Write one value of a map.
    pub fn write(&self, map: &'static str, key: &impl Wire, value: &impl Wire) -> Result<(), SockmonError> {
        self.get(map)?
            .update(key.bytes(), value.bytes(), MapFlags::ANY)
            .map_err(SockmonError::bpf(format!("write map {map}")))
    }

    /// Write one value, unless there is one.
    pub fn begin(&self, map: &'static str, key: &impl Wire, value: &impl Wire) -> Result<(), SockmonError> {
        match self.get(map)?.update(key.bytes(), value.bytes(), MapFlags::NO_EXIST) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::AlreadyExists => {
                Err(SockmonError::bpf(format!("write map {map}"))(error))
            }
            _ => Ok(()),
        }
    }

    /// Delete a key, if it is there.
    pub fn delete(&self, map: &'static str, key: &impl Wire) -> Result<(), SockmonError> {
        match self.get(map)?.delete(key.bytes()) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(SockmonError::bpf(format!("delete from map {map}"))(error))
            }
            _ => Ok(()),
        }
    }

    /// Every key of a map.
    pub fn keys<K: Wire>(&self, map: &'static str) -> Result<Vec<K>, SockmonError> {
        self.get(map)?.keys().map(|key| K::read(&key).ok_or(SockmonError::Answer(map))).collect()
    }

    /// The number of entries that fit into a map.
    pub fn capacity(&self, map: &'static str) -> Result<usize, SockmonError> {
        Ok(self.get(map)?.max_entries() as usize)
    }

    /// Delete every key for which `unwanted` holds; how many.
    pub fn retain<K: Wire>(
        &self,
        map: &'static str,
        mut unwanted: impl FnMut(&K) -> bool,
    ) -> Result<usize, SockmonError> {
        let handle = self.get(map)?;
        // All keys first: deleting while walking would start the walk again.
        let keys: Vec<K> =
            handle.keys().filter_map(|key| K::read(&key)).filter(|key| unwanted(key)).collect();
        for key in &keys {
            handle.delete(key.bytes()).map_err(SockmonError::bpf(format!("delete from map {map}")))?;
        }
        Ok(keys.len())
    }

    /// Write many values, in as few calls as it takes; after an error some are written.
    pub fn write_all<K: Wire, V: Wire>(
        &self,
        map: &'static str,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), SockmonError> {
        let handle = self.get(map)?;
        let mut entries = entries.into_iter();
        loop {
            let (mut keys, mut values, mut count) = (Vec::new(), Vec::new(), 0);
            for (key, value) in entries.by_ref().take(BATCH) {
                keys.extend_from_slice(key.bytes());
                values.extend_from_slice(value.bytes());
                count += 1;
            }
            if count == 0 {
                return Ok(());
            }
            handle
                .update_batch(&keys, &values, count, MapFlags::ANY, MapFlags::ANY)
                .map_err(SockmonError::bpf(format!("write map {map}")))?;
        }
    }

    /// Delete many keys, those that are there.
    pub fn delete_all<K: Wire>(&self, map: &'static str, keys: &[K]) -> Result<(), SockmonError> {
        let handle = self.get(map)?;
        for some in keys.chunks(BATCH) {
            let octets: Vec<u8> = some.iter().flat_map(|key| key.bytes()).copied().collect();
            // It stops at the first that is not there.
            if handle.delete_batch(&octets, some.len() as u32, MapFlags::ANY, MapFlags::ANY).is_err() {
                some.iter().try_for_each(|key| self.delete(map, key))?;
            }
        }
        Ok(())
    }

    /// Every entry of a map.
    pub fn entries<K: Wire, V: Wire>(&self, map: &'static str) -> Result<Vec<(K, V)>, SockmonError> {
        sys::map_entries(self.get(map)?.as_fd(), BATCH)
            .map_err(SockmonError::system(format!("read map {map}")))
    }

    /// Maps whose pins are gone, or are pins of other maps.
    pub fn unpinned<'m>(
        &'m self,
        pins: &'m Pins,
    ) -> impl Iterator<Item = (&'static str, &'m MapHandle)> + 'm {
        let number = |map: &MapHandle| map.info().ok().map(|info| info.info.id);
        let is_pinned = move |name: &str, map: &MapHandle| {
            let there = MapHandle::from_pinned_path(pins.map(name)).ok();
            there.and_then(|there| number(&there)).is_some_and(|there| Some(there) == number(map))
        };
        self.0.iter().filter(move |(name, map)| !is_pinned(name, map)).map(|(name, map)| (*name, map))
    }

    /// Pin again what is not pinned.
    pub fn pin_again(&self, pins: &Pins) -> Result<(), SockmonError> {
        for (name, map) in self.unpinned(pins) {
            let aside = pins.map(&format!("{name}_new"));
            sys::unpin(&aside)?;
            sys::obj_pin_over(map.as_fd(), &aside, &pins.map(name))
                .map_err(SockmonError::system(format!("pin the map {name}")))?;
        }
        Ok(())
    }

    /// The configuration that the BPF programs read.
    pub fn config(&self) -> Result<abi::Config, SockmonError> {
        self.read("config", &0u32)?.ok_or(SockmonError::Answer("config"))
    }

    /// Write the configuration that the BPF programs read.
    pub fn set_config(&self, config: &abi::Config) -> Result<(), SockmonError> {
        self.write("config", &0u32, config)
    }
}

/// The BPF programs after loading, with their maps.
#[derive(Debug)]
pub struct Loaded {
    /// The maps they share.
    pub maps: Maps,
    /// The layout of the fields of marks.
    pub marks: Marks,
    /// The ICMP errors that a gateway believes from inside.
    pub inside: InsideIcmp,
    programs: BTreeMap<&'static str, OwnedFd>,
}

impl Loaded {
    /// A program of [`PROGRAMS`].
    pub fn program(&self, name: &'static str) -> Result<BorrowedFd<'_>, SockmonError> {
        self.programs.get(name).map(AsFd::as_fd).ok_or(SockmonError::Answer(name))
    }

    /// Every loaded program, by its name.
    pub fn programs(&self) -> impl Iterator<Item = (&'static str, BorrowedFd<'_>)> {
        self.programs.iter().map(|(name, fd)| (*name, fd.as_fd()))
    }
}

/// Refuse maps of another ABI before libbpf meets them, with a remedy.
pub fn check_abi(instance: &str, pins: &Pins) -> Result<(), SockmonError> {
    let path = pins.map("config");
    if !path.exists() {
        return Ok(());
    }
    let wrong = |found: String| SockmonError::Abi { instance: instance.into(), found, expected: abi::ABI };
    let map =
        MapHandle::from_pinned_path(&path).map_err(SockmonError::bpf(format!("open {}", path.display())))?;
    if map.value_size() as usize != size_of::<abi::Config>() {
        return Err(wrong(format!("unknown (its configuration has {} octets)", map.value_size())));
    }
    let value = map.lookup(0u32.bytes(), MapFlags::ANY).map_err(SockmonError::bpf("read map config"))?;
    match value.as_deref().and_then(abi::Config::read) {
        // 0: a daemon died between creating the map and writing it.
        Some(config) if [abi::ABI, 0].contains(&config.abi) || abi::ABIS_BEFORE.contains(&config.abi) => {
            Ok(())
        }
        Some(config) => Err(wrong(config.abi.to_string())),
        None => Err(SockmonError::Answer("config")),
    }
}

/// Change the pinned configuration, if there is one that this version can take over.
pub fn change_config(
    instance: &str,
    pins: &Pins,
    change: impl FnOnce(abi::Config) -> abi::Config,
) -> Result<(), SockmonError> {
    check_abi(instance, pins)?;
    let path = pins.map("config");
    if !path.exists() {
        return Ok(());
    }
    let map =
        MapHandle::from_pinned_path(&path).map_err(SockmonError::bpf(format!("open {}", path.display())))?;
    let value = map.lookup(0u32.bytes(), MapFlags::ANY).map_err(SockmonError::bpf("read map config"))?;
    let before = value.as_deref().and_then(abi::Config::read).ok_or(SockmonError::Answer("config"))?;
    let config = change(before);
    map.update(0u32.bytes(), config.bytes(), MapFlags::ANY).map_err(SockmonError::bpf("write map config"))
}

/// The section of `mark.h`'s constants.
const LAYOUT: &str = ".rodata.marks";
/// The section of `gateway.h`'s.
const INSIDE: &str = ".rodata.inside";
/// The section of `record.h`'s.
const TASKS: &str = ".rodata.tasks";

/// The section of `writer.h`'s.
const WRITES: &str = ".rodata.writes";
/// The other section of `writer.h`'s.
const SENDERS: &str = ".rodata.senders";

/// Choose what runs by what this kernel offers, without the programs of `omit`: before an object is loaded.
pub fn fit(object: &mut OpenObject, omit: &[String]) -> Result<(), libbpf_rs::Error> {
    let runs = |program| is_offered(program) && !omit.iter().any(|omitted| omitted == program);
    // SENDERS_ALL, or 1: of every call but those that the kernel passes over.
    let senders: u32 = if runs("sender_lsm") { 2 } else { runs("sender_entry").into() };
    for mut map in object.maps_mut() {
        if map.name().to_string_lossy().ends_with(WRITES) {
            map.set_initial_value(u32::from(runs(STREAM_WRITE)).bytes())?;
        }
        if map.name().to_string_lossy().ends_with(SENDERS) {
            map.set_initial_value(senders.bytes())?;
        }
        if map.name().to_string_lossy().ends_with(TASKS) {
            map.set_initial_value(u32::from(tasks_have_storage()).bytes())?;
        }
    }
    Ok(())
}

/// The pinned table of counters, where it is one of ABI 6, which has fewer ([`abi::ABIS_BEFORE`]). The programs that are attached count there until
/// they are exchanged.
fn old_counters(pins: &Pins, entries: u32) -> Result<Option<MapHandle>, SockmonError> {
    let path = pins.map(COUNTERS);
    if !path.exists() {
        return Ok(None);
    }
    let map =
        MapHandle::from_pinned_path(&path).map_err(SockmonError::bpf(format!("open {}", path.display())))?;
    Ok(Some(map).filter(|map| map.max_entries() < entries))
}

/// Put the new table of counters in the place of the old one, with what was counted so far. What the old programs count between this and
/// their exchange is lost; policy, stamps and associations are in other maps, which stay.
fn replace_counters(pins: &Pins, old: &MapHandle, new: &MapHandle) -> Result<(), SockmonError> {
    let fail = || SockmonError::bpf("copy the counters of the version before");
    for counter in 0..old.max_entries() {
        let values = old.lookup_percpu(counter.bytes(), MapFlags::ANY).map_err(fail())?;
        if let Some(values) = values {
            new.update_percpu(counter.bytes(), &values, MapFlags::ANY).map_err(fail())?;
        }
    }
    let aside = pins.map(&format!("{COUNTERS}_new"));
    sys::unpin(&aside)?;
    sys::obj_pin_over(new.as_fd(), &aside, &pins.map(COUNTERS))
        .map_err(SockmonError::system("pin the map counters"))
}

/// Load every program on the maps of the instance, creating and pinning those that are not there.
/// What `omit` names is loaded and not attached.
pub fn load(
    instance: &str,
    pins: &Pins,
    marks: Marks,
    inside: &InsideIcmp,
    omit: &[String],
) -> Result<Loaded, SockmonError> {
    check_abi(instance, pins)?;
    quiet();
    let fail = |source| SockmonError::Load { source };
    let mut object = ObjectBuilder::default().open_memory(OBJECT).map_err(fail)?;
    let mut outgrown = None;
    fit(&mut object, omit).map_err(fail)?;
    for mut map in object.maps_mut() {
        if map.name() == OsStr::new(COUNTERS) {
            outgrown = old_counters(pins, map.max_entries())?;
        }
        if map.name() == OsStr::new(COUNTERS) && outgrown.is_some() {
            continue;
        }
        if let Some(name) = MAPS.iter().find(|name| OsStr::new(name) == map.name()) {
            map.set_pin_path(pins.map(name)).map_err(fail)?;
        }
        if map.name().to_string_lossy().ends_with(LAYOUT) {
            map.set_initial_value(crate::marks::layout(marks).bytes()).map_err(fail)?;
        }
        if map.name().to_string_lossy().ends_with(INSIDE) {
            map.set_initial_value(&inside.octets()).map_err(fail)?;
        }
    }
    for mut program in object.progs_mut() {
        let offered = program.name().to_str().is_none_or(is_offered);
        program.set_autoload(offered);
    }
    let object = object.load().map_err(fail)?;
    let mut maps = BTreeMap::new();
    for map in object.maps() {
        if let Some(name) = MAPS.iter().find(|name| OsStr::new(name) == map.name()) {
            maps.insert(*name, MapHandle::try_from(&map).map_err(fail)?);
        }
    }
    if let (Some(old), Some(new)) = (outgrown, maps.get(COUNTERS)) {
        replace_counters(pins, &old, new)?;
    }
    let mut programs = BTreeMap::new();
    for program in object.progs() {
        let is = |known: &&Program| OsStr::new(known.name) == program.name() && is_offered(known.name);
        if let Some(known) = PROGRAMS.iter().find(is) {
            let fd =
                program.as_fd().try_clone_to_owned().map_err(SockmonError::system("copy a descriptor"))?;
            programs.insert(known.name, fd);
        }
    }
    Ok(Loaded { maps: Maps(maps), marks, inside: inside.clone(), programs })
}

/// libbpf's own messages go to the log instead of standard error.
fn quiet() {
    fn log(level: libbpf_rs::PrintLevel, message: String) {
        let message = message.trim_end();
        match level {
            libbpf_rs::PrintLevel::Warn => tracing::warn!(target: "libbpf", "{message}"),
            libbpf_rs::PrintLevel::Info => tracing::debug!(target: "libbpf", "{message}"),
            libbpf_rs::PrintLevel::Debug => tracing::trace!(target: "libbpf", "{message}"),
        }
    }
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Info, log)));
}
