//! Quality of service inside the packet path (paper 002): what is pure of it.
//!
//! What enters: tickets of packets with their [`Meta`], and the time. What leaves: tickets in another order, and drops,
//! each with its cause. The engine keeps the packets; nothing here sees an octet of them.
//!
//! | module | is |
//! |---|---|
//! | [`amount`] | packets, octets and nanoseconds of crypto time; limits in all three |
//! | [`meta`] | what is known of a packet that waits |
//! | [`component`] | the five kinds of components of paper 002 section III |
//! | [`behaviour`] | classifiers, meters, markers, policers, shapers |
//! | [`enqueue`], [`store`], [`dequeue`] | the three parts of a queue |
//! | [`red`] | an enqueueing part: random early detection with drop precedence |
//! | [`discipline`] | which child gives the next packet |
//! | [`node`] | a queue of three parts, or a discipline over nodes |
//! | [`unit`], [`cost`], [`dispatcher`] | crypto units pull work; committed work is bounded |
//! | [`graph`] | classes, hooks and components: described, checked, compiled, exchanged |
//! | [`bound`] | the worst delay of each class |
//! | [`simulate`] | a graph in simulated time |
//! | [`reservation`] | admission of reservations |
#![forbid(unsafe_code)]

pub mod amount;
pub mod behaviour;
pub mod bound;
pub mod component;
pub mod cost;
pub mod dequeue;
pub mod discipline;
pub mod dispatcher;
mod draw;
pub mod enqueue;
pub mod graph;
pub mod meta;
pub mod node;
pub mod red;
pub mod reservation;
pub mod simulate;
pub mod store;
pub mod unit;

pub use amount::{Amount, Limit, Measure};
pub use component::{
    About, Admit, Backlog, Behaviour, Cause, ChildId, Children, Context, Dequeue, Discipline, Enqueue, Entry,
    Leave, Store, Verdict,
};
pub use meta::{AggregateId, Colour, Direction, HeaderKind, Meta, UnitMask, Weight};
