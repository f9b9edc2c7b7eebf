//! The worst delay of each class, before a packet is sent: network calculus over the trees of a graph.
//!
//! # The model
//!
//! One processor serves a direction. A packet of `l` octets costs it `c(l)` nanoseconds: receiving, the costliest
//! suite of the direction, sending. Every amount below is in these nanoseconds, so the processor has the rate 1.
//!
//! - An *arrival curve* (burst `s`, rate `r`) admits at most `s + r * t` of work in any time `t`. A policer gives a
//!   class one: its burst and rate.
//! - A *service curve* (rate `R`, latency `T`) gives a class that has work at least `R * (t - T)` in any time `t` of
//!   that. A discipline makes the service of each child from its own; [`service`] has the formulas and where they
//!   are from.
//! - A class passes the trees behind hooks 1b, 3b, 5b, 4b, 2b that hold a queue of it. It pays its burst once: its
//!   delay is `s / min(R) + sum(T)`, if `r <= min(R)` and each queue keeps the order of arrival. In a queue that
//!   does not, as one of flows, a packet may wait for the whole busy period, `(s + R * T) / (R - r)` at each tree.
//! - Committed work `H` is done before anything that comes is: the processor itself has the latency `H` at each tree.
//!   Classes that go first ask for more meanwhile, so that `H` is in front of every formula below.
//! - What leaves a tree after a wait of at most `D` is burstier than what came: `s + r * D`. The classes that
//!   share the next tree with it meet that burst there.
//! - A class that nobody polices has the limits of its queues instead: a packet that is admitted to a queue of at
//!   most `B` leaves it within `B / R + T`. The sum of that over the trees bounds the delay too, and the smaller of
//!   both counts. Flows that share a queue by turns have no such bound: a flow can be passed by ever new ones.
//!
//! # The terms
//!
//! | term | is |
//! |---|---|
//! | kernel queue | receiving what the kernel queue of the class can hold, and a batch of each other one |
//! | wake-up | from the arrival to the run of the thread: [`Path::wake_ns`] |
//! | committed work | what units hold and nothing overtakes, met once at each tree; a step of a sliced unit, for what is expedited on it ([`committed`]) |
//! | other classes | the latencies `sum(T)` of the disciplines, without the committed work in them |
//! | own burst | `s / min(R)`, or the limits |
//! | I/O | the sending of one largest packet |
//! | other direction | one turn of the other direction on the same processor |
//!
//! RFC 3246 section 2.2 bounds the departures of expedited forwarding by `d_j <= f_j + E_a`, and section 2.4 the
//! delay by `B / R + E_p`. With `B / R` as the own burst, both error terms are the sum of every other term; packets
//! of one class leave in order, so `E_a = E_p`.
//!
//! [`Path::wake_ns`]: crate::graph::house::Path::wake_ns

pub mod arrival;
mod committed;
mod guard;
pub mod pass;
pub mod service;
mod tree;
pub mod view;

use crate::Direction;
use crate::graph::description::{Description, Queue};
use crate::graph::house::House;
use crate::graph::kernel::{KERNEL_PACKETS, kernel_shares};
use crate::graph::quantity::show_about;
use arrival::Arrival;
pub use committed::unproved;
pub use guard::GUARD_PERIOD;
use pass::{Pass, at_tree, delay};
use tree::{passes, trees};
use view::{Arrivals, SMALLEST, View};

/// The parts of a worst delay, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Packets in the kernel queue of the class, and a batch of each other one.
    pub kernel: u64,
    /// The time until the thread runs.
    pub wake: u64,
    /// Work that units hold already.
    pub committed: u64,
    /// Work of other classes that disciplines let go ahead.
    pub others: u64,
    /// The burst of the class itself, or the limits of its queues.
    pub own_burst: u64,
    /// The sending of the packet.
    pub io: u64,
    /// A turn of the other direction.
    pub other_direction: u64,
}

impl Terms {
    /// The sum of the terms.
    pub fn total(&self) -> u64 {
        self.error_term().saturating_add(self.own_burst)
    }

    /// The error terms `E_a` and `E_p` of RFC 3246: every term but the own burst.
    pub fn error_term(&self) -> u64 {
        let Terms { kernel, wake, committed, others, own_burst: _, io, other_direction } = *self;
        [wake, committed, others, io, other_direction].into_iter().fold(kernel, u64::saturating_add)
    }

    /// The terms in one line.
    pub fn show(&self) -> String {
        let Terms { kernel, wake, committed, others, own_burst, io, other_direction } = *self;
        let rows = [
            ("kernel queue", kernel),
            ("wake-up", wake),
            ("committed work", committed),
            ("other classes", others),
            ("own burst", own_burst),
            ("I/O", io),
            ("other direction", other_direction),
        ];
        rows.map(|(name, ns)| format!("{name} {}", show_about(ns))).join(" + ")
    }
}

