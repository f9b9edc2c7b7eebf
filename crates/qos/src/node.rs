//! A node: a queue of three parts, or a discipline over nodes.
//!
//! What enters: tickets with their [`Meta`]. What leaves: the ticket whose turn it is, and the tickets that ended on
//! the way, each with its cause, in a list of the caller: what was offered is queued, taken or in that list. Nothing
//! blocks: who gets no packet, or cannot queue one, learns on what to wait ([`Wake`]).

mod outcome;
mod queue;
mod tree;

pub use outcome::{Ended, Full, Offered, Pull, Wake};
pub use queue::{Queue, Whole};
pub use tree::{Node, Tree};
