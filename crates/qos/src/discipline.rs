//! Scheduling disciplines: which child gives next.
//!
//! What enters: the children that have a packet to give now, with what is known of it, and what a child gave. What
//! leaves: the child whose turn it is. Disciplines do not look at queues, so a child can be a queue or a discipline.
//!
//! Children are numbered from 0. A child for which a discipline has no setting has the last one of its table.

mod drr;
mod edf;
mod round_robin;
mod strict;
mod weighted;
mod wfq;

pub use drr::DeficitRoundRobin;
pub use edf::EarliestDeadline;
pub use round_robin::RoundRobin;
pub use strict::{Guard, StrictPriority};
pub use weighted::WeightedRoundRobin;
pub use wfq::WeightedFairQueueing;

use crate::amount::{Amount, Measure};
use crate::component::{ChildId, Children};
use crate::meta::Meta;

/// The first child from `start` on, round to the one before it, that has a packet to give.
fn first_ready(children: &dyn Children, start: u16) -> Option<ChildId> {
    let count = children.count();
    let start = if start < count { start } else { 0 };
    (start..count).chain(0..start).map(ChildId).find(|&child| children.head(child).is_some())
}

/// The cost of the smallest part that a packet can be given in: the whole of it, or one piece of a super-packet.
fn piece(meta: &Meta, measure: Measure) -> i64 {
    signed(meta.amount.of(measure).div_ceil(meta.amount.packets.max(1)))
}

fn cost(amount: Amount, measure: Measure) -> i64 {
    signed(amount.of(measure))
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX).min(i64::MAX / 4)
}

/// The setting of a child: the last one of the table stands for children beyond it.
fn setting<S: Copy>(table: &[S], child: usize, without: S) -> S {
    table.get(child).or(table.last()).copied().unwrap_or(without)
}
