//! Random early detection with a curve for each colour: RED (Floyd and Jacobson 1993) and its weighted form (WRED), the
//! active queue management that RFC 2597 section 4 asks for. It is an enqueueing part.
//!
//! The average of what waits is smoothed with the weight `2^-weight`, and falls while the queue is idle as if so many
//! packets had come as could have been sent. Between the two thresholds of a colour, packets are dropped with a
//! probability that rises in a line, and drops are spread: with the probability of the curve at `p`, the number of
//! packets from one drop to the next is uniform from 1 to `2 / p - 1`, so that the fraction dropped is `p` and no run is
//! longer than that. Floyd and Jacobson's own `p_b / (1 - count * p_b)` with `p_b = p` would drop nearly `2 * p`;
//! `p_b = p / (2 - p)` makes the curve tell the fraction. Packets that can carry a congestion mark are marked between the
//! thresholds, and dropped above them (RFC 3168 section 7).

use wire::Time;

use crate::amount::Measure;
use crate::behaviour::SettingsError;
use crate::component::{About, Admit, Backlog, Cause, Context, Enqueue};
use crate::draw::Draws;
use crate::meta::{Colour, Meta};

/// The drop probability of one colour over the average of what waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    /// Below this average nothing is dropped.
    pub min: u64,
    /// From this average on everything is dropped.
    pub max: u64,
    /// The probability just below `max`, from 0 to 1.
    pub probability: f64,
}

impl Curve {
    /// The fraction of packets that is dropped at this average.
    pub fn at(&self, average: u64) -> f64 {
        if average < self.min {
            0.0
        } else if average >= self.max {
            1.0
        } else {
            self.probability * (average - self.min) as f64 / (self.max - self.min) as f64
        }
    }
}

/// The settings of RED or WRED.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedSettings {
    /// The measure of thresholds and average.
    pub measure: Measure,
    /// The curves for green, yellow and red.
    pub curves: [Curve; 3],
    /// The weight of what waits now in the average is `2^-weight`; 31 at most, 9 is customary.
    pub weight: u32,
    /// The time that a typical packet takes to be sent, in nanoseconds: how fast the average falls in an idle queue.
    pub packet_ns: u64,
    /// Whether packets that can carry a congestion mark are marked instead of dropped, between the thresholds.
    pub ecn: bool,
}

/// The state of RED or WRED, one for each queue.
#[derive(Clone, Copy, Debug)]
pub struct Red {
    settings: RedSettings,
    /// The average, in parts of `2^-weight`.
    average: u64,
    /// The packets of each colour since its last drop or mark; `None` below the curve.
    count: [Option<u64>; 3],
    /// The time from which on the queue is idle, if nothing comes.
    idle_from: Time,
    draws: Draws,
}

impl Red {
    /// The state of an empty queue. The curves must not treat a lower drop precedence worse (RFC 2597 section 2).
    pub fn new(settings: RedSettings) -> Result<Red, SettingsError> {
        for curve in &settings.curves {
            if !(0.0..=1.0).contains(&curve.probability) {
                return Err(SettingsError::NoProbability);
            }
            if curve.min > curve.max {
                return Err(SettingsError::Backwards);
            }
        }
        if settings.weight > 31 || settings.packet_ns == 0 {
            return Err(SettingsError::NoInterval);
        }
        for pair in settings.curves.windows(2) {
            let points = pair.iter().flat_map(|curve| [curve.min, curve.max.saturating_sub(1), curve.max]);
            if points.into_iter().any(|average| pair[0].at(average) > pair[1].at(average)) {
                return Err(SettingsError::PrecedenceReversed);
            }
        }
        Ok(Red { settings, average: 0, count: [None; 3], idle_from: Time(0), draws: Draws::default() })
    }

    /// The average of what waits.
    pub const fn average(&self) -> u64 {
        self.average >> self.settings.weight
    }

    /// Bring the average up to date with a packet that comes (Floyd and Jacobson, section 4).
    fn smooth(&mut self, meta: &Meta, backlog: &Backlog, now: Time) {
        let weight = self.settings.weight;
        let waiting = backlog.now.of(self.settings.measure).min(u64::MAX >> (weight + 1));
        let idle = now.0.saturating_sub(self.idle_from.0);
        if backlog.now.packets == 0 && idle > 0 {
            // (1 - 2^-weight)^m for the m packets that could have been sent.
            let keep = power(1.0 - 1.0 / (1_u64 << weight) as f64, idle / self.settings.packet_ns);
            self.average = (self.average as f64 * keep) as u64;
        }
        self.average = self.average.saturating_sub(self.average >> weight).saturating_add(waiting);
        let work = backlog.now.ns.saturating_add(meta.amount.ns);
        self.idle_from = Time(self.idle_from.0.max(now.0.saturating_add(work)));
    }

    /// Whether a packet is taken at this fraction, so that drops are spread evenly.
    fn is_early(&mut self, colour: Colour, fraction: f64, random: u64) -> bool {
        let count = &mut self.count[colour as usize];
        if fraction <= 0.0 {
            *count = None;
            return false;
        }
        let since = count.map_or(0, |count| count.saturating_add(1));
        let base = fraction / (2.0 - fraction);
        let left = 1.0 - since as f64 * base;
        // 53 bits of the random number are a fraction of 1.
        let draw = (self.draws.next(random) >> 11) as f64 / (1_u64 << 53) as f64;
        let is_early = left <= base || draw < base / left;
        *count = Some(since).filter(|_| !is_early);
        is_early
    }
}

/// A power by squaring. It is the same on every machine, which `powf` is not.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut product = 1.0;
    while exponent != 0 {
        if exponent & 1 == 1 {
            product *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    product
}

impl Enqueue for Red {
    fn admit(&mut self, meta: &Meta, backlog: &Backlog, context: &Context) -> Admit {
        self.smooth(meta, backlog, context.now);
        if !backlog.limit.admits(backlog.now, meta.amount) {
            self.count[meta.colour as usize] = None;
            return Admit::Refuse(Cause::QueueFull);
        }
        let curve = self.settings.curves[meta.colour as usize];
        let average = self.average();
        if average >= curve.max {
            self.count[meta.colour as usize] = None;
            return Admit::Refuse(Cause::EarlyDrop);
        }
        if !self.is_early(meta.colour, curve.at(average), context.random) {
            return Admit::Take;
        }
        if self.settings.ecn && meta.is_ecn_capable() {
            return Admit::Mark;
        }
        Admit::Refuse(Cause::EarlyDrop)
    }

    fn about(&self) -> About {
        let RedSettings { measure, curves, weight, ecn, .. } = self.settings;
        let each = |Curve { min, max, probability }: Curve| format!("{min}..{max} {probability}");
        let [green, yellow, red] = curves.map(each);
        let unit = crate::behaviour::unit(measure);
        let settings =
            format!("{unit}: green {green}, yellow {yellow}, red {red}; weight 2^-{weight}, ecn {ecn}");
        About { kind: "red", settings }
    }
}
