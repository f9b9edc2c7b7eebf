//! The cost model that a gateway's measured costs give.

use super::house::{House, Line as Measured};
use crate::cost::{CostModel, Line};
use crate::dispatcher::UNITS;
use crate::unit::UnitId;

/// The costs that start-up measured, for suites in this order. A suite that was not measured costs as the costliest
/// one.
pub fn costs(house: &House, suites: &[String]) -> CostModel {
    let measured = || house.costs.iter();
    let ns = |line: &Measured| line.ns(house.path.mtu);
    let costliest = measured().map(|cost| cost.line).max_by_key(ns).unwrap_or_default();
    let count = u16::try_from(suites.len()).unwrap_or(u16::MAX);
    let mut costs = CostModel::new(UNITS as u8, count, line(costliest));
    for cost in measured() {
        let place = suites.iter().position(|suite| *suite == cost.suite);
        let Some(suite) = place.and_then(|place| u16::try_from(place).ok()) else { continue };
        for unit in 0..UNITS as u8 {
            costs.set(UnitId(unit), suite, cost.direction, line(cost.line));
        }
    }
    costs
}

/// A measured line in the form of the cost model, rounded up.
fn line(measured: Measured) -> Line {
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Line {
        base_ns: narrow(measured.base_ns),
        ns_per_1024: narrow(measured.ps_per_octet.saturating_mul(1_024).div_ceil(1_000)),
        batch_saves_ns: 0,
    }
}
