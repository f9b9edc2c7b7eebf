//! The two rate three colour marker of RFC 2698, its meter (section 3).

use wire::Time;

use super::{Meter, Mode, SettingsError, TokenBucket, meter, unit};
use crate::amount::Measure;
use crate::component::{About, Behaviour, Context, Entry};
use crate::meta::Colour;

/// The parameters of RFC 2698 section 2, in units of the measure instead of octets alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrTcmSettings {
    /// The peak information rate, in units a second; not less than the committed one.
    pub pir: u64,
    /// The peak burst size.
    pub pbs: u64,
    /// The committed information rate, in units a second.
    pub cir: u64,
    /// The committed burst size.
    pub cbs: u64,
    /// The unit of rates and sizes: octets of the packet, or nanoseconds that its cryptography costs.
    pub measure: Measure,
    /// Whether the colour that a packet comes with counts.
    pub mode: Mode,
}

/// The two rate three colour meter: a packet that is green takes tokens from both buckets.
#[derive(Clone, Copy, Debug)]
pub struct TrTcm {
    settings: TrTcmSettings,
    peak: TokenBucket,
    committed: TokenBucket,
}

impl TrTcm {
    /// A meter with both buckets full.
    pub fn new(settings: TrTcmSettings) -> Result<TrTcm, SettingsError> {
        let TrTcmSettings { pir, pbs, cir, cbs, .. } = settings;
        if pbs == 0 || cbs == 0 {
            return Err(SettingsError::NoBurst);
        }
        if pir < cir {
            return Err(SettingsError::PeakBelowCommitted);
        }
        Ok(TrTcm { settings, peak: TokenBucket::new(pir, pbs), committed: TokenBucket::new(cir, cbs) })
    }
}

impl Meter for TrTcm {
    fn colour(&mut self, now: Time, size: u64, colour: Colour) -> Colour {
        let colour = self.settings.mode.heed(colour);
        if colour == Colour::Red || !self.peak.take(now, size) {
            return Colour::Red;
        }
        if colour == Colour::Yellow || !self.committed.take(now, size) {
            return Colour::Yellow;
        }
        Colour::Green
    }
}

impl Behaviour for TrTcm {
    fn run(&mut self, batch: &mut [Entry], context: &Context) {
        meter(batch, context.now, self.settings.measure, self);
    }

    fn about(&self) -> About {
        let TrTcmSettings { pir, pbs, cir, cbs, measure, mode } = self.settings;
        let (unit, mode) = (unit(measure), mode.name());
        let settings = format!("pir {pir} {unit}/s, pbs {pbs}, cir {cir} {unit}/s, cbs {cbs}, {mode}");
        About { kind: "trtcm", settings }
    }
}
