//! The counts of kernel queues, in memory that the kernel half shares (docs/design/0042).
//!
//! What enters: how many packets whoever reads the queues took. What leaves: how many have come, and what became of them.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::MapCore;

use crate::abi::KernelQueue;
use crate::error::SockmonError;
use crate::programs::Maps;
use crate::sys::Shared;

/// The most queues of a map.
const MOST: usize = 17;

/// The counts of one queue. What arrived was lost, was taken, or waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Packets that were to be queued. A super-packet of the TUN is one, and a run of joined datagrams is as many as it has.
    pub arrived: u64,
    /// Packets beyond the limit, which the kernel half dropped, and packets that did not get into the queue behind it.
    pub lost: u64,
    /// Packets that the reader took.
    pub taken: u64,
    /// The most packets that wait; 0: nothing is counted.
    pub limit: u64,
}

impl QueueCounts {
    /// The number of packets that wait.
    pub fn waiting(&self) -> u64 {
        self.arrived.saturating_sub(self.lost).saturating_sub(self.taken)
    }
}

/// A row of the map, in memory that the kernel half shares.
#[repr(C)]
struct Row {
    arrived: AtomicU64,
    lost: AtomicU64,
    taken: AtomicU64,
    limit: AtomicU64,
    gone: AtomicU64,
    zero: [AtomicU64; 3],
}

const _: () = assert!(size_of::<Row>() == size_of::<KernelQueue>());

/// The counts of kernel queues, in memory that the kernel half shares: reading and writing them is no system call. One
/// thread takes the packets of each queue.
#[derive(Debug)]
pub struct QueueTable {
    rows: Shared<[Row; MOST]>,
    count: usize,
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Row").field("arrived", &self.arrived).finish_non_exhaustive()
    }
}

impl QueueTable {
    /// Map the rows of an instance into memory; `name` is their map.
    pub(crate) fn of(maps: &Maps, name: &'static str) -> Result<QueueTable, SockmonError> {
        let map = maps.get(name)?;
        let count = (map.max_entries() as usize).min(MOST);
        // SAFETY: the map has rows of the layout of `Row`, which is atomics alone, in whole pages. As many as it has are looked
        // at, and the others lie in its last page.
        let rows = unsafe { Shared::map(map.as_fd()) };
        let rows = rows.map_err(SockmonError::system(format!("map the counts of {name}")))?;
        Ok(QueueTable { rows, count })
    }

    fn rows(&self) -> &[Row] {
        self.rows.get().get(..self.count).unwrap_or_default()
    }

    fn row(&self, queue: usize) -> Option<&Row> {
        self.rows().get(queue)
    }

    /// The packets that have arrived at a queue. As long as it stays the same, nothing new waits there.
    #[inline]
    pub fn arrived(&self, queue: usize) -> u64 {
        self.row(queue).map_or(0, |row| row.arrived.load(Ordering::Acquire))
    }

    /// Count packets that were taken from a queue, so that others have room.
    #[inline]
    pub fn take(&self, queue: usize, packets: u64) {
        if let Some(row) = self.row(queue) {
            row.end(&row.taken, packets);
        }
    }

    /// Count packets that ended between the count of arrivals and the queue, so that others have room.
    pub fn lose(&self, queue: usize, packets: u64) {
        if let Some(row) = self.row(queue) {
            row.end(&row.gone, packets);
        }
    }

    /// The counts of a queue.
    pub fn counts(&self, queue: usize) -> QueueCounts {
        let Some(row) = self.row(queue) else { return QueueCounts::default() };
        // What is taken is read first: it is never more than what had arrived.
        let taken = row.taken.load(Ordering::Acquire);
        let lost = row.lost.load(Ordering::Acquire) + row.gone.load(Ordering::Acquire);
        let arrived = row.arrived.load(Ordering::Acquire);
        QueueCounts { arrived, lost, taken, limit: row.limit.load(Ordering::Relaxed) }
    }

    /// Let every count begin anew.
    pub(crate) fn begin(&self) {
        for row in self.rows() {
            for count in [&row.arrived, &row.lost, &row.taken, &row.gone] {
                count.store(0, Ordering::Release);
            }
            row.zero.iter().for_each(|zero| zero.store(0, Ordering::Relaxed));
        }
    }

    /// Set the limits of the queues, and `otherwise` that of those behind the last.
    pub(crate) fn limit(&self, limits: &[u32], otherwise: u64) {
        for (at, row) in self.rows().iter().enumerate() {
            let limit = limits.get(at).map_or(otherwise, |limit| u64::from(*limit));
            row.limit.store(limit, Ordering::Release);
        }
    }
}

impl Row {
    /// Add to a count of what ended, which one thread writes. What waited when the counts began was not counted when it
    /// arrived, so no more end than have come.
    #[inline]
    fn end(&self, count: &AtomicU64, packets: u64) {
        let ended = |other: &AtomicU64| other.load(Ordering::Acquire);
        let left = ended(&self.arrived)
            .saturating_sub(ended(&self.lost))
            .saturating_sub(ended(&self.taken))
            .saturating_sub(ended(&self.gone));
        count.store(count.load(Ordering::Relaxed).saturating_add(packets.min(left)), Ordering::Release);
    }
}
