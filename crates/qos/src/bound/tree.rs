//! The walk through the trees of a graph: what service each queue of a class gets.

use super::arrival::Arrival;
use super::committed::{committed, unguarded};
use super::guard::{arrival, guard, reaches};
use super::pass::Pass;
use super::service::{Service, deadlines_hold};
use super::view::{SMALLEST, View};
use crate::graph::description::index::{NodeRef, Root};
use crate::graph::description::{Child, Queue, Scheduler};
use crate::graph::kinds::{Component, Kind, Value};

/// The deepest nesting that is looked at: lint refuses circles before.
const DEEPEST: usize = 64;

/// The trees that packets of the direction meet in turn. The hooks of several units at 5b are one tree to a packet,
/// which passes one of them.
pub(super) fn trees<'d>(view: &View<'d>) -> Vec<Vec<Root<'d>>> {
    let mut trees: Vec<Vec<Root<'d>>> = Vec::new();
    for root in view.description.roots(view.direction) {
        let same = |tree: &&mut Vec<Root<'d>>| tree.iter().any(|other| other.hook.at == root.hook.at);
        match trees.iter_mut().find(same) {
            Some(tree) => tree.push(root),
            None => trees.push(vec![root]),
        }
    }
    trees
}

/// Each queue that a class can wait in at the tree of this number, with the service that it gets.
pub(super) fn passes(view: &View<'_>, class: &str, tree: usize, roots: &[Root<'_>]) -> Vec<Pass> {
    let mut passes = Vec::new();
    let class = Passing { class, tree, committed: committed(view, class) };
    for root in roots {
        let unit = root.hook.unit.as_ref().and_then(|unit| view.description.find_unit(&unit.value));
        if unit.is_none_or(|unit| unit.serves(class.class)) {
            walk(view, &root.name.value, class.whole(), class, DEEPEST, &mut passes);
        }
    }
    passes
}

/// A class at a tree.
#[derive(Clone, Copy)]
struct Passing<'c> {
    class: &'c str,
    /// The number of the tree.
    tree: usize,
    /// The committed work that it waits for there, in nanoseconds.
    committed: u64,
}

impl Passing<'_> {
    /// The processor, behind the committed work.
    fn whole(self) -> Service {
        Service { latency: self.committed as f64, ..Service::WHOLE }
    }
}

fn walk(
    view: &View<'_>,
    name: &str,
    service: Service,
    class: Passing<'_>,
    deeper: usize,
    passes: &mut Vec<Pass>,
) {
    match view.description.find_node(name) {
        Some(NodeRef::Queue(queue)) if queue.classes.iter().any(|name| name.value == class.class) => {
            let service = shaped(view, service, queue.shape.as_ref());
            let others = queue.classes.iter().filter(|name| name.value != class.class);
            let mut beside = others.map(|name| view.arrival(&name.value));
            let beside = beside.try_fold(Arrival::NONE, |sum, arrival| Some(sum.plus(arrival?)));
            let limit = limit(view, queue);
            let Passing { tree, committed, .. } = class;
            passes.push(Pass { tree, service, committed, limit, in_order: keeps_order(queue), beside });
        }
        Some(NodeRef::Scheduler(scheduler)) if deeper > 0 => {
            let service = shaped(view, service, scheduler.shape.as_ref());
            for (index, child) in scheduler.children.iter().enumerate() {
                let given = give(view, scheduler, index, service, class);
                walk(view, &child.to.value, given, class, deeper - 1, passes);
            }
        }
        _ => {}
    }
}

/// A shaper in front of a node. One of an uplink holds back what leaves alone.
fn shaped(view: &View<'_>, service: Service, shape: Option<&Component>) -> Service {
    let Some(shape) = shape else { return service };
    let uplink = shape.word("uplink");
    if uplink.is_some() && view.direction == crate::Direction::Inbound {
        return service;
    }
    let uplink =
        uplink.and_then(|name| view.description.uplinks.iter().find(|uplink| uplink.name.value == name));
    let own = shape.number("rate");
    let Some(bits) = own.or_else(|| uplink.map(|uplink| uplink.rate.value)) else { return service };
    let overhead =
        shape.number("overhead").or_else(|| uplink.map(|uplink| uplink.overhead.value)).unwrap_or(0);
    // The work that an octet of the link stands for is least in the largest packets.
    let mtu = view.house.path.mtu;
    let on_link = mtu.saturating_add(overhead).max(1) as f64;
    let work = view.costliest() as f64 / on_link;
    service.shaped(bits as f64 / 8.0 / 1e9 * work, view.costliest() as f64)
}

/// The most work that may wait in a queue, in nanoseconds.
fn limit(view: &View<'_>, queue: &Queue) -> f64 {
    let costliest = view.costliest();
    let packets = queue.limit.packets.as_ref().map(|packets| packets.value.saturating_mul(costliest) as f64);
    let time = queue.limit.time.as_ref().map(|time| time.value as f64);
    let per_octet = view.cost(SMALLEST) as f64 / SMALLEST as f64;
    let octets = queue.limit.octets.as_ref().map(|octets| octets.value as f64 * per_octet);
    [packets, time, octets].into_iter().flatten().fold(f64::INFINITY, f64::min)
}