/// The worst delay of a class in a direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The name of the class.
    pub class: String,
    /// The direction of its packets.
    pub direction: Direction,
    /// The terms; the own burst is 0 if there is no bound.
    pub terms: Terms,
    /// The worst delay in nanoseconds; `None` if there is no bound.
    pub total: Option<u64>,
    /// The share of the processor that the class can count on, in parts per million.
    pub rate: u64,
    /// What the class may ask for.
    pub arrival: Option<Arrival>,
    /// The octets of its queues and kernel queues when they are full.
    pub octets: u64,
    /// The time after which a packet of it is passed by no other class, for the replay window, in nanoseconds.
    pub overtaken: Option<u64>,
}

/// The bounds of every class, and of the graph as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// Each class in each of its directions.
    pub classes: Vec<Bound>,
    /// The octets of every queue when it is full.
    pub octets: u64,
    /// The replay windows needed, outbound and inbound.
    windows: [Option<Window>; 2],
}

/// A replay window that is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The window in packets.
    pub packets: u64,
    /// The class that asks for so many: they pass a packet of it while it waits.
    pub class: String,
}

impl Bounds {
    /// The replay window that associations with packets of several classes need; `None` if there is no bound.
    ///
    /// While a packet waits for `D`, each other class `j` can pass it with `(s_j + r_j * D) / c_j` packets, `c_j`
    /// being the cost of its cheapest one. The window is the greatest sum of that, and the packet itself.
    pub fn window(&self, direction: Direction) -> Option<&Window> {
        match direction {
            Direction::Outbound => self.windows[0].as_ref(),
            Direction::Inbound => self.windows[1].as_ref(),
        }
    }

    /// The bound of a class in a direction.
    pub fn find(&self, class: &str, direction: Direction) -> Option<&Bound> {
        self.classes.iter().find(|bound| bound.class == class && bound.direction == direction)
    }
}

/// The bounds of a graph that has passed the other checks.
pub fn bounds(description: &Description, house: &House) -> Bounds {
    let mut classes = Vec::new();
    let windows = [Direction::Outbound, Direction::Inbound].map(|direction| {
        let own = of_direction(description, house, direction);
        let arrivals = Arrivals::new();
        let window = window(&View { description, house, direction, arrivals: &arrivals }, &own);
        classes.extend(own);
        window
    });
    let octets = classes.iter().fold(0_u64, |sum, bound| sum.saturating_add(bound.octets));
    Bounds { classes, octets, windows }
}

/// The bounds of one direction: the trees in turn, and behind each of them what leaves it.
fn of_direction(description: &Description, house: &House, direction: Direction) -> Vec<Bound> {
    let names = description.classes.iter().filter(|class| class.direction.value.has(direction));
    let names: Vec<&str> = names.map(|class| class.name.value.as_str()).collect();
    let nobody = Arrivals::new();
    let view = View { description, house, direction, arrivals: &nobody };
    let entry: Arrivals = names.iter().map(|name| ((*name).to_owned(), view.at_entry(name))).collect();
    let mut arrivals = entry.clone();
    let mut way: Vec<Vec<Pass>> = vec![Vec::new(); names.len()];
    for (tree, roots) in trees(&view).iter().enumerate() {
        let here = View { arrivals: &arrivals, ..view };
        let mut leaving = arrivals.clone();
        for (name, way) in names.iter().zip(&mut way) {
            let passes = passes(&here, name, tree, roots);
            if let Some(arrival) = here.arrival(name).filter(|_| !passes.is_empty()) {
                leaving.insert((*name).to_owned(), arrival.behind(at_tree(&passes, arrival)));
            }
            way.extend(passes);
        }
        arrivals = leaving;
    }
    let view = View { arrivals: &entry, ..view };
    names.iter().zip(&way).map(|(name, passes)| bound(&view, name, passes)).collect()
}

fn bound(view: &View<'_>, class: &str, passes: &[Pass]) -> Bound {
    let path = &view.house.path;
    let arrival = view.arrival(class);
    let (own_burst, latency, rate) = delay(passes, arrival);
    let committed = if passes.is_empty() { committed::committed(view, class) } else { held_at_trees(passes) };
    let terms = Terms {
        kernel: kernel(view, class),
        wake: path.wake_ns,
        committed,
        others: round_up(latency - committed as f64),
        own_burst: own_burst.map_or(0, round_up),
        io: path.send.ns(path.mtu),
        other_direction: path.other_turn_ns,
    };
    let total = own_burst.filter(|ns| ns.is_finite()).filter(|_| latency.is_finite()).map(|_| terms.total());
    // A flow within its share waits no longer than if the whole queue kept the order of arrival.
    let in_order: Vec<Pass> = passes.iter().map(|pass| Pass { in_order: true, ..*pass }).collect();
    let overtaken = total.or_else(|| {
        let (own_burst, latency, _) = delay(&in_order, arrival);
        let own_burst = round_up(own_burst.filter(|_| latency.is_finite())?);
        Some(own_burst.saturating_add(terms.error_term()))
    });
    let octets = octets(view, class);
    // The share is at most one million.
    let rate = (rate * 1e6).round().clamp(0.0, 1e6) as u64;
    Bound {
        class: class.to_owned(),
        direction: view.direction,
        terms,
        total,
        rate,
        arrival,
        octets,
        overtaken,
    }
}

