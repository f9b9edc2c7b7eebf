//! Arrival curves: what a class may ask for.

/// At most `burst + rate * t` of work in any time `t`, in nanoseconds of the processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrival {
    /// The work that may come at once, in nanoseconds.
    pub burst: f64,
    /// The share of the processor that it asks for in the long run.
    pub rate: f64,
}

impl Arrival {
    /// An arrival of nothing.
    pub const NONE: Arrival = Arrival { burst: 0.0, rate: 0.0 };

    /// The arrival that both make together.
    pub fn plus(self, other: Arrival) -> Arrival {
        Arrival { burst: self.burst + other.burst, rate: self.rate + other.rate }
    }

    /// The arrival behind a wait of at most `ns`: what came meanwhile leaves at once. `None` if there is no such time.
    pub fn behind(self, ns: f64) -> Option<Arrival> {
        ns.is_finite().then_some(Arrival { burst: self.burst + self.rate * ns, rate: self.rate })
    }
}
