//! The checks of a description that can be made before it runs.

mod classes;
mod hooks;
mod meters;
mod names;
mod promises;
mod queues;
mod schedulers;
mod units;

use super::description::{Description, Span};
use super::fault::{Code, Fault};
use super::house::House;
use crate::Direction;

/// Every fault of a description on a gateway, in the order of the text.
pub fn lint(description: &Description, house: &House) -> Vec<Fault> {
    let mut faults = Faults::default();
    names::check(description, house, &mut faults);
    classes::check(description, house, &mut faults);
    hooks::check(description, &mut faults);
    meters::check(description, house, &mut faults);
    schedulers::check(description, house, &mut faults);
    queues::check(description, house, &mut faults);
    units::check(description, house, &mut faults);
    // A bound of a graph that is wrong elsewhere would only give follow-on faults.
    if faults.list.is_empty() {
        promises::check(description, house, &mut faults);
    }
    faults.list.sort_by_key(|fault| (fault.span.start, fault.code));
    faults.list
}

/// The faults that were found so far.
#[derive(Debug, Default)]
pub(super) struct Faults {
    list: Vec<Fault>,
}

impl Faults {
    /// Note a fault, unless the same one stands already: a part may be met in both directions.
    pub(super) fn add(
        &mut self,
        span: &Span,
        code: Code,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let fault = Fault { span: span.clone(), code, message: message.into(), remedy: remedy.into() };
        if !self.list.contains(&fault) {
            self.list.push(fault);
        }
    }
}

/// Both directions.
pub(super) const DIRECTIONS: [Direction; 2] = [Direction::Outbound, Direction::Inbound];

/// A direction as text.
pub(super) fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Outbound => "outbound",
        Direction::Inbound => "inbound",
    }
}
