//! Each discipline against its definition, in simulated time.

mod random;

use std::collections::VecDeque;

use qos::discipline::{
    DeficitRoundRobin, EarliestDeadline, Guard, RoundRobin, StrictPriority, WeightedFairQueueing,
    WeightedRoundRobin,
};
use qos::{ChildId, Discipline, Measure, Meta};
use wire::Time;

use crate::queueing::{Heads, amount, at, packet};

/// Queues below a discipline, served by one processor: a packet takes its nanoseconds.
struct Server<D> {
    discipline: D,
    queues: Vec<VecDeque<Meta>>,
    now: u64,
}

impl<D: Discipline> Server<D> {
    fn new(discipline: D, queues: usize) -> Server<D> {
        Server { discipline, queues: vec![VecDeque::new(); queues], now: 0 }
    }

    fn put(&mut self, child: usize, meta: Meta) {
        self.queues[child].push_back(meta);
    }

    fn put_ns(&mut self, child: usize, count: usize, ns: u64) {
        (0..count).for_each(|_| self.put(child, packet(child as u32, ns, ns)));
    }

    fn heads(&self) -> Heads {
        Heads(self.queues.iter().map(|queue| queue.front().copied()).collect())
    }

    /// The child that gives next, asked twice: asking changes nothing.
    fn next(&mut self) -> Option<usize> {
        let heads = self.heads();
        let child = self.discipline.next(&heads, &at(self.now));
        assert_eq!(self.discipline.next(&heads, &at(self.now)), child, "asked again");
        child.map(|child| usize::from(child.0))
    }

    fn serve(&mut self) -> Option<(usize, Meta)> {
        let child = self.next()?;
        let meta = self.queues[child].pop_front().expect("a child with a packet");
        self.discipline.served(ChildId(child as u16), meta.amount, &at(self.now));
        self.now += meta.amount.ns;
        Some((child, meta))
    }

    fn order(&mut self, count: usize) -> Vec<usize> {
        (0..count).map_while(|_| self.serve()).map(|(child, _)| child).collect()
    }

    /// Serve one piece of the next packet, and put the rest back.
    fn serve_piece(&mut self) -> Option<usize> {
        let (child, mut meta) = self.serve()?;
        if meta.amount.packets > 1 {
            let whole = meta.amount;
            let piece = amount(1, whole.octets / whole.packets, whole.ns / whole.packets);
            meta.amount -= piece;
            self.now = self.now - whole.ns + piece.ns;
            self.discipline.put_back(ChildId(child as u16), meta.amount, &at(self.now));
            self.queues[child].push_front(meta);
        }
        Some(child)
    }
}

#[test]
fn round_robin_takes_one_packet_of_each_child_in_turn() {
    let mut server = Server::new(RoundRobin::default(), 4);
    [(0, 3), (1, 1), (3, 2)].into_iter().for_each(|(child, count)| server.put_ns(child, count, 10));
    assert_eq!(server.order(9), [0, 1, 3, 0, 3, 0]);
    assert_eq!(server.next(), None);
}

#[test]
fn what_is_put_back_keeps_the_turn_of_its_child() {
    let mut disciplines: Vec<Box<dyn Discipline>> = vec![
        Box::new(RoundRobin::default()),
        Box::new(WeightedRoundRobin::new(vec![1, 1])),
        Box::new(DeficitRoundRobin::new(Measure::Packets, vec![1, 1])),
        Box::new(WeightedFairQueueing::new(Measure::Packets, vec![1, 1])),
    ];
    for discipline in &mut disciplines {
        let heads = Heads(vec![Some(packet(0, 1, 1)), Some(packet(1, 1, 1))]);
        for turn in 0..6 {
            let child = discipline.next(&heads, &at(0)).unwrap();
            assert_eq!(child.0, turn % 2, "{}", discipline.about().kind);
            discipline.served(child, amount(1, 1, 1), &at(0));
            discipline.put_back(child, amount(1, 1, 1), &at(0));
            assert_eq!(discipline.next(&heads, &at(0)), Some(child), "{}", discipline.about().kind);
            discipline.served(child, amount(1, 1, 1), &at(0));
        }
    }
}

#[test]
fn weighted_round_robin_takes_as_many_packets_as_the_weights_say() {
    let mut server = Server::new(WeightedRoundRobin::new(vec![3, 1, 2]), 3);
    (0..3).for_each(|child| server.put_ns(child, 9, 10));
    assert_eq!(server.order(12), [0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 2, 2]);
}

