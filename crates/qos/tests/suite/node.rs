//! Nodes: queues of three parts, trees of disciplines, limits and evictions, wake conditions, conservation.

mod random;

use qos::discipline::{
    DeficitRoundRobin, EarliestDeadline, Guard, RoundRobin, StrictPriority, WeightedFairQueueing,
};
use qos::enqueue::{DropHead, DropLongest, TailDrop, Unlimited};
use qos::node::{Node, Offered, Pull, Queue, Wake};
use qos::store::{Fifo, FlowBy, FlowQueues, FlowSettings, Rank, Ranked};
use qos::{
    About, AggregateId, Amount, Backlog, Behaviour, Cause, ChildId, Children, Context, Dequeue, Discipline,
    Leave, Limit, Measure, Meta,
};
use wire::Time;

use crate::queueing::{ByAggregate, Give, amount, at, classed, fifo, packet, queue};

fn items<T>(node: &mut Node<T>, now: u64) -> Vec<T>
where
    T: 'static,
{
    let mut ended = Vec::new();
    std::iter::from_fn(|| match node.take(&at(now), &mut ended) {
        Pull::Packet(item, _) => Some(item),
        Pull::Wait(_) => None,
    })
    .collect()
}

fn flows() -> FlowQueues<usize> {
    let settings =
        FlowSettings { by: FlowBy::Flow, queues: 256, measure: Measure::Octets, quantum: 1500, seed: 3 };
    FlowQueues::with_capacity(settings, 16)
}

#[test]
fn tail_drop_holds_the_limit_in_each_measure() {
    let limits = [
        Limit { packets: 3, ..Limit::NONE },
        Limit { octets: 399, ..Limit::NONE },
        Limit { ns: 30, ..Limit::NONE },
    ];
    for limit in limits {
        let mut node = queue(TailDrop, Fifo::with_capacity(4), limit);
        let mut ended = Vec::new();
        let offered: Vec<_> = (0..5).map(|n| node.offer(n, packet(0, 100, 10), &at(0), &mut ended)).collect();
        assert_eq!(offered[2..4], [Offered::Queued, Offered::Ended]);
        assert_eq!(
            ended.iter().map(|end| (end.item, end.cause)).collect::<Vec<_>>(),
            [(3, Cause::QueueFull), (4, Cause::QueueFull)]
        );
        assert_eq!(node.amount(), amount(3, 300, 30));
        let lengths = [Measure::Packets, Measure::Octets, Measure::Nanoseconds].map(|m| node.length(m));
        assert_eq!(lengths, [3, 300, 30]);
    }
}

#[test]
fn drop_head_ends_the_oldest_packets_until_the_new_one_fits() {
    let mut node = queue(DropHead, Fifo::with_capacity(4), Limit { octets: 400, ..Limit::NONE });
    let mut ended = Vec::new();
    (0..4).for_each(|n| assert_eq!(node.offer(n, packet(0, 100, 10), &at(0), &mut ended), Offered::Queued));
    assert_eq!(node.offer(4, packet(0, 250, 10), &at(0), &mut ended), Offered::Queued);
    assert_eq!(ended.iter().map(|end| end.item).collect::<Vec<_>>(), [0, 1, 2]);
    // What would not fit into the empty queue ends, and costs nobody else anything.
    assert_eq!(node.offer(5, packet(0, 401, 10), &at(0), &mut ended), Offered::Ended);
    assert_eq!(ended.last().map(|end| end.item), Some(5));
    assert_eq!(items(&mut node, 0), [3, 4]);
}

#[test]
fn the_longest_flow_pays_for_a_full_queue() {
    let mut node = queue(DropLongest, flows(), Limit { packets: 8, ..Limit::NONE });
    let mut ended = Vec::new();
    let metas = [packet(2, 100, 10), packet(2, 100, 10)].into_iter().chain([packet(1, 1000, 10); 6]);
    for (n, meta) in metas.enumerate() {
        assert_eq!(node.offer(n, meta, &at(0), &mut ended), Offered::Queued);
    }
    // The next packet of all is one of flow 2.
    assert_eq!(node.peek(&at(0)).unwrap().flow, 2);
    (8..10).for_each(|n| assert_eq!(node.offer(n, packet(3, 9, 10), &at(0), &mut ended), Offered::Queued));
    assert_eq!(ended.iter().map(|end| end.item).collect::<Vec<_>>(), [2, 3]);
    assert!(ended.iter().all(|end| end.cause == Cause::QueueFull && end.meta.flow == 1));
}

