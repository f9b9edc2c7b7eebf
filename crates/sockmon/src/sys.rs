//! The system calls that libbpf-rs does not offer, each behind a safe function.

use crate::abi::Wire;
use crate::error::SockmonError;
use std::ffi::{CStr, CString, c_int};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

/// The path where bpffs is mounted, or is to be mounted.
pub const BPFFS: &str = "/sys/fs/bpf";

/// The position at which a tcx program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tcx {
    Ingress,
    Egress,
}

impl Tcx {
    fn attach_type(self) -> libbpf_sys::bpf_attach_type {
        match self {
            Tcx::Ingress => libbpf_sys::BPF_TCX_INGRESS,
            Tcx::Egress => libbpf_sys::BPF_TCX_EGRESS,
        }
    }
}

/// The object that a link is attached to, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkTarget {
    /// A cgroup, by its id; 0: the cgroup is gone.
    Cgroup { id: u64, attach_type: u32 },
    /// A device, by its index; 0: the device is gone.
    Tcx { ifindex: u32, attach_type: u32 },
    /// A tracepoint, or a function of the kernel.
    Tracepoint,
    /// A target of another kind.
    Other,
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// libbpf returns a descriptor or a negative errno.
fn owned(ret: c_int) -> io::Result<OwnedFd> {
    let ret = done(ret)?;
    // SAFETY: libbpf (or the kernel) has just returned this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(ret) })
}

fn done(ret: c_int) -> io::Result<c_int> {
    if ret < 0 { Err(io::Error::from_raw_os_error(-ret)) } else { Ok(ret) }
}

fn last(ret: libc::c_long) -> io::Result<c_int> {
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(ret as c_int) }
}

/// Open a pinned object.
pub fn obj_get(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    // SAFETY: a valid C string.
    owned(unsafe { libbpf_sys::bpf_obj_get(path.as_ptr()) })
}

/// Pin an object under a path that does not exist yet.
pub fn obj_pin(fd: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: a valid C string and an open descriptor.
    done(unsafe { libbpf_sys::bpf_obj_pin(fd.as_raw_fd(), path.as_ptr()) }).map(drop)
}

/// Pin an object under a path, in place of what is there, by way of `aside`, which does not exist yet.
pub fn obj_pin_over(fd: BorrowedFd<'_>, aside: &Path, path: &Path) -> io::Result<()> {
    obj_pin(fd, aside)?;
    std::fs::rename(aside, path)
}

/// Attach a program to a cgroup, beside others.
pub fn link_cgroup(prog: BorrowedFd<'_>, cgroup: BorrowedFd<'_>, attach_type: u32) -> io::Result<OwnedFd> {
    // SAFETY: open descriptors; null options are allowed.
    owned(unsafe {
        libbpf_sys::bpf_link_create(prog.as_raw_fd(), cgroup.as_raw_fd(), attach_type, std::ptr::null())
    })
}

/// Attach a program to a device, in front of all others.
pub fn link_tcx(prog: BorrowedFd<'_>, ifindex: u32, at: Tcx) -> io::Result<OwnedFd> {
    const BPF_F_BEFORE: u32 = 1 << 3;
    let opts = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as _,
        flags: BPF_F_BEFORE,
        ..Default::default()
    };
    let target = c_int::try_from(ifindex).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: an open descriptor and options that live for the call.
    owned(unsafe { libbpf_sys::bpf_link_create(prog.as_raw_fd(), target, at.attach_type(), &opts) })
}

