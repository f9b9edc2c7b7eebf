//! Kernel queues by class, as a graph asks for them (docs/design/0042): of the TUN, and of the sockets for outer packets.

use config::LoadedGraph;
use qos::Direction;
use qos::graph::kernel_shares;
use sockmon::QueueShare;
use wire::AggregateId;

use crate::start::RunError;

/// The most queues over which users of a class are spread.
const MOST_OF_A_CLASS: u64 = 16;

/// The most classes that a graph can have.
const CLASSES: usize = 64;

/// A kernel queue with the classes whose packets wait there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassQueue {
    /// The names of the classes.
    pub names: Vec<String>,
    /// The numbers of the classes.
    pub classes: Vec<AggregateId>,
}

/// The queues of one direction of a graph.
#[derive(Clone, Debug)]
pub struct ClassQueues {
    /// The queues, in the order in which they are read.
    pub queues: Vec<ClassQueue>,
    /// The most packets that wait in each.
    pub limits: Vec<u32>,
    /// The queues of each class, by its number; `None`: the graph does not have it.
    pub shares: [Option<QueueShare>; CLASSES],
}

impl ClassQueues {
    /// The queues for a direction of a graph, at most so many where it describes none.
    pub fn of(loaded: &LoadedGraph, direction: Direction, most: u64) -> ClassQueues {
        let LoadedGraph { description, aggregates: numbers, .. } = loaded;
        let mut queues = ClassQueues { queues: Vec::new(), limits: Vec::new(), shares: [None; _] };
        for share in kernel_shares(description, direction, most) {
            let classes = share.classes.iter().filter_map(|class| numbers.find(class)).collect();
            let count = share.queues.min(MOST_OF_A_CLASS);
            let place = QueueShare { first: queues.queues.len() as u8, count: count as u8 };
            let queue = ClassQueue { names: share.classes, classes };
            for class in &queue.classes {
                if let Some(share) = queues.shares.get_mut(usize::from(class.0)) {
                    *share = Some(place);
                }
            }
            let limit = u32::try_from(share.limit).unwrap_or(u32::MAX);
            queues.limits.extend((0..count).map(|_| limit));
            queues.queues.extend((0..count).map(|_| queue.clone()));
        }
        queues
    }
}

/// The numbers of the classes of each queue, by its number.
pub fn numbers(queues: &[ClassQueue]) -> Vec<Vec<AggregateId>> {
    queues.iter().map(|queue| queue.classes.clone()).collect()
}

/// A key for the hash by which users are spread, random and secret.
///
/// # Errors
/// The system gives no random octets.
pub fn seed() -> Result<[u64; 6], RunError> {
    let mut octets = [0; 48];
    netio::random::fill(&mut octets)
        .map_err(|source| RunError::System { doing: "reading random octets", source })?;
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|octet| octets[at * 8 + octet]));
    Ok(std::array::from_fn(word))
}
