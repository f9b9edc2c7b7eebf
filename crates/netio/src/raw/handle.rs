//! A raw socket in the hands of somebody who does not receive from it: whether it hears, what looks at its packets, and how
//! many may wait.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::Socket;

use crate::error::{IoContext, Result};
use crate::sockopt;
use crate::udp::Family;

/// The IPv6 option to be bound to an address that the host does not have: `IPV6_FREEBIND` of linux/in6.h.
const IPV6_FREEBIND: libc::c_int = 78;

/// A raw socket that somebody else receives from.
#[derive(Debug)]
pub struct RawHandle {
    socket: Socket,
    family: Family,
}

impl RawHandle {
    pub(super) fn new(socket: Socket, family: Family) -> RawHandle {
        RawHandle { socket, family }
    }

    /// Let the socket hear what comes for every address of the host, or nothing. What hears nothing costs a packet one
    /// comparison, and no copy of it. No right is needed.
    ///
    /// # Errors
    /// The kernel's.
    pub fn hear(&self, on: bool) -> Result<()> {
        let (level, option, address): (_, _, SocketAddr) = match (self.family, on) {
            (Family::V4, true) => (libc::IPPROTO_IP, libc::IP_FREEBIND, (Ipv4Addr::UNSPECIFIED, 0).into()),
            (Family::V6, true) => (libc::IPPROTO_IPV6, IPV6_FREEBIND, (Ipv6Addr::UNSPECIFIED, 0).into()),
            // Nothing is sent there.
            (Family::V4, false) => (libc::IPPROTO_IP, libc::IP_FREEBIND, ([127, 255, 255, 254], 0).into()),
            (Family::V6, false) => (libc::IPPROTO_IPV6, IPV6_FREEBIND, (Ipv6Addr::LOCALHOST, 0).into()),
        };
        sockopt::set_int(&self.socket, level, option, 1)
            .and_then(|()| self.socket.bind(&address.into()))
            .doing(|| format!("letting a raw socket hear {}", if on { "everything" } else { "nothing" }))
    }

    /// Let a BPF program look at each packet.
    ///
    /// # Errors
    /// The kernel's.
    pub fn filter_by(&self, program: BorrowedFd<'_>) -> Result<()> {
        sockopt::set_filter(&self.socket, Some(program))
            .doing(|| "attaching the filter of a raw socket".into())
    }

    /// Set the octets that may wait, of which the kernel takes twice as many, for what it keeps beside them.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_receive_buffer(&self, octets: usize) -> Result<()> {
        let octets = libc::c_int::try_from(octets).unwrap_or(libc::c_int::MAX);
        sockopt::set_int(&self.socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, octets)
            .doing(|| "setting the receive buffer of a raw socket".into())
    }
}

impl AsFd for RawHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
