//! The checks of a description that can be made before it runs.

mod classes;
mod faults;
mod foreign;
mod hooks;
mod meters;
mod names;
mod promises;
mod queues;
mod schedulers;
mod units;
mod users;

use super::description::Description;
use super::fault::Fault;
use super::house::House;
use faults::Faults;

/// Every fault of a description on a gateway, in the order of the text.
pub fn lint(description: &Description, house: &House) -> Vec<Fault> {
    let mut faults = Faults::default();
    names::check(description, house, &mut faults);
    // What lies below a name that leads nowhere, or to two things, would only give follow-on faults.
    let names_are_sound = faults.is_empty();
    classes::check(description, house, &mut faults);
    hooks::check(description, &mut faults);
    meters::check(description, house, &mut faults);
    foreign::check(description, house, &mut faults);
    schedulers::check(description, house, &mut faults);
    queues::check(description, house, &mut faults);
    users::check(description, house, &mut faults);
    units::check(description, house, &mut faults);
    if names_are_sound {
        hooks::check_trees(description, &mut faults);
        schedulers::check_trees(description, &mut faults);
    }
    // So would a bound of a graph that is wrong elsewhere.
    if faults.is_empty() {
        promises::check(description, house, &mut faults);
    }
    faults.finish()
}
