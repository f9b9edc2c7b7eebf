//! The two data threads: outbound from TUN to UDP, inbound from UDP to TUN.
//!
//! Each owns its half of the engine as plain state, with a pool of its own; nothing on the path is locked or shared
//! (docs/design/0001). The control plane reaches them through [`control::channel::Handle`] only.

mod device_stats;
mod drop_log;
mod event_channel;
pub mod frames;
mod inbound_thread;
mod outbound_thread;
mod queue_state;
mod unit_threads;
mod unsent;

pub use device_stats::DeviceStats;
use drop_log::DropLog;
pub use event_channel::{EventReceiver, EventSender, event_channel};
pub use inbound_thread::{InboundHalf, InboundThread, SocketQueues};
pub use outbound_thread::{KernelQueues, OutboundHalf, OutboundThread, Unfit};
pub use unit_threads::{ThreadsOfUnits, UnitThread, UnitThreads, unit_threads};
pub(crate) use unsent::GIVEN_UP;
pub use unsent::{PATIENCE, SaEnd, Unsent};

use std::time::Duration;

use control::privileges;
use wire::{AggregateId, Pool, Time};

/// Packets taken from one device before the thread looks at its channel again.
const BATCH: usize = 64;
/// Buffers that a thread keeps for use again. Of each only the pages that packets touch are ever resident.
const KEEP: usize = 128;
/// How often fragments that wait are looked through.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// The time slice of a data thread where there is a graph.
const SLICE: Duration = Duration::from_micros(100);
/// How long a thread that ends waits for the answers of units, before the next look.
const BREATH: Duration = Duration::from_micros(100);
/// How long a thread leaves a device alone that answers with an error (down, deleted).
const RECOVERY: Duration = Duration::from_millis(200);

/// A graph for a data thread to adopt, with the classes of each of its kernel queues, and the threads of its units.
pub struct GraphExchange<G, W> {
    /// The graph that takes the place of the one in force.
    pub graph: Box<G>,
    /// The numbers of the classes of each queue, in their order.
    pub classes: Vec<Vec<AggregateId>>,
    /// The threads of the units that need one.
    pub threads: Vec<UnitThread<W>>,
}

/// What the outbound thread does first where there is a graph.
pub fn begin_outbound() {
    shorten_slices();
    privileges::keep_sending();
}

/// What the inbound thread does first where there is a graph.
pub fn begin_inbound() {
    shorten_slices();
    privileges::give_up_all();
}

/// A data thread with a graph is run as soon as a packet comes, also beside threads of units on its processor.
fn shorten_slices() {
    if let Err(error) = netio::slice::set(SLICE) {
        tracing::warn!(%error, "a data thread has no short slices: beside others on its processor it is run later");
    }
}

fn pool() -> Pool {
    Pool::new(engine::BUF_CAPACITY, engine::HEADROOM, KEEP)
}

/// When something is to be done again.
struct Due {
    next: Time,
}

impl Due {
    fn new(now: Time) -> Due {
        Due { next: now + HOUSEKEEPING }
    }

    /// Whether it is time, once per period.
    fn reached(&mut self, now: Time) -> bool {
        let reached = now >= self.next;
        if reached {
            self.next = now + HOUSEKEEPING;
        }
        reached
    }
}
