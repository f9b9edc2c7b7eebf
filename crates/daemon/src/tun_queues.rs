//! The queues of the TUN for the classes of a graph (docs/design/0042): planned with the graph, opened at the start.
//!
//! What enters: the graph, the TUN with the queues that a daemon before handed over, the kernel half. What leaves: a
//! queue for each share of the graph, which the kernel half fills by class.

use std::os::fd::AsFd;
use std::sync::Arc;

use config::LoadedGraph;
use engine::OutboundGraph;
use netio::tun::{Queues, Tun};
use qos::{Direction, HeaderKind};
use sockmon::{QueueShare, QueueSplit, QueueTable, Sockmon};
use wire::{AggregateId, AppId};

use crate::class_queues::{ClassQueue, ClassQueues, numbers, seed};
use crate::monitor::{KernelError, Monitor};
use crate::start::RunError;

/// The queues of the TUN that a graph asks for.
#[derive(Clone, Debug)]
pub struct PlannedQueues {
    queues: Vec<ClassQueue>,
    split: QueueSplit,
}

impl PlannedQueues {
    /// The queues for the outbound direction of a graph, at most so many. The length of a queue of the device, in packets,
    /// is `device`; the rules name `apps`.
    pub fn of(
        loaded: &LoadedGraph,
        most: u64,
        device: u32,
        graph: &OutboundGraph,
        apps: &[AppId],
    ) -> PlannedQueues {
        let most = most.min(QueueSplit::MOST_QUEUES as u64);
        let ClassQueues { queues, limits, shares } = ClassQueues::of(loaded, Direction::Outbound, most);
        let of_dscp = |app| std::array::from_fn(|dscp| graph.graph().classify(&marked(app, dscp as u8)));
        let apps = apps.iter().take(QueueSplit::MOST_APPS);
        let split = QueueSplit {
            limits: limits.into_iter().map(|limit| limit.min(device)).collect(),
            of_dscp: of_dscp(AppId::NONE),
            of_apps: apps.map(|app| (*app, of_dscp(*app))).collect(),
            shares: shares.map(|share| share.unwrap_or(QueueShare { first: 0, count: 1 })),
        };
        PlannedQueues { queues, split }
    }

    /// The numbers of the classes of each queue, by its number.
    pub fn classes(&self) -> Vec<Vec<AggregateId>> {
        numbers(&self.queues)
    }
}

/// A packet of which nothing is known but its application and its DSCP.
fn marked(app: AppId, dscp: u8) -> qos::Meta {
    qos::Meta {
        amount: qos::Amount { packets: 1, octets: 0, ns: 0 },
        app,
        dscp: [0, dscp],
        header: HeaderKind::Clear,
        ..qos::Meta::default()
    }
}

/// The queues of the TUN among which packets are split, in the order in which they are read.
#[derive(Clone, Debug)]
pub struct SplitQueues {
    /// The queues, by their number.
    pub queues: Vec<ClassQueue>,
    counts: Arc<QueueTable>,
    seed: [u64; 6],
}

impl SplitQueues {
    /// Split packets among the same queues as another graph asks.
    ///
    /// # Errors
    /// The kernel half cannot be told, and splits as before.
    pub(crate) fn change(&mut self, monitor: &Monitor, planned: &PlannedQueues) -> Result<(), KernelError> {
        monitor.get().change_split(&self.counts, &planned.split, self.seed)?;
        self.queues = planned.queues.clone();
        Ok(())
    }

    /// What came of each queue.
    pub fn table(&self) -> &Arc<QueueTable> {
        &self.counts
    }
}

/// Split packets among the queues that are planned, of `most` that are attached; or have one queue, without a graph.
/// `further` are the queues behind the first that a daemon before handed over. The answer is the further queues that
/// there are now, and the split.
///
/// # Errors
/// A queue cannot be attached, or the kernel half cannot be told.
pub fn open(
    tun: &Tun,
    mut further: Vec<Tun>,
    monitor: &Sockmon,
    planned: Option<(&PlannedQueues, usize)>,
) -> Result<(Vec<Tun>, Option<SplitQueues>), RunError> {
    let is_several = tun.queues() == Queues::Several;
    if planned.is_some() && !is_several {
        tracing::warn!(
            "all classes share the one queue of the TUN {}: an earlier version made it so; a restart without --take-over \
             gives each its own",
            tun.name()
        );
    }
    let planned = planned.filter(|_| is_several);
    let wanted = planned.map_or(1, |(_, most)| most);
    if further.len() >= wanted {
        let given_up = further.split_off(wanted - 1);
        tracing::warn!("{} further queues of the TUN are given up, with what waits there", given_up.len());
    }
    while 1 + further.len() < wanted {
        further.push(tun.attach_queue()?);
    }
    let Some((planned, _)) = planned else {
        if is_several {
            tun.set_steering(None)?;
        }
        monitor.split_queues(None, [0; _])?;
        return Ok((further, None));
    };
    let seed = seed()?;
    let counts = Arc::new(monitor.split_queues(Some(&planned.split), seed)?);
    tun.set_steering(Some(monitor.steering()?.as_fd()))?;
    Ok((further, Some(SplitQueues { queues: planned.queues.clone(), counts, seed })))
}
