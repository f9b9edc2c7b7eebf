//! Schedulers: trees without cycles, policed priorities, shares of at most the whole.

use super::super::description::index::NodeRef;
use super::super::description::{Child, Description, Scheduler};
use super::super::fault::Code;
use super::super::house::House;
use super::super::kinds::{Component, Kind, Part, Value};
use super::super::quantity::{WHOLE, show_octets, show_share, show_time};
use super::faults::{DIRECTIONS, Faults};
use crate::Direction;

pub(super) fn check(description: &Description, house: &House, faults: &mut Faults) {
    for scheduler in &description.schedulers {
        let kind = scheduler.discipline.kind.value;
        let name = &scheduler.name.value;
        if kind.part() != Part::Discipline {
            let message = format!("`{}` is {}, and cannot be a scheduler", kind.name(), kind.part().text());
            let remedy = "write one of: round_robin, weighted, drr, wfq, strict, edf";
            faults.add(&scheduler.discipline.kind.span, Code::WrongPlace, message, remedy);
        }
        if scheduler.children.is_empty() {
            let message = format!("the scheduler `{name}` has no children");
            faults.add(&scheduler.name.span, Code::NoChildren, message, "name its queues in `children`");
        }
        for (index, child) in scheduler.children.iter().enumerate() {
            if scheduler.children.iter().take(index).any(|before| before.to == child.to) {
                let message = format!("`{}` is a child of `{name}` twice", child.to.value);
                faults.add(&child.to.span, Code::Duplicate, message, "remove one of the two");
            }
            properties(scheduler, child, faults);
        }
        shares(scheduler, faults);
        quantum(&scheduler.discipline, house, faults);
        if kind == Kind::Strict {
            for direction in DIRECTIONS.into_iter().filter(|way| is_met(description, scheduler, *way)) {
                priority(description, scheduler, direction, faults);
            }
        }
    }
}

/// Whether packets of a direction meet a scheduler. One that nothing leads to counts as met in both.
fn is_met(description: &Description, scheduler: &Scheduler, direction: Direction) -> bool {
    let below = |direction: Direction| {
        description
            .roots(direction)
            .iter()
            .any(|root| description.is_below(&root.name.value, &scheduler.name.value))
    };
    below(direction) || !DIRECTIONS.into_iter().any(below)
}

/// Properties of a child that the discipline does not look at, or needs.
fn properties(scheduler: &Scheduler, child: &Child, faults: &mut Faults) {
    let kind = scheduler.discipline.kind.value;
    let weighs = matches!(kind, Kind::Wfq | Kind::Drr | Kind::Weighted);
    let mut idle = |span: Option<&super::super::description::Span>, property: &str, of: &str| {
        if let Some(span) = span {
            let message = format!("`{}` does not look at `{property}`", kind.name());
            faults.add(
                span,
                Code::IdleProperty,
                message,
                format!("remove it, or take {of} as the discipline"),
            );
        }
    };
    if !weighs {
        idle(child.weight.as_ref().map(|n| &n.span), "weight", "wfq, drr or weighted");
    }
    if kind != Kind::Wfq {
        idle(child.share.as_ref().map(|n| &n.span), "share", "wfq");
    }
    if kind != Kind::Edf {
        idle(child.deadline.as_ref().map(|n| &n.span), "deadline", "edf");
    } else if child.deadline.is_none() {
        let message = format!("the child `{}` has no deadline", child.to.value);
        let remedy = "write: { to = \"...\", deadline = \"5ms\" }";
        faults.add(&child.to.span, Code::MissingKey, message, remedy);
    }
    if let (Some(share), Some(_)) = (&child.share, &child.weight) {
        let message = format!("the child `{}` has a share and a weight", child.to.value);
        faults.add(&share.span, Code::IdleProperty, message, "remove one of the two");
    }
    if let Some(share) = child.share.as_ref().filter(|share| share.value == 0) {
        let message = format!("the child `{}` is never served: its share is zero", child.to.value);
        faults.add(&share.span, Code::QuantumTooSmall, message, "write a share");
    }
}

/// The shares of children: of the whole at most, and something is left for those without one.
fn shares(scheduler: &Scheduler, faults: &mut Faults) {
    let mut sum = 0_u64;
    for share in scheduler.children.iter().filter_map(|child| child.share.as_ref()) {
        sum = sum.saturating_add(share.value);
        if sum > WHOLE {
            let message = format!(
                "the shares below `{}` add up to {}, more than the whole",
                scheduler.name.value,
                show_share(sum)
            );
            faults.add(&share.span, Code::SharesBeyond, message, "write shares that add up to 100% at most");
            return;
        }
    }
    if let Some(child) =
        scheduler.children.iter().find(|child| child.share.is_none()).filter(|_| sum == WHOLE)
    {
        let message =
            format!("the shares below `{}` leave nothing for `{}`", scheduler.name.value, child.to.value);
        faults.add(
            &child.to.span,
            Code::SharesBeyond,
            message,
            "give it a share of its own, and less to the others",
        );
    }
}

