//! What a graph promises, beside what can be kept.

use super::super::description::Description;
use super::super::fault::Code;
use super::super::house::House;
use super::super::kinds::Value;
use super::super::quantity::{show_about, show_rate, show_time};
use super::faults::{DIRECTIONS, Faults, direction_name};
use crate::bound::{bounds, unproved};

pub(super) fn check(description: &Description, house: &House, faults: &mut Faults) {
    let bounds = bounds(description, house);
    for bound in &bounds.classes {
        let Some(class) = description.find_class(&bound.class) else { continue };
        let Some(promise) = &class.delay else { continue };
        let (name, way) = (&bound.class, direction_name(bound.direction));
        if let Some(unit) = unproved(description) {
            let unit = &unit.name.value;
            let message = format!(
                "the delay of `{name}` has no proved bound, since the sliced unit `{unit}` shares its thread with another unit"
            );
            let remedy = "write kind = \"worker\" for the other units, or promise no delay";
            faults.add(&promise.span, Code::DelayExceeded, message, remedy);
            continue;
        }
        match bound.total {
            Some(total) if total <= promise.value => {}
            Some(total) => {
                let message = format!(
                    "the delay of `{name}`, {way}, can be {}, and {} is promised: {}",
                    show_about(total),
                    show_time(promise.value),
                    bound.terms.show(),
                );
                let remedy =
                    format!("promise {} or more, or lower the greatest of these terms", show_about(total));
                faults.add(&promise.span, Code::DelayExceeded, message, remedy);
            }
            None => {
                let message = format!("the delay of `{name}` has no bound, and a promise is made");
                let remedy =
                    "police the class, or let it wait in a `fifo` with a limit and a share of the service";
                faults.add_in(bound.direction, &promise.span, Code::DelayExceeded, message, remedy);
            }
        }
    }
    for direction in DIRECTIONS {
        let needed = bounds.window(direction).map(|window| window.packets);
        if let (Some(window), Some(needed)) = (house.window, needed)
            && needed > window
            && direction == crate::Direction::Inbound
        {
            let message = format!(
                "packets of one association can be {needed} out of order, and its replay window is {window}"
            );
            let remedy = format!(
                "set windows of {needed} or more, or an association for each class (ravelin sa add --class)"
            );
            faults.add(&(0..0), Code::WindowTooSmall, message, remedy);
        }
        policed(description, direction, faults);
    }
}

/// What strict priority admits together fits the uplink.
fn policed(description: &Description, direction: crate::Direction, faults: &mut Faults) {
    let Some(uplink) = description.uplinks.iter().max_by_key(|uplink| uplink.rate.value) else { return };
    if direction == crate::Direction::Inbound {
        return;
    }
    let mut sum = 0_u64;
    for class in &description.classes {
        let Some(policer) = description.policer(&class.name.value, direction) else { continue };
        let Some(Value::Rate(rate)) = policer.get("rate").map(|rate| &rate.value) else { continue };
        sum = sum.saturating_add(*rate);
        if sum > uplink.rate.value {
            let message = format!(
                "the policers admit {} together, and the uplink `{}` carries {}",
                show_rate(sum),
                uplink.name.value,
                show_rate(uplink.rate.value)
            );
            faults.add(
                &policer.place("rate"),
                Code::SharesBeyond,
                message,
                "lower the rates of the policers",
            );
            return;
        }
    }
}
