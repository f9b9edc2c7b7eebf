//! In steady state nothing allocates: neither stores nor disciplines nor the dispatcher, nor the way to a component from
//! outside.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use qos::behaviour::foreign::{Answer, Call, Detached, Instance, PacketView, Times};
use qos::behaviour::{Foreign, ForeignSettings};
use qos::cost::{CostModel, Line};
use qos::discipline::{
    DeficitRoundRobin, EarliestDeadline, Guard, RoundRobin, StrictPriority, WeightedFairQueueing,
    WeightedRoundRobin,
};
use qos::dispatcher::{Dispatcher, Pace};
use qos::enqueue::DropLongest;
use qos::node::{Ended, Node, Queue};
use qos::store::{Fifo, FlowBy, FlowQueues, FlowSettings, Rank, Ranked, UserFlows};
use qos::unit::{Kind, Mark, UnitSpec};
use qos::{
    About, AggregateId, Amount, Backlog, Behaviour, Context, Dequeue, Discipline, Entry, Leave, Limit,
    Measure, Meta, Store, UnitMask, Verdict,
};
use wire::Time;

struct Counting;

thread_local! {
    /// Counts the allocations of this thread alone, since the test harness allocates on its own.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands every call on to the system's allocator; counting is all it adds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Give;

impl Dequeue for Give {
    fn decide(&mut self, _: &Meta, _: &Backlog, _: &Context) -> Leave {
        Leave::Give
    }

    fn about(&self) -> About {
        About { kind: "give", settings: String::new() }
    }
}

/// Steers by one bit of the flow.
struct ByBit(u32);

impl Behaviour for ByBit {
    fn run(&mut self, batch: &mut [Entry], _: &Context) {
        batch.iter_mut().for_each(|entry| entry.verdict = Verdict::To((entry.meta.flow >> self.0 & 1) as u8));
    }

    fn about(&self) -> About {
        About { kind: "by-bit", settings: String::new() }
    }
}

fn store(which: usize) -> Box<dyn Store<u32>> {
    let settings =
        FlowSettings { by: FlowBy::Flow, queues: 64, measure: Measure::Octets, quantum: 1500, seed: 3 };
    match which % 4 {
        0 => Box::new(Fifo::with_capacity(16)),
        1 => Box::new(FlowQueues::with_capacity(settings, 16)),
        2 => Box::new(UserFlows::with_capacity(settings, 64, 16)),
        _ => Box::new(Ranked::with_capacity(Rank::Deadline { within: vec![5], otherwise: 9 }, 16)),
    }
}

fn discipline(which: usize) -> Box<dyn Discipline> {
    match which % 6 {
        0 => Box::new(RoundRobin::default()),
        1 => Box::new(WeightedRoundRobin::new(vec![3, 1])),
        2 => Box::new(DeficitRoundRobin::new(Measure::Octets, vec![500])),
        3 => Box::new(WeightedFairQueueing::new(Measure::Nanoseconds, vec![1, 2])),
        4 => Box::new(StrictPriority::new(Measure::Packets, vec![Guard { rate: 1_000_000, burst: 3 }])),
        _ => Box::new(EarliestDeadline::new(vec![30, 10])),
    }
}

/// A tree four deep, with every store and every discipline in it over two units.
fn tree(depth: u32, which: usize) -> Node<u32> {
    if depth == 4 {
        let limit = Limit { packets: 30, ..Limit::NONE };
        return Queue::new(Box::new(DropLongest), store(which), Box::new(Give), limit).into();
    }
    let children = (0..2).map(|child| tree(depth + 1, 2 * which + child + 1)).collect();
    Node::tree(vec![Box::new(ByBit(depth))], discipline(which), children)
}

fn drive(dispatcher: &mut Dispatcher<u32>, ended: &mut Vec<Ended<u32>>, rounds: std::ops::Range<u32>) -> u64 {
    let mut cut = 0;
    for round in rounds {
        let context = Context { now: Time(u64::from(round) * 50), random: 1 };
        let flow = round.wrapping_mul(0x9e37_79b9) >> 20;
        let pieces = if flow % 7 == 0 { 12 } else { 1 };
        let meta = Meta {
            arrived: context.now,
            amount: Amount { packets: pieces, octets: pieces * 500, ns: 0 },
            association: flow,
            flow,
            aggregate: AggregateId((flow % 3) as u8),
            units: UnitMask(3),
            ..Meta::default()
        };
        dispatcher.offer(round, meta, &context, ended);
        while let Some(given) = dispatcher.next(&context, ended) {
            if given.budget.packets < given.meta.amount.packets {
                let mut rest = given.meta;
                rest.amount -= given.budget;
                dispatcher.rest(given.job, given.item, rest, &context);
                cut += 1;
            }
            dispatcher.done(given.unit, given.job, given.budget.ns, context.now).expect("an answer in order");
            if round % 4 != 0 {
                break;
            }
        }
        dispatcher.wake(&context);
        ended.clear();
    }
    cut
}

#[test]
fn nothing_allocates_in_steady_state() {
    let line = Line { base_ns: 100, ns_per_1024: 500, batch_saves_ns: 50 };
    let mut dispatcher = Dispatcher::new(CostModel::new(2, 1, line), Pace::Pull, 9);
    for (which, kind) in [(0, Kind::Worker), (1, Kind::Batch { most: 8 })] {
        let spec = UnitSpec {
            name: "unit".into(),
            kind,
            suites: [0].into_iter().collect(),
            reserved: None,
            expedited: Default::default(),
            low: Mark::Auto,
            high: Mark::Auto,
            most_committed: 2_000,
        };
        dispatcher.attach(spec, tree(0, which)).expect("room for a unit");
    }
    let mut ended = Vec::with_capacity(64);
    drive(&mut dispatcher, &mut ended, 0..20_000);
    let before = ALLOCATIONS.get();
    let cut = drive(&mut dispatcher, &mut ended, 20_000..60_000);
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert!(cut > 100, "super-packets were cut: {cut}");
}

/// An instance that passes every packet until the last one, which it answers out of range.
struct Passing(u32);

impl Instance for Passing {
    fn judge(&mut self, _: &Call, seen: &[PacketView], answers: &mut [Answer]) -> Result<(), Detached> {
        self.0 = self.0.saturating_sub(seen.len() as u32);
        answers.fill(Answer { action: if self.0 == 0 { 9 } else { 0 }, ..Answer::NONE });
        Ok(())
    }

    fn times(&self) -> Times {
        Times::default()
    }

    fn abandon(&mut self) {}
}

#[test]
fn a_component_from_outside_allocates_nothing_for_a_packet_nor_when_it_is_detached() {
    let mut foreign = Foreign::new(ForeignSettings::default(), Box::new(Passing(1_000)));
    let mut batch = [Entry { meta: Meta::default(), verdict: Verdict::Pass }; 150];
    let before = ALLOCATIONS.get();
    for round in 0..20 {
        foreign.run(&mut batch, &Context { now: Time(round), random: round });
    }
    assert_eq!(ALLOCATIONS.get(), before);
    assert!(foreign.report().detached.is_some());
}
