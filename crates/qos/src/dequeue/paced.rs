//! A shaper as the dequeueing part of a queue (RFC 2475 section 2.3.3.3): the packet that is next waits until the rate
//! allows it. One that has waited for longer than the limit ends, so that the queue stays bounded in time.

use wire::Time;

use crate::behaviour::SettingsError;
use crate::behaviour::shape::{Pacer, ShapeSettings};
use crate::component::{About, Backlog, Cause, Context, Dequeue, Leave};
use crate::meta::Meta;

/// A dequeueing part that holds packets to a rate.
#[derive(Clone, Copy, Debug)]
pub struct Paced {
    pacer: Pacer,
    now: Time,
}

impl Paced {
    /// A shaper of an idle link.
    pub fn new(settings: ShapeSettings) -> Result<Paced, SettingsError> {
        Ok(Paced { pacer: Pacer::new(settings)?, now: Time(0) })
    }
}

impl Dequeue for Paced {
    fn decide(&mut self, head: &Meta, _: &Backlog, context: &Context) -> Leave {
        self.now = self.now.max(context.now);
        if self.now.0.saturating_sub(head.arrived.0) > self.pacer.settings().limit_ns {
            return Leave::Drop(Cause::ShapedOut);
        }
        let due = self.pacer.due();
        if due > self.now {
            return Leave::Wait(due);
        }
        self.pacer.charge(self.now, head);
        Leave::Give
    }

    fn about(&self) -> About {
        About { kind: "paced", settings: self.pacer.line() }
    }
}