/// The datagrams that the kernel joins at most. An empty queue takes them in one piece, whatever its limit is.
const JOINED: u64 = 64;

/// What the kernel holds in front of a packet: its own queue, and a batch of each other one. Inbound, one more is there for
/// what names no association.
fn kernel(view: &View<'_>, class: &str) -> u64 {
    let path = &view.house.path;
    let (mut others, joined) = match view.direction {
        Direction::Outbound => (0_u64, 0),
        Direction::Inbound => (1, JOINED),
    };
    let mut own = None;
    for share in kernel_shares(view.description, view.direction, view.house.kernel_queues.unwrap_or(1)) {
        if share.classes.iter().any(|name| name == class) {
            own = Some(share.limit.max(joined));
            others = others.saturating_add(share.queues.saturating_sub(1));
        } else {
            others = others.saturating_add(share.queues);
        }
    }
    let packets = own.unwrap_or(KERNEL_PACKETS).saturating_add(others.saturating_mul(path.batch));
    packets.saturating_mul(path.receive.ns(path.mtu).saturating_add(view.foreign()))
}

/// The committed work that a class meets at all trees, in nanoseconds.
fn held_at_trees(passes: &[Pass]) -> u64 {
    let last = passes.iter().map(|pass| pass.tree).max().unwrap_or(0);
    let at = |tree: usize| passes.iter().filter(move |pass| pass.tree == tree).map(|pass| pass.committed);
    (0..=last).map(|tree| at(tree).max().unwrap_or(0)).fold(0, u64::saturating_add)
}

/// The octets of the queues and kernel queues of a class when they are full.
fn octets(view: &View<'_>, class: &str) -> u64 {
    let holds = |queue: &&Queue| queue.classes.first().is_some_and(|name| name.value == class);
    let roots = view.description.roots(view.direction);
    let mut seen: Vec<&str> = Vec::new();
    let mut sum = 0_u64;
    for root in &roots {
        for queue in view.description.leaves(&root.name.value).into_iter().filter(holds) {
            if !seen.contains(&queue.name.value.as_str()) {
                seen.push(&queue.name.value);
                sum = sum.saturating_add(queue_octets(view, queue));
            }
        }
    }
    let kernel = view.description.kernel.iter().filter(|kernel| {
        kernel.direction.value.has(view.direction) && kernel.classes.first().is_some_and(|n| n.value == class)
    });
    for kernel in kernel {
        let packets = kernel.limit.packets.as_ref().map_or(KERNEL_PACKETS, |packets| packets.value);
        let octets = packets.saturating_mul(view.house.path.cell);
        let octets = kernel.limit.octets.as_ref().map_or(octets, |limit| limit.value.min(octets));
        sum = sum.saturating_add(octets.saturating_mul(kernel.queues.value));
    }
    sum
}

/// The octets of a queue when it is full: a packet occupies a cell, whatever its length.
fn queue_octets(view: &View<'_>, queue: &Queue) -> u64 {
    let cell = view.house.path.cell;
    let packets = queue.limit.packets.as_ref().map_or(u64::MAX, |packets| packets.value);
    let by_time = queue.limit.time.as_ref().map_or(u64::MAX, |time| time.value / view.cheapest());
    let by_octets = queue.limit.octets.as_ref().map_or(u64::MAX, |octets| octets.value / SMALLEST);
    packets.min(by_time).min(by_octets).saturating_mul(cell)
}

fn window(view: &View<'_>, classes: &[Bound]) -> Option<Window> {
    let own: Vec<&Bound> = classes.iter().filter(|bound| bound.direction == view.direction).collect();
    let mut most =
        Window { packets: 1, class: own.first().map_or_else(String::new, |bound| bound.class.clone()) };
    for bound in &own {
        let waits = bound.overtaken? as f64;
        let mut passing = 1_u64;
        for other in own.iter().filter(|other| other.class != bound.class) {
            // Without a policer, the processor alone limits what passes.
            let arrival = other.arrival.unwrap_or(Arrival { burst: 0.0, rate: 1.0 });
            let work = (arrival.burst + arrival.rate * waits).min(waits);
            passing = passing.saturating_add(round_up(work / view.cheapest() as f64));
        }
        if passing > most.packets {
            most = Window { packets: passing, class: bound.class.clone() };
        }
    }
    Some(most)
}

/// Nanoseconds as a whole number, rounded up; what is no number is the most.
fn round_up(ns: f64) -> u64 {
    if ns.is_finite() { ns.max(0.0).ceil() as u64 } else { u64::MAX }
}
