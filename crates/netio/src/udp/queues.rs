//! Several sockets of a port that receive: a program gives each datagram to one of them.
//!
//! What enters: how many there are to be, and the program. What leaves: datagrams, by queue. Those that are given up are
//! read until they are empty.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use socket2::Socket;
use wire::{Burst, Pool, Time, stage};

use super::receive::BURSTS;
use super::socket::{FamilySockets, set_receive_buffer};
use super::{Family, MOST_QUEUES, Sockets, UdpTransport};
use crate::error::{Error, IoContext, Result};
use crate::sockopt;

/// Sockets that were queues and get nothing more.
#[derive(Debug)]
pub struct GivenUp {
    transport: UdpTransport,
    sockets: Vec<(Family, Socket)>,
}

impl UdpTransport {
    /// The number of queues of each family.
    pub fn queues(&self) -> usize {
        self.families().map(|sockets| sockets.queues().count()).max().unwrap_or(0)
    }

    /// The sockets of a family's queues, in their order; none if the host has no such family.
    pub fn queue_fds(&self, family: Family) -> Vec<BorrowedFd<'_>> {
        let sockets = self.sockets_of(family).into_iter().flat_map(FamilySockets::queues);
        sockets.map(AsFd::as_fd).collect()
    }

    /// The socket of a queue; `None` if the host has no such family, or there is no such queue.
    pub fn queue_fd(&self, family: Family, queue: usize) -> Option<BorrowedFd<'_>> {
        self.sockets_of(family).and_then(|sockets| sockets.queue(queue)).map(AsFd::as_fd)
    }

    /// Have so many queues in each family from now on, at most [`MOST_QUEUES`]. This comes before there are clones. The
    /// program must not give datagrams to those that are given up any more.
    ///
    /// # Errors
    /// A socket cannot be had, or there are clones.
    pub fn set_queues(&mut self, queues: usize) -> Result<GivenUp> {
        let queues = queues.clamp(1, MOST_QUEUES);
        let empty = Sockets { port: self.sockets.port, v4: None, v6: None };
        let mut given_up = GivenUp { transport: UdpTransport::new(empty), sockets: Vec::new() };
        let Some(Sockets { v4, v6, .. }) = Arc::get_mut(&mut self.sockets) else {
            return Err(Error::unfit("the UDP sockets are in use", "this is a fault of Ravelin: report it"));
        };
        for (family, sockets) in [(Family::V4, v4), (Family::V6, v6)] {
            let Some(sockets) = sockets else { continue };
            if sockets.further.len() >= queues {
                let more = sockets.further.split_off(queues - 1);
                given_up.sockets.extend(more.into_iter().map(|socket| (family, socket)));
            }
            sockets.open_queues(family, queues)?;
        }
        Ok(given_up)
    }

    /// Let the first queue have every datagram.
    ///
    /// # Errors
    /// The kernel's.
    pub fn give_all_to_the_first(&self) -> Result<()> {
        let mut families = self.families();
        families
            .try_for_each(FamilySockets::give_all_to_the_first)
            .doing(|| "giving every datagram to one socket".into())
    }

    /// Let a BPF program (sk_reuseport) choose the queue of each datagram.
    ///
    /// # Errors
    /// The kernel's.
    pub fn choose_by(&self, program: BorrowedFd<'_>) -> Result<()> {
        let mut families = self.families();
        families
            .try_for_each(|sockets| sockets.choose_by(program))
            .doing(|| "attaching the program that chooses the socket of a datagram".into())
    }

    /// Let a BPF program look at each datagram of each queue; `None`: none does.
    ///
    /// # Errors
    /// The kernel's.
    pub fn filter_by(&self, program: Option<BorrowedFd<'_>>) -> Result<()> {
        let mut sockets = self.families().flat_map(FamilySockets::queues);
        sockets
            .try_for_each(|socket| sockopt::set_filter(socket.as_fd(), program))
            .doing(|| "attaching the filter of a UDP socket".into())
    }

    /// Set the octets that may wait in a queue of each family.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_receive_buffer(&self, queue: usize, octets: usize) -> Result<()> {
        let mut sockets = self.families().filter_map(|sockets| sockets.queue(queue));
        sockets
            .try_for_each(|socket| set_receive_buffer(socket, octets))
            .doing(|| format!("setting the receive buffer of the UDP socket of queue {queue}"))
    }
}

impl GivenUp {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// The number of sockets.
    pub fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Take what waits in them, as [`UdpTransport::recv_bursts`] does; nothing when they are empty.
    ///
    /// # Errors
    /// The kernel's. That socket is not read any more.
    pub fn recv_bursts(
        &mut self,
        now: Time,
        pool: &mut Pool,
        out: &mut Vec<Burst<stage::Raw>>,
    ) -> io::Result<bool> {
        while let Some((family, socket)) = self.sockets.pop() {
            let fd = (family, socket.as_raw_fd());
            let (received, _) = self.transport.take_bursts(fd, BURSTS, now, pool, out)?;
            if received.datagrams > 0 {
                self.sockets.push((family, socket));
                return Ok(true);
            }
        }
        Ok(false)
    }
}