/// Whether the calling thread's network namespace has a device of this index.
pub fn has_device(ifindex: u32) -> bool {
    let mut name = [0 as libc::c_char; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the length that the call wants.
    !unsafe { libc::if_indextoname(ifindex, name.as_mut_ptr()) }.is_null()
}

/// Whether programs of a kind may call a helper here.
pub fn offers_helper(kind: libbpf_sys::bpf_prog_type, helper: libbpf_sys::bpf_func_id) -> bool {
    // SAFETY: numbers, and null options are what the call wants. It loads a program of one call and looks at the answer.
    unsafe { libbpf_sys::libbpf_probe_bpf_helper(kind, helper, std::ptr::null()) == 1 }
}

/// Attach a program to the tracepoint or function of the kernel that it was loaded for.
pub fn link_tracepoint(prog: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: a null name is what such programs need.
    owned(unsafe { libbpf_sys::bpf_raw_tracepoint_open(std::ptr::null(), prog.as_raw_fd()) })
}

/// The way by which a program is attached to the kernel's security hook of `setsockopt`.
#[derive(Clone, Copy, Debug)]
pub enum Security {
    /// The program runs as one of the kernel's security modules.
    Module,
    /// The program runs in front of the kernel's security modules.
    Return,
}

/// A program at the security hook of `setsockopt` that refuses (EPERM) every option of one level.
pub fn load_refusal(hook: Security, level: i32) -> io::Result<OwnedFd> {
    let (kind, attach, name) = match hook {
        Security::Module => (libbpf_sys::BPF_PROG_TYPE_LSM, libbpf_sys::BPF_LSM_MAC, c"socket_setsockopt"),
        Security::Return => {
            (libbpf_sys::BPF_PROG_TYPE_TRACING, libbpf_sys::BPF_MODIFY_RETURN, c"security_socket_setsockopt")
        }
    };
    // SAFETY: a C string.
    let function = done(unsafe { libbpf_sys::libbpf_find_vmlinux_btf_id(name.as_ptr(), attach) })?;
    let instruction = |code, destination, source, off, imm| libbpf_sys::bpf_insn {
        code,
        _bitfield_1: libbpf_sys::bpf_insn::new_bitfield_1(destination, source),
        off,
        imm,
        ..Default::default()
    };
    // r2 = the second argument; r0 = 0; if r2 is another level, end; r0 = -EPERM; end.
    let program = [
        instruction(0x79, 2, 1, 8, 0),
        instruction(0xb7, 0, 0, 0, 0),
        instruction(0x56, 2, 0, 1, level),
        instruction(0xb7, 0, 0, 0, -libc::EPERM),
        instruction(0x95, 0, 0, 0, 0),
    ];
    let mut opts = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as _,
        expected_attach_type: attach,
        attach_btf_id: function as u32,
        ..Default::default()
    };
    // SAFETY: C strings; as many instructions as are said; the options live for the call.
    owned(unsafe {
        libbpf_sys::bpf_prog_load(
            kind,
            c"ravelin_try".as_ptr(),
            c"GPL".as_ptr(),
            program.as_ptr(),
            program.len() as _,
            &raw mut opts,
        )
    })
}

/// Whether the calling thread may not set an option of this level, which no socket has.
pub fn is_option_refused(level: i32) -> io::Result<bool> {
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    let value = 0u32;
    // SAFETY: the buffer has the length that is passed.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), level, 1, (&raw const value).cast(), 4) };
    Ok(set < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EPERM))
}

/// Exchange the program of a link, without a moment between.
pub fn link_update(link: BorrowedFd<'_>, prog: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: open descriptors; null options are allowed.
    done(unsafe { libbpf_sys::bpf_link_update(link.as_raw_fd(), prog.as_raw_fd(), std::ptr::null()) })
        .map(drop)
}

/// Remove a pin, if it is there.
pub fn unpin(path: &Path) -> Result<(), SockmonError> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(SockmonError::system(format!("remove {}", path.display()))(e))
        }
        _ => Ok(()),
    }
}

/// Take a link off its hook at once; closing or unpinning it would take the kernel a moment. Tracepoints cannot do this.
pub fn link_detach(link: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: an open descriptor.
    done(unsafe { libbpf_sys::bpf_link_detach(link.as_raw_fd()) }).map(drop)
}

/// A link on an iterator, restricted to one process if `pid` is given.
pub fn link_iter(prog: BorrowedFd<'_>, pid: Option<u32>) -> io::Result<OwnedFd> {
    let mut info = libbpf_sys::bpf_iter_link_info::default();
    let mut opts = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as _,
        ..Default::default()
    };
    if let Some(pid) = pid {
        info.task.pid = pid;
        opts.iter_info = &raw mut info;
        opts.iter_info_len = size_of_val(&info) as u32;
    }
    // SAFETY: an open descriptor; the options and what they point to live for the call.
    owned(unsafe { libbpf_sys::bpf_link_create(prog.as_raw_fd(), 0, libbpf_sys::BPF_TRACE_ITER, &opts) })
}

