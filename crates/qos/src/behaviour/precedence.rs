//! The colour that a class reads from its DSCPs: drop precedences that the operator names (RFC 2597 section 2).

use super::live;
use crate::component::{About, Behaviour, Context, Entry};
use crate::meta::{AggregateId, Colour};

/// A component that sets the colour of one aggregate by the DSCP of the inner header.
#[derive(Clone, Copy, Debug)]
pub struct Precedence {
    aggregate: AggregateId,
    codepoints: [u8; 3],
}

impl Precedence {
    /// The codepoints of green, yellow and red. Packets with another one keep their colour.
    pub const fn new(aggregate: AggregateId, codepoints: [u8; 3]) -> Precedence {
        Precedence { aggregate, codepoints }
    }
}

impl Behaviour for Precedence {
    fn run(&mut self, batch: &mut [Entry], _: &Context) {
        let colours = [Colour::Green, Colour::Yellow, Colour::Red];
        for entry in live(batch).filter(|entry| entry.meta.aggregate == self.aggregate) {
            let its = entry.meta.dscp[1];
            let place = self.codepoints.iter().position(|codepoint| *codepoint == its);
            if let Some(colour) = place.and_then(|place| colours.get(place)) {
                entry.meta.colour = *colour;
            }
        }
    }

    fn about(&self) -> About {
        About { kind: "precedence", settings: format!("{:?}", self.codepoints) }
    }
}
