//! The ioctls of /dev/net/tun (linux/if_tun.h).

use crate::error::{Error, IoContext, Result, check};
use crate::link::interface_request;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

const PATH: &str = "/dev/net/tun";

/// UDP super-packets of both families.
pub(super) const USO: u32 = libc::TUN_F_USO4 | libc::TUN_F_USO6;
const TSO: u32 = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;

/// Flags of a TUN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flags(libc::c_short);

impl Flags {
    /// The flags with which the device is opened. IFF_NAPI is left out, because whole packets or super-packets are
    /// written here.
    pub(super) const WANTED: Flags =
        Flags((libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short);

    /// A device whose queues several descriptors may hold.
    pub(super) const MULTI_QUEUE: Flags = Flags(libc::IFF_MULTI_QUEUE as libc::c_short);

    /// The flags with which a device of several queues is opened.
    pub(super) const SEVERAL: Flags = Flags(Flags::WANTED.0 | Flags::MULTI_QUEUE.0);

    /// Attach to no device that is there already.
    pub(super) const NEW: Flags = Flags(libc::IFF_TUN_EXCL as libc::c_short);

    pub(super) fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    pub(super) fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The user and group that may attach to a device: root alone, beside processes with CAP_NET_ADMIN there. If neither is
/// set the kernel lets *everybody* attach: to a device of one queue while nobody holds it, to one of several queues at any
/// time (docs/design/0002, 0041).
const OWNER: libc::c_ulong = 0;
const GROUP: libc::c_ulong = 0;

/// Open or make the TUN `name` of one queue, which is root's from here on, whoever made it; what it is called.
pub(crate) fn open(name: &str) -> Result<(File, String)> {
    let (file, name) = attach(name, Flags::WANTED, None)?;
    // Nobody else can attach as long as we hold the only queue, so there is no moment between the two.
    own(&file).doing(|| format!("making the TUN {name} root's"))?;
    Ok((file, name))
}

/// Attach to the TUN `name` in the calling thread's network namespace, made if it is not there (with the interface index
/// `index`, if one is given); what it is called. It belongs to whom it belonged to, a new one to nobody.
pub(super) fn attach(name: &str, flags: Flags, index: Option<u32>) -> Result<(File, String)> {
    let file =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(PATH);
    let file = match file {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(Error::unfit(format!("there is no {PATH}"), "load the kernel module: modprobe tun"));
        }
        file => file.doing(|| format!("opening {PATH}"))?,
    };
    let what = || format!("opening the TUN {name}");
    if let Some(index) = index {
        // SAFETY: TUNSETIFINDEX reads one unsigned int.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFINDEX, &index) }).doing(what)?;
    }
    let mut request = interface_request(name)?;
    request.ifr_ifru.ifru_flags = flags.0;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which `request` is.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) }).doing(what)?;
    let size = crate::vnet::LEN as libc::c_int;
    // SAFETY: TUNSETVNETHDRSZ reads one int.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETHDRSZ, &size) }).doing(what)?;
    Ok((file, name_in(&request)))
}

/// Take a queue out of the device's use, or put it back. What waits in it is lost when it is taken out.
pub(super) fn set_attached(file: &File, attached: bool) -> io::Result<()> {
    // SAFETY: ifreq is plain old data; all zeroes is a valid value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let flag = if attached { libc::IFF_ATTACH_QUEUE } else { libc::IFF_DETACH_QUEUE };
    request.ifr_ifru.ifru_flags = flag as libc::c_short;
    // SAFETY: TUNSETQUEUE reads one ifreq, which `request` is.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETQUEUE, &request) }).map(drop)
}

/// Let a BPF program of the kind socket filter choose the queue of a packet (its answer, modulo the number of attached
/// queues); without one the kernel chooses by flow.
pub(super) fn set_steering(file: &File, program: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let program = program.map_or(-1, |program| program.as_raw_fd());
    // SAFETY: TUNSETSTEERINGEBPF reads one int: -1, or a descriptor that is open here. The device keeps the program by itself.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETSTEERINGEBPF, &program) }).map(drop)
}

/// Give the device behind a descriptor to root.
pub(super) fn own(file: &File) -> io::Result<()> {
    // SAFETY: TUNSETOWNER takes its argument by value.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOWNER, OWNER) })?;
    // SAFETY: TUNSETGROUP takes its argument by value.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETGROUP, GROUP) }).map(drop)
}

/// Let a BPF program of the kind socket filter decide what comes into the device's queues: the octets of a packet that stay, 0 for none.
pub(super) fn set_filter(file: &File, program: BorrowedFd<'_>) -> io::Result<()> {
    let program = program.as_raw_fd();
    // SAFETY: TUNSETFILTEREBPF reads one int, a descriptor that is open here. The device keeps the program by itself.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETFILTEREBPF, &program) }).map(drop)
}

/// Name and flags of the device behind a descriptor.
pub(super) fn identity(file: &File) -> io::Result<(String, Flags)> {
    // SAFETY: ifreq is plain old data; all zeroes is a valid value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // SAFETY: TUNGETIFF writes one ifreq, which `request` is.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNGETIFF, &mut request) })?;
    let name = name_in(&request);
    // SAFETY: TUNGETIFF fills the flags of the union.
    Ok((name, Flags(unsafe { request.ifr_ifru.ifru_flags })))
}

fn name_in(request: &libc::ifreq) -> String {
    request.ifr_name.iter().take_while(|&&c| c != 0).map(|&c| char::from(c.cast_unsigned())).collect()
}

/// Take super-packets or not; the bits that the kernel accepted. Older kernels do not know USO.
pub(crate) fn set_offloads(file: &File, wanted: bool) -> io::Result<u32> {
    let tries: &[u32] = if wanted { &[TSO | USO, TSO] } else { &[0] };
    let mut answer = Err(io::Error::from_raw_os_error(libc::EINVAL));
    for &bits in tries {
        // SAFETY: TUNSETOFFLOAD takes its argument by value.
        answer =
            check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(bits)) })
                .map(|_| bits);
        if answer.is_ok() {
            break;
        }
    }
    answer
}

/// Set whether the device outlives its descriptors.
pub(super) fn set_persistent(file: &File, persist: bool) -> io::Result<()> {
    // SAFETY: TUNSETPERSIST takes its argument by value.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETPERSIST, libc::c_ulong::from(persist)) })
        .map(drop)
}