/// Run an iterator and return all it wrote.
pub fn iterate(link: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    // SAFETY: an open descriptor.
    let fd = owned(unsafe { libbpf_sys::bpf_iter_create(link.as_raw_fd()) })?;
    let mut file = File::from(fd);
    let mut out = Vec::new();
    let mut chunk = vec![0u8; 64 * 1024];
    loop {
        match io::Read::read(&mut file, &mut chunk) {
            Ok(0) => return Ok(out),
            Ok(n) => out.extend_from_slice(&chunk[..n]),
            // The kernel stops after a million objects without output and asks to be called again.
            Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {}
            Err(e) => return Err(e),
        }
    }
}

/// The program behind a link and what it is attached to.
pub fn link_info(link: BorrowedFd<'_>) -> io::Result<(u32, LinkTarget)> {
    let mut info = libbpf_sys::bpf_link_info::default();
    let mut len = size_of_val(&info) as u32;
    // SAFETY: the buffer has the length that is passed.
    done(unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(link.as_raw_fd(), (&raw mut info).cast(), &raw mut len)
    })?;
    // SAFETY: the kernel filled the member that belongs to the type; all are plain integers.
    let target = unsafe {
        match info.type_ {
            libbpf_sys::BPF_LINK_TYPE_CGROUP => {
                let cgroup = info.__bindgen_anon_1.cgroup;
                LinkTarget::Cgroup { id: cgroup.cgroup_id, attach_type: cgroup.attach_type }
            }
            libbpf_sys::BPF_LINK_TYPE_TCX => {
                let tcx = info.__bindgen_anon_1.tcx;
                LinkTarget::Tcx { ifindex: tcx.ifindex, attach_type: tcx.attach_type }
            }
            libbpf_sys::BPF_LINK_TYPE_RAW_TRACEPOINT | libbpf_sys::BPF_LINK_TYPE_TRACING => {
                LinkTarget::Tracepoint
            }
            _ => LinkTarget::Other,
        }
    };
    Ok((info.prog_id, target))
}

/// A program's number, runs and nanoseconds.
pub fn prog_info(prog: BorrowedFd<'_>) -> io::Result<(u32, u64, u64)> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut len = size_of_val(&info) as u32;
    // SAFETY: the buffer has the length that is passed.
    done(unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(prog.as_raw_fd(), (&raw mut info).cast(), &raw mut len)
    })?;
    Ok((info.id, info.run_cnt, info.run_time_ns))
}

/// The program of this number.
pub fn prog_by_id(number: u32) -> io::Result<OwnedFd> {
    // SAFETY: no pointer is passed.
    let fd = unsafe { libbpf_sys::bpf_prog_get_fd_by_id(number) };
    done(fd)?;
    // SAFETY: the kernel has just returned it to us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A program's name, as much as the kernel keeps of it.
pub fn prog_name(prog: BorrowedFd<'_>) -> io::Result<String> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut len = size_of_val(&info) as u32;
    // SAFETY: the buffer has the length that is passed.
    done(unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(prog.as_raw_fd(), (&raw mut info).cast(), &raw mut len)
    })?;
    let octets: Vec<u8> = info.name.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
    Ok(String::from_utf8_lossy(&octets).into_owned())
}

/// Run a program once over a frame; what it returned.
pub fn prog_run(prog: BorrowedFd<'_>, frame: &[u8]) -> io::Result<u32> {
    let mut opts = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
        data_in: frame.as_ptr().cast(),
        data_size_in: u32::try_from(frame.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        repeat: 1,
        ..Default::default()
    };
    // SAFETY: an open descriptor; the options and the frame that they point to live for the call.
    done(unsafe { libbpf_sys::bpf_prog_test_run_opts(prog.as_raw_fd(), &raw mut opts) })?;
    Ok(opts.retval)
}

