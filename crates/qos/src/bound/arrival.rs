//! Arrival curves: what a class may ask for.

use super::view::{SMALLEST, View};
use crate::graph::kinds::{Component, Value};

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

    /// The arrival of a class with a policer; `None` without one.
    ///
    /// A policer that counts octets is turned into work by the cost of the smallest packets, which cost most for each
    /// octet.
    pub fn of_class(view: &View<'_>, class: &str) -> Option<Arrival> {
        let policer = view.description.policer(class, view.direction)?;
        Arrival::of_policer(view, policer)
    }

    fn of_policer(view: &View<'_>, policer: &Component) -> Option<Arrival> {
        let per_octet = view.cost(SMALLEST) as f64 / SMALLEST as f64;
        let rate = match policer.get("rate")?.value {
            Value::Share(parts) => parts as f64 / 1e6,
            Value::Rate(bits) => bits as f64 / 8.0 / 1e9 * per_octet,
            _ => return None,
        };
        let burst = match policer.get("burst")?.value {
            // The packet that empties the bucket goes whole.
            Value::Time(ns) => (ns as f64).max(view.costliest() as f64),
            Value::Octets(octets) => octets as f64 * per_octet,
            _ => return None,
        };
        Some(Arrival { burst, rate })
    }

    /// The arrival that both make together.
    pub fn plus(self, other: Arrival) -> Arrival {
        Arrival { burst: self.burst + other.burst, rate: self.rate + other.rate }
    }
}