#[test]
fn a_turn_that_is_not_used_up_is_lost_and_one_that_is_overdrawn_is_owed() {
    let mut server = Server::new(WeightedRoundRobin::new(vec![4, 1]), 2);
    server.put_ns(0, 1, 10);
    server.put_ns(1, 20, 10);
    assert_eq!(server.order(3), [0, 1, 1]);
    server.put_ns(0, 8, 10);
    assert_eq!(server.order(5), [0, 0, 0, 0, 1]);
    // Twelve pieces at once are three turns of four.
    server.queues[0].clear();
    server.put(0, Meta { amount: amount(12, 12, 12), ..packet(0, 0, 0) });
    server.put_ns(0, 1, 10);
    assert_eq!(server.order(5), [0, 1, 1, 1, 0]);
}

#[test]
fn drr_shares_nanoseconds_between_a_slow_and_a_fast_cipher() {
    let mut server = Server::new(DeficitRoundRobin::new(Measure::Nanoseconds, vec![10_000]), 2);
    server.put_ns(0, 100, 82_000);
    server.put_ns(1, 6000, 1_500);
    let mut spent = [0; 2];
    while spent[0] + spent[1] < 8_000_000 {
        let (child, meta) = server.serve().unwrap();
        spent[child] += meta.amount.ns as i64;
        assert!((spent[0] - spent[1]).abs() <= 82_000 + 2 * 10_000, "{spent:?}");
    }
}

#[test]
fn drr_takes_away_what_a_child_left_of_its_turn() {
    let mut server = Server::new(DeficitRoundRobin::new(Measure::Octets, vec![1000, 100]), 2);
    server.put_ns(0, 1, 100);
    server.put_ns(1, 50, 100);
    assert_eq!(server.order(3), [0, 1, 1]);
    server.put_ns(0, 30, 100);
    // Ten packets for its quantum, and not nine more for what it had left before.
    assert_eq!(server.order(11), [vec![0; 10], vec![1]].concat());
}

#[test]
fn drr_gives_a_super_packet_piece_by_piece() {
    let mut server = Server::new(DeficitRoundRobin::new(Measure::Nanoseconds, vec![100]), 2);
    server.put(0, Meta { amount: amount(44, 4400, 4400), ..packet(0, 0, 0) });
    server.put_ns(1, 40, 100);
    let order: Vec<usize> = (0..20).map(|_| server.serve_piece().unwrap()).collect();
    assert_eq!(order, [0, 1].repeat(10));
    // Given whole, it is owed for as many rounds as it has pieces.
    let mut server = Server::new(DeficitRoundRobin::new(Measure::Nanoseconds, vec![100]), 2);
    server.put(0, Meta { amount: amount(44, 4400, 4400), ..packet(0, 0, 0) });
    server.put_ns(0, 1, 100);
    server.put_ns(1, 60, 100);
    assert_eq!(server.serve().unwrap().0, 0);
    assert_eq!(server.discipline.deficit(ChildId(0)), -4300);
    assert_eq!(server.order(60).iter().position(|&child| child == 0), Some(44));
}

#[test]
fn drr_with_a_tiny_quantum_does_not_count_its_rounds_one_by_one() {
    let mut server = Server::new(DeficitRoundRobin::new(Measure::Nanoseconds, vec![1, 3]), 2);
    server.put_ns(0, 10, 1_000_000_000_000);
    server.put_ns(1, 30, 1_000_000_000_000);
    let order = server.order(8);
    assert_eq!(order.iter().filter(|&&child| child == 1).count(), 6);
}

/// Two children that always wait and one that comes late, in weighted fair queueing by nanoseconds.
#[test]
fn wfq_gives_a_child_that_comes_late_its_share_from_then_on_and_no_more() {
    let mut server = Server::new(WeightedFairQueueing::new(Measure::Nanoseconds, vec![2, 1, 1]), 3);
    server.put_ns(0, 400, 100);
    server.put_ns(1, 400, 100);
    assert_eq!(server.order(300).iter().filter(|&&child| child == 0).count(), 200);
    server.put_ns(2, 400, 100);
    let order = server.order(100);
    let count = |wanted: usize| order.iter().filter(|&&child| child == wanted).count();
    assert!((49..=51).contains(&count(0)) && (24..=26).contains(&count(1)), "{order:?}");
    assert!((24..=26).contains(&count(2)));
}

#[test]
fn wfq_gives_a_super_packet_piece_by_piece() {
    let mut server = Server::new(WeightedFairQueueing::new(Measure::Nanoseconds, vec![1, 1]), 2);
    server.put(0, Meta { amount: amount(44, 4400, 4400), ..packet(0, 0, 0) });
    server.put_ns(1, 40, 100);
    let order: Vec<usize> = (0..20).map(|_| server.serve_piece().unwrap()).collect();
    assert_eq!(order, [0, 1].repeat(10));
}

