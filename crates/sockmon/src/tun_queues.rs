//! The queues of the TUN by class (docs/design/0042): how packets are split among them, and what came of each.

use wire::{AggregateId, AppId};

use crate::abi::{AGGREGATES, AppClasses, SPLIT_APPS, SPLIT_WORDS, Share, Split, TUN_QUEUES};
use crate::error::SockmonError;
use crate::programs::{self, Maps};
use crate::queue_counts::QueueTable;

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

/// Split packets among the queues from now on, or no more. The counts begin anew.
pub(crate) fn split(
    maps: &Maps,
    split: Option<&QueueSplit>,
    seed: [u64; SPLIT_WORDS],
) -> Result<QueueTable, SockmonError> {
    let queues = QueueTable::of(maps, programs::TUN_QUEUES)?;
    maps.write(SPLIT, &0u32, &Split::NONE)?;
    queues.begin();
    match split {
        Some(split) => change(maps, &queues, split, seed)?,
        None => queues.limit(&[], 0),
    }
    Ok(queues)
}

/// Split packets in another way from now on. The counts go on.
pub(crate) fn change(
    maps: &Maps,
    queues: &QueueTable,
    split: &QueueSplit,
    seed: [u64; SPLIT_WORDS],
) -> Result<(), SockmonError> {
    // What waits in a queue that nothing comes to any more goes on to be counted.
    queues.limit(&split.limits, u64::MAX);
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