/// The numbers of the programs on a device, first to last.
pub fn tcx_programs(ifindex: u32, at: Tcx) -> io::Result<Vec<u32>> {
    let mut ids = [0u32; 64];
    let mut opts = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as _,
        prog_ids: ids.as_mut_ptr(),
        ..Default::default()
    };
    opts.__bindgen_anon_1.count = ids.len() as u32;
    let target = c_int::try_from(ifindex).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the array has as many entries as `count` says and lives for the call.
    done(unsafe { libbpf_sys::bpf_prog_query_opts(target, at.attach_type(), &raw mut opts) })?;
    // SAFETY: both members of the union are u32.
    let count = unsafe { opts.__bindgen_anon_1.count } as usize;
    Ok(ids[..count.min(ids.len())].to_vec())
}

/// The number of the attach type, for comparison with [`LinkTarget::Tcx`].
pub fn tcx_attach_type(at: Tcx) -> u32 {
    at.attach_type()
}

/// Count runs and time of every program while the descriptor lives.
pub fn enable_stats() -> io::Result<OwnedFd> {
    // SAFETY: no pointer is passed.
    owned(unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) })
}

/// Every entry of a map (array, hash, longest prefix), `most` in one call; nobody else may be deleting from it.
pub fn map_entries<K: Wire, V: Wire>(map: BorrowedFd<'_>, most: usize) -> io::Result<Vec<(K, V)>> {
    // Where the next call goes on: a key, or a number of at least four octets.
    let mut place = vec![0u8; size_of::<K>().max(8)];
    let mut from: *mut libc::c_void = std::ptr::null_mut();
    let (mut keys, mut values) = (vec![0u8; most * size_of::<K>()], vec![0u8; most * size_of::<V>()]);
    let opts = libbpf_sys::bpf_map_batch_opts {
        sz: size_of::<libbpf_sys::bpf_map_batch_opts>() as _,
        ..Default::default()
    };
    let mut out = Vec::new();
    loop {
        let mut count = u32::try_from(most).unwrap_or(u32::MAX);
        // SAFETY: the buffers have room for `count` keys and values, and for a place; an array's values are multiples of eight
        // octets only where each processor has its own, which no caller's have.
        let ret = unsafe {
            libbpf_sys::bpf_map_lookup_batch(
                map.as_raw_fd(),
                from,
                place.as_mut_ptr().cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                &raw mut count,
                &raw const opts,
            )
        };
        // ENOENT: these were the last.
        let is_last = ret == -libc::ENOENT;
        if !is_last && ret != -libc::EINTR {
            done(ret)?;
        }
        if ret != -libc::EINTR {
            let some = keys.chunks_exact(size_of::<K>()).zip(values.chunks_exact(size_of::<V>()));
            out.extend(some.take(count as usize).filter_map(|(key, value)| K::read(key).zip(V::read(value))));
            from = place.as_mut_ptr().cast();
        }
        if is_last {
            return Ok(out);
        }
    }
}

/// Wait until every program that runs now has ended (an RCU grace period).
pub fn wait_for_readers() -> io::Result<()> {
    const MEMBARRIER_CMD_GLOBAL: c_int = 1;
    // SAFETY: no pointer is passed.
    last(unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) }).map(drop)
}

/// A descriptor of a process.
pub fn pidfd_open(pid: u32) -> io::Result<OwnedFd> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: no pointer is passed.
    owned(last(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?)
}

/// A copy of a descriptor of another process.
pub fn pidfd_getfd(pidfd: BorrowedFd<'_>, fd: u32) -> io::Result<OwnedFd> {
    // SAFETY: no pointer is passed.
    owned(last(unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), fd, 0) })?)
}

/// An integer option of a socket.
pub fn socket_option<T: Wire + Default>(socket: BorrowedFd<'_>, name: c_int) -> io::Result<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the buffer has the length that is passed, and any bit pattern is a T.
    last(libc::c_long::from(unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut len)
    }))?;
    Ok(value)
}

/// Set the mark of a socket.
pub fn set_mark(socket: BorrowedFd<'_>, mark: u32) -> io::Result<()> {
    // SAFETY: the buffer has the length that is passed.
    last(libc::c_long::from(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MARK,
            (&raw const mark).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    }))
    .map(drop)
}

