//! Eviction: a packet that waits ends, so that the one that comes can be queued.

use crate::component::{About, Admit, Backlog, Cause, Context, Enqueue};
use crate::meta::Meta;

/// Ends the packet at the head, which is the oldest: what waits stays fresh, and a sender learns of the loss sooner.
#[derive(Clone, Copy, Debug, Default)]
pub struct DropHead;

/// Ends the packet at the head of the longest flow (RFC 8290 section 4.1): a flow that fills the queue pays for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct DropLongest;

impl Enqueue for DropHead {
    fn admit(&mut self, meta: &Meta, backlog: &Backlog, _: &Context) -> Admit {
        or_evict(meta, backlog, Admit::EvictFirst(Cause::QueueFull))
    }

    fn refuses_beyond_limit(&self) -> bool {
        false
    }

    fn about(&self) -> About {
        About { kind: "drop-head", settings: String::new() }
    }
}

impl Enqueue for DropLongest {
    fn admit(&mut self, meta: &Meta, backlog: &Backlog, _: &Context) -> Admit {
        or_evict(meta, backlog, Admit::EvictLongest(Cause::QueueFull))
    }

    fn refuses_beyond_limit(&self) -> bool {
        false
    }

    fn about(&self) -> About {
        About { kind: "drop-longest", settings: String::new() }
    }
}

fn or_evict(meta: &Meta, backlog: &Backlog, evict: Admit) -> Admit {
    match super::fits(meta, backlog) {
        (true, _) => Admit::Take,
        (false, true) => evict,
        (false, false) => Admit::Refuse(Cause::QueueFull),
    }
}
