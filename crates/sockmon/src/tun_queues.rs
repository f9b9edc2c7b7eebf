//! The queues of the TUN by class (docs/design/0042): how packets are split among them, and what came of each.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::{AggregateId, AppId};

use crate::abi::{AGGREGATES, AppClasses, SPLIT_APPS, SPLIT_WORDS, Share, Split, TUN_QUEUES, TunQueue};
use crate::error::SockmonError;
use crate::programs::{self, Maps};
use crate::sys::Shared;

/// The map of the one [`Split`].
const SPLIT: &str = "split";
/// The map of the classes of applications.
const APPS: &str = "split_apps";

/// The queues of a class. Users are spread over them by a keyed hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueShare {
    /// The first queue, counted from 0.
    pub first: u8,
    /// The number of queues.
    pub count: u8,
}

/// How packets are split among the queues of the TUN, by their class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSplit {
    /// The most packets that wait in each queue, a super-packet as one; at most [`QueueSplit::MOST_QUEUES`] queues. A
    /// limit beyond the length of the device's queues (`queue` in `[tun]`) is without effect.
    pub limits: Vec<u32>,
    /// The class of each DSCP, where no item of policy gives one.
    pub of_dscp: [AggregateId; AGGREGATES],
    /// The class of each DSCP of applications that have classes of their own; at most [`QueueSplit::MOST_APPS`].
    pub of_apps: Vec<(AppId, [AggregateId; AGGREGATES])>,
    /// The queues of each class, by its number.
    pub shares: [QueueShare; AGGREGATES],
}

impl QueueSplit {
    /// The most queues among which packets are split.
    pub const MOST_QUEUES: usize = TUN_QUEUES;

    /// The most applications with classes of their own.
    pub const MOST_APPS: usize = SPLIT_APPS;

    /// The octets of the split as the kernel half reads it. `seed` is random and secret.
    fn entry(&self, seed: [u64; SPLIT_WORDS]) -> Split {
        let queues = self.limits.len().min(TUN_QUEUES) as u8;
        let share = |share: QueueShare| {
            let first = share.first.min(queues.saturating_sub(1));
            Share { first, count: share.count.clamp(1, (queues - first).max(1)) }
        };
        Split {
            seed,
            queues: queues.into(),
            of_dscp: self.of_dscp.map(|class| class.0),
            of: self.shares.map(share),
            apps: self.of_apps.len() as u32,
        }
    }
}

/// What came of one queue. What arrived was lost, was taken, or waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Packets that were to be queued; a super-packet is one.
    pub arrived: u64,
    /// Packets beyond the limit, which the kernel half dropped.
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
    zero: [AtomicU64; 4],
}

const _: () = assert!(size_of::<Row>() == size_of::<TunQueue>());

/// The counts of the queues of the TUN, in memory that the kernel half shares: reading and writing them is no system
/// call. Of each queue, one thread takes packets.
#[derive(Debug)]
pub struct TunQueues {
    rows: Shared<[Row; TUN_QUEUES]>,
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Row").field("arrived", &self.arrived).finish_non_exhaustive()
    }
}

impl TunQueues {
    /// Map the rows of an instance into memory.
    pub(crate) fn of(maps: &Maps) -> Result<TunQueues, SockmonError> {
        let map = maps.get(programs::TUN_QUEUES)?;
        // SAFETY: the map has as many rows of the layout of `Row`, which is atomics alone.
        let rows = unsafe { Shared::map(map.as_fd()) };
        Ok(TunQueues {
            rows: rows.map_err(SockmonError::system("map the counts of the TUN's queues".to_owned()))?,
        })
    }

    fn row(&self, queue: usize) -> Option<&Row> {
        self.rows.get().get(queue)
    }

    /// The packets that have arrived at a queue. As long as it stays the same, nothing new waits there.
    #[inline]
    pub fn arrived(&self, queue: usize) -> u64 {
        self.row(queue).map_or(0, |row| row.arrived.load(Ordering::Acquire))
    }

