//! The daemon's sockets for outer packets, by class.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;

use wire::AggregateId;

use super::Sockmon;
use crate::abi::SPLIT_WORDS;
use crate::error::SockmonError;
use crate::frames::FrameSteering;
use crate::programs;
use crate::queue_counts::QueueTable;
use crate::socket_queues::{self, QueuedSockets, SaName, SocketSplit};

impl Sockmon {
    /// The program that chooses the UDP socket for a datagram (`udp_class`), which whoever has the sockets attaches.
    ///
    /// # Errors
    /// The program is not loaded.
    pub fn socket_choice(&self) -> Result<BorrowedFd<'_>, SockmonError> {
        self.loaded.program(programs::SOCKET_CHOICE)
    }

    /// The filter of each UDP socket that has a queue (`socket_queue`), which counts what comes and keeps the limit.
    ///
    /// # Errors
    /// The program is not loaded.
    pub fn socket_filter(&self) -> Result<BorrowedFd<'_>, SockmonError> {
        self.loaded.program(programs::SOCKET_FILTER)
    }

    /// The filter of each raw socket that has a queue (`raw_queue`), which takes what is of this queue, counts it and
    /// keeps the limit.
    ///
    /// # Errors
    /// The program is not loaded.
    pub fn raw_filter(&self) -> Result<BorrowedFd<'_>, SockmonError> {
        self.loaded.program(programs::RAW_FILTER)
    }

    /// The program that chooses the packet socket for a frame (`frame_class`), among those of a device that share its frames
    /// (packet fanout): the first is deaf, and behind it is that of each queue.
    ///
    /// # Errors
    /// The program is not loaded.
    pub fn frame_choice(&self) -> Result<BorrowedFd<'_>, SockmonError> {
        self.loaded.program(programs::FRAME_CHOICE)
    }

    /// Set the UDP port of ESP, for those who look at frames.
    ///
    /// # Errors
    /// The kernel half cannot be told.
    pub fn set_frame_port(&self, port: u16) -> Result<(), SockmonError> {
        self.loaded.maps.write(programs::FRAME_PORT, &0u32, &u32::from(port.to_be()))
    }

    /// Give the outer packets that arrive on the first queue of a device to these AF_XDP sockets, in the order of the queues
    /// of classes, as long as the answer lives. The port is set before ([`Sockmon::set_frame_port`]).
    ///
    /// # Errors
    /// If the kernel has no AF_XDP, or another XDP program is attached to the device.
    pub fn steer_frames(
        &self,
        ifindex: u32,
        sockets: &[BorrowedFd<'_>],
    ) -> Result<FrameSteering, SockmonError> {
        FrameSteering::attach(&self.loaded.maps, ifindex, sockets)
    }

    /// Split outer packets among the queues of the daemon's sockets from now on, or no more (`None`). The counts begin
    /// anew. `seed` is random and secret.
    ///
    /// # Errors
    /// The kernel half cannot be told.
    pub fn split_sockets(
        &self,
        split: Option<&SocketSplit>,
        seed: [u64; SPLIT_WORDS],
    ) -> Result<QueueTable, SockmonError> {
        socket_queues::split(&self.loaded.maps, split, seed)
    }

    /// Split outer packets among the same queues in another way from now on. The counts go on, and with the same `seed`
    /// senders stay in their queues.
    ///
    /// # Errors
    /// The kernel half cannot be told, and splits as before.
    pub fn change_socket_split(
        &self,
        queues: &QueueTable,
        split: &SocketSplit,
        seed: [u64; SPLIT_WORDS],
    ) -> Result<(), SockmonError> {
        socket_queues::change(&self.loaded.maps, queues, split, seed)
    }

    /// Tell the sockets of the queues. No other socket is chosen from then on. Those that stay keep what waits meanwhile.
    ///
    /// # Errors
    /// The kernel half cannot be told.
    pub fn put_sockets(&self, sockets: &QueuedSockets<'_>) -> Result<(), SockmonError> {
        socket_queues::put(&self.loaded.maps, sockets)
    }

    /// Set the class of an inbound association; the default one leaves it to the outer header. Packets of an association
    /// that is not told of wait where strangers do, so this comes before it is used.
    ///
    /// # Errors
    /// The kernel half cannot be told.
    pub fn set_sa_class(&self, sa: SaName, class: AggregateId) -> Result<(), SockmonError> {
        socket_queues::set_class(&self.loaded.maps, sa, class)
    }

    /// Forget an inbound association.
    ///
    /// # Errors
    /// The kernel half cannot be told.
    pub fn forget_sa_class(&self, sa: SaName) -> Result<(), SockmonError> {
        socket_queues::forget_class(&self.loaded.maps, sa)
    }

    /// Set the classes of these inbound associations, and forget all others.
    ///
    /// # Errors
    /// The kernel half cannot be told.
    pub fn set_sa_classes(&self, classes: &HashMap<SaName, AggregateId>) -> Result<(), SockmonError> {
        socket_queues::set_classes(&self.loaded.maps, classes)
    }
}
