//! Queues: parts that fit together, limits of a packet or more, thresholds in order.

use super::super::description::{Description, KernelQueue, Limits, Name, Queue};
use super::super::fault::Code;
use super::super::house::House;
use super::super::kinds::{Component, Curve, Kind, Part, Value};
use super::super::quantity::{show_octets, show_time};
use super::faults::{DIRECTIONS, Faults};

pub(super) fn check(description: &Description, house: &House, faults: &mut Faults) {
    for queue in &description.queues {
        parts(queue, faults);
        if queue.classes.is_empty() {
            let message = format!("no class waits in the queue `{}`", queue.name.value);
            faults.add(
                &queue.name.span,
                Code::MatchesNothing,
                message,
                "name one in `classes`, or remove the queue",
            );
        }
        if queue.limit.is_none() {
            let message = format!("the queue `{}` has no limit", queue.name.value);
            let remedy = "add: limit = { packets = 1000, time = \"20ms\" }";
            faults.add(&queue.name.span, Code::NoLimit, message, remedy);
        }
        let costliest = DIRECTIONS.map(|direction| house.costliest(direction, house.path.mtu));
        limit(&queue.name, &queue.limit, house.path.mtu, costliest.into_iter().max().unwrap_or(0), faults);
        curves(queue, faults);
        times(queue, faults);
        order(description, queue, faults);
        users(description, queue, faults);
    }
    for kernel in &description.kernel {
        limit(&kernel.name, &kernel.limit, house.path.mtu, 0, faults);
    }
    kernel(description, house, faults);
}

/// Each part of a queue is of its kind.
fn parts(queue: &Queue, faults: &mut Faults) {
    let rows = [
        (&queue.enqueue, Part::Enqueue, "enqueue", "tail, drop_head, longest_flow, red, wred"),
        (&queue.store, Part::Store, "store", "fifo, flows, rank"),
        (&queue.dequeue, Part::Dequeue, "dequeue", "give, codel, cobalt, dualpi2"),
    ];
    for (component, part, key, kinds) in rows {
        let kind = component.kind.value;
        if kind.part() != part {
            let message =
                format!("`{}` is {}, and cannot be `{key}` of a queue", kind.name(), kind.part().text());
            faults.add(&component.kind.span, Code::WrongPlace, message, format!("write one of: {kinds}"));
        }
    }
    if queue.enqueue.kind.value == Kind::LongestFlow && queue.store.kind.value != Kind::Flows {
        let message =
            format!("`longest_flow` needs flows, and `{}` keeps none", queue.store.kind.value.name());
        let remedy = "write store = { kind = \"flows\" }, or enqueue = \"drop_head\"";
        faults.add(&queue.enqueue.kind.span, Code::WrongPlace, message, remedy);
    }
    if queue.dequeue.kind.value == Kind::Dualpi2 {
        let own =
            [(&queue.enqueue, Kind::Tail, "enqueue", "tail"), (&queue.store, Kind::Fifo, "store", "fifo")];
        for (component, _, key, word) in own.into_iter().filter(|(part, kind, ..)| part.kind.value != *kind) {
            let message = format!(
                "`dualpi2` has two queues of its own, and `{}` would be a third",
                component.kind.value.name()
            );
            let remedy = format!("remove it, or write {key} = \"{word}\"");
            faults.add(&component.kind.span, Code::WrongPlace, message, remedy);
        }
        if let Some(shape) = &queue.shape {
            let message = "`dualpi2` shares out a link by itself, and cannot be shaped";
            faults.add(
                &shape.span.span,
                Code::WrongPlace,
                message,
                "shape a queue behind it, or use `codel`",
            );
        }
    }
    within(&queue.store, faults);
    if let Some(quantum) = queue.store.get("quantum").filter(|quantum| quantum.value.number() == Some(0)) {
        let message = "the quantum of `flows` is zero: it serves nothing";
        faults.add(&quantum.span, Code::QuantumTooSmall, message, "write a quantum of a packet or more");
    }
}