fn quantum(component: &Component, house: &House, faults: &mut Faults) {
    let Some(value) = component.get("quantum") else { return };
    let mtu = house.path.mtu;
    if value.value.number() == Some(0) {
        let message = format!("the quantum of `{}` is zero: it serves nothing", component.kind.value.name());
        faults.add(&value.span, Code::QuantumTooSmall, message, "write a quantum of a packet or more");
    } else if let Value::Octets(octets) = value.value
        && octets < mtu
        && component.kind.value == Kind::Drr
    {
        let message =
            format!("the quantum is {}, and a packet may have {}", show_octets(octets), show_octets(mtu));
        let remedy = format!("write {} or more, or turns pass in which nothing is sent", show_octets(mtu));
        faults.add(&value.span, Code::QuantumTooSmall, message, remedy);
    }
}

/// Strict priority: every class in front of the last child is policed, and the guard leaves them what they may send.
fn priority(description: &Description, scheduler: &Scheduler, direction: Direction, faults: &mut Faults) {
    let Some((_, upper)) = scheduler.children.split_last() else { return };
    let guard = scheduler.discipline.get("guard");
    if let Some(guard) = guard.filter(|guard| guard.value.number() == Some(0)) {
        let message = "the guard leaves nothing for strict priority";
        faults.add(&guard.span, Code::GuardTooLow, message, "write a share, such as 80%");
        return;
    }
    let met = description
        .roots(direction)
        .into_iter()
        .find(|root| description.is_below(&root.name.value, &scheduler.name.value));
    let before = met.map_or(u8::MAX, |root| root.hook.at.value.order());
    let mut sum = 0_u64;
    let mut asked = None;
    let mut counted: Vec<&str> = Vec::new();
    for child in upper {
        for name in description.leaves(&child.to.value).iter().flat_map(|queue| &queue.classes) {
            let Some(class) = description.find_class(&name.value) else { continue };
            // A class has a queue in each tunnel, and one policer.
            if !class.direction.value.has(direction) || counted.contains(&name.value.as_str()) {
                continue;
            }
            counted.push(&name.value);
            let policer = description.bounding_policer(&name.value, direction, before);
            if policer.is_none() && !class.unpoliced.value {
                let (message, remedy) = unpoliced(description, scheduler, &name.value, direction);
                faults.add_in(direction, &child.to.span, Code::UnpolicedPriority, message, remedy);
            }
            if let Some(rate) = policer.and_then(|policer| policer.get("rate"))
                && let Value::Share(share) = rate.value
            {
                sum = sum.saturating_add(share);
                asked = Some(&rate.span);
            }
        }
    }
    if let Some(guard) = guard
        && let Some(most) = guard.value.number()
        && sum > most
    {
        let (sum, most) = (show_share(sum), show_share(most));
        let message = format!("the guard gives {most} to strict priority, and its policers admit {sum}");
        let remedy = format!("write {sum} or more, or lower the policers");
        faults.add_in(direction, &guard.span, Code::GuardTooLow, message, remedy);
    } else if let Some(place) = asked.filter(|_| sum > WHOLE) {
        let sum = show_share(sum);
        let message = format!("the policers of strict priority admit {sum}, more than the whole");
        let remedy = "lower their rates to 100% together at most";
        faults.add_in(direction, place, Code::SharesBeyond, message, remedy);
    }
    if let Some(period) =
        scheduler.discipline.get("period").filter(|period| period.value.number() < Some(1_000))
    {
        let message = format!("the period of the guard is {}", show_time(period.value.number().unwrap_or(0)));
        faults.add(&period.span, Code::QuantumTooSmall, message, "write 1us or more, such as 10ms");
    }
}

