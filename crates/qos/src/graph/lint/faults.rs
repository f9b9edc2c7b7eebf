//! The faults that lint has found, and the directions in which it met them.

use super::super::description::Span;
use super::super::fault::{Code, Fault};
use crate::Direction;

/// The faults that were found so far.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Each fault with the directions in which it was met; none if it is of no direction.
    list: Vec<(Fault, Vec<Direction>)>,
}

impl Faults {
    /// Note a fault, unless the same one stands already: a part may be met twice.
    pub(super) fn add(
        &mut self,
        span: &Span,
        code: Code,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let fault = Fault { span: span.clone(), code, message: message.into(), remedy: remedy.into() };
        if !self.list.iter().any(|(known, _)| *known == fault) {
            self.list.push((fault, Vec::new()));
        }
    }

    /// Note a fault of one direction. The same one in both directions is told once.
    pub(super) fn add_in(
        &mut self,
        direction: Direction,
        span: &Span,
        code: Code,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let fault = Fault { span: span.clone(), code, message: message.into(), remedy: remedy.into() };
        match self.list.iter_mut().find(|(known, _)| *known == fault) {
            Some((_, directions)) if directions.contains(&direction) => {}
            Some((_, directions)) => directions.push(direction),
            None => self.list.push((fault, vec![direction])),
        }
    }

    /// Whether no fault was found.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The faults in the order of the text.
    pub(super) fn finish(self) -> Vec<Fault> {
        let named = |(mut fault, directions): (Fault, Vec<Direction>)| {
            if let [only] = directions.as_slice() {
                fault.message = format!("{}, {}", fault.message, direction_name(*only));
            }
            fault
        };
        let mut list: Vec<Fault> = self.list.into_iter().map(named).collect();
        list.sort_by_key(|fault| (fault.span.start, fault.code));
        list
    }
}

/// Both directions of packets.
pub(super) const DIRECTIONS: [Direction; 2] = [Direction::Outbound, Direction::Inbound];

/// A direction as text.
pub(super) fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Outbound => "outbound",
        Direction::Inbound => "inbound",
    }
}
