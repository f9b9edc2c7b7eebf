//! The two data threads: outbound from TUN to UDP, inbound from UDP to TUN.
//!
//! Each owns its half of the engine as plain state, with a pool of its own; nothing on the path is locked or shared
//! (docs/design/0001). The control plane reaches them through [`Handle`] only.

pub mod frames;
mod handle;
mod inbound_thread;
mod losses;
mod murmur;
mod outbound_thread;
mod teller;
mod unsent;

pub use handle::{Handle, Inbox, Next, Unanswered, channel};
pub use inbound_thread::{InboundHalf, InboundThread};
pub use losses::Losses;
use murmur::Murmur;
pub use outbound_thread::{OutboundHalf, OutboundThread, Unfit};
pub use teller::{Teller, Told, tellers};
pub use unsent::{Unsent, Way};

use std::time::Duration;

use tokio::sync::oneshot;
use wire::{Pool, Time};

/// Packets taken from one device before the thread looks at its channel again.
const BATCH: usize = 64;
/// Buffers that a thread keeps for use again. Of each only the pages that packets touch are ever resident.
const KEEP: usize = 128;
/// How often fragments that wait are looked through.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// How long a thread leaves a device alone that answers with an error (down, deleted).
const RECOVERY: Duration = Duration::from_millis(200);

/// Start a thread that owns `state` until it is told to stop. When this function returns, the thread has its name and has
/// done `first`, which gives up its capabilities. The answer comes when the thread ends: its state, or an error if it broke.
///
/// # Errors
/// If the system has no thread to give.
pub fn start<T: Send + 'static>(
    name: &str,
    mut state: T,
    inbox: Inbox<T>,
    first: fn(),
    serve: impl FnOnce(&mut T, &Inbox<T>) + Send + 'static,
) -> netio::Result<oneshot::Receiver<T>> {
    let (ending, ended) = oneshot::channel();
    let (begun, begins) = std::sync::mpsc::sync_channel(1);
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        first();
        let _ = begun.send(());
        serve(&mut state, &inbox);
        // Nobody may be waiting for it any more.
        let _ = ending.send(state);
    });
    spawned
        .map_err(|source| netio::Error::System { doing: format!("starting the thread {name}"), source })?;
    // A thread that broke by then sends nothing: whoever waits for its end hears of it.
    let _ = begins.recv();
    Ok(ended)
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
