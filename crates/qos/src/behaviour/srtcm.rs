//! The single rate three colour marker of RFC 2697, its meter (section 3).

use wire::Time;

use super::{Meter, Mode, SettingsError, TokenClock, meter, unit};
use crate::amount::Measure;
use crate::component::{About, Behaviour, Context, Entry};
use crate::meta::Colour;

/// The parameters of RFC 2697 section 2, in units of the measure instead of octets alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrTcmSettings {
    /// The committed information rate, in units a second.
    pub cir: u64,
    /// The committed burst size.
    pub cbs: u64,
    /// The excess burst size.
    pub ebs: u64,
    /// The unit of rate and sizes: octets of the packet, or nanoseconds that its cryptography costs.
    pub measure: Measure,
    /// Whether the colour that a packet comes with counts.
    pub mode: Mode,
}

/// The single rate three colour meter: two buckets that share one rate.
#[derive(Clone, Copy, Debug)]
pub struct SrTcm {
    settings: SrTcmSettings,
    clock: TokenClock,
    committed: u64,
    excess: u64,
}

impl SrTcm {
    /// A meter with both buckets full. One of the two sizes at least must be more than zero.
    pub fn new(settings: SrTcmSettings) -> Result<SrTcm, SettingsError> {
        if settings.cbs == 0 && settings.ebs == 0 {
            return Err(SettingsError::NoBurst);
        }
        let SrTcmSettings { cir, cbs, ebs, .. } = settings;
        Ok(SrTcm { settings, clock: TokenClock::new(cir), committed: cbs, excess: ebs })
    }

    /// Add the tokens that came: the committed bucket first, and what it has no room for to the other.
    fn fill(&mut self, now: Time) {
        let ticks = self.clock.advance(now);
        let first = ticks.min(self.settings.cbs - self.committed);
        self.committed += first;
        self.excess = self.excess.saturating_add(ticks - first).min(self.settings.ebs);
    }
}

impl Meter for SrTcm {
    fn colour(&mut self, now: Time, size: u64, colour: Colour) -> Colour {
        self.fill(now);
        let colour = self.settings.mode.heed(colour);
        if colour == Colour::Green && self.committed >= size {
            self.committed -= size;
            return Colour::Green;
        }
        if colour != Colour::Red && self.excess >= size {
            self.excess -= size;
            return Colour::Yellow;
        }
        Colour::Red
    }
}

impl Behaviour for SrTcm {
    fn run(&mut self, batch: &mut [Entry], context: &Context) {
        meter(batch, context.now, self.settings.measure, self);
    }

    fn about(&self) -> About {
        let SrTcmSettings { cir, cbs, ebs, measure, mode } = self.settings;
        let (unit, mode) = (unit(measure), mode.name());
        About { kind: "srtcm", settings: format!("cir {cir} {unit}/s, cbs {cbs}, ebs {ebs}, {mode}") }
    }
}
