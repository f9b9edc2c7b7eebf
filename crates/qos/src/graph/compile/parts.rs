//! The three parts of queues and the disciplines: one row for each kind.

use super::super::description::{Queue, Scheduler};
use super::super::fault::Fault;
use super::super::kinds::{Component, Curve as Drawn, Kind, Value};
use super::behaviours::users_by;
use super::{Build, refused, settings};
use crate::behaviour::SettingsError;
use crate::bound::GUARD_PERIOD;
use crate::component::{Dequeue, Discipline, Enqueue, Store};
use crate::dequeue::{
    Cobalt, Codel, CodelSettings, DualPi2, DualPi2Settings, DualQueue, Give, PerFlow, Shaped,
};
use crate::discipline::{
    DeficitRoundRobin, EarliestDeadline, Guard, RoundRobin, StrictPriority, WeightedFairQueueing,
    WeightedRoundRobin,
};
use crate::enqueue::{DropHead, DropLongest, TailDrop};
use crate::red::{Curve, Red, RedSettings};
use crate::store::{Fifo, FlowBy, FlowQueues, FlowSettings, Rank, Ranked, UserFlows};
use crate::{Limit, Measure};

/// The queues of a store of flows, or the users of a store by user, unless the text says another number (RFC 8290 section
/// 5.2.5).
const QUEUES: u32 = 1_024;
/// The queues that the flows of all users of a store share: as many as packets that a queue has room for.
const QUEUES_WITHIN: u32 = ROOM as u32;
/// The most packets that a queue has room for before it has to allocate.
const ROOM: u64 = 4_096;

