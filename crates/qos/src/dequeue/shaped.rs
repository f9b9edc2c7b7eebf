//! Another dequeueing part behind a shaper: packets leave as that part decides, and no faster than a rate.

use wire::Time;

use crate::amount::Amount;
use crate::behaviour::Pacer;
use crate::component::{About, Backlog, Context, Dequeue, Leave};
use crate::meta::Meta;

/// A dequeueing part whose packets are held to a rate.
pub struct Shaped {
    pacer: Pacer,
    inner: Box<dyn Dequeue>,
}

impl Shaped {
    /// Hold what a dequeueing part gives to the rate of a pacer. Its limit on the wait is not looked at.
    pub const fn new(pacer: Pacer, inner: Box<dyn Dequeue>) -> Shaped {
        Shaped { pacer, inner }
    }
}

impl Dequeue for Shaped {
    fn decide(&mut self, head: &Meta, backlog: &Backlog, context: &Context) -> Leave {
        self.decide_of(0, backlog.now, head, backlog, context)
    }

    fn decide_of(
        &mut self,
        queue: u32,
        own: Amount,
        head: &Meta,
        backlog: &Backlog,
        context: &Context,
    ) -> Leave {
        let due = self.pacer.due();
        if due > context.now {
            return Leave::Wait(due);
        }
        let leave = self.inner.decide_of(queue, own, head, backlog, context);
        if matches!(leave, Leave::Give | Leave::Mark) {
            self.pacer.charge(context.now, head);
        }
        leave
    }

    fn overflowed(&mut self, queue: u32, now: Time) {
        self.inner.overflowed(queue, now);
    }

    fn about(&self) -> About {
        let About { kind, settings } = self.inner.about();
        About { kind, settings: format!("{settings}; shaped to {}", self.pacer.line()) }
    }
}
