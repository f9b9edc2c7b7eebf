//! The queues of the TUN as the outbound thread reads them: by class, as far as the graph has room.

use std::os::fd::{AsFd, BorrowedFd};

use netio::tun::Tun;
use wire::AggregateId;

use crate::tun_queues::SplitQueues;

/// Times that a queue is found empty until what never came into it is taken for lost.
const EMPTIES: u32 = 64;

/// A queue of the TUN.
struct Queue {
    tun: Tun,
    classes: Vec<AggregateId>,
    /// Something may wait in it.
    is_pending: bool,
    /// The packets that had arrived when it was last found empty.
    seen: u64,
    /// The packets that were missing when it was found empty, at least; and how often it was.
    missing: (u64, u32),
}

/// The queues of the TUN among which packets are split, in the order in which they are read.
pub struct KernelQueues {
    queues: Vec<Queue>,
    split: SplitQueues,
}

impl KernelQueues {
    /// The queues of a split, behind these handles.
    pub fn new(tuns: Vec<Tun>, split: SplitQueues) -> KernelQueues {
        let queue =
            |(tun, classes)| Queue { tun, classes, is_pending: true, seen: 0, missing: (u64::MAX, 0) };
        // Queues that the graph has no use for are read all the same: another graph may have.
        let classes = split.queues.iter().map(|queue| queue.classes.clone());
        let classes = classes.chain(std::iter::repeat_with(Vec::new));
        KernelQueues { queues: tuns.into_iter().zip(classes).map(queue).collect(), split }
    }

    /// The queues have these classes from now on, in their order; those behind the last have none.
    pub fn set_classes(&mut self, classes: Vec<Vec<AggregateId>>) {
        let classes = classes.into_iter().chain(std::iter::repeat_with(Vec::new));
        for (queue, classes) in self.queues.iter_mut().zip(classes) {
            queue.classes = classes;
        }
    }

    /// The number of queues.
    pub fn count(&self) -> usize {
        self.queues.len()
    }

    /// The handle of a queue.
    pub fn tun(&self, at: usize) -> Option<&Tun> {
        self.queues.get(at).map(|queue| &queue.tun)
    }

    /// The classes whose packets wait in a queue.
    pub fn classes(&self, at: usize) -> &[AggregateId] {
        self.queues.get(at).map_or(&[], |queue| &queue.classes)
    }

    /// The descriptors of the queues, to be waited for.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.queues.iter().map(|queue| queue.tun.as_fd())
    }

    /// Something waits in a queue, as the kernel says.
    pub fn is_readable(&mut self, at: usize) {
        if let Some(queue) = self.queues.get_mut(at) {
            queue.is_pending = true;
        }
    }

    /// Whether something may wait in a queue. It is no system call.
    #[inline]
    pub fn is_pending(&mut self, at: usize) -> bool {
        let Some(queue) = self.queues.get_mut(at) else { return false };
        queue.is_pending |= self.split.arrived(at) != queue.seen;
        queue.is_pending
    }

    /// The number of packets that have arrived at a queue, to be asked before it is read until it is empty.
    #[inline]
    pub fn arrived(&self, at: usize) -> u64 {
        self.split.arrived(at)
    }

    /// Packets were taken from a queue.
    #[inline]
    pub fn taken(&self, at: usize, packets: u64) {
        if packets > 0 {
            self.split.take(at, packets);
        }
    }

    /// A queue was found empty, at which `arrived` packets had arrived before.
    pub fn empty(&mut self, at: usize, arrived: u64) {
        let Some(queue) = self.queues.get_mut(at) else { return };
        (queue.is_pending, queue.seen) = (false, arrived);
        // A packet is counted a moment before it is in the queue. What is missing again and again is in none.
        let (least, times) = queue.missing;
        let least = least.min(self.split.counts(at).waiting());
        queue.missing = (least, times + 1);
        if times + 1 == EMPTIES {
            self.split.take(at, least);
            queue.missing = (u64::MAX, 0);
        }
    }
}
