//! The dequeueing part of a plain queue: every packet leaves when it is asked for.

use crate::component::{About, Backlog, Context, Dequeue, Leave};
use crate::meta::Meta;

/// A dequeueing part that gives every packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Give;

impl Dequeue for Give {
    fn decide(&mut self, _: &Meta, _: &Backlog, _: &Context) -> Leave {
        Leave::Give
    }

    fn about(&self) -> About {
        About { kind: "give", settings: String::new() }
    }
}
