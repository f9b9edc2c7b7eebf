//! ESP in UDP (RFC 3948) as whole IP packets: what enters from the engine is `Packet<Outer>`, IP and UDP header included,
//! and only its UDP payload is given to the kernel, with the header's addresses, port, type of service and time to
//! live. What leaves to the engine is `Packet<Raw>`: the datagram behind the headers it travelled in, written anew.
//!
//! Or many at once: a [`wire::Burst`] leaves with one system call (UDP_SEGMENT) and arrives with one (UDP_GRO), and the
//! kernel walks its stack once for all its datagrams. UDP checksums stay on: both offloads need them.
//!
//! The sockets must be made by a process that is *already* in the exempt cgroup: a socket keeps the cgroup it was made
//! in, and the uplink's program would redirect outer packets of any other (research: host path, section 5).
//! IP fragments of outer packets are put together by the kernel before we see them.

mod burst;
mod control;
mod holder;
mod priority;
mod queues;
mod receive;
mod send;
mod socket;

pub use burst::SendResult;
pub(crate) use burst::send_many;
pub(crate) use control::IPV6_FLOWINFO;
pub use holder::{Holder, holders};
pub(crate) use priority::PriorityMessage;
pub use priority::takes_priorities;
pub use queues::GivenUp;
pub use receive::Received;
pub(crate) use receive::{ArrivedDatagram, receive};
pub use send::take_errno;
pub(crate) use send::{Outgoing, patiently, send_whole};
pub use socket::Family;

use crate::error::{IoContext, Result};
use socket::FamilySockets;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use wire::Buf;

/// The octets of headers that a received datagram gets in front of it, which is the headroom that its buffer must have.
pub const HEADROOM: usize = wire::ipv6::HEADER_LEN + wire::udp::HEADER_LEN;

/// The longest UDP payload.
pub const MAX_DATAGRAM: usize = 65_535 - wire::udp::HEADER_LEN;

/// The most sockets of a family among which datagrams are split.
pub const MOST_QUEUES: usize = 17;

/// The options for opening the sockets.
#[derive(Clone, Debug)]
pub struct UdpOptions {
    /// The port: 4500 for ESP in UDP.
    pub port: u16,
    /// The octets that the kernel may queue per socket and direction.
    pub buffer: usize,
}

impl Default for UdpOptions {
    fn default() -> UdpOptions {
        UdpOptions { port: 4500, buffer: 8 << 20 }
    }
}

/// The UDP sockets of the daemon. A clone shares the sockets and has receive slots of its own: one for each thread.
#[derive(Debug)]
pub struct UdpTransport {
    sockets: Arc<Sockets>,
    /// Buffers that wait for a datagram.
    slots: Vec<Buf>,
    /// Datagrams that the kernel had no room for, by family and queue, as it last said.
    lost: [[u32; MOST_QUEUES]; 2],
}

#[derive(Debug)]
struct Sockets {
    port: u16,
    v4: Option<FamilySockets>,
    v6: Option<FamilySockets>,
}

impl UdpTransport {
    /// Open the port for IPv4 and, unless the host has none, IPv6.
    pub fn open(options: &UdpOptions) -> Result<UdpTransport> {
        let v4 = FamilySockets::open(Family::V4, options.port, options.buffer)?;
        let port = v4.port().doing(|| "asking for the UDP port".into())?;
        let v6 = match FamilySockets::open(Family::V6, port, options.buffer) {
            Ok(sockets) => Some(sockets),
            Err(crate::Error::System { source, .. }) if source.raw_os_error() == Some(libc::EAFNOSUPPORT) => {
                None
            }
            Err(e) => return Err(e),
        };
        Ok(UdpTransport::new(Sockets { port, v4: Some(v4), v6 }))
    }

    /// The sockets that another daemon handed over, with so many queues: those of [`UdpTransport::fds`], in their order.
    ///
    /// # Errors
    /// The sockets are others than such a daemon has.
    pub fn from_fds(fds: Vec<OwnedFd>, queues: usize) -> Result<UdpTransport> {
        let (v4, v6) = socket::sort(fds, queues)?;
        let Some(port) = v4.as_ref().or(v6.as_ref()).map(FamilySockets::port) else {
            return Err(crate::Error::unfit("no UDP socket was handed over", "start without --take-over"));
        };
        let port = port.doing(|| "asking for the UDP port".into())?;
        Ok(UdpTransport::new(Sockets { port, v4, v6 }))
    }

    fn new(sockets: Sockets) -> UdpTransport {
        UdpTransport { sockets: Arc::new(sockets), slots: Vec::new(), lost: [[0; MOST_QUEUES]; 2] }
    }

    /// The local UDP port of all sockets.
    pub fn port(&self) -> u16 {
        self.sockets.port
    }

    /// The socket on which datagrams of a family arrive, to wait on; `None` if the host has no such family.
    pub fn fd(&self, family: Family) -> Option<BorrowedFd<'_>> {
        self.sockets_of(family).map(|sockets| sockets.whole.as_fd())
    }

    /// Every socket, for a hand-over.
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.families().flat_map(FamilySockets::all).map(AsFd::as_fd).collect()
    }

    fn families(&self) -> impl Iterator<Item = &FamilySockets> {
        self.sockets.v4.iter().chain(&self.sockets.v6)
    }

    /// Datagrams that arrived when the socket's queue was full, or with a wrong checksum (the kernel counts both in one), since it
    /// was made, as the kernel last said.
    pub fn lost(&self) -> u64 {
        self.lost.iter().flatten().map(|&n| u64::from(n)).sum()
    }

    fn sockets_of(&self, family: Family) -> Option<&FamilySockets> {
        match family {
            Family::V4 => self.sockets.v4.as_ref(),
            Family::V6 => self.sockets.v6.as_ref(),
        }
    }
}

impl Clone for UdpTransport {
    fn clone(&self) -> UdpTransport {
        UdpTransport { sockets: Arc::clone(&self.sockets), slots: Vec::new(), lost: self.lost }
    }
}