    /// Count packets that were taken from a queue, so that others have room. The reader also counts so what ended
    /// between the count of arrivals and the queue.
    #[inline]
    pub fn take(&self, queue: usize, packets: u64) {
        if let Some(row) = self.row(queue) {
            // What waited when the counts began was not counted when it arrived. One thread writes what is taken.
            let counted =
                row.arrived.load(Ordering::Acquire).saturating_sub(row.lost.load(Ordering::Acquire));
            let taken = row.taken.load(Ordering::Relaxed).saturating_add(packets);
            row.taken.store(taken.min(counted), Ordering::Release);
        }
    }

    /// What came of a queue.
    pub fn counts(&self, queue: usize) -> QueueCounts {
        let Some(row) = self.row(queue) else { return QueueCounts::default() };
        // What is taken is read first: it is never more than what had arrived.
        let taken = row.taken.load(Ordering::Acquire);
        let lost = row.lost.load(Ordering::Acquire);
        let arrived = row.arrived.load(Ordering::Acquire);
        QueueCounts { arrived, lost, taken, limit: row.limit.load(Ordering::Relaxed) }
    }

    fn begin(&self) {
        for row in self.rows.get() {
            for count in [&row.arrived, &row.lost, &row.taken] {
                count.store(0, Ordering::Release);
            }
            row.zero.iter().for_each(|zero| zero.store(0, Ordering::Relaxed));
        }
    }

    fn limit(&self, limits: &[u32]) {
        for (at, row) in self.rows.get().iter().enumerate() {
            // What waits in a queue that nothing comes to any more goes on to be counted.
            let limit = limits.get(at).copied().unwrap_or(u32::MAX);
            row.limit.store(limit.into(), Ordering::Release);
        }
    }
}

/// Split packets among the queues from now on, or no more. The counts begin anew.
pub(crate) fn split(
    maps: &Maps,
    split: Option<&QueueSplit>,
    seed: [u64; SPLIT_WORDS],
) -> Result<TunQueues, SockmonError> {
    let none = Split {
        seed: [0; SPLIT_WORDS],
        queues: 0,
        of_dscp: [0; AGGREGATES],
        of: [Share { first: 0, count: 0 }; AGGREGATES],
        apps: 0,
    };
    let queues = TunQueues::of(maps)?;
    maps.write(SPLIT, &0u32, &none)?;
    queues.begin();
    match split {
        Some(split) => change(maps, &queues, split, seed)?,
        None => queues.limit(&[0; TUN_QUEUES]),
    }
    Ok(queues)
}

/// Split packets in another way from now on. The counts go on.
pub(crate) fn change(
    maps: &Maps,
    queues: &TunQueues,
    split: &QueueSplit,
    seed: [u64; SPLIT_WORDS],
) -> Result<(), SockmonError> {
    queues.limit(&split.limits);
    let has = |app: &u32| split.of_apps.iter().any(|(id, _)| u32::from(id.0) == *app);
    maps.retain(APPS, |app: &u32| !has(app))?;
    for (app, classes) in &split.of_apps {
        maps.write(APPS, &u32::from(app.0), &AppClasses { of_dscp: classes.map(|class| class.0) })?;
    }
    maps.write(SPLIT, &0u32, &split.entry(seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_stays_within_the_queues() {
        let shares = [QueueShare { first: 9, count: 0 }; AGGREGATES];
        let split = QueueSplit {
            limits: vec![8, 8],
            of_dscp: [AggregateId(70); AGGREGATES],
            of_apps: Vec::new(),
            shares,
        };
        let entry = split.entry([1; SPLIT_WORDS]);
        assert_eq!((entry.queues, entry.of[3]), (2, Share { first: 1, count: 1 }));
        let wide = QueueSplit { shares: [QueueShare { first: 0, count: 9 }; AGGREGATES], ..split };
        assert_eq!(wide.entry([1; SPLIT_WORDS]).of[0], Share { first: 0, count: 2 });
    }
}
