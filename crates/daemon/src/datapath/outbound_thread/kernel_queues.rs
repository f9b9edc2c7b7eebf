//! The queues of the TUN as the outbound thread reads them: by class, as far as the graph has room.

use std::os::fd::{AsFd, BorrowedFd};

use netio::tun::Tun;

use crate::datapath::queue_state::QueueStates;
use crate::tun_queues::SplitQueues;

/// The queues of the TUN among which packets are split, in the order in which they are read.
pub struct KernelQueues {
    tuns: Vec<Tun>,
    pub(in crate::datapath) states: QueueStates,
}

impl KernelQueues {
    /// The queues of a split, behind these handles.
    pub fn new(tuns: Vec<Tun>, split: &SplitQueues) -> KernelQueues {
        let classes = split.queues.iter().map(|queue| queue.classes.clone());
        let states = QueueStates::new(tuns.len(), classes, split.table());
        KernelQueues { tuns, states }
    }

    /// The handle of a queue.
    pub fn tun(&self, at: usize) -> Option<&Tun> {
        self.tuns.get(at)
    }

    /// The descriptors of the queues, to be waited for.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.tuns.iter().map(AsFd::as_fd)
    }
}
