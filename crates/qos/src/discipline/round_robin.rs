//! Round robin: one packet of each child in turn, as in Figures 5 and 6 of paper 002.

use crate::amount::Amount;
use crate::component::{About, ChildId, Children, Context, Discipline};

use super::first_ready;

/// Takes the children in turn, each for one packet. A super-packet counts as one.
#[derive(Clone, Debug, Default)]
pub struct RoundRobin {
    turn: u16,
}

impl Discipline for RoundRobin {
    fn next(&mut self, children: &dyn Children, _: &Context) -> Option<ChildId> {
        first_ready(children, self.turn)
    }

    fn served(&mut self, child: ChildId, _: Amount, _: &Context) {
        self.turn = child.0.saturating_add(1);
    }

    fn put_back(&mut self, child: ChildId, _: Amount, _: &Context) {
        self.turn = child.0;
    }

    fn about(&self) -> About {
        About { kind: "round-robin", settings: String::new() }
    }
}