#[test]
fn what_a_cut_super_packet_did_not_use_is_given_back_to_every_discipline_above_it() {
    let drr = || Box::new(DeficitRoundRobin::new(Measure::Octets, vec![100]));
    let inner = Node::tree(vec![], drr(), vec![fifo(99)]);
    let mut node = Node::tree(vec![Box::new(ByAggregate)], drr(), vec![inner, fifo(99)]);
    let mut ended = Vec::new();
    let whole = Meta { amount: amount(40, 4000, 40), ..classed(0, 0) };
    node.offer(0, whole, &at(0), &mut ended);
    (1..20).for_each(|n| assert_eq!(node.offer(n, classed(1, 1), &at(0), &mut ended), Offered::Queued));
    let mut order = Vec::new();
    for _ in 0..10 {
        let Pull::Packet(item, mut meta) = node.take(&at(0), &mut ended) else { panic!("a packet waits") };
        order.push(item);
        if meta.amount.packets > 1 {
            meta.amount -= amount(1, 100, 1);
            node.put_back(item, meta, &at(0));
        }
    }
    assert_eq!(order, [0, 1, 0, 2, 0, 3, 0, 4, 0, 5]);
}

#[test]
fn a_full_queue_says_what_to_wait_for() {
    let mut node = Node::tree(
        vec![Box::new(ByAggregate)],
        Box::new(RoundRobin::default()),
        vec![queue(TailDrop, Fifo::with_capacity(4), Limit { octets: 150, ..Limit::NONE }), fifo(9)],
    );
    let mut ended = Vec::new();
    let mut offer = |node: &mut Node<u8>, item, meta| node.try_offer(item, meta, &at(0), &mut ended);
    assert_eq!(offer(&mut node, 1, classed(0, 1)), Ok(Offered::Queued));
    let full = offer(&mut node, 2, classed(0, 1)).unwrap_err();
    assert_eq!((full.item, full.wake), (2, Wake::Room));
    let never = offer(&mut node, 3, packet(0, 151, 1)).unwrap_err();
    assert_eq!(never.wake, Wake::Never);
    assert_eq!(offer(&mut node, 4, classed(1, 1)), Ok(Offered::Queued));
    // An outlet without a node is a class that is gone.
    assert_eq!(offer(&mut node, 5, classed(2, 1)), Ok(Offered::Ended));
    assert_eq!(ended.pop().unwrap().cause, Cause::ClassGone);
    assert_eq!(items(&mut node, 0), [1, 4]);
    let room = node.try_offer(full.item, full.meta, &at(0), &mut ended);
    assert_eq!(room, Ok(Offered::Queued));
}

/// Lets a packet go at the first multiple of 100 ns behind its arrival, and ends those of 13 ns.
struct Gate;

impl Dequeue for Gate {
    fn decide(&mut self, head: &Meta, _: &Backlog, context: &Context) -> Leave {
        let opens = Time((head.arrived.0 / 100 + 1) * 100);
        match head.amount.ns {
            13 => Leave::Drop(Cause::Aqm),
            7 => Leave::Mark,
            _ if opens > context.now => Leave::Wait(opens),
            _ => Leave::Give,
        }
    }

    fn about(&self) -> About {
        About { kind: "gate", settings: String::new() }
    }
}

fn gated() -> Node<u32> {
    Queue::new(Box::new(Unlimited), Box::new(Fifo::with_capacity(4)), Box::new(Gate), Limit::NONE).into()
}

