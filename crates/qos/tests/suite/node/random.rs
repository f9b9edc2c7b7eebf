//! Random trees of random parts lose nothing.

use std::collections::BTreeSet;

use proptest::prelude::*;
use qos::discipline::{
    DeficitRoundRobin, EarliestDeadline, Guard, RoundRobin, StrictPriority, WeightedFairQueueing,
    WeightedRoundRobin,
};
use qos::enqueue::{DropHead, DropLongest, TailDrop, Unlimited};
use qos::node::{Ended, Node, Pull, Queue, Wake};
use qos::store::{Fifo, Rank, Ranked};
use qos::{About, Amount, Backlog, Cause, Context, Dequeue, Discipline, Leave, Limit, Measure, Meta, Store};
use wire::Time;

use super::{ByDigit, flows};
use crate::queueing::{Give, amount, packet};

/// A dequeueing part that gives, marks, ends and lets wait by chance.
struct Moody;

impl Dequeue for Moody {
    fn decide(&mut self, head: &Meta, _: &Backlog, context: &Context) -> Leave {
        match (context.random ^ u64::from(head.flow)) % 7 {
            0 => Leave::Drop(Cause::Aqm),
            1 => Leave::Wait(Time(context.now.0 + 20)),
            2 => Leave::Mark,
            _ => Leave::Give,
        }
    }

    fn about(&self) -> About {
        About { kind: "moody", settings: String::new() }
    }
}

#[derive(Clone, Debug)]
enum Shape {
    Queue { enqueue: u8, store: u8, moody: bool, packets: u64 },
    Tree { discipline: u8, children: Vec<Shape> },
}

fn shape() -> impl Strategy<Value = Shape> {
    let leaf = (0..4u8, 0..3u8, any::<bool>(), 1..20u64)
        .prop_map(|(enqueue, store, moody, packets)| Shape::Queue { enqueue, store, moody, packets });
    leaf.prop_recursive(4, 24, 4, |inner| {
        (0..6u8, prop::collection::vec(inner, 1..4))
            .prop_map(|(discipline, children)| Shape::Tree { discipline, children })
    })
}

fn build(shape: &Shape, depth: u32) -> Node<usize> {
    match shape {
        Shape::Queue { enqueue, store, moody, packets } => {
            let enqueue: Box<dyn qos::Enqueue> = match enqueue {
                0 => Box::new(TailDrop),
                1 => Box::new(DropHead),
                2 => Box::new(DropLongest),
                _ => Box::new(Unlimited),
            };
            let store: Box<dyn Store<usize>> = match store {
                0 => Box::new(Fifo::with_capacity(4)),
                1 => Box::new(flows()),
                _ => Box::new(Ranked::with_capacity(Rank::Deadline { within: vec![5], otherwise: 9 }, 4)),
            };
            let dequeue: Box<dyn Dequeue> = if *moody { Box::new(Moody) } else { Box::new(Give) };
            Queue::new(enqueue, store, dequeue, Limit { packets: *packets, ..Limit::NONE }).into()
        }
        Shape::Tree { discipline, children } => {
            let discipline: Box<dyn Discipline> = match discipline {
                0 => Box::new(RoundRobin::default()),
                1 => Box::new(WeightedRoundRobin::new(vec![3, 1])),
                2 => Box::new(DeficitRoundRobin::new(Measure::Octets, vec![500])),
                3 => Box::new(WeightedFairQueueing::new(Measure::Nanoseconds, vec![1, 2])),
                4 => {
                    Box::new(StrictPriority::new(Measure::Packets, vec![Guard { rate: 1_000_000, burst: 3 }]))
                }
                _ => Box::new(EarliestDeadline::new(vec![30, 10])),
            };
            let children = children.iter().map(|child| build(child, depth + 1)).collect();
            Node::tree(vec![Box::new(ByDigit(10u32.pow(depth)))], discipline, children)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever came in is given, waits, or is in the list of what ended: each packet once, and each amount whole.
    #[test]
    fn nothing_is_lost_in_random_trees(
        shape in shape(),
        steps in prop::collection::vec((0..6u8, any::<u32>(), 1..3000u64, 1..5u64), 1..250),
    ) {
        let mut node = build(&shape, 0);
        let mut ended: Vec<Ended<usize>> = Vec::new();
        let mut came = Amount::default();
        let mut given = Vec::new();
        let (mut came_items, mut left) = (0, Amount::default());
        for (now, (step, mark, octets, packets)) in steps.into_iter().enumerate() {
            let context = Context { now: Time(now as u64), random: u64::from(mark) };
            match step {
                0..3 => {
                    let meta = Meta {
                        mark: mark % 10 % 3 + mark / 10 % 10 % 3 * 10 + mark / 100 % 10 % 3 * 100,
                        arrived: context.now,
                        ecn: 2,
                        amount: amount(packets, octets, octets * 3),
                        ..packet(mark % 5, 0, 0)
                    };
                    came += meta.amount;
                    came_items += 1;
                    if step == 2 {
                        if let Err(full) = node.try_offer(now, meta, &context, &mut ended) {
                            given.push(full.item);
                            left += full.meta.amount;
                        }
                    } else {
                        node.offer(now, meta, &context, &mut ended);
                    }
                }
                3..5 => match node.take(&context, &mut ended) {
                    Pull::Packet(item, meta) => {
                        given.push(item);
                        left += meta.amount;
                    }
                    Pull::Wait(Wake::Packet) => prop_assert!(node.is_empty()),
                    Pull::Wait(Wake::At(time)) => prop_assert!(time > context.now && !node.is_empty()),
                    Pull::Wait(other) => prop_assert!(false, "{other:?}"),
                },
                _ => if let Pull::Packet(item, mut meta) = node.take(&context, &mut ended) {
                    // Half of a super-packet is used, or nothing of an ordinary one.
                    let used = amount(meta.amount.packets / 2, meta.amount.octets / 2, meta.amount.ns / 2);
                    left += used;
                    meta.amount -= used;
                    node.put_back(item, meta, &context);
                },
            }
        }
        let mut back = Vec::new();
        let mut out = left;
        out += node.amount();
        node.drain(&mut back);
        ended.iter().for_each(|end| out += end.meta.amount);
        prop_assert_eq!(out, came);
        let all: Vec<usize> = given
            .into_iter()
            .chain(ended.into_iter().map(|end| end.item))
            .chain(back.into_iter().map(|(item, _)| item))
            .collect();
        prop_assert_eq!(all.len(), came_items);
        prop_assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), came_items);
    }
}
