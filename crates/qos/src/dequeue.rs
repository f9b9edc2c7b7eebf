//! Dequeueing parts of queues: active queue management that drops or marks what leaves, and shapers that hold it.
//!
//! What enters: what is known of the packet that is next, what waits (that packet among it), and the time. What leaves:
//! whether it leaves, marked or not, ends, or stays. A packet that can carry a congestion mark is marked instead of
//! dropped (RFC 7567 section 4.2.1), except where the algorithm itself says that marking is over.
//!
//! | module | is | after |
//! |---|---|---|
//! | [`give`] | first come, first served | |
//! | [`codel`] | controlled delay | RFC 8289 |
//! | [`cobalt`] | controlled delay, with a probability against floods | the description of CAKE |
//! | [`dualpi2`] | two queues coupled by one controller | RFC 9332 |
//! | [`per_flow`] | one of these for each flow queue | RFC 8290 section 4.2 |
//! | [`shaped`] | another dequeueing part, no faster than a rate | RFC 2475 section 2.3.3.3 |

pub mod cobalt;
pub mod codel;
mod control_law;
pub mod dual_queue;
pub mod dualpi2;
pub mod give;
pub mod per_flow;
pub mod shaped;

pub use cobalt::Cobalt;
pub use codel::{Codel, CodelSettings};
pub use control_law::step;
pub use dual_queue::DualQueue;
pub use dualpi2::{Branch, DualPi2, DualPi2Settings};
pub use give::Give;
pub use per_flow::PerFlow;
pub use shaped::Shaped;
