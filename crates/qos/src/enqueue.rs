//! Enqueueing parts of queues: limits and active queue management that drops or marks what comes.
//!
//! The limit itself belongs to the queue and comes with its [`Backlog`](crate::Backlog); the part says what happens to
//! what is beyond it. A packet that is larger than the whole limit is refused before any other has to leave for it.

mod evict;
mod tail;
mod unlimited;

pub use evict::{DropHead, DropLongest};
pub use tail::TailDrop;
pub use unlimited::Unlimited;

use crate::amount::Amount;
use crate::component::Backlog;
use crate::meta::Meta;

/// Whether the packet fits beside what waits, and whether it fits at all.
fn fits(meta: &Meta, backlog: &Backlog) -> (bool, bool) {
    let fits_alone = backlog.limit.admits(Amount::default(), meta.amount);
    (backlog.limit.admits(backlog.now, meta.amount), fits_alone)
}
