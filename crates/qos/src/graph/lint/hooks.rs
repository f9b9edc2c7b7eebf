//! Hooks: which components can work where, and what leads to which queue.

use super::super::description::index::Root;
use super::super::description::{Description, Directions, Hook, HookPoint, Queue};
use super::super::fault::Code;
use super::super::kinds::{Component, Kind, Part};
use super::super::rules::word;
use super::faults::{DIRECTIONS, Faults};
use crate::Direction;

pub(super) fn check(description: &Description, faults: &mut Faults) {
    for (index, hook) in description.hooks.iter().enumerate() {
        one(hook, faults);
        let same = |other: &&Hook| {
            other.at == hook.at
                && other.unit == hook.unit
                && other.direction.value.meets(hook.direction.value)
        };
        if description.hooks.iter().take(index).any(|other| same(&other)) {
            let message = format!("two hooks stand at {}", point(hook));
            faults.add(&hook.at.span, Code::TwoHooks, message, "put the components into one chain");
        }
    }
}

/// What hooks lead to: queues with a classifier in front, and one for each class.
pub(super) fn check_trees(description: &Description, faults: &mut Faults) {
    for direction in DIRECTIONS {
        for root in description.roots(direction).iter().filter(|root| root.hook.at.value.is_behind()) {
            let same = |other: &&Hook| other.at == root.hook.at && other.unit == root.hook.unit;
            let at = description.hooks.iter().filter(|hook| hook.direction.value.has(direction));
            if at.filter(same).count() > 1 {
                continue;
            }
            let queues = description.leaves(&root.name.value);
            classifier(description, root, &queues, direction, faults);
            classes(description, root, &queues, direction, faults);
        }
    }
}

/// A point as text.
fn point(hook: &Hook) -> &'static str {
    word(HookPoint::WORDS, &hook.at.value).unwrap_or_default()
}

/// A hook by itself.
fn one(hook: &Hook, faults: &mut Faults) {
    let at = point(hook);
    let behind = hook.at.value.is_behind();
    if let Some(from) = hook.from.as_ref().filter(|_| !behind) {
        let message = format!("hook {at} is in front of a queue, and packets leave none there");
        faults.add(
            &from.span,
            Code::WrongHook,
            message,
            "write `from` in the hook behind the queue, such as 1b",
        );
    }
    if let Some(unit) = hook.unit.as_ref().filter(|_| hook.at.value != HookPoint::Out5b) {
        let message = format!("hook {at} is not of a unit");
        faults.add(&unit.span, Code::WrongHook, message, "remove `unit`, or move the hook to 5b");
    }
    let mut classified = hook.at.value != HookPoint::In1a;
    for component in &hook.chain {
        let kind = component.kind.value;
        if kind.part() != Part::Behaviour {
            let remedy = format!("write it {}", home(kind.part()));
            let message = format!("`{}` is {}, and cannot stand in a chain", kind.name(), kind.part().text());
            faults.add(&component.kind.span, Code::WrongPlace, message, remedy);
            continue;
        }
        if let Some((why, remedy)) = misplaced(kind, hook, component, classified) {
            let message = format!("`{}` cannot work at hook {at}: {why}", kind.name());
            faults.add(&component.kind.span, Code::WrongHook, message, remedy);
        }
        classified |= kind == Kind::Classify;
    }
}

/// The place where a part is written.
fn home(part: Part) -> &'static str {
    match part {
        Part::Behaviour => "into the chain of a hook: chain = [...]",
        Part::Enqueue => "into a queue: enqueue = ...",
        Part::Store => "into a queue: store = ...",
        Part::Dequeue => "into a queue: dequeue = ...",
        Part::Discipline => "as [scheduler.NAME] with kind = ..., and name that in `from`",
    }
}

