//! Random queues below each discipline, against its definition.

use std::collections::VecDeque;

use proptest::prelude::*;
use qos::discipline::{
    DeficitRoundRobin, EarliestDeadline, Guard, RoundRobin, StrictPriority, WeightedFairQueueing,
    WeightedRoundRobin,
};
use qos::{Amount, ChildId, Discipline, Measure, Meta};

use super::Server;
use crate::queueing::{amount, packet};

/// Deficit round robin as the paper of 1996 writes it, over a fixed ring: the child and the deficit behind each packet.
fn drr_by_definition(mut queues: Vec<VecDeque<u64>>, quanta: &[i64]) -> Vec<(usize, i64)> {
    let mut deficits = vec![0i64; queues.len()];
    let mut order = Vec::new();
    while queues.iter().any(|queue| !queue.is_empty()) {
        for child in 0..queues.len() {
            if queues[child].is_empty() {
                continue;
            }
            deficits[child] += quanta[child];
            while let Some(&size) = queues[child].front() {
                if size as i64 > deficits[child] {
                    break;
                }
                deficits[child] -= size as i64;
                queues[child].pop_front();
                order.push((child, deficits[child]));
            }
            if queues[child].is_empty() {
                deficits[child] = 0;
            }
        }
    }
    order
}

proptest! {
    #[test]
    fn drr_gives_what_its_definition_gives(
        queues in prop::collection::vec(prop::collection::vec(1..2000u64, 0..40), 1..6),
        quanta in prop::collection::vec(1..3000u64, 6),
    ) {
        let mut server = Server::new(DeficitRoundRobin::new(Measure::Octets, quanta.clone()), queues.len());
        for (child, sizes) in queues.iter().enumerate() {
            sizes.iter().for_each(|&size| server.put(child, packet(0, size, 1)));
        }
        let quanta: Vec<i64> = quanta.into_iter().map(|quantum| quantum as i64).collect();
        let queues = queues.into_iter().map(VecDeque::from).collect();
        for (child, deficit) in drr_by_definition(queues, &quanta) {
            prop_assert_eq!(server.serve().map(|(child, _)| child), Some(child));
            prop_assert_eq!(server.discipline.deficit(ChildId(child as u16)), deficit);
        }
        prop_assert_eq!(server.next(), None);
    }

    /// While all wait, no child is ahead of its fluid share by more than one of its packets, nor behind it by more than
    /// the largest packet.
    #[test]
    fn wfq_is_within_one_packet_of_the_fluid_share(
        queues in prop::collection::vec((1..20u32, 50..1500u64, prop::collection::vec(1..=10u64, 30)), 2..8),
    ) {
        let weights: Vec<u32> = queues.iter().map(|(weight, ..)| *weight).collect();
        let mut server = Server::new(WeightedFairQueueing::new(Measure::Octets, weights.clone()), queues.len());
        for (child, (_, size, parts)) in queues.iter().enumerate() {
            parts.iter().for_each(|part| server.put(child, packet(0, size * part / 10 + 1, 1)));
        }
        let sum: u32 = weights.iter().sum();
        let largest = queues.iter().map(|(_, size, _)| size + 1).max().unwrap() as f64;
        let mut given = vec![0u64; queues.len()];
        while server.queues.iter().all(|queue| !queue.is_empty()) {
            let (child, meta) = server.serve().unwrap();
            given[child] += meta.amount.octets;
            let total: u64 = given.iter().sum();
            for (child, (weight, size, _)) in queues.iter().enumerate() {
                let ahead = given[child] as f64 - total as f64 * f64::from(*weight) / f64::from(sum);
                prop_assert!(ahead <= (size + 1) as f64 + 0.1, "child {child} is {ahead} ahead");
                prop_assert!(ahead >= -largest - 0.1, "child {child} is {ahead} behind");
            }
        }
    }

    /// In any time in which others wait, a guarded child takes no more than its burst, its rate times the time, and the
    /// packet that used up the last token.
    #[test]
    fn a_guard_bounds_what_a_child_takes_while_others_wait(
        rate in 0..900_000_000u64,
        burst in 0..5_000u64,
        sizes in prop::collection::vec(1..1_000u64, 200),
    ) {
        let guards = vec![Guard { rate, burst }, Guard::NONE];
        let mut server = Server::new(StrictPriority::new(Measure::Nanoseconds, guards), 2);
        for size in sizes {
            server.put_ns(0, 1, size);
            server.put_ns(1, 1, size);
        }
        let mut taken = vec![(0, 0)];
        let mut sum = 0;
        while server.queues.iter().all(|queue| !queue.is_empty()) {
            let start = server.now;
            let (child, meta) = server.serve().unwrap();
            sum += if child == 0 { meta.amount.ns } else { 0 };
            taken.push((start, sum));
        }
        for (first, &(from, before)) in taken.iter().enumerate() {
            for &(to, after) in &taken[first..] {
                let most = burst.max(1) as f64 + rate as f64 * (to - from) as f64 / 1e9 + 1_000.0;
                prop_assert!((after - before) as f64 <= most, "{} in {}", after - before, to - from);
            }
        }
    }

    /// Whatever is there to be taken is taken: no discipline is idle while a child has a packet.
    #[test]
    fn no_discipline_is_idle_while_a_packet_waits(
        arrivals in prop::collection::vec((0..4usize, 1..3000u64, 1..4u64), 1..60),
        which in 0..6usize,
    ) {
        let discipline: Box<dyn Discipline> = match which {
            0 => Box::new(RoundRobin::default()),
            1 => Box::new(WeightedRoundRobin::new(vec![2, 1])),
            2 => Box::new(DeficitRoundRobin::new(Measure::Octets, vec![700, 40])),
            3 => Box::new(WeightedFairQueueing::new(Measure::Octets, vec![5, 1])),
            4 => Box::new(StrictPriority::new(Measure::Octets, vec![Guard { rate: 1, burst: 1 }])),
            _ => Box::new(EarliestDeadline::new(vec![10, 1])),
        };
        let mut server = Server::new(Boxed(discipline), 4);
        let mut waiting = 0;
        for (child, octets, packets) in arrivals {
            server.put(child, Meta { amount: amount(packets, octets, octets), ..Meta::default() });
            waiting += 1;
            if packets == 1 {
                prop_assert!(server.serve().is_some());
                waiting -= 1;
            }
        }
        prop_assert_eq!(server.order(1000).len(), waiting);
    }
}

struct Boxed(Box<dyn Discipline>);

impl Discipline for Boxed {
    fn next(&mut self, children: &dyn qos::Children, context: &qos::Context) -> Option<ChildId> {
        self.0.next(children, context)
    }

    fn served(&mut self, child: ChildId, spent: Amount, context: &qos::Context) {
        self.0.served(child, spent, context);
    }

    fn put_back(&mut self, child: ChildId, unspent: Amount, context: &qos::Context) {
        self.0.put_back(child, unspent, context);
    }

    fn about(&self) -> qos::About {
        self.0.about()
    }
}
