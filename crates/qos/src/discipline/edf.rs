//! Earliest deadline first: the deadline of a packet is its arrival and the time within which its child promises to
//! give.

use crate::amount::Amount;
use crate::component::{About, ChildId, Children, Context, Discipline};

use super::setting;

/// Takes the child whose next packet has the earliest deadline; of equal ones the first child.
#[derive(Clone, Debug)]
pub struct EarliestDeadline {
    within: Vec<u64>,
}

impl EarliestDeadline {
    /// A discipline of these times in nanoseconds, one for each child.
    pub fn new(within: Vec<u64>) -> EarliestDeadline {
        EarliestDeadline { within }
    }
}

impl Discipline for EarliestDeadline {
    fn next(&mut self, children: &dyn Children, _: &Context) -> Option<ChildId> {
        let deadline = |child: u16| {
            let within = setting(&self.within, usize::from(child), u64::MAX);
            let arrived = children.head(ChildId(child))?.arrived;
            Some((arrived.0.saturating_add(within), child))
        };
        (0..children.count()).filter_map(deadline).min().map(|(_, child)| ChildId(child))
    }

    fn served(&mut self, _: ChildId, _: Amount, _: &Context) {}

    fn put_back(&mut self, _: ChildId, _: Amount, _: &Context) {}

    fn about(&self) -> About {
        About { kind: "edf", settings: format!("within {:?} ns", self.within) }
    }
}