#[test]
fn who_gets_no_packet_learns_when_one_may_leave() {
    let children = vec![gated(), gated(), fifo(9)];
    let mut node = Node::tree(vec![Box::new(ByAggregate)], Box::new(RoundRobin::default()), children);
    let mut ended = Vec::new();
    assert_eq!(node.take(&at(0), &mut ended), Pull::Wait(Wake::Packet));
    let came = |aggregate, arrived| Meta { arrived: Time(arrived), ..classed(aggregate, 1) };
    node.offer(1, came(0, 250), &at(250), &mut ended);
    node.offer(2, came(1, 120), &at(250), &mut ended);
    node.offer(3, came(0, 250), &at(250), &mut ended);
    assert_eq!(node.take(&at(150), &mut ended), Pull::Wait(Wake::At(Time(200))));
    // A child that waits does not stop the others.
    node.offer(4, came(2, 150), &at(150), &mut ended);
    assert_eq!(items(&mut node, 150), [4]);
    assert_eq!(items(&mut node, 200), [2]);
    assert_eq!(node.take(&at(299), &mut ended), Pull::Wait(Wake::At(Time(300))));
    assert_eq!(items(&mut node, 300), [1, 3]);
    assert_eq!(node.wake(Time(300)), Wake::Packet);
}

#[test]
fn a_dequeueing_part_ends_and_marks_packets_in_any_child() {
    let mut node = Node::tree(
        vec![Box::new(ByAggregate)],
        Box::new(EarliestDeadline::new(vec![10, 10])),
        vec![gated(), gated()],
    );
    let mut ended = Vec::new();
    // The first deadline is that of a packet that ends; behind it the other child is the earlier one.
    for (item, aggregate, arrived, ns) in [(1, 0, 0, 13), (2, 0, 40, 1), (3, 1, 20, 1), (4, 1, 60, 7)] {
        let meta = Meta { arrived: Time(arrived), ecn: 1, ..classed(aggregate, ns) };
        node.offer(item, meta, &at(0), &mut ended);
    }
    let mut given = Vec::new();
    while let Pull::Packet(item, meta) = node.take(&at(500), &mut ended) {
        given.push((item, meta.ecn));
    }
    assert_eq!(given, [(3, 1), (2, 1), (4, 3)]);
    assert_eq!(ended.iter().map(|end| (end.item, end.cause)).collect::<Vec<_>>(), [(1, Cause::Aqm)]);
}

/// Steers by a digit of the mark: uplink, tunnel, class, user.
struct ByDigit(u32);

impl Behaviour for ByDigit {
    fn run(&mut self, batch: &mut [qos::Entry], _: &Context) {
        for entry in batch {
            entry.verdict = qos::Verdict::To((entry.meta.mark / self.0 % 10) as u8);
            entry.meta.aggregate = AggregateId(99);
        }
    }

    fn about(&self) -> About {
        About { kind: "by-digit", settings: String::new() }
    }
}

#[test]
fn disciplines_nest_four_deep() {
    let user = || fifo(1000);
    let class = || {
        let drr = DeficitRoundRobin::new(Measure::Nanoseconds, vec![100]);
        Node::tree(vec![Box::new(ByDigit(1))], Box::new(drr), vec![user(), user()])
    };
    let tunnel = || {
        let strict = StrictPriority::new(Measure::Nanoseconds, vec![Guard { rate: 0, burst: 300 }]);
        Node::tree(vec![Box::new(ByDigit(10))], Box::new(strict), vec![class(), class()])
    };
    let uplink = || {
        let wfq = WeightedFairQueueing::new(Measure::Nanoseconds, vec![3, 1]);
        Node::tree(vec![Box::new(ByDigit(100))], Box::new(wfq), vec![tunnel(), tunnel()])
    };
    let mut root =
        Node::tree(vec![Box::new(ByDigit(1000))], Box::new(RoundRobin::default()), vec![uplink(), uplink()]);
    let mut ended = Vec::new();
    let mut marks = Vec::new();
    for bits in 0..16u32 {
        let mark = (0..4).map(|digit| (bits >> digit & 1) * 10u32.pow(digit)).sum();
        marks.push(mark);
        for _ in 0..200 {
            let meta = Meta { mark, ..classed(5, 100) };
            assert_eq!(root.offer(mark, meta, &at(0), &mut ended), Offered::Queued);
        }
    }
    let mut counts = [0; 16];
    for _ in 0..640 {
        let Pull::Packet(mark, meta) = root.take(&at(0), &mut ended) else { panic!("a packet waits") };
        assert_eq!((meta.mark, meta.aggregate), (mark, AggregateId(5)));
        counts[marks.iter().position(|known| *known == mark).unwrap()] += 1;
    }
    // Bits: 8 uplink, 4 tunnel, 2 class, 1 user. 320 an uplink, 240 and 80 a tunnel, of which 3 of the first class.
    for uplink in [0, 8] {
        let tunnel = |bit: usize| counts[uplink + bit..uplink + bit + 4].iter().sum::<i32>();
        assert!((239..=241).contains(&tunnel(0)) && (79..=81).contains(&tunnel(4)), "{counts:?}");
        for bit in [0, 4] {
            assert_eq!(counts[uplink + bit] + counts[uplink + bit + 1], 3, "{counts:?}");
            assert!((counts[uplink + bit + 2] - counts[uplink + bit + 3]).abs() <= 1);
        }
    }
    assert!(ended.is_empty());
}

