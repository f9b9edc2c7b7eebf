//! Tail drop: what comes beyond the limit ends.

use crate::component::{About, Admit, Backlog, Cause, Context, Enqueue};
use crate::meta::Meta;

/// Refuses what is beyond the limit of the queue in packets, octets or nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct TailDrop;

impl Enqueue for TailDrop {
    fn admit(&mut self, meta: &Meta, backlog: &Backlog, _: &Context) -> Admit {
        if super::fits(meta, backlog).0 { Admit::Take } else { Admit::Refuse(Cause::QueueFull) }
    }

    fn about(&self) -> About {
        About { kind: "tail-drop", settings: String::new() }
    }
}
