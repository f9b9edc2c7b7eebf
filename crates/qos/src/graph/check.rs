//! A text read and checked in one step.

use super::compile::compile_for_check;
use super::description::Description;
use super::fault::Fault;
use super::house::House;
use super::lint::lint;
use super::read::read;
use crate::Direction;

/// Read a graph and check it against what the gateway has.
///
/// # Errors
///
/// Every fault, in the order of the text: those of the text itself, or else those of the graph that it describes.
pub fn check(text: &str, house: &House) -> Result<Description, Vec<Fault>> {
    let description = read(text)?;
    let faults = lint(&description, house);
    if faults.is_empty() { Ok(description) } else { Err(faults) }
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
