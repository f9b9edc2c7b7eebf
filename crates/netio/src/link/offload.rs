//! Switches for the segmentation and checksum work of a device (ethtool(8) -K), by the ioctl that every kernel has.

use crate::error::{Error, IoContext, Result, check};
use std::os::fd::AsRawFd;

/// A kind of work that the kernel may leave to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// The device cuts TCP super-packets (TSO).
    Tso,
    /// The kernel cuts super-packets of any kind, as late as possible (GSO).
    Gso,
    /// The kernel joins packets on receipt (GRO).
    Gro,
    /// The device computes the checksums of what is sent.
    TxChecksum,
}

impl Offload {
    /// ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO, ETHTOOL_STXCSUM of linux/ethtool.h.
    const fn command(self) -> u32 {
        match self {
            Offload::Tso => 0x1f,
            Offload::Gso => 0x24,
            Offload::Gro => 0x2c,
            Offload::TxChecksum => 0x17,
        }
    }
}

/// `struct ethtool_value` of linux/ethtool.h, the argument of these commands.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Turn `work` of the device `name` on or off, in the calling thread's network namespace.
pub fn set_offload(name: &str, work: Offload, on: bool) -> Result<()> {
    let what = || format!("switching {work:?} of {name} {}", if on { "on" } else { "off" });
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).doing(what)?;
    let mut value = Value { command: work.command(), data: u32::from(on) };
    let mut request = interface_request(name)?;
    request.ifr_ifru.ifru_data = std::ptr::from_mut(&mut value).cast();
    // SAFETY: `request` holds a terminated name and a pointer to a live ethtool_value, as SIOCETHTOOL wants.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &mut request) }).doing(what)?;
    Ok(())
}

/// The number of queues on which the device `name` receives (ethtool -l); one where its driver does not say.
pub fn receive_queues(name: &str) -> Result<u32> {
    /// `struct ethtool_channels` of linux/ethtool.h, which the kernel fills in.
    #[repr(C)]
    #[derive(Default)]
    struct Channels {
        command: u32,
        most: [u32; 4],
        rx: u32,
        tx: u32,
        other: u32,
        combined: u32,
    }
    const GCHANNELS: u32 = 0x3c;
    let what = || format!("asking for the queues of {name}");
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).doing(what)?;
    let mut channels = Channels { command: GCHANNELS, ..Channels::default() };
    let mut request = interface_request(name)?;
    request.ifr_ifru.ifru_data = std::ptr::from_mut(&mut channels).cast();
    // SAFETY: `request` holds a terminated name and a pointer to a live ethtool_channels, as SIOCETHTOOL wants.
    match check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &mut request) }) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(1),
        answer => answer.doing(what).map(|_| (channels.rx + channels.combined).max(1)),
    }
}

/// A struct ifreq that names a device and is zero otherwise.
pub(crate) fn interface_request(name: &str) -> Result<libc::ifreq> {
    // SAFETY: ifreq is plain old data; all zeroes is a valid value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let bytes = name.as_bytes();
    // The last octet stays zero.
    if bytes.is_empty()
        || bytes.len() >= request.ifr_name.len()
        || bytes.contains(&0)
        || bytes.contains(&b'/')
    {
        return Err(Error::unfit(format!("`{name}` cannot name a device"), "use 1 to 15 letters and digits"));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = from.cast_signed() as libc::c_char;
    }
    Ok(request)
}