/// Names a child that has nothing, or none at all.
struct Broken(Option<ChildId>);

impl Discipline for Broken {
    fn next(&mut self, _: &dyn Children, _: &Context) -> Option<ChildId> {
        self.0
    }

    fn served(&mut self, _: ChildId, _: Amount, _: &Context) {}

    fn put_back(&mut self, _: ChildId, _: Amount, _: &Context) {}

    fn about(&self) -> About {
        About { kind: "broken", settings: String::new() }
    }
}

#[test]
fn a_broken_discipline_does_not_stop_the_packets() {
    for named in [None, Some(ChildId(0)), Some(ChildId(77))] {
        let children = vec![fifo(9), fifo(9)];
        let mut node = Node::tree(vec![Box::new(ByAggregate)], Box::new(Broken(named)), children);
        node.offer(1, classed(1, 1), &at(0), &mut Vec::new());
        assert_eq!(items(&mut node, 0), [1]);
    }
}

#[test]
fn parts_are_exchanged_while_packets_wait() {
    let mut ended = Vec::new();
    let mut node = fifo(9);
    for n in 0..4u8 {
        let aggregate = AggregateId(n % 2);
        node.offer(n, Meta { aggregate, ..classed(0, 1) }, &at(0), &mut ended);
    }
    let Node::Queue(queue) = &mut node else { panic!("a queue") };
    let ranked = Ranked::with_capacity(Rank::Priority { order: vec![1, 0], otherwise: 0 }, 4);
    assert_eq!(queue.exchange_store(Box::new(ranked)).amount(), Amount::default());
    assert_eq!(queue.exchange_enqueue(Box::new(DropHead)).about().kind, "tail-drop");
    queue.exchange_dequeue(Box::new(Give));
    queue.set_limit(Limit { packets: 4, ..Limit::NONE });
    assert_eq!(queue.about().map(|about| about.kind), ["drop-head", "rank", "give"]);
    node.offer(4, classed(0, 1), &at(0), &mut ended);
    assert_eq!(ended.pop().map(|end| end.item), Some(1));
    let mut tree = Node::tree(vec![], Box::new(RoundRobin::default()), vec![node]);
    let Node::Tree(inner) = &mut tree else { panic!("a tree") };
    inner.children_mut().push(fifo(9));
    inner.exchange_discipline(Box::new(EarliestDeadline::new(vec![0])));
    inner.exchange_steer(vec![Box::new(ByAggregate)]);
    assert_eq!(inner.about().map(|about| about.kind).collect::<Vec<_>>(), ["by-aggregate", "edf"]);
    tree.offer(9, classed(1, 1), &at(0), &mut ended);
    let mut back = Vec::new();
    tree.drain(&mut back);
    assert_eq!(back.iter().map(|(item, _)| *item).collect::<Vec<_>>(), [3, 0, 2, 4, 9]);
    assert!(tree.is_empty());
}
