//! Components from outside: libraries that the gateway has, budgets that a turn can bear, ports in the right direction.

use super::super::description::{Description, Directions, Hook};
use super::super::fault::{Code, meant};
use super::super::house::House;
use super::super::kinds::{Component, Kind};
use super::super::quantity::show_time;
use super::faults::{DIRECTIONS, Faults};
use crate::behaviour::foreign::{Library, LibraryState};

/// The least nanoseconds that a call may be given: reading the clock takes some of them.
const LEAST_BUDGET: u64 = 1_000;
/// The most nanoseconds that a call may be given.
const MOST_BUDGET: u64 = 1_000_000;

pub(super) fn check(description: &Description, house: &House, faults: &mut Faults) {
    for hook in &description.hooks {
        for component in hook.chain.iter().filter(|part| part.kind.value == Kind::Foreign) {
            library(component, house, faults);
            budget(component, faults);
            ports(description, hook, component, faults);
        }
    }
}

fn library(component: &Component, house: &House, faults: &mut Faults) {
    let name = component.word("library").unwrap_or_default();
    let place = component.place("library");
    let Some(names) = house.libraries.names() else { return };
    match house.libraries.find(name) {
        None => {
            let message = format!("the configuration names no library `{name}`");
            let remedy = match names.is_empty() {
                true => "add [[qos.component]] with name, path and sha256 to ravelin.toml, then `ravelin run --take-over`"
                    .to_owned(),
                false => format!(
                    "{} (a new one is named in [[qos.component]] of ravelin.toml, then `ravelin run --take-over`)",
                    meant(name, names)
                ),
            };
            faults.add(&place, Code::NoLibrary, message, remedy);
        }
        Some(Library { state: LibraryState::Refused(why), .. }) => {
            let message = format!("the library `{name}` is not loaded: {why}");
            let remedy = "mend that, then `ravelin run --take-over`: a running daemon loads no library";
            faults.add(&place, Code::NoLibrary, message, remedy);
        }
        Some(_) => {}
    }
}

fn budget(component: &Component, faults: &mut Faults) {
    let Some(budget) = component.number("budget") else { return };
    if !(LEAST_BUDGET..=MOST_BUDGET).contains(&budget) {
        let message = format!("a budget of {} for each packet", show_time(budget));
        let remedy = format!("write {} to {}", show_time(LEAST_BUDGET), show_time(MOST_BUDGET));
        faults.add(&component.place("budget"), Code::OutOfRange, message, remedy);
    }
}

/// A packet goes on only in a class of its direction.
fn ports(description: &Description, hook: &Hook, component: &Component, faults: &mut Faults) {
    for port in component.names("ports") {
        let Some(class) = description.classes.iter().find(|class| class.name == *port) else { continue };
        let lacks = |direction| {
            hook.direction.value.has(direction) && !Directions::has(class.direction.value, direction)
        };
        if DIRECTIONS.into_iter().any(lacks) {
            let message = format!("the class `{}` is not of every direction of the hook", port.value);
            let remedy = "give the class the directions of the hook, or the hook those of the class";
            faults.add(&port.span, Code::UnknownName, message, remedy);
        }
    }
}