/// The reason why a behaviour cannot work at a hook, with what to do.
fn misplaced(
    kind: Kind,
    hook: &Hook,
    component: &Component,
    classified: bool,
) -> Option<(&'static str, &'static str)> {
    let behind = hook.at.value.is_behind();
    match kind {
        Kind::Shape if !behind => Some((
            "a shaper holds packets back, and none wait there",
            "move it to the hook behind the queue, such as 2b",
        )),
        Kind::Marker
            if hook.direction.value != Directions::Inbound
                && matches!(component.word("header"), Some("inner" | "both"))
                && matches!(hook.at.value.queue(), 4 | 2) =>
        {
            Some((
                "the inner header is sealed there, outbound",
                "move it in front of cryptography, such as to 3a, or leave `header` out",
            ))
        }
        Kind::Shape | Kind::Marker if behind => None,
        _ if behind => Some((
            "what judges packets stands in front of a queue",
            "move it to the hook in front, such as 1a",
        )),
        Kind::Classify if hook.at.value == HookPoint::In1a && component.word("by") == Some("class") => {
            Some(("no packet has a class yet", "write by = \"rules\""))
        }
        Kind::AuthBudget if hook.direction.value == Directions::Outbound => {
            Some(("only received packets fail to authenticate", "write direction = \"in\""))
        }
        Kind::AuthBudget if !matches!(hook.at.value, HookPoint::In1a | HookPoint::In3a) => {
            Some(("the budget must stand in front of the work", "move it to 1a or 3a"))
        }
        Kind::AuthBudget => None,
        Kind::Users
            if hook.at.value == HookPoint::In1a
                && hook.direction.value != Directions::Inbound
                && !component.profiles().is_empty()
                && matches!(component.word("by"), Some("association" | "peer")) =>
        {
            let why = match component.word("by") {
                Some("peer") => "no far end is known there, outbound",
                _ => "no association is known there, outbound",
            };
            Some((why, "move it to 3a, behind the look-up"))
        }
        _ if component.get("class").is_some() && !classified => {
            Some(("no packet has a class in front of the classifier", "put `classify` in front of it"))
        }
        _ => None,
    }
}

/// Queues of several kinds need a classifier in front, at any hook up to theirs.
fn classifier(
    description: &Description,
    root: &Root<'_>,
    queues: &[&Queue],
    direction: Direction,
    faults: &mut Faults,
) {
    let behind = root.hook.at.value;
    let front = |(at, component): &(HookPoint, &Component)| {
        component.kind.value == Kind::Classify && at.queue() == behind.queue()
    };
    if queues.len() > 1 && !description.chain(direction).iter().any(front) {
        let before = word(HookPoint::WORDS, &before(behind)).unwrap_or_default();
        let message = format!(
            "{} queues wait behind hook {before}, and no `classify` chooses among them",
            queues.len()
        );
        let remedy = format!("add [[hook]] with at = \"{before}\" and chain = [{{ kind = \"classify\" }}]");
        faults.add_in(direction, &root.name.span, Code::NoClassifier, message, remedy);
    }
}

/// The point in front of the same queue.
fn before(behind: HookPoint) -> HookPoint {
    let same = |(_, point): &&(&str, HookPoint)| point.queue() == behind.queue() && !point.is_behind();
    HookPoint::WORDS.iter().find(same).map_or(behind, |(_, point)| *point)
}

/// In a hook with queues, each class has one.
fn classes(
    description: &Description,
    root: &Root<'_>,
    queues: &[&Queue],
    direction: Direction,
    faults: &mut Faults,
) {
    let at = point(root.hook);
    for class in description.classes.iter().filter(|class| class.direction.value.has(direction)) {
        let name = &class.name;
        let unit = root.hook.unit.as_ref().and_then(|unit| description.find_unit(&unit.value));
        if unit.is_some_and(|unit| !unit.serves(&name.value)) {
            continue;
        }
        let own: Vec<&&Queue> = queues.iter().filter(|queue| queue.classes.contains(name)).collect();
        if !own.iter().any(|queue| queue.tunnel.is_none()) {
            let message = format!("the class `{}` has no queue at hook {at}", name.value);
            let remedy = "add it to the `classes` of a queue below the hook";
            faults.add_in(direction, &name.span, Code::ClassWithoutQueue, message, remedy);
        }
        for (index, queue) in own.iter().enumerate() {
            let twin =
                own.iter().take(index).find(|twin| twin.tunnel == queue.tunnel && twin.name != queue.name);
            let Some(twin) = twin else { continue };
            let place =
                queue.classes.iter().find(|class| *class == name).map_or(&queue.name.span, |n| &n.span);
            let (one, two) = (&twin.name.value, &queue.name.value);
            if class.precedence.is_some() {
                let message =
                    format!("the assured forwarding class `{}` waits in `{one}` and in `{two}`", name.value);
                let remedy = "one queue keeps its order (RFC 2597 section 2): remove it from the other";
                faults.add_in(direction, place, Code::SplitOrder, message, remedy);
            } else {
                let message = format!("the class `{}` waits in `{one}` and in `{two}`", name.value);
                faults.add_in(direction, place, Code::ClassTwice, message, "remove it from one of them");
            }
        }
    }
}
