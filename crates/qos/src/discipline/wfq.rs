//! Weighted fair queueing as WF2Q+ (Bennett and Zhang, 1997) by packets, octets or nanoseconds.
//!
//! Each child that has a packet has a start tag S and a finish tag F = S + cost / weight. Virtual time V grows by what
//! was given, divided by the weights of the children that wait, and is at least the least S. Of the children with S <=
//! V the one with the least F gives. A child that was idle begins at V. So no child is ahead of its fluid share by more
//! than one packet, nor behind it by more than the largest one. (SCFQ, which knows no S, can be ahead by a packet of
//! every other child.)

use crate::amount::{Amount, Measure};
use crate::component::{About, ChildId, Children, Context, Discipline};

use super::{piece, setting};

/// Tags are amounts divided by weights, with this many bits behind the point.
const POINT: u32 = 32;

#[derive(Clone, Copy, Debug, Default)]
struct Tag {
    start: i128,
    /// Whether it had a packet when it was last looked at.
    is_waiting: bool,
}

/// Gives each child that waits a share in the measure that is in proportion to its weight.
#[derive(Clone, Debug)]
pub struct WeightedFairQueueing {
    measure: Measure,
    weights: Vec<u32>,
    tags: Vec<Tag>,
    time: i128,
    /// The sum of the weights of the children that wait.
    waiting: u64,
}

impl WeightedFairQueueing {
    /// A discipline of these weights, one for each child. A weight of 0 counts as 1.
    pub fn new(measure: Measure, weights: Vec<u32>) -> WeightedFairQueueing {
        WeightedFairQueueing { measure, weights, tags: Vec::new(), time: 0, waiting: 1 }
    }

    fn weight(&self, child: usize) -> u64 {
        u64::from(setting(&self.weights, child, 1).max(1))
    }

    /// Move the tag of a child and virtual time by what it gave, or back by what it has again.
    fn shift(&mut self, child: ChildId, amount: Amount, sign: i128) {
        let at = usize::from(child.0);
        let step = tag(amount.of(self.measure), self.weight(at));
        if let Some(entry) = self.tags.get_mut(at) {
            entry.start += sign * step;
            self.time += sign * tag(amount.of(self.measure), self.waiting);
        }
    }
}

/// An amount divided by a weight.
fn tag(amount: u64, weight: u64) -> i128 {
    // Amounts beyond 2^32 of a measure in one packet do not occur; one word is faster to divide than two.
    let scaled = match amount.checked_shl(POINT) {
        Some(scaled) if amount >> (64 - POINT) == 0 => scaled / weight.max(1),
        _ => u64::MAX / weight.max(1),
    };
    i128::from(scaled)
}

impl Discipline for WeightedFairQueueing {
    fn next(&mut self, children: &dyn Children, _: &Context) -> Option<ChildId> {
        let count = usize::from(children.count());
        if self.tags.len() < count {
            self.tags.resize(count, Tag::default());
        }
        let (mut least, mut waiting) = (i128::MAX, 0);
        for at in 0..count {
            let has_packet = children.head(ChildId(at as u16)).is_some();
            let entry = &mut self.tags[at];
            if has_packet && !entry.is_waiting {
                entry.start = entry.start.max(self.time);
            }
            entry.is_waiting = has_packet;
            if has_packet {
                least = least.min(entry.start);
                waiting += self.weight(at);
            }
        }
        if waiting == 0 {
            return None;
        }
        self.waiting = waiting;
        self.time = self.time.max(least);
        let mut best: Option<(i128, ChildId)> = None;
        for at in 0..count {
            let child = ChildId(at as u16);
            let Some(head) = children.head(child) else { continue };
            let start = self.tags[at].start;
            let finish = start + tag(piece(head, self.measure) as u64, self.weight(at));
            if start <= self.time && best.is_none_or(|(least, _)| finish < least) {
                best = Some((finish, child));
            }
        }
        best.map(|(_, child)| child)
    }

    fn served(&mut self, child: ChildId, spent: Amount, _: &Context) {
        self.shift(child, spent, 1);
    }

    fn put_back(&mut self, child: ChildId, unspent: Amount, _: &Context) {
        self.shift(child, unspent, -1);
        // It was waiting all the time, with this packet.
        if let Some(entry) = self.tags.get_mut(usize::from(child.0)) {
            entry.is_waiting = true;
        }
    }

    fn about(&self) -> About {
        About { kind: "wfq", settings: format!("weights {:?} {:?}", self.weights, self.measure) }
    }
}
