//! The colour that a packet comes with, read from its DSCP, for meters that are colour-aware (RFC 2697 section 1).
//!
//! The standards leave the mapping to the domain. An AF codepoint tells its drop precedence (RFC 2597 section 6); every
//! other codepoint tells the colour of the settings.

use super::{dscp, live};
use crate::component::{About, Behaviour, Context, Entry};
use crate::meta::Colour;

/// A component that sets the colour by the DSCP.
#[derive(Clone, Copy, Debug)]
pub struct Precolour {
    inner: bool,
    other: Colour,
}

impl Precolour {
    /// The colours by the outer header, or by the inner one; `other` is for codepoints that are not AF.
    pub const fn new(inner: bool, other: Colour) -> Precolour {
        Precolour { inner, other }
    }
}

impl Behaviour for Precolour {
    fn run(&mut self, batch: &mut [Entry], _: &Context) {
        for entry in live(batch) {
            let its = entry.meta.dscp[usize::from(self.inner)];
            entry.meta.colour = dscp::assured_of(its).map_or(self.other, |(_, colour)| colour);
        }
    }

    fn about(&self) -> About {
        let header = if self.inner { "inner" } else { "outer" };
        let settings = format!("AF drop precedence of the {header} header, else {:?}", self.other);
        About { kind: "precolour", settings: settings.to_lowercase() }
    }
}
