//! The sockets as the inbound thread reads them where outer packets are split: by class, as far as the graph has room.
//!
//! A queue has a UDP socket and raw sockets of each family, or a socket of frames on each device. They share its counts and
//! its limit.

use std::os::fd::{AsFd, BorrowedFd};

use netio::packet::FrameReceiver;
use netio::raw::RawReceiver;
use netio::udp::{Family, UdpTransport};
use wire::AggregateId;

use crate::datapath::frames::FramesIn;
use crate::datapath::queue_state::QueueStates;
use crate::socket_queues::SplitSockets;

/// The kind of a socket of a queue.
#[derive(Clone, Copy)]
pub(super) enum SocketKind {
    /// They come as datagrams of a family.
    Udp(Family),
    /// They come by the raw socket of this number.
    Raw(usize),
    /// They come as frames of the device of this number.
    Frames(usize),
}

/// A socket of a queue.
struct Source {
    queue: usize,
    kind: SocketKind,
    /// Something may wait in it, whatever the counts of the queue say.
    is_ready: bool,
}

/// The queues among which outer packets are split, in the order in which they are read.
pub struct SocketQueues {
    pub(super) states: QueueStates,
    raw: Vec<RawReceiver>,
    /// The sockets, in the order of their queues.
    sources: Vec<Source>,
    /// The number of rounds so far. A queue's sockets take turns in being the first that is read, so that none starves another.
    round: usize,
}

impl SocketQueues {
    /// The queues of a split, over the UDP sockets and over these raw ones, each with the number of its queue.
    pub fn new(udp: &UdpTransport, raw: Vec<(usize, RawReceiver)>, split: &SplitSockets) -> SocketQueues {
        let classes = split.queues.iter().map(|queue| queue.classes.clone());
        let states = QueueStates::new(udp.queues(), classes, split.table());
        let families = [Family::V4, Family::V6].into_iter();
        let of_udp = families.flat_map(|family| {
            (0..udp.queue_fds(family).len()).map(move |queue| (queue, SocketKind::Udp(family)))
        });
        let (numbers, raw): (Vec<usize>, Vec<RawReceiver>) = raw.into_iter().unzip();
        let of_raw = numbers.into_iter().enumerate().map(|(at, queue)| (queue, SocketKind::Raw(at)));
        SocketQueues::over(states, raw, of_udp.chain(of_raw))
    }

    /// The queues of a split, over the sockets of frames.
    pub fn of_frames(frames: &FramesIn, split: &SplitSockets) -> SocketQueues {
        let classes = split.queues.iter().map(|queue| queue.classes.clone());
        let count = frames.receivers.iter().map(FrameReceiver::queues).max().unwrap_or(0);
        let states = QueueStates::new(count, classes, split.table());
        let of_device = |(at, receiver): (usize, &FrameReceiver)| {
            (0..receiver.queues()).map(move |queue| (queue, SocketKind::Frames(at)))
        };
        SocketQueues::over(states, Vec::new(), frames.receivers.iter().enumerate().flat_map(of_device))
    }

    /// These queues over these sockets, each with the number of its queue.
    fn over(
        states: QueueStates,
        raw: Vec<RawReceiver>,
        sockets: impl Iterator<Item = (usize, SocketKind)>,
    ) -> SocketQueues {
        let mut sources: Vec<Source> =
            sockets.map(|(queue, kind)| Source { queue, kind, is_ready: true }).collect();
        sources.sort_by_key(|source| source.queue);
        SocketQueues { states, raw, sources, round: 0 }
    }

    /// The sockets to wait for, each with its number: those of queues that the graph has a use for and whose classes are
    /// read. Where they are frames, `frames` are the sockets of the devices.
    pub(super) fn fds<'u>(
        &'u self,
        udp: &'u UdpTransport,
        frames: &'u [FrameReceiver],
        is_read: impl Fn(&[AggregateId]) -> bool,
    ) -> impl Iterator<Item = (usize, BorrowedFd<'u>)> {
        let sources = self.sources.iter().enumerate().filter(move |(_, source)| {
            source.queue < self.states.used() && is_read(self.states.classes(source.queue))
        });
        sources.filter_map(|(number, source)| {
            let fd = match source.kind {
                SocketKind::Udp(family) => udp.queue_fd(family, source.queue)?,
                SocketKind::Raw(at) => self.raw.get(at)?.as_fd(),
                SocketKind::Frames(at) => frames.get(at)?.queue_fd(source.queue)?,
            };
            Some((number, fd))
        })
    }

    /// Something waits in a socket, as the kernel says.
    pub(super) fn is_readable(&mut self, number: usize) {
        if let Some(source) = self.sources.get_mut(number) {
            source.is_ready = true;
            self.states.is_readable(source.queue);
        }
    }

    /// Begin another round, in which another socket of each queue is read first.
    pub(super) fn next_round(&mut self) {
        self.round = self.round.wrapping_add(1);
    }

    /// The numbers of the sockets of a queue, in the order of this round.
    pub(super) fn sources(&self, queue: usize) -> impl Iterator<Item = usize> + use<> {
        let from = self.sources.partition_point(|source| source.queue < queue);
        let to = self.sources.partition_point(|source| source.queue <= queue);
        let (count, first) = (to - from, self.round);
        (0..count).map(move |at| from + (at + first) % count.max(1))
    }

    /// How the packets of a socket come, if something may wait there.
    pub(super) fn may_have(&self, number: usize) -> Option<SocketKind> {
        let source = self.sources.get(number)?;
        (source.is_ready || self.states.waiting(source.queue) > 0).then_some(source.kind)
    }

    /// A socket was read, and may have more or not.
    pub(super) fn was_read(&mut self, number: usize, may_have_more: bool) {
        if let Some(source) = self.sources.get_mut(number) {
            source.is_ready = may_have_more;
        }
    }

    /// The raw socket of this number.
    pub(super) fn raw(&mut self, at: usize) -> Option<&mut RawReceiver> {
        self.raw.get_mut(at)
    }

    /// Packets that the raw sockets had no room for, as the kernel last said.
    pub(super) fn lost(&self) -> u64 {
        self.raw.iter().map(RawReceiver::lost).sum()
    }
}
