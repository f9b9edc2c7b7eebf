//! A limit for each aggregate on what it has under way beyond this point (paper 002 section III: limits per aggregate).
//!
//! A behaviour sees packets that pass and not those that leave later, so whoever ends a packet's way tells it:
//! [`AggregateLimit::leave`]. Between the two the packet counts for its aggregate in all three measures.

use super::live;
use crate::amount::{Amount, Limit};
use crate::component::{About, Behaviour, Cause, Context, Entry, Verdict};
use crate::meta::{AggregateId, Meta};

/// The amounts that aggregates have under way, and the most that each may.
#[derive(Clone, Debug)]
pub struct AggregateLimit {
    rows: Box<[(Amount, Limit); 256]>,
}

impl AggregateLimit {
    /// The limits of some aggregates. The others have none.
    pub fn new(list: &[(AggregateId, Limit)]) -> AggregateLimit {
        let mut rows = Box::new([(Amount::default(), Limit::NONE); 256]);
        for (aggregate, limit) in list {
            rows[usize::from(aggregate.0)].1 = *limit;
        }
        AggregateLimit { rows }
    }

    /// The amount that an aggregate has under way.
    pub fn amount(&self, aggregate: AggregateId) -> Amount {
        self.rows[usize::from(aggregate.0)].0
    }

    /// The number of packets for which the limit of an aggregate has room, each like those that are under way, or like
    /// `each` if none is.
    pub fn spare(&self, aggregate: AggregateId, each: Amount) -> u64 {
        let (now, limit) = self.rows[usize::from(aggregate.0)];
        let room = limit.room(now, now.mean().unwrap_or(each));
        if now.packets == 0 { room.max(1) } else { room }
    }

    /// A packet that passed has left, or has ended. It counts for the aggregate that it has passed with. Its estimated
    /// nanoseconds may be others by now, so the packets that leave take the average of those that are under way.
    pub fn leave(&mut self, meta: &Meta) {
        let amount = &mut self.rows[usize::from(meta.aggregate.0)].0;
        let packets = meta.amount.packets.min(amount.packets);
        let ns = u128::from(amount.ns) * u128::from(packets) / u128::from(amount.packets.max(1));
        *amount -= Amount { packets, octets: meta.amount.octets, ns: u64::try_from(ns).unwrap_or(u64::MAX) };
        if amount.packets == 0 {
            *amount = Amount::default();
        }
    }

    /// A packet is under way that was not asked about here.
    pub fn count(&mut self, meta: &Meta) {
        self.rows[usize::from(meta.aggregate.0)].0 += meta.amount;
    }

    /// Count what was under way at the limits before these.
    pub fn inherit(&mut self, before: &AggregateLimit) {
        for (row, old) in self.rows.iter_mut().zip(before.rows.iter()) {
            row.0 = old.0;
        }
    }
}

impl Behaviour for AggregateLimit {
    fn run(&mut self, batch: &mut [Entry], _: &Context) {
        for entry in live(batch) {
            let (amount, limit) = &mut self.rows[usize::from(entry.meta.aggregate.0)];
            if limit.admits(*amount, entry.meta.amount) {
                *amount += entry.meta.amount;
            } else {
                entry.verdict = Verdict::Drop(Cause::QueueFull);
            }
        }
    }

    fn about(&self) -> About {
        let count = self.rows.iter().filter(|(_, limit)| *limit != Limit::NONE).count();
        About { kind: "limit", settings: format!("{count} aggregates") }
    }
}
