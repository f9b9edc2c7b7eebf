//! The two rate three colour marker of RFC 4115, its meter (section 3): in-profile packets need no token of the excess.
//!
//! The text of section 3 asks for more tokens than octets (`Tc(t)-B > 0`) and its Figure 1 for as many (`B <= Tc(t-)`).
//! The figure is followed, as RFC 2697 and RFC 2698 also let a packet have the last token. The RFC counts rates in bits;
//! here they are in units of the measure.

use wire::Time;

use super::{Meter, Mode, SettingsError, TokenBucket, meter, unit};
use crate::amount::Measure;
use crate::component::{About, Behaviour, Context, Entry};
use crate::meta::Colour;

/// The parameters of RFC 4115 section 2, in units of the measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrTcm4115Settings {
    /// The committed information rate, in units a second.
    pub cir: u64,
    /// The committed burst size.
    pub cbs: u64,
    /// The excess information rate, in units a second: beside the committed one, and free of it.
    pub eir: u64,
    /// The excess burst size.
    pub ebs: u64,
    /// The unit of rates and sizes: octets of the packet, or nanoseconds that its cryptography costs.
    pub measure: Measure,
    /// Whether the colour that a packet comes with counts.
    pub mode: Mode,
}

/// The meter of RFC 4115: a packet takes its tokens from one bucket alone.
#[derive(Clone, Copy, Debug)]
pub struct TrTcm4115 {
    settings: TrTcm4115Settings,
    committed: TokenBucket,
    excess: TokenBucket,
}

impl TrTcm4115 {
    /// A meter with both buckets full.
    pub fn new(settings: TrTcm4115Settings) -> Result<TrTcm4115, SettingsError> {
        let TrTcm4115Settings { cir, cbs, eir, ebs, .. } = settings;
        if cbs == 0 || ebs == 0 {
            return Err(SettingsError::NoBurst);
        }
        Ok(TrTcm4115 { settings, committed: TokenBucket::new(cir, cbs), excess: TokenBucket::new(eir, ebs) })
    }
}

impl Meter for TrTcm4115 {
    fn colour(&mut self, now: Time, size: u64, colour: Colour) -> Colour {
        let colour = self.settings.mode.heed(colour);
        if colour == Colour::Green && self.committed.take(now, size) {
            return Colour::Green;
        }
        if colour != Colour::Red && self.excess.take(now, size) {
            return Colour::Yellow;
        }
        Colour::Red
    }
}

impl Behaviour for TrTcm4115 {
    fn run(&mut self, batch: &mut [Entry], context: &Context) {
        meter(batch, context.now, self.settings.measure, self);
    }

    fn about(&self) -> About {
        let TrTcm4115Settings { cir, cbs, eir, ebs, measure, mode } = self.settings;
        let (unit, mode) = (unit(measure), mode.name());
        let settings = format!("cir {cir} {unit}/s, cbs {cbs}, eir {eir} {unit}/s, ebs {ebs}, {mode}");
        About { kind: "trtcm4115", settings }
    }
}