#[test]
fn strict_priority_takes_the_first_child_and_all_of_it_when_nobody_waits() {
    let guard = Guard { rate: 1_000_000_000 / 2, burst: 1000 };
    let mut server = Server::new(StrictPriority::new(Measure::Nanoseconds, vec![guard]), 3);
    server.put_ns(0, 50, 100);
    assert_eq!(server.order(50), [0; 50]);
    server.put_ns(1, 2, 100);
    server.put_ns(2, 2, 100);
    server.put_ns(0, 2, 100);
    assert_eq!(server.order(6), [0, 0, 1, 1, 2, 2]);
}

#[test]
fn the_last_of_several_classes_gets_what_the_guards_leave() {
    let guards = vec![
        Guard { rate: 500_000_000, burst: 1_000 },
        Guard { rate: 300_000_000, burst: 1_000 },
        Guard { rate: 0, burst: 0 },
    ];
    let mut server = Server::new(StrictPriority::new(Measure::Nanoseconds, guards), 3);
    (0..3).for_each(|child| server.put_ns(child, 20_000, 100));
    let mut counts = [0; 3];
    server.order(20_000).into_iter().for_each(|child| counts[child] += 1);
    for (count, expected) in counts.into_iter().zip([10_000, 6_000, 4_000]) {
        assert!(i32::abs(count - expected) <= 25, "{counts:?}");
    }
}

#[test]
fn a_guard_without_a_bound_is_plain_strict_priority() {
    let mut server = Server::new(StrictPriority::new(Measure::Nanoseconds, vec![Guard::NONE]), 2);
    (0..2).for_each(|child| server.put_ns(child, 1000, 100));
    assert_eq!(server.order(1000), [0; 1000]);
}

#[test]
fn tokens_do_not_gather_beyond_the_burst_while_a_child_has_nothing() {
    let guard = Guard { rate: 100_000_000, burst: 300 };
    let mut server = Server::new(StrictPriority::new(Measure::Nanoseconds, vec![guard]), 2);
    server.put_ns(1, 1000, 100);
    assert_eq!(server.order(900), [1; 900]);
    server.put_ns(0, 100, 100);
    assert_eq!(server.order(6), [0, 0, 0, 0, 1, 1]);
}

#[test]
fn tokens_come_back_with_what_is_put_back() {
    let guard = Guard { rate: 0, burst: 300 };
    let mut server = Server::new(StrictPriority::new(Measure::Nanoseconds, vec![guard]), 2);
    server.put(0, Meta { amount: amount(10, 1000, 1000), ..packet(0, 0, 0) });
    server.put_ns(1, 10, 100);
    let order: Vec<usize> = (0..6).map(|_| server.serve_piece().unwrap()).collect();
    assert_eq!(order, [0, 0, 0, 1, 1, 1]);
}

#[test]
fn edf_takes_the_earliest_deadline_and_the_first_child_of_equal_ones() {
    let mut server = Server::new(EarliestDeadline::new(vec![100, 50, 100]), 3);
    let came = |arrived| Meta { arrived: Time(arrived), ..packet(0, 1, 1) };
    for (child, arrived) in [(2, 0), (0, 0), (1, 60), (0, 5), (1, 45)] {
        server.put(child, came(arrived));
    }
    assert_eq!(server.order(5), [0, 2, 0, 1, 1]);
}

#[test]
fn edf_meets_each_deadline_of_a_load_that_can_be_met() {
    // Utilisation 0.96, deadlines equal to the periods; a packet in service blocks others for 1250 ns at most.
    let tasks = [(1_000, 200), (1_500, 450), (4_000, 840), (5_000, 1_250)];
    let slack = 1_250;
    let within = tasks.iter().map(|(period, _)| period + slack).collect();
    let mut server = Server::new(EarliestDeadline::new(within), 4);
    let mut next = [0; 4];
    let mut served = 0;
    while server.now < 5_000_000 {
        for (child, (period, ns)) in tasks.into_iter().enumerate() {
            while next[child] <= server.now {
                server.put(child, Meta { arrived: Time(next[child]), ..packet(0, 1, ns) });
                next[child] += period;
            }
        }
        match server.serve() {
            Some((child, meta)) => {
                let late = server.now.saturating_sub(meta.arrived.0 + tasks[child].0 + slack);
                assert_eq!(late, 0, "child {child} at {}", server.now);
                served += 1;
            }
            None => server.now = *next.iter().min().unwrap(),
        }
    }
    assert!(served > 9_000);
}