/// The service of a child.
fn give(
    view: &View<'_>,
    scheduler: &Scheduler,
    index: usize,
    service: Service,
    class: Passing<'_>,
) -> Service {
    let discipline = &scheduler.discipline;
    let packet = view.costliest() as f64;
    let least = view.cheapest() as f64;
    let siblings =
        || scheduler.children.iter().enumerate().filter(|(i, _)| *i != index).map(|(_, child)| child);
    let own = scheduler.children.get(index);
    let weight = |child: &Child| child.weight.as_ref().map_or(1, |weight| weight.value) as f64;
    match discipline.kind.value {
        Kind::Strict => strict(view, scheduler, index, service),
        Kind::Drr => {
            let quantum = quantum(view, discipline);
            let others: Vec<f64> = siblings().map(|child| weight(child) * quantum).collect();
            service.deficit(own.map_or(0.0, weight) * quantum, &others, packet)
        }
        Kind::Weighted => {
            let others: Vec<f64> = siblings().map(weight).collect();
            service.by_packets(own.map_or(0.0, weight), &others, packet, least)
        }
        Kind::Wfq => service.fair(share(scheduler, index), siblings().count() as f64, packet),
        Kind::Edf => earliest(view, scheduler, index, service, class),
        _ => {
            let others: Vec<f64> = siblings().map(|_| 1.0).collect();
            service.by_packets(1.0, &others, packet, least)
        }
    }
}

/// The quantum of deficit round robin as work.
fn quantum(view: &View<'_>, discipline: &Component) -> f64 {
    match discipline.get("quantum").map(|quantum| &quantum.value) {
        Some(Value::Time(ns)) => *ns as f64,
        Some(Value::Count(packets)) => packets.saturating_mul(view.costliest()) as f64,
        // The least work that so many octets can be: those of the largest packets.
        Some(Value::Octets(octets)) => {
            *octets as f64 * view.costliest() as f64 / view.house.path.mtu.max(1) as f64
        }
        _ => 0.0,
    }
}

fn strict(view: &View<'_>, scheduler: &Scheduler, index: usize, service: Service) -> Service {
    let packet = view.costliest() as f64;
    let last = scheduler.children.len().saturating_sub(1);
    let sum = |count: usize| {
        let upper = scheduler.children.iter().take(count).map(|child| arrival(view, child));
        upper.into_iter().try_fold(Arrival::NONE, |sum, arrival| Some(sum.plus(arrival?)))
    };
    let below = if index < last { packet } else { 0.0 };
    let by_policers = sum(index).map(|above| service.behind(above, below));
    let guard = guard(scheduler);
    let nothing = Service { rate: 0.0, latency: f64::INFINITY };
    let Some((guard, period)) = guard else { return by_policers.unwrap_or(nothing) };
    if index == last {
        let mut by_guard = service.below_guard(guard, period, packet);
        by_guard.latency += unguarded(view, scheduler) as f64;
        let better = by_policers.filter(|service| service.rate >= by_guard.rate);
        return better.unwrap_or(by_guard);
    }
    let Some(by_policers) = by_policers else { return nothing };
    if reaches(sum(last), guard, period, service.rate) {
        by_policers.within_guard(service, guard, period, packet)
    } else {
        by_policers
    }
}

/// The earliest deadline first: a packet leaves by its deadline, if all deadlines can be kept.
///
/// Deadlines are kept from the end of the committed work on.
fn earliest(
    view: &View<'_>,
    scheduler: &Scheduler,
    index: usize,
    service: Service,
    class: Passing<'_>,
) -> Service {
    let packet = view.costliest() as f64;
    let nothing = Service { rate: 0.0, latency: f64::INFINITY };
    let rows = scheduler
        .children
        .iter()
        .map(|child| Some((child.deadline.as_ref()?.value as f64, arrival(view, child)?)));
    let Some(rows) = rows.collect::<Option<Vec<(f64, Arrival)>>>() else { return nothing };
    let Some((deadline, own)) = rows.get(index) else { return nothing };
    let committed = class.committed as f64;
    let behind_it = Service { latency: service.latency - committed, ..service };
    if deadlines_hold(behind_it, &rows, packet) && own.rate > 0.0 {
        // A delay of the deadline, whatever the burst: over several trees the burst is still paid once.
        return Service { rate: service.rate, latency: *deadline + committed };
    }
    let others = rows.iter().enumerate().filter(|(i, _)| *i != index).map(|(_, (_, arrival))| *arrival);
    service.behind(others.fold(Arrival::NONE, Arrival::plus), packet)
}

/// Whether packets leave a queue in the order of their coming.
fn keeps_order(queue: &Queue) -> bool {
    queue.store.kind.value == Kind::Fifo && queue.dequeue.kind.value != Kind::Dualpi2
}

/// The share of a child of weighted fair queueing: its own, or what the shares leave, by weight.
fn share(scheduler: &Scheduler, index: usize) -> f64 {
    let given: u64 =
        scheduler.children.iter().filter_map(|child| child.share.as_ref()).map(|share| share.value).sum();
    let weight = |child: &Child| match child.share {
        Some(_) => 0,
        None => child.weight.as_ref().map_or(1, |weight| weight.value),
    };
    let weights: u64 = scheduler.children.iter().map(weight).sum();
    let Some(child) = scheduler.children.get(index) else { return 0.0 };
    let whole = if weights == 0 { given.max(1) as f64 } else { 1e6 };
    match &child.share {
        Some(share) => share.value as f64 / whole,
        None => (1e6 - given as f64).max(0.0) / 1e6 * weight(child) as f64 / weights.max(1) as f64,
    }
}
