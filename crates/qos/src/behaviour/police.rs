//! A policer: a token bucket, and what becomes of packets beyond it (RFC 2475 section 2.3.3.4).

use super::{SettingsError, TokenBucket, live, unit};
use crate::amount::Measure;
use crate::component::{About, Behaviour, Cause, Context, Entry, Verdict};
use crate::meta::{AggregateId, Colour};

/// What becomes of a packet beyond the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// The packet is dropped.
    Drop,
    /// The packet gets this colour, unless it has a worse one.
    Recolour(Colour),
    /// The packet goes to another aggregate.
    Aggregate(AggregateId),
    /// The packet is marked as having met congestion where it can be, and dropped where not.
    Mark,
    /// The packet leaves with this DSCP in its outer header, as a marker writes it (RFC 2475 section 2.3.3.2).
    Remark(u8),
}

/// A policer with one token bucket.
#[derive(Clone, Copy, Debug)]
pub struct Police {
    bucket: TokenBucket,
    measure: Measure,
    excess: Excess,
}

impl Police {
    /// A policer whose bucket is full. `rate` and `burst` are in units of the measure, the rate a second.
    pub fn new(rate: u64, burst: u64, measure: Measure, excess: Excess) -> Result<Police, SettingsError> {
        if burst == 0 {
            return Err(SettingsError::NoBurst);
        }
        Ok(Police { bucket: TokenBucket::new(rate, burst), measure, excess })
    }
}

impl Excess {
    /// Let this become of the packet.
    pub(crate) fn apply(self, entry: &mut Entry) {
        match self {
            Excess::Drop => entry.verdict = Verdict::Drop(Cause::Policed),
            Excess::Recolour(colour) => entry.meta.colour = entry.meta.colour.max(colour),
            Excess::Aggregate(aggregate) => entry.meta.aggregate = aggregate,
            Excess::Mark if entry.meta.is_ecn_capable() => entry.verdict = Verdict::Mark,
            Excess::Mark => entry.verdict = Verdict::Drop(Cause::Policed),
            Excess::Remark(dscp) => (entry.meta.dscp[0], entry.meta.is_marked) = (dscp, true),
        }
    }
}

impl Behaviour for Police {
    fn run(&mut self, batch: &mut [Entry], context: &Context) {
        for entry in live(batch) {
            if !self.bucket.take_amount(context.now, &entry.meta.amount, self.measure) {
                self.excess.apply(entry);
            }
        }
    }

    fn about(&self) -> About {
        let (rate, burst, unit) = (self.bucket.rate(), self.bucket.size(), unit(self.measure));
        let excess = self.excess;
        let kind = if matches!(excess, Excess::Remark(_)) { "police-and-mark" } else { "police" };
        About { kind, settings: format!("{rate} {unit}/s, burst {burst}, excess {excess:?}") }
    }
}

/// A policer by colour: it drops the packets of one colour and of worse ones (RFC 2697 section 5).
#[derive(Clone, Copy, Debug)]
pub struct DropColour {
    from: Colour,
}

impl DropColour {
    /// Drop packets of this colour and of worse ones.
    pub const fn new(from: Colour) -> DropColour {
        DropColour { from }
    }
}

impl Behaviour for DropColour {
    fn run(&mut self, batch: &mut [Entry], _: &Context) {
        for entry in live(batch).filter(|entry| entry.meta.colour >= self.from) {
            entry.verdict = Verdict::Drop(Cause::Policed);
        }
    }

    fn about(&self) -> About {
        About { kind: "drop-colour", settings: format!("{:?} and worse", self.from).to_lowercase() }
    }
}
