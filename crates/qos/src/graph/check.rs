//! A text read and checked in one step.

use super::compile::compile_for_check;
use super::description::Description;
use super::fault::{Code, Fault};
use super::house::House;
use super::lint::lint;
use super::read::{Unread, read_what_stands};
use crate::Direction;

/// The faults of a graph that do not come from a part which could not be read. Others, such as a class that no queue
/// has, may be gone when that part can be.
const OF_THEIR_OWN: &[Code] = &[
    Code::UnknownName,
    Code::Duplicate,
    Code::TooMany,
    Code::NoLibrary,
    Code::SameMatch,
    Code::MatchesNothing,
    Code::WrongHook,
    Code::WrongPlace,
    Code::UnpolicedPriority,
    Code::SharesBeyond,
    Code::QuantumTooSmall,
    Code::IdleProperty,
    Code::LimitTooSmall,
    Code::NoLimit,
    Code::ThresholdOrder,
    Code::SplitOrder,
    Code::MarksCrossed,
    Code::CommittedTooLow,
    Code::RateBeyondUplink,
];

/// Read a graph and check it against what the gateway has.
///
/// # Errors
///
/// Every fault, in the order of the text: those of the text itself, and those of the graph that it describes. Of a text
/// with faults the latter are those of parts that could be read.
pub fn check(text: &str, house: &House) -> Result<Description, Vec<Fault>> {
    let description = read_what_stands(text).map_err(|unread| with_lint(unread, house))?;
    let faults = lint(&description, house);
    if faults.is_empty() { Ok(description) } else { Err(faults) }
}

/// The faults of a text, with those of the graph that are not of a part which is incomplete.
fn with_lint(unread: Unread, house: &House) -> Vec<Fault> {
    let linted = unread.description().map(|description| lint(description, house)).unwrap_or_default();
    let is_own = |fault: &Fault| OF_THEIR_OWN.contains(&fault.code) && !unread.is_of_incomplete(fault);
    let own: Vec<Fault> =
        linted.into_iter().filter(is_own).filter(|fault| !unread.faults.contains(fault)).collect();
    let mut faults = unread.faults;
    faults.extend(own);
    faults.sort_by_key(|fault| (fault.span.start, fault.code));
    faults
}

/// Read a graph, check it, and make it once for each direction, so that nothing is left that could refuse it but a
/// library of a component from outside that is not loaded here.
///
/// # Errors
///
/// Every fault that [`check`] finds, or the settings that a component refuses.
pub fn check_compiled(text: &str, house: &House) -> Result<Description, Vec<Fault>> {
    let description = check(text, house)?;
    for direction in [Direction::Outbound, Direction::Inbound] {
        compile_for_check(&description, house, direction)?;
    }
    Ok(description)
}