type EnqueueMake = fn(&Build<'_>, &Component) -> Result<Box<dyn Enqueue>, SettingsError>;
type StoreMake<T> = fn(&Build<'_>, &Queue, usize) -> Box<dyn Store<T>>;
/// Makes a dequeueing part for a store of so many queues.
type DequeueMake = fn(&Build<'_>, &Component, usize) -> Result<Box<dyn Dequeue>, SettingsError>;
type DisciplineMake = fn(&Build<'_>, &Scheduler) -> Box<dyn Discipline>;

const ENQUEUES: &[(Kind, EnqueueMake)] = &[
    (Kind::Tail, |_, _| Ok(Box::new(TailDrop))),
    (Kind::DropHead, |_, _| Ok(Box::new(DropHead))),
    (Kind::LongestFlow, |_, _| Ok(Box::new(DropLongest))),
    (Kind::Red, |build, part| build.red(part, ["curve"; 3])),
    (Kind::Wred, |build, part| build.red(part, ["green", "yellow", "red"])),
];

const DEQUEUES: &[(Kind, DequeueMake)] = &[
    (Kind::Give, |_, _, _| Ok(Box::new(Give))),
    (Kind::Codel, |build, part, queues| Ok(per_flow(Codel::new(build.codel(part))?, queues))),
    (Kind::Cobalt, |build, part, queues| Ok(per_flow(Cobalt::new(build.codel(part))?, queues))),
];

const DISCIPLINES: &[(Kind, DisciplineMake)] = &[
    (Kind::RoundRobin, |_, _| Box::<RoundRobin>::default()),
    (Kind::Weighted, |_, scheduler| Box::new(WeightedRoundRobin::new(weights(scheduler)))),
    (Kind::Drr, |_, scheduler| deficit(scheduler)),
    (Kind::Wfq, |_, scheduler| Box::new(WeightedFairQueueing::new(Measure::Nanoseconds, shares(scheduler)))),
    (Kind::Strict, |_, scheduler| strict(scheduler)),
    (Kind::Edf, |_, scheduler| Box::new(EarliestDeadline::new(deadlines(scheduler)))),
];

impl Build<'_> {
    /// A queue of the three parts that are described.
    pub(super) fn queue<T: Send + 'static>(&self, queue: &Queue) -> Result<crate::node::Queue<T>, Fault> {
        let stores: [(Kind, StoreMake<T>); 3] = [
            (Kind::Fifo, |_, _, room| Box::new(Fifo::with_capacity(room))),
            (Kind::Flows, |build, queue, room| match build.flows(queue) {
                (settings, Some(flows)) => Box::new(UserFlows::with_capacity(settings, flows, room)),
                (settings, None) => Box::new(FlowQueues::with_capacity(settings, room)),
            }),
            (Kind::Rank, |build, queue, room| Box::new(Ranked::with_capacity(build.rank(queue), room))),
        ];
        let packets = queue.limit.packets.as_ref().map_or(u64::MAX, |packets| packets.value);
        let limit = Limit {
            packets,
            octets: queue.limit.octets.as_ref().map_or(u64::MAX, |octets| octets.value),
            ns: queue.limit.time.as_ref().map_or(u64::MAX, |time| time.value),
        };
        let room = usize::try_from(packets.min(ROOM)).unwrap_or(0);
        if queue.dequeue.kind.value == Kind::Dualpi2 {
            let controller =
                DualPi2::new(dual(&queue.dequeue)).map_err(|error| settings(&queue.dequeue, error))?;
            return Ok(crate::node::Queue::whole(Box::new(DualQueue::new(controller, room)), limit));
        }
        let enqueue = made(ENQUEUES, &queue.enqueue)?(self, &queue.enqueue);
        let enqueue = enqueue.map_err(|error| settings(&queue.enqueue, error))?;
        let store = made(&stores, &queue.store)?(self, queue, room);
        let queues = match self.flows(queue) {
            _ if queue.store.kind.value != Kind::Flows => 1,
            (settings, Some(flows)) => UserFlows::<T>::queues(&settings, flows),
            (settings, None) => settings.count(),
        };
        let dequeue = made(DEQUEUES, &queue.dequeue)?(self, &queue.dequeue, queues);
        let mut dequeue = dequeue.map_err(|error| settings(&queue.dequeue, error))?;
        if let Some(shape) = &queue.shape
            && let Some(pacer) = self.pacer(shape)?
        {
            dequeue = Box::new(Shaped::new(pacer, dequeue));
        }
        Ok(crate::node::Queue::new(enqueue, store, dequeue, limit))
    }

    /// The discipline of a scheduler.
    pub(super) fn discipline(&self, scheduler: &Scheduler) -> Result<Box<dyn Discipline>, Fault> {
        Ok(made(DISCIPLINES, &scheduler.discipline)?(self, scheduler))
    }

    fn red(&self, component: &Component, names: [&str; 3]) -> Result<Box<dyn Enqueue>, SettingsError> {
        let drawn = names.map(|name| match component.get(name).map(|curve| &curve.value) {
            Some(Value::Curve(curve)) => Some(curve),
            _ => None,
        });
        let [Some(green), Some(yellow), Some(red)] = drawn else { return Err(SettingsError::NoRoom) };
        let red = RedSettings {
            measure: measure(&green.low),
            curves: [curve(green), curve(yellow), curve(red)],
            weight: component.number("weight").and_then(|weight| u32::try_from(weight).ok()).unwrap_or(9),
            packet_ns: self.costliest(),
            ecn: flag(component, "ecn"),
        };
        Ok(Box::new(Red::new(red)?))
    }

    /// The nanoseconds that the costliest packet takes, with its way in and out.
    fn costliest(&self) -> u64 {
        let path = &self.house.path;
        let io = path.receive.ns(path.mtu).saturating_add(path.send.ns(path.mtu));
        io.saturating_add(self.house.costliest(self.direction, path.mtu)).max(1)
    }

    fn codel(&self, component: &Component) -> CodelSettings {
        let usual = CodelSettings::default();
        CodelSettings {
            target: component.number("target").unwrap_or(usual.target),
            interval: component.number("interval").unwrap_or(usual.interval),
            max_packet: self.house.path.mtu,
            ecn: flag(component, "ecn"),
        }
    }

    /// The settings of flow queues. A turn is as long as the largest packet of a flow, or the costliest one of a user:
    /// flows share out the line, and users the processor. Where users have flow queues within, their number is beside.
    fn flows(&self, queue: &Queue) -> (FlowSettings, Option<u32>) {
        let usual = if queue.store.word("by") == Some("user") {
            Value::Time(self.costliest())
        } else {
            Value::Octets(self.house.path.mtu)
        };
        let quantum = queue.store.get("quantum").map_or(&usual, |quantum| &quantum.value);
        let count = |name: &str| queue.store.number(name).and_then(|count| u32::try_from(count).ok());
        let (queues, within) = if queue.store.has_flows_within() {
            (count("users"), Some(count("flows").unwrap_or(QUEUES_WITHIN)))
        } else {
            (count("flows"), None)
        };
        let settings = FlowSettings {
            by: self.flow_by(queue),
            queues: queues.unwrap_or(QUEUES),
            measure: measure(quantum),
            quantum: quantum.number().unwrap_or(1),
            seed: self.seed,
        };
        (settings, within)
    }

    /// The field that tells flows apart: for users, the one by which the class of the queue tells them apart.
    fn flow_by(&self, queue: &Queue) -> FlowBy {
        if queue.store.word("by") != Some("user") {
            return FlowBy::Flow;
        }
        let chain = self.description.chain(self.direction);
        let of_class = |component: &&Component| {
            let class = component.word("class");
            component.kind.value == Kind::Users
                && queue.classes.iter().any(|name| class == Some(name.value.as_str()))
        };
        let users = chain.into_iter().map(|(_, component)| component).find(of_class);
        users.map_or(FlowBy::User, users_by)
    }

    fn rank(&self, queue: &Queue) -> Rank {
        match queue.store.word("by") {
            Some("colour") => Rank::Colour,
            Some("cost") => Rank::Cost,
            _ => {
                let mut within = vec![u64::MAX; self.aggregates.count()];
                for class in &self.description.classes {
                    let place = usize::from(self.class(&class.name.value).0);
                    if let (Some(row), Some(delay)) = (within.get_mut(place), &class.delay) {
                        *row = delay.value;
                    }
                }
                Rank::Deadline { within, otherwise: u64::MAX }
            }
        }
    }
}

/// The parameters of RFC 9332, where nothing else is said.
fn dual(component: &Component) -> DualPi2Settings {
    let usual = DualPi2Settings::default();
    let number = |name: &str, usual: u64| component.number(name).unwrap_or(usual);
    DualPi2Settings {
        target: number("target", usual.target),
        rtt_max: number("rtt", usual.rtt_max),
        coupling: component.number("coupling").map_or(usual.coupling, |coupling| coupling as f64),
        ramp_start: number("ramp_start", usual.ramp_start),
        ramp_range: number("ramp_range", usual.ramp_range),
        ramp_packets: usual.ramp_packets,
        classic_share: component
            .number("classic_share")
            .and_then(|share| u32::try_from(share).ok())
            .unwrap_or(usual.classic_share),
    }
}

/// A dequeueing part that keeps a state for each queue of its store.
fn per_flow<D: Dequeue + Clone + 'static>(each: D, queues: usize) -> Box<dyn Dequeue> {
    if queues == 1 { Box::new(each) } else { Box::new(PerFlow::new(each, queues)) }
}

/// The row of a component's kind.
fn made<M: Copy>(rows: &[(Kind, M)], component: &Component) -> Result<M, Fault> {
    let kind = component.kind.value;
    rows.iter().find(|(row, _)| *row == kind).map(|(_, make)| *make).ok_or_else(|| {
        let message = format!("`{}` is not made into a queue by this version", kind.name());
        refused(&component.span.span, &message, "use `codel` or `cobalt` there")
    })
}

fn curve(drawn: &Drawn) -> Curve {
    let number = |value: &Value| value.number().unwrap_or(0);
    Curve { min: number(&drawn.low), max: number(&drawn.high), probability: drawn.most as f64 / 1e6 }
}

fn measure(length: &Value) -> Measure {
    match length {
        Value::Time(_) => Measure::Nanoseconds,
        Value::Octets(_) => Measure::Octets,
        _ => Measure::Packets,
    }
}

fn flag(component: &Component, name: &str) -> bool {
    matches!(component.get(name).map(|flag| &flag.value), Some(Value::Flag(true)))
}

fn weights(scheduler: &Scheduler) -> Vec<u32> {
    let weight = |weight: u64| u32::try_from(weight).unwrap_or(u32::MAX);
    let children = scheduler.children.iter();
    children.map(|child| child.weight.as_ref().map_or(1, |its| weight(its.value))).collect()
}

/// The shares of children as weights: parts per million, of which those without a share divide what is left.
fn shares(scheduler: &Scheduler) -> Vec<u32> {
    let children = &scheduler.children;
    if children.iter().all(|child| child.share.is_none()) {
        return weights(scheduler);
    }
    let given: u64 = children.iter().filter_map(|child| child.share.as_ref()).map(|share| share.value).sum();
    let left = 1_000_000_u64.saturating_sub(given);
    let weight = |weight: Option<u64>| weight.unwrap_or(1);
    let own = |child: &&super::super::description::Child| child.share.is_none();
    let sum: u64 =
        children.iter().filter(own).map(|child| weight(child.weight.as_ref().map(|its| its.value))).sum();
    let part = |child: &super::super::description::Child| match &child.share {
        Some(share) => share.value,
        None => left.saturating_mul(weight(child.weight.as_ref().map(|its| its.value))) / sum.max(1),
    };
    children.iter().map(|child| u32::try_from(part(child).max(1)).unwrap_or(u32::MAX)).collect()
}

fn deficit(scheduler: &Scheduler) -> Box<dyn Discipline> {
    let quantum = scheduler.discipline.get("quantum").map(|quantum| &quantum.value);
    let one = quantum.and_then(Value::number).unwrap_or(1);
    let quanta = weights(scheduler).into_iter().map(|weight| one.saturating_mul(weight.into())).collect();
    Box::new(DeficitRoundRobin::new(quantum.map_or(Measure::Octets, measure), quanta))
}

fn deadlines(scheduler: &Scheduler) -> Vec<u64> {
    let children = scheduler.children.iter();
    children.map(|child| child.deadline.as_ref().map_or(u64::MAX, |deadline| deadline.value)).collect()
}

/// Strict priority with its guard. A guard of the share `g` in a period `p` is a bucket of `g * (1 - g) * p` that fills with `g`: a
/// full one lasts for `g * p`, so that the last child never waits longer than the bound's two periods allow.
fn strict(scheduler: &Scheduler) -> Box<dyn Discipline> {
    let guard = scheduler.discipline.number("guard").filter(|guard| *guard < 1_000_000);
    let Some(guard) = guard else {
        return Box::new(StrictPriority::new(Measure::Nanoseconds, vec![Guard::NONE]));
    };
    let period = u128::from(scheduler.discipline.number("period").unwrap_or(GUARD_PERIOD));
    let burst = u128::from(guard) * u128::from(1_000_000 - guard) * period / 1_000_000_000_000;
    let guard = Guard { rate: guard * 1_000, burst: u64::try_from(burst).unwrap_or(u64::MAX).max(1) };
    Box::new(StrictPriority::common(Measure::Nanoseconds, guard))
}