/// Flow queues within users need users.
fn within(store: &Component, faults: &mut Faults) {
    if store.word("within") == Some("flow") && store.word("by") != Some("user") {
        let message = "`within` says what waits within a user, and `flows` by flow knows no users";
        faults.add(&store.place("within"), Code::IdleProperty, message, "write by = \"user\", or remove it");
    }
    if store.get("users").is_some() && !store.has_flows_within() {
        let message = "`users` is the number of users that have flow queues within, and there are none";
        let remedy =
            "write by = \"user\" and within = \"flow\", or remove it: `flows` is the number of queues";
        faults.add(&store.place("users"), Code::IdleProperty, message, remedy);
    }
}

/// A limit that holds one packet.
fn limit(name: &Name, limit: &Limits, mtu: u64, costliest: u64, faults: &mut Faults) {
    let owner = &name.value;
    if let Some(packets) = limit.packets.as_ref().filter(|packets| packets.value == 0) {
        let message = format!("the limit of `{owner}` admits no packet");
        faults.add(&packets.span, Code::LimitTooSmall, message, "write 1 packet or more");
    }
    if let Some(octets) = limit.octets.as_ref().filter(|octets| octets.value < mtu) {
        let message = format!(
            "the limit of `{owner}` is {}, and a packet may have {}",
            show_octets(octets.value),
            show_octets(mtu)
        );
        faults.add(&octets.span, Code::LimitTooSmall, message, format!("write {} or more", show_octets(mtu)));
    }
    if let Some(time) = limit.time.as_ref().filter(|time| time.value < costliest.max(1)) {
        let (limit, cost) = (show_time(time.value), show_time(costliest.max(1)));
        let message = format!("the limit of `{owner}` is {limit}, and a packet may cost {cost}");
        faults.add(&time.span, Code::LimitTooSmall, message, format!("write {cost} or more"));
    }
}

/// The curves of random early detection.
fn curves(queue: &Queue, faults: &mut Faults) {
    let part = &queue.enqueue;
    let named = ["curve", "green", "yellow", "red"].iter();
    let curves: Vec<(&str, &Curve)> = named.filter_map(|name| Some((*name, curve(part, name)?))).collect();
    for (name, curve) in &curves {
        if curve.low.number() >= curve.high.number() {
            let message = format!("`{name}` begins to drop where it ends: `low` is not below `high`");
            faults.add(&part.place(name), Code::ThresholdOrder, message, "write low below high");
        } else if curve.most == 0 {
            let message = format!("`{name}` drops nothing before its end: `most` is zero");
            faults.add(&part.place(name), Code::OutOfRange, message, "write a share, such as 10%");
        }
        let limit = match curve.high.as_ref() {
            Value::Count(_) => queue.limit.packets.as_ref(),
            Value::Octets(_) => queue.limit.octets.as_ref(),
            _ => queue.limit.time.as_ref(),
        };
        if let (Some(limit), Some(high)) = (limit, curve.high.number())
            && high > limit.value
        {
            let message =
                format!("`{name}` ends beyond the limit of `{}`, and is never reached", queue.name.value);
            faults.add(
                &part.place(name),
                Code::ThresholdOrder,
                message,
                "write high up to the limit of the queue",
            );
        }
    }
    for pair in curves.windows(2) {
        let [(one, first), (two, second)] = pair else { continue };
        let comparable = std::mem::discriminant(&*first.low) == std::mem::discriminant(&*second.low);
        if !comparable {
            let message = format!("`{one}` and `{two}` are in different measures");
            faults.add(&part.place(two), Code::WrongType, message, "write all curves in one measure");
        } else if second.low.number() > first.low.number() || second.high.number() > first.high.number() {
            let message = format!("`{two}` is dropped later than `{one}`, which has a lower drop precedence");
            faults.add(&part.place(two), Code::ThresholdOrder, message, "write red below yellow below green");
        }
    }
}

fn curve<'c>(component: &'c Component, name: &str) -> Option<&'c Curve> {
    match &component.get(name)?.value {
        Value::Curve(curve) => Some(curve),
        _ => None,
    }
}

