//! Outer packets as Ethernet frames, past the kernel's IP stack (packet(7)).
//!
//! What enters from the engine: bursts and packets, whose frames are written here: Ethernet header, IP, UDP. The next hop
//! is the kernel's (its routes and its table of neighbours); firewall, traffic control and tunnels of the host do not see
//! the frames. What leaves to the engine: bursts and packets that were for this station: ESP in UDP to our port, bare ESP and AH,
//! fragments of them.
//!
//! Both ways a frame may be a super-packet with a vnet header in front: many datagrams of one flow, as UDP_SEGMENT and UDP_GRO
//! have them. No ring is mapped: a packet is opened where it lies, in a buffer of the pool, so one copy is what there must be,
//! and a ring of TPACKET_V3 would add a second and up to a jiffy of waiting for its block.
//!
//! [`crate::xdp`] is another way for the same frames, one datagram each.
//!
//! The sockets of [`crate::udp`] and [`crate::raw`] stay open, deaf ([`deafen`]), so that the kernel answers no frame with an
//! ICMP error; what cannot leave as a frame (no neighbour yet, to be fragmented) leaves by them.

mod fanout;
mod filter;
mod flood;
mod receive;
mod receiver;
mod send;

pub use filter::{deafen, undeafen};
pub use flood::{FRAME, FloodStats, Flooder};
pub use receive::Frames;
pub use receiver::{FrameHandle, FrameReceiver, FramesReceived};
pub use send::{FrameSender, Unsent};

pub(crate) use fanout::Fanout;

use crate::error::{IoContext, Result};
use crate::sockopt;
use socket2::{Domain, Socket, Type};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The octets of the vnet header that a packet socket puts in front (struct virtio_net_hdr).
const VNET_LEN: usize = 10;
/// The octets that the kernel may queue per socket.
const BUFFER: usize = 8 << 20;

const PACKET_VNET_HDR: libc::c_int = 15;

/// A device whose frames are sent and received here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameDevice {
    /// The name of the device, for messages.
    pub name: String,
    /// The index of the device.
    pub index: u32,
    /// The Ethernet address of the device.
    pub station: [u8; 6],
    /// The MTU of the device: the longest IP packet, in octets.
    pub mtu: u32,
}

impl FrameDevice {
    /// The device of this index in the calling thread's network namespace.
    ///
    /// # Errors
    /// If it is not there, or is no Ethernet.
    pub fn of(index: u32) -> Result<FrameDevice> {
        let all = crate::link::Links::open()?.list()?;
        let Some(link) = all.into_iter().find(|link| link.index == index) else {
            return Err(crate::Error::unfit(format!("there is no device {index}"), "see `ip link`"));
        };
        match link.address.as_slice().try_into() {
            Ok(station) if !link.loopback => {
                Ok(FrameDevice { name: link.name, index, station, mtu: link.mtu })
            }
            _ => Err(crate::Error::unfit(
                format!("{} is no Ethernet: it has no frames to send", link.name),
                "use outer = \"udp\" in [io]",
            )),
        }
    }
}

/// A packet socket on a device, with vnet headers; `protocol` 0 receives nothing.
pub(crate) fn open_frames(
    device: &FrameDevice,
    protocol: u16,
    prepare: impl FnOnce(&Socket) -> io::Result<()>,
) -> Result<Socket> {
    let what = || format!("opening a packet socket on {}", device.name);
    let open = || -> io::Result<Socket> {
        let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking().cloexec(), None)?;
        sockopt::set_int(&socket, libc::SOL_PACKET, PACKET_VNET_HDR, 1)?;
        prepare(&socket)?;
        bind(&socket, device.index, protocol)?;
        Ok(socket)
    };
    open().doing(what)
}

fn bind(socket: &Socket, index: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain old data; all zeroes is a valid value of it.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::sa_family_t;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index.cast_signed();
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` is a live sockaddr_ll of `len` octets.
    let bound = unsafe { libc::bind(socket.as_fd().as_raw_fd(), std::ptr::from_ref(&address).cast(), len) };
    crate::error::check(bound).map(drop)
}
