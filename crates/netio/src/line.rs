//! Frames of one interface of a line, for one worker (packet(7), docs/design/0024).
//!
//! What enters: every frame that arrives at the interface and that the group of sockets gives to this one, super-packets whole, with
//! what the kernel left to do of them. What leaves: frames by the same interface. The interface is promiscuous while a port is open:
//! the frames are for other stations.
//!
//! No ring is mapped: a frame is scrubbed where it lies, in a buffer of the pool, so one copy is what there must be. A port is
//! deaf until [`Port::listen`], so that no frame is heard by a socket that is not in its group yet.

mod receive;
mod send;

pub use receive::Arrived;
pub use send::{OutgoingFrame, SendResult};

use crate::error::{IoContext, Result};
use crate::packet::{Fanout, FrameDevice, deafen, open_frames, undeafen};
use crate::sockopt;
use socket2::Socket;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use wire::Buf;

/// The octets that a buffer needs in front of a frame: the vnet header, two tags more than the frame had, and some room
/// for changes of its headers.
pub const HEADROOM: usize = 64;
/// The octets that a frame needs in front of it when it leaves.
pub const PREFIX: usize = crate::vnet::LEN;
/// The length in octets of the longest frame, with its vnet header and tags.
pub const FRAME: usize = PREFIX + 26 + 65_536;
/// Frames taken or sent with one system call. As super-packets they are a mebibyte, which is what a processor's own cache holds; more
/// gained nothing with small frames either (docs/design/0024).
pub const BATCH: usize = 16;

/// The octets that the kernel may queue in each direction.
const BUFFER: libc::c_int = 16 << 20;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// The socket of one worker on one interface.
#[derive(Debug)]
pub struct Port {
    socket: Socket,
    device: FrameDevice,
    /// Buffers that wait for a frame.
    slots: Vec<Buf>,
    /// Frames that the kernel had no room for.
    lost: u64,
}

impl Port {
    /// Open a socket on an interface. It hears nothing yet.
    ///
    /// # Errors
    /// If the kernel refuses (CAP_NET_RAW, CAP_NET_ADMIN).
    pub fn open(device: &FrameDevice) -> Result<Port> {
        let socket = open_frames(device, libc::ETH_P_ALL as u16, |socket| {
            // Before it is bound.
            deafen(socket).map_err(io::Error::other)?;
            for (option, value) in [(PACKET_IGNORE_OUTGOING, 1), (libc::PACKET_AUXDATA, 1)] {
                sockopt::set_int(socket, libc::SOL_PACKET, option, value)?;
            }
            for option in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
                sockopt::set_int(socket, libc::SOL_SOCKET, option, BUFFER)?;
            }
            promiscuous(socket, device.index)
        })?;
        Ok(Port { socket, device: device.clone(), slots: Vec::new(), lost: 0 })
    }

    /// Share the interface's frames among ports: each frame is heard by the one whose place in the list is what `shard` says,
    /// modulo their number.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn share(ports: &[&Port], shard: BorrowedFd<'_>) -> Result<()> {
        let Some((first, others)) = ports.split_first() else { return Ok(()) };
        let join = || {
            let group = Fanout::new(&first.socket, shard)?;
            others.iter().try_for_each(|port| group.add(&port.socket))
        };
        join().doing(|| format!("sharing the frames of {}", first.device.name))
    }

    /// Hear frames from now on.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn listen(&self) -> Result<()> {
        undeafen(&self.socket)
    }

    /// Hear none from now on; those that were heard still wait.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn deafen(&self) -> Result<()> {
        deafen(&self.socket)
    }

    /// The interface that this socket is bound to.
    pub fn device(&self) -> &FrameDevice {
        &self.device
    }

    /// Frames that arrived when the socket had no room, since it was made. Asks the kernel: not for every frame.
    pub fn lost(&mut self) -> u64 {
        // SAFETY: struct tpacket_stats is two numbers, both of which the kernel writes.
        let seen = unsafe { sockopt::get(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS) };
        // The kernel counts from zero again after each answer.
        let [_, dropped]: [u32; 2] = seen.unwrap_or_default();
        self.lost += u64::from(dropped);
        self.lost
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Frames for other stations, as long as the socket lives.
fn promiscuous(socket: &Socket, index: u32) -> io::Result<()> {
    let member = libc::packet_mreq {
        mr_ifindex: index.cast_signed(),
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    sockopt::set(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &member)
}