/// End a connection at once: what it has not sent is thrown away, and the peer gets a reset.
pub fn abort(socket: BorrowedFd<'_>) -> io::Result<()> {
    let nobody = libc::sockaddr { sa_family: libc::AF_UNSPEC as _, sa_data: [0; 14] };
    // SAFETY: the address has the length that is passed.
    last(libc::c_long::from(unsafe {
        libc::connect(socket.as_raw_fd(), &raw const nobody, size_of_val(&nobody) as libc::socklen_t)
    }))
    .map(drop)
}

/// The cookie of the calling thread's network namespace.
pub fn netns_cookie() -> io::Result<u64> {
    let socket =
        std::net::UdpSocket::bind("127.0.0.1:0").or_else(|_| std::net::UdpSocket::bind("0.0.0.0:0"))?;
    socket_option(socket.as_fd(), libc::SO_NETNS_COOKIE)
}

/// Mount bpffs on [`BPFFS`] unless it is.
pub fn ensure_bpffs() -> io::Result<()> {
    const BPF_FS_MAGIC: i64 = 0xcafe_4a11;
    let path = c_path(Path::new(BPFFS))?;
    // SAFETY: zeroes are a statfs.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: a valid C string and a buffer of the right type.
    last(libc::c_long::from(unsafe { libc::statfs(path.as_ptr(), &raw mut stat) }))?;
    #[allow(clippy::unnecessary_cast, reason = "the field's width differs between architectures")]
    if stat.f_type as i64 == BPF_FS_MAGIC {
        return Ok(());
    }
    const TYPE: &CStr = c"bpf";
    // SAFETY: valid C strings; bpffs takes options, here none.
    let ret =
        unsafe { libc::mount(TYPE.as_ptr(), path.as_ptr(), TYPE.as_ptr(), 0, c"mode=0700".as_ptr().cast()) };
    last(libc::c_long::from(ret)).map(drop)
}

/// Change time of a file (seconds, nanoseconds) and its size.
pub fn change_time(file: BorrowedFd<'_>) -> io::Result<(u64, u64, u64)> {
    // SAFETY: zeroes are a stat.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor and a buffer of the right type.
    last(libc::c_long::from(unsafe { libc::fstat(file.as_raw_fd(), &raw mut stat) }))?;
    let positive = |n: i64| u64::try_from(n).unwrap_or(0);
    Ok((positive(stat.st_ctime), positive(stat.st_ctime_nsec), positive(stat.st_size)))
}

/// File systems of this host alone that give a file another change time whenever it is changed. Not those that take the time
/// from a server or that stand in front of another (overlayfs, FUSE), nor FAT.
const KEEP_CHANGE_TIMES: [i64; 9] = [
    0xef53,      // ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0xf2f5_2010, // F2FS
    0xca45_1a4e, // bcachefs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x7371_7368, // SquashFS
    0xe0f5_e1e2, // EROFS
];

/// Whether a file is on one of those.
pub fn keeps_change_times(file: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: zeroes are a statfs.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor and a buffer of the right type.
    last(libc::c_long::from(unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut stat) }))?;
    #[allow(clippy::unnecessary_cast, reason = "the field's width differs between architectures")]
    let kind = stat.f_type as i64;
    Ok(KEEP_CHANGE_TIMES.contains(&kind))
}

/// Memory of a map that user space and programs share.
#[derive(Debug)]
pub struct Shared<T> {
    at: NonNull<T>,
}

// SAFETY: the memory is the map's as long as this lives, and whoever maps it as a T promises that T is atomics alone.
unsafe impl<T: Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Map the values of an array that was made with BPF_F_MMAPABLE.
    ///
    /// # Safety
    /// The values of the map are at least as long as a T, which consists of atomics.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub unsafe fn map(map: BorrowedFd<'_>) -> io::Result<Shared<T>> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: no address is asked for, and the descriptor is open.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), size_of::<T>(), access, libc::MAP_SHARED, map.as_raw_fd(), 0)
        };
        match NonNull::new(at.cast::<T>()) {
            Some(at) if at.as_ptr().cast() != libc::MAP_FAILED => Ok(Shared { at }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The memory that is shared with the programs.
    #[inline]
    pub fn get(&self) -> &T {
        // SAFETY: it is mapped as long as this lives, on a page boundary, and is a T by the promise of `map`.
        unsafe { self.at.as_ref() }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody has a reference any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), size_of::<T>()) };
    }
}