/// The times of active queue management.
fn times(queue: &Queue, faults: &mut Faults) {
    let part = &queue.dequeue;
    let Some(target) = part.get("target") else { return };
    let Some(ns) = target.value.number() else { return };
    if ns == 0 {
        let message =
            format!("the target of `{}` is zero: every packet waits too long", part.kind.value.name());
        faults.add(&target.span, Code::QuantumTooSmall, message, "write a time, such as 5ms");
    } else if part.number("interval").is_some_and(|interval| interval <= ns) {
        let message = format!("the target of `{}` is not below its interval", part.kind.value.name());
        let remedy = "write a target of a twentieth of the interval, such as 5ms of 100ms (RFC 8289)";
        faults.add(&target.span, Code::ThresholdOrder, message, remedy);
    } else if queue.limit.time.as_ref().is_some_and(|limit| limit.value <= ns) {
        let message = format!(
            "the target of `{}` is not below the limit of `{}`: it never acts",
            part.kind.value.name(),
            queue.name.value
        );
        faults.add(&target.span, Code::ThresholdOrder, message, "write a target below the limit in time");
    }
}

/// The order inside an assured forwarding class (RFC 2597 section 2).
fn order(description: &Description, queue: &Queue, faults: &mut Faults) {
    let assured = queue.classes.iter().filter_map(|name| description.find_class(&name.value));
    if let Some(class) = assured.into_iter().find(|class| class.precedence.is_some())
        && queue.store.kind.value == Kind::Rank
        && queue.store.word("by") != Some("deadline")
    {
        let by = queue.store.word("by").unwrap_or_default();
        let message =
            format!("the assured forwarding class `{}` would leave in the order of `{by}`", class.name.value);
        let remedy = "write store = \"fifo\": its packets keep their order (RFC 2597 section 2)";
        faults.add(&queue.store.kind.span, Code::SplitOrder, message, remedy);
    }
}

/// A queue of users needs somebody who tells them apart.
fn users(description: &Description, queue: &Queue, faults: &mut Faults) {
    if queue.store.word("by") != Some("user") {
        return;
    }
    for direction in DIRECTIONS {
        for name in &queue.classes {
            let tells = |kind: Kind| kind == Kind::Users;
            let chain = description.chain(direction);
            let mut parts = chain.iter().map(|(_, part)| part);
            let used = description
                .roots(direction)
                .iter()
                .any(|root| description.leaves(&root.name.value).iter().any(|leaf| leaf.name == queue.name));
            if used && !parts.any(|part| tells(part.kind.value) && part.word("class") == Some(&name.value)) {
                let message = format!(
                    "the queue `{}` serves users in turn, and nothing tells the users of `{}` apart",
                    queue.name.value, name.value,
                );
                let remedy = format!(
                    "add {{ kind = \"users\", class = \"{}\", by = \"association\" }} at 1a",
                    name.value
                );
                faults.add_in(direction, &queue.store.kind.span, Code::MissingKey, message, remedy);
            }
        }
    }
}

/// Kernel queues: not more than there can be, and one for each class.
fn kernel(description: &Description, house: &House, faults: &mut Faults) {
    for direction in DIRECTIONS {
        let mut sum = 0_u64;
        let mut before: Vec<(&Name, &KernelQueue)> = Vec::new();
        for kernel in description.kernel.iter().filter(|kernel| kernel.direction.value.has(direction)) {
            sum = sum.saturating_add(kernel.queues.value);
            if let Some(most) = house.kernel_queues.filter(|most| sum > *most) {
                let message = format!("{sum} kernel queues are asked for, and there can be {most}");
                let remedy = "lower `queues`, or let classes share a kernel queue";
                faults.add_in(direction, &kernel.queues.span, Code::TooManyKernelQueues, message, remedy);
            }
            for name in &kernel.classes {
                if let Some((_, twin)) = before.iter().find(|(class, _)| *class == name) {
                    let (one, two) = (&twin.name.value, &kernel.name.value);
                    let message =
                        format!("the class `{}` has the kernel queues `{one}` and `{two}`", name.value);
                    faults.add_in(
                        direction,
                        &name.span,
                        Code::ClassTwice,
                        message,
                        "remove it from one of them",
                    );
                }
                before.push((name, kernel));
            }
        }
        if before.is_empty() {
            continue;
        }
        for class in description.classes.iter().filter(|class| class.direction.value.has(direction)) {
            if !before.iter().any(|(name, _)| **name == class.name) {
                let message = format!("the class `{}` has no kernel queue", class.name.value);
                let remedy = "add it to the `classes` of a kernel queue: others would wait behind its flood";
                faults.add_in(direction, &class.name.span, Code::ClassWithoutQueue, message, remedy);
            }
        }
    }
}
