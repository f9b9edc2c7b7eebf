//! The enqueueing part of a queue whose length something else limits.

use crate::component::{About, Admit, Backlog, Context, Enqueue};
use crate::meta::Meta;

/// Takes every packet, however many wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlimited;

impl Enqueue for Unlimited {
    fn admit(&mut self, _: &Meta, _: &Backlog, _: &Context) -> Admit {
        Admit::Take
    }

    fn refuses_beyond_limit(&self) -> bool {
        false
    }

    fn about(&self) -> About {
        About { kind: "unlimited", settings: String::new() }
    }
}
