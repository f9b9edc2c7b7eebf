//! What the reader of kernel queues knows of them: whose packets wait in each, and whether something does.

use std::sync::Arc;

use sockmon::QueueTable;
use wire::AggregateId;

/// Times that a queue is found empty until what never came into it is taken for lost.
const EMPTIES: u32 = 64;

/// Packets that are taken from a queue in a round, and look-ups that are made.
pub(super) const ROUND: usize = 64;

/// Packets of a class that are taken in a round beyond those that are served, where not all are.
const AHEAD: usize = 16;

/// Packets that are taken between two steps of a sliced unit from a queue in which all classes wait, and look-ups that are
/// made.
pub(super) const BETWEEN: usize = 8;

/// Steps of a sliced unit that are done at once while nothing comes that may go ahead.
pub(super) const STEPS: usize = 16;

/// The packets that are taken in a round from the queues of a class, where so many wait in the graph and the last turn
/// served so many.
///
/// Whoever floods has what he floods wait in the kernel, where it is dropped at the least cost: no more of it is read than
/// what is served.
pub(super) fn share(waiting: usize, served: usize) -> usize {
    if waiting == 0 { ROUND } else { (2 * served + AHEAD).min(ROUND) }
}

/// The state of one queue.
struct QueueState {
    /// The classes whose packets wait in it.
    classes: Vec<AggregateId>,
    /// The number of queues with these classes, over which users are spread.
    siblings: usize,
    /// Something may wait in it.
    is_pending: bool,
    /// The packets that had arrived when it was last found empty.
    seen: u64,
    /// The packets that were missing when it was found empty, at least; and how often it was.
    missing: (u64, u32),
}

/// The states of kernel queues, by the numbers of these, with the counts that the kernel half shares.
pub struct QueueStates {
    states: Vec<QueueState>,
    /// The number of queues that the graph has a use for.
    used: usize,
    table: Arc<QueueTable>,
}

impl QueueStates {
    /// So many queues, in each of which something may wait, with these classes.
    pub(super) fn new(
        count: usize,
        classes: impl Iterator<Item = Vec<AggregateId>>,
        table: &Arc<QueueTable>,
    ) -> QueueStates {
        let state = || QueueState {
            classes: Vec::new(),
            siblings: 1,
            is_pending: true,
            seen: 0,
            missing: (u64::MAX, 0),
        };
        let states = std::iter::repeat_with(state).take(count).collect();
        let mut states = QueueStates { states, used: 0, table: Arc::clone(table) };
        states.set_classes(classes);
        states
    }

    /// The queues have these classes from now on, in their order. Those behind the last have none, and are read all the
    /// same: another graph may have a use for them.
    pub(super) fn set_classes(&mut self, classes: impl IntoIterator<Item = Vec<AggregateId>>) {
        let mut classes = classes.into_iter();
        self.used = 0;
        for state in &mut self.states {
            let of_queue = classes.next();
            self.used += usize::from(of_queue.is_some());
            state.classes = of_queue.unwrap_or_default();
        }
        for at in 0..self.states.len() {
            let alike = self.states.iter().filter(|state| state.classes == self.states[at].classes);
            self.states[at].siblings = alike.count();
        }
    }

    /// The packets that are taken from a queue in a round, where `share` are taken from all queues of a class. The first of
    /// several classes is read at once, since what goes ahead comes first in a graph.
    pub(super) fn most(&self, at: usize, share: usize) -> usize {
        let siblings = self.states.get(at).map_or(1, |state| state.siblings.max(1));
        let is_first =
            self.states.first().zip(self.states.get(at)).is_some_and(|(a, b)| a.classes == b.classes);
        if is_first && siblings < self.used { ROUND } else { share.div_ceil(siblings) }
    }

    /// The number of queues that the graph has a use for. They are the first ones.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// The number of queues.
    pub(super) fn count(&self) -> usize {
        self.states.len()
    }

    /// The classes whose packets wait in a queue.
    pub(super) fn classes(&self, at: usize) -> &[AggregateId] {
        self.states.get(at).map_or(&[], |state| &state.classes)
    }

    /// Something waits in a queue, as the kernel says.
    pub(super) fn is_readable(&mut self, at: usize) {
        if let Some(state) = self.states.get_mut(at) {
            state.is_pending = true;
        }
    }

    /// Whether something may wait in a queue. It is no system call.
    #[inline]
    pub(super) fn is_pending(&mut self, at: usize) -> bool {
        let Some(state) = self.states.get_mut(at) else { return false };
        state.is_pending |= self.table.arrived(at) != state.seen;
        state.is_pending
    }

    /// Whether something may wait in any queue whose classes are read.
    pub(super) fn is_any_pending(&mut self, is_read: impl Fn(&[AggregateId]) -> bool) -> bool {
        (0..self.count()).any(|at| self.is_pending(at) && is_read(self.classes(at)))
    }

    /// The number of packets that wait in a queue, as far as they are counted.
    #[inline]
    pub(super) fn waiting(&self, at: usize) -> u64 {
        self.table.counts(at).waiting()
    }

    /// The number of packets that have arrived at a queue, to be asked before it is read until it is empty.
    #[inline]
    pub(super) fn arrived(&self, at: usize) -> u64 {
        self.table.arrived(at)
    }

    /// Packets were taken from a queue.
    #[inline]
    pub(super) fn taken(&self, at: usize, packets: u64) {
        if packets > 0 {
            self.table.take(at, packets);
        }
    }

    /// A queue was found empty, at which `arrived` packets had arrived before.
    pub(super) fn empty(&mut self, at: usize, arrived: u64) {
        let Some(state) = self.states.get_mut(at) else { return };
        (state.is_pending, state.seen) = (false, arrived);
        // A packet is counted a moment before it is in the queue. What is missing again and again is in none.
        let (least, times) = state.missing;
        let least = least.min(self.table.counts(at).waiting());
        state.missing = (least, times + 1);
        if times + 1 == EMPTIES {
            self.table.lose(at, least);
            state.missing = (u64::MAX, 0);
        }
    }
}
