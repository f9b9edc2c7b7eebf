//! Units: each suite and class has one, and their marks are in order.

use super::super::description::{Description, Mark, Unit, UnitKind};
use super::super::fault::Code;
use super::super::house::House;
use super::super::quantity::show_time;
use super::faults::Faults;

pub(super) fn check(description: &Description, house: &House, faults: &mut Faults) {
    for unit in &description.units {
        marks(unit, faults);
    }
    let names: Vec<&str> = description.units.iter().map(|unit| unit.name.value.as_str()).collect();
    if description.units.is_empty() {
        let remedy = "add [unit.inline] with kind = \"inline\"";
        faults.add(&(0..0), Code::NoUnit, "the graph has no units", remedy);
        return;
    }
    for class in &description.classes {
        let name = &class.name.value;
        if !description.units.iter().any(|unit| unit.serves(name)) {
            let message = format!(
                "no unit may serve the class `{name}`: each ({}) is reserved for others",
                names.join(", ")
            );
            let remedy = "add it to the `reserved` of a unit, or add a unit without `reserved`";
            faults.add(&class.name.span, Code::ClassWithoutUnit, message, remedy);
        }
    }
    for used in &house.suites {
        let able: Vec<&Unit> = description.units.iter().filter(|unit| unit.can(&used.name)).collect();
        let place = description.units.first().map_or(0..0, |unit| unit.name.span.clone());
        if able.is_empty() {
            let lacks =
                description.units.iter().map(|unit| format!("`{}` does {}", unit.name.value, does(unit)));
            let lacks: Vec<String> = lacks.collect();
            let message = format!(
                "{} has the suite {}, and no unit can do it: {}",
                used.by,
                used.name,
                lacks.join(", ")
            );
            let remedy = format!("add \"{}\" to the `suites` of a unit", used.name);
            faults.add(&place, Code::NoUnit, message, remedy);
            continue;
        }
        for class in &description.classes {
            let name = &class.name.value;
            let some = description.units.iter().any(|unit| unit.serves(name));
            if some && !able.iter().any(|unit| unit.serves(name)) {
                let message = format!(
                    "no unit can do {} for the class `{name}`, and {} may have it in that class",
                    used.name, used.by
                );
                let remedy =
                    format!("add \"{}\" to the `suites` of a unit that may serve `{name}`", used.name);
                faults.add(&class.name.span, Code::NoUnit, message, remedy);
            }
        }
    }
}

/// The suites of a unit as text.
fn does(unit: &Unit) -> String {
    let Some(suites) = &unit.suites else { return "every suite".to_owned() };
    let names: Vec<&str> = suites.iter().map(|name| name.value.as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(" and ") }
}

fn marks(unit: &Unit, faults: &mut Faults) {
    let name = &unit.name.value;
    let most = unit.most_committed.value;
    if most == 0 {
        let message = format!("no work can be committed to the unit `{name}`");
        faults.add(&unit.most_committed.span, Code::CommittedTooLow, message, "write a time, such as 200us");
        return;
    }
    if let (Mark::Fixed(low), Mark::Fixed(high)) = (unit.low.value, unit.high.value)
        && low > high
    {
        let (low, high) = (show_time(low), show_time(high));
        let message = format!("the low mark {low} of `{name}` is above its high mark {high}");
        faults.add(&unit.low.span, Code::MarksCrossed, message, "write low up to high, or \"auto\" for both");
    }
    for (mark, word) in [(&unit.low, "low"), (&unit.high, "high")] {
        if let Mark::Fixed(ns) = mark.value
            && ns > most
        {
            let message = format!(
                "the {word} mark {} of `{name}` is above most_committed, {}",
                show_time(ns),
                show_time(most)
            );
            faults.add(
                &mark.span,
                Code::CommittedTooLow,
                message,
                "write a mark up to most_committed, or \"auto\"",
            );
        }
    }
    if unit.high.value == Mark::Fixed(0) {
        let message = format!("the high mark of `{name}` is zero: it never gets work");
        faults.add(&unit.high.span, Code::CommittedTooLow, message, "write a time, or \"auto\"");
    }
    match unit.kind.value {
        UnitKind::Sliced(0) => {
            let message = format!("the steps of `{name}` are of no length");
            faults.add(&unit.kind.span, Code::QuantumTooSmall, message, "write a step, such as 10us");
        }
        UnitKind::Sliced(step) if step > most => {
            let message = format!(
                "a step of `{name}` takes {}, beyond most_committed, {}",
                show_time(step),
                show_time(most)
            );
            faults.add(&unit.kind.span, Code::CommittedTooLow, message, "write a shorter step");
        }
        _ => {}
    }
}