/// What is said of a class with strict priority in a scheduler that no policer bounds.
fn unpoliced(
    description: &Description,
    scheduler: &Scheduler,
    class: &str,
    direction: Direction,
) -> (String, String) {
    let starves = last_classes(description, scheduler);
    if description.policer(class, direction).is_some_and(|policer| !policer.takes_excess_out()) {
        let message = format!(
            "the class `{class}` has strict priority, and what is beyond its policer stays in it: it can starve {starves}"
        );
        return (message, "write excess = \"drop\", or the name of a class without priority".to_owned());
    }
    if description.policer(class, direction).is_some() {
        let message = format!(
            "the class `{class}` has strict priority, and its policer does not bound it: it can starve {starves}"
        );
        let remedy =
            "let the policer stand in front of these queues, behind whatever sends packets to the class";
        return (message, remedy.to_owned());
    }
    let message = format!("the class `{class}` has strict priority and no policer: it can starve {starves}");
    // The scheduler of a short form is made from its classes, and its discipline stands in no text.
    let remedy = if scheduler.discipline.span.span.is_empty() {
        format!(
            "write police = {{ rate = \"20%\", burst = \"1ms\" }} with your own figures in [class.{class}], or unpoliced = true"
        )
    } else {
        "add `police` for it in front of the queues, or write unpoliced = true in the class".to_owned()
    };
    (message, remedy)
}

/// The classes that wait below the last child of a scheduler, by their names; the name of the child, if none does.
fn last_classes(description: &Description, scheduler: &Scheduler) -> String {
    let Some(last) = scheduler.children.last() else { return String::new() };
    let mut names: Vec<&str> = Vec::new();
    for class in description.leaves(&last.to.value).iter().flat_map(|queue| &queue.classes) {
        if !names.contains(&class.value.as_str()) {
            names.push(&class.value);
        }
    }
    match names.as_slice() {
        [] => format!("`{}`", last.to.value),
        [one] => format!("`{one}`"),
        [first @ .., end] => format!("`{}` and `{end}`", first.join("`, `")),
    }
}

/// Each node has one parent, no node leads to itself, and a hook leads to each.
pub(super) fn check_trees(description: &Description, faults: &mut Faults) {
    for scheduler in &description.schedulers {
        let mut names = vec![scheduler.name.value.as_str()];
        if circle(description, &mut names) {
            let message =
                format!("the scheduler `{}` leads to itself: {}", scheduler.name.value, names.join(" -> "));
            let last = names.iter().rev().nth(1).copied().unwrap_or_default();
            let child = description
                .schedulers
                .iter()
                .find(|s| s.name.value == last)
                .and_then(|s| s.children.iter().find(|child| child.to == scheduler.name));
            let place = child.map_or(&scheduler.name.span, |child| &child.to.span);
            faults.add(place, Code::Cycle, message, "remove one of the names from `children`");
            // One report names the whole circle.
            return;
        }
    }
    let names = description.schedulers.iter().map(|scheduler| (&scheduler.name, "scheduler"));
    for (name, kind) in names.chain(description.queues.iter().map(|queue| (&queue.name, "queue"))) {
        // A child that stands twice in one scheduler is told of there.
        let places = description.schedulers.iter().filter_map(|scheduler| {
            scheduler.children.iter().find(|child| child.to == *name).map(|child| &child.to)
        });
        let mut parents: Vec<_> = places.collect();
        let hooks = description.hooks.iter().filter_map(|hook| Some((hook.from.as_ref()?, hook.at.value)));
        let hooks: Vec<_> = hooks.filter(|(from, _)| *from == name).collect();
        // Several units may draw on one tree, in either direction.
        for (index, (from, at)) in hooks.iter().enumerate() {
            if !hooks.iter().take(index).any(|(_, before)| before == at) {
                parents.push(from);
            }
        }
        match parents.as_slice() {
            [] => {
                let message = format!("nothing leads to the {kind} `{}`", name.value);
                let remedy = "name it in the `children` of a scheduler or the `from` of a hook, or remove it";
                faults.add(&name.span, Code::Unreached, message, remedy);
            }
            [_] => {}
            [_, second, ..] => {
                let message = format!("the {kind} `{}` has two parents", name.value);
                faults.add(&second.span, Code::TwoParents, message, "give each parent a queue of its own");
            }
        }
    }
}

/// Whether the way from the first name comes back to it; then `names` is the way.
fn circle<'d>(description: &'d Description, names: &mut Vec<&'d str>) -> bool {
    let Some(NodeRef::Scheduler(scheduler)) = names.last().and_then(|name| description.find_node(name))
    else {
        return false;
    };
    for child in &scheduler.children {
        let name = child.to.value.as_str();
        if names.first() == Some(&name) {
            names.push(name);
            return true;
        }
        if names.contains(&name) {
            continue;
        }
        names.push(name);
        if circle(description, names) {
            return true;
        }
        names.pop();
    }
    false
}
