//! Behaviours: classifiers, meters, markers, policers, shapers.
//!
//! What enters: a batch of entries and the time. What leaves: the same entries with another aggregate, colour, DSCP or
//! verdict. Each component takes every entry that no component dropped before it; [`Only`] keeps one to some aggregates.
//! None allocates after it is made, and none reads a clock.
//!
//! | module | is | after |
//! |---|---|---|
//! | [`classify`] | an ordered list of rules over every field of [`Meta`](crate::Meta) | RFC 2475 section 2.3.1 |
//! | [`precolour`] | the colour that the DSCP tells | RFC 2597 section 6 |
//! | [`precedence`] | the colour of an aggregate by its own DSCPs | RFC 2597 section 2 |
//! | [`srtcm`], [`trtcm`], [`trtcm4115`] | three colour meters | RFC 2697, RFC 2698, RFC 4115 |
//! | [`mark`], [`dscp`] | the DSCP of aggregate and colour | RFC 2597 section 6 |
//! | [`police`] | a token bucket that drops or demotes what exceeds it | RFC 2475 section 2.3.3.4 |
//! | [`shape`] | a rate that delays what exceeds it | RFC 2475 section 2.3.3.3 |
//! | [`limit`] | the most that an aggregate may have under way | paper 002 section III |
//! | [`users`] | weight, limit and class of each user in one bounded table | |
//! | [`auth_budget`] | nanoseconds of failed authentication of each source | |
//! | [`only`] | another behaviour, for some aggregates | |
//! | [`foreign`] | a behaviour whose code comes from outside of the tree | paper 002 section III.A |

pub mod auth_budget;
pub mod classify;
pub mod dscp;
pub mod foreign;
pub mod limit;
pub mod mark;
pub mod only;
pub mod police;
pub mod precedence;
pub mod precolour;
pub mod shape;
pub mod srtcm;
mod table;
pub mod tokens;
pub mod trtcm;
pub mod trtcm4115;
pub mod users;

pub use auth_budget::{AuthBudget, Demotion};
pub use classify::{Classifier, Condition, Field, Rule, Target};
pub use foreign::{Foreign, ForeignSettings};
pub use limit::AggregateLimit;
pub use mark::{Codepoints, Headers, Marker};
pub use only::{AggregateSet, Only};
pub use police::{DropColour, Excess, Police};
pub use precedence::Precedence;
pub use precolour::Precolour;
pub use shape::{Pacer, Shape};
pub use srtcm::SrTcm;
pub use tokens::{TokenBucket, TokenClock};
pub use trtcm::TrTcm;
pub use trtcm4115::TrTcm4115;
pub use users::{Profile, UserLimit, Users};

use std::fmt;

use wire::Time;

use crate::amount::Measure;
use crate::component::{Entry, Verdict};
use crate::meta::Colour;

/// Settings that a component cannot work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingsError {
    /// A burst size is zero where the standard wants more.
    NoBurst,
    /// A rate is zero where nothing would ever conform.
    NoRate,
    /// The peak rate is lower than the committed rate (RFC 2698 section 2).
    PeakBelowCommitted,
    /// A table has room for nothing.
    NoRoom,
    /// A list is longer than its component can number.
    TooMany,
    /// A range or a pair of thresholds ends before it begins.
    Backwards,
    /// A DSCP has more than six bits, or an AF class is none of 1 to 4.
    NoCodepoint,
    /// A probability is no number from 0 to 1.
    NoProbability,
    /// A packet of lower drop precedence would be dropped sooner than one of higher (RFC 2597 section 2).
    PrecedenceReversed,
    /// An interval or a target is zero.
    NoInterval,
    /// One rule looks at the mark both by range and by mask.
    MixedMark,
    /// A user has two profiles.
    TwoProfiles,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SettingsError::NoBurst => "a burst size is zero: give it the size of the largest packet or more",
            SettingsError::NoRate => "a rate is zero: nothing would ever conform",
            SettingsError::PeakBelowCommitted => "the peak rate is lower than the committed rate",
            SettingsError::NoRoom => "the table has room for nothing",
            SettingsError::TooMany => "the list is too long",
            SettingsError::Backwards => "a range ends before it begins",
            SettingsError::NoCodepoint => "a DSCP is 0 to 63, and an AF class 1 to 4",
            SettingsError::NoProbability => "a probability is a number from 0 to 1",
            SettingsError::PrecedenceReversed => {
                "a lower drop precedence would be dropped sooner than a higher one"
            }
            SettingsError::NoInterval => "an interval or a target is zero",
            SettingsError::MixedMark => "one rule looks at the mark both by range and by mask",
            SettingsError::TwoProfiles => "a user has two profiles",
        })
    }
}

impl std::error::Error for SettingsError {}

/// Whether a meter heeds the colour that a packet comes with (RFC 2697 section 3, RFC 2698 section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The packet comes without a colour.
    #[default]
    ColourBlind,
    /// The packet comes with a colour, and gets no better one.
    ColourAware,
}

impl Mode {
    /// The colour that the meter takes the packet to have.
    pub const fn heed(self, colour: Colour) -> Colour {
        match self {
            Mode::ColourBlind => Colour::Green,
            Mode::ColourAware => colour,
        }
    }

    /// The name that settings are shown with.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::ColourBlind => "colour-blind",
            Mode::ColourAware => "colour-aware",
        }
    }
}

/// A meter that gives a packet of some size a colour.
pub trait Meter: Send {
    /// The colour of a packet of this size that comes now with this colour. The tokens that it takes are gone.
    fn colour(&mut self, now: Time, size: u64, colour: Colour) -> Colour;
}

/// The unit of a rate in this measure.
pub(crate) const fn unit(measure: Measure) -> &'static str {
    match measure {
        Measure::Packets => "packets",
        Measure::Octets => "octets",
        Measure::Nanoseconds => "ns",
    }
}

/// Give each entry that is left the colour of the meter.
pub(crate) fn meter(batch: &mut [Entry], now: Time, measure: Measure, meter: &mut impl Meter) {
    for entry in live(batch) {
        entry.meta.colour = meter.colour(now, entry.meta.amount.of(measure), entry.meta.colour);
    }
}

/// The entries of a batch that no component dropped.
pub(crate) fn live(batch: &mut [Entry]) -> impl Iterator<Item = &mut Entry> {
    batch.iter_mut().filter(|entry| !matches!(entry.verdict, Verdict::Drop(_)))
}
