//! Service curves: the formula of each discipline against a simulated server, and by hand.

use std::collections::VecDeque;

use proptest::prelude::*;
use qos::bound::arrival::Arrival;
use qos::bound::service::{Service, deadlines_hold};

/// A random number from 0 to below `most`, of a seed that moves on.
fn random(seed: &mut u64, most: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % most.max(1)
}

/// A discipline of the simulated server, whose child 0 is measured.
#[derive(Clone, Debug)]
enum Order {
    /// Children below the number are served before the last one; the measured one has this place among them.
    Strict,
    Deficit(Vec<u64>),
    Packets(Vec<u64>),
    /// The tags of self-clocked fair queueing.
    Fair(Vec<u64>),
    Deadline(Vec<u64>),
    /// Strict priority of this child over the other, which may take so much of each period.
    Guard(usize, u64, u64),
}

struct Server {
    order: Order,
    queues: Vec<VecDeque<(u64, u64)>>,
    deficits: Vec<i64>,
    left: u64,
    turn: usize,
    tags: Vec<VecDeque<f64>>,
    last: Vec<f64>,
    clock: f64,
    now: u64,
    spent: (u64, u64),
}

impl Server {
    fn new(order: Order, count: usize) -> Server {
        Server {
            order,
            queues: vec![VecDeque::new(); count],
            deficits: vec![0; count],
            left: 0,
            turn: count - 1,
            tags: vec![VecDeque::new(); count],
            last: vec![0.0; count],
            clock: 0.0,
            now: 0,
            spent: (0, 0),
        }
    }

    fn arrive(&mut self, child: usize, at: u64, cost: u64) {
        self.queues[child].push_back((at, cost));
        if let Order::Fair(weights) = &self.order {
            let tag = self.last[child].max(self.clock) + cost as f64 / weights[child] as f64;
            self.last[child] = tag;
            self.tags[child].push_back(tag);
        }
    }

    /// The child that is served next.
    fn next(&mut self) -> Option<usize> {
        let ready: Vec<usize> = (0..self.queues.len()).filter(|i| !self.queues[*i].is_empty()).collect();
        if ready.is_empty() {
            return None;
        }
        match self.order.clone() {
            Order::Strict => ready.last().copied(),
            Order::Guard(upper, most, period) => {
                if self.spent.0 != self.now / period {
                    self.spent = (self.now / period, 0);
                }
                let first = if self.spent.1 < most { upper } else { 1 - upper };
                let child = if ready.contains(&first) { first } else { 1 - first };
                if child == upper {
                    self.spent.1 += self.queues[child][0].1;
                }
                Some(child)
            }
            Order::Deadline(deadlines) => {
                ready.into_iter().min_by_key(|i| self.queues[*i][0].0 + deadlines[*i])
            }
            Order::Fair(_) => {
                let first = ready.into_iter().min_by(|a, b| self.tags[*a][0].total_cmp(&self.tags[*b][0]))?;
                self.clock = self.tags[first].pop_front()?;
                Some(first)
            }
            Order::Packets(weights) => {
                while self.left == 0 || self.queues[self.turn].is_empty() {
                    self.turn = (self.turn + 1) % self.queues.len();
                    self.left = weights[self.turn];
                }
                self.left -= 1;
                Some(self.turn)
            }
            Order::Deficit(quanta) => loop {
                let turn = self.turn;
                match self.queues[turn].front() {
                    Some((_, cost)) if self.deficits[turn] >= *cost as i64 => {
                        self.deficits[turn] -= *cost as i64;
                        return Some(turn);
                    }
                    Some(_) => {}
                    None => self.deficits[turn] = 0,
                }
                self.turn = (turn + 1) % self.queues.len();
                if !self.queues[self.turn].is_empty() {
                    self.deficits[self.turn] += quanta[self.turn] as i64;
                }
            },
        }
    }
}

const LEAST: u64 = 1_000;
const PACKET: u64 = 10_000;

/// A token bucket that sends as much as it may, in bursts.
struct Source {
    burst: u64,
    rate: f64,
    tokens: f64,
    at: u64,
    waits: u64,
}

impl Source {
    fn new(burst: u64, rate: f64) -> Source {
        Source { burst, rate, tokens: burst as f64, at: 0, waits: 0 }
    }

    /// The packets that come up to `now`.
    fn until(&mut self, now: u64, seed: &mut u64) -> Vec<(u64, u64)> {
        let mut packets = Vec::new();
        while self.at <= now {
            let cost = LEAST + random(seed, PACKET - LEAST + 1);
            if self.at >= self.waits && self.tokens >= cost as f64 {
                self.tokens -= cost as f64;
                packets.push((self.at, cost));
                continue;
            }
            if self.at >= self.waits {
                // Empty: it gathers for a while, often until the bucket is full.
                let full = (self.burst as f64 / self.rate.max(1e-6)) as u64;
                self.waits = self.at + LEAST + random(seed, full.max(1) * 2);
            }
            self.at += 500;
            self.tokens = (self.tokens + self.rate * 500.0).min(self.burst as f64);
        }
        packets
    }
}

/// The worst delay of child 0, which keeps a token bucket, beside greedy siblings or further token buckets.
fn worst(order: Order, sources: &[Option<(u64, f64)>], mut seed: u64) -> u64 {
    let mut server = Server::new(order, sources.len());
    let mut buckets: Vec<Option<Source>> =
        sources.iter().map(|source| source.map(|(burst, rate)| Source::new(burst, rate))).collect();
    let mut now = 0;
    let mut worst = 0;
    for _ in 0..4_000 {
        for (child, bucket) in buckets.iter_mut().enumerate() {
            match bucket {
                Some(source) => {
                    for (at, cost) in source.until(now, &mut seed) {
                        server.arrive(child, at, cost);
                    }
                }
                None => {
                    while server.queues[child].len() < 3 {
                        // Mostly the costliest packets, which are the worst for others.
                        let cost = if random(&mut seed, 4) == 0 { LEAST } else { PACKET };
                        server.arrive(child, now, cost);
                    }
                }
            }
        }
        server.now = now;
        let Some(child) = server.next() else {
            // Packets come at multiples of 500, and the server is idle until the next one.
            now = (now / 500 + 1) * 500;
            continue;
        };
        let (at, cost) = server.queues[child].pop_front().unwrap();
        now += cost;
        if child == 0 {
            worst = worst.max(now - at);
        }
    }
    worst
}

fn delay(service: Service, burst: u64) -> f64 {
    burst as f64 / service.rate + service.latency
}

const LARGEST: f64 = PACKET as f64;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Deficit round robin beside greedy siblings.
    #[test]
    fn deficit_round_robin_is_within_its_bound(
        quanta in prop::collection::vec(2_000..40_000_u64, 2..5), packets in 1..6_u64, share in 1..10_u64, seed: u64,
    ) {
        let own = quanta[0] as f64;
        let others: Vec<f64> = quanta[1..].iter().map(|quantum| *quantum as f64).collect();
        let service = Service::WHOLE.deficit(own, &others, LARGEST);
        let (burst, rate) = (packets * PACKET, service.rate * share as f64 / 10.0);
        let mut sources = vec![None; quanta.len()];
        sources[0] = Some((burst, rate));
        let seen = worst(Order::Deficit(quanta), &sources, seed);
        prop_assert!(seen as f64 <= delay(service, burst), "{} beyond {}", seen, delay(service, burst));
    }

    /// Round robin by packets, with and without weights.
    #[test]
    fn round_robin_is_within_its_bound(
        weights in prop::collection::vec(1..6_u64, 2..5), packets in 1..6_u64, share in 1..10_u64, seed: u64,
    ) {
        let others: Vec<f64> = weights[1..].iter().map(|weight| *weight as f64).collect();
        let service = Service::WHOLE.by_packets(weights[0] as f64, &others, LARGEST, LEAST as f64);
        let (burst, rate) = (packets * PACKET, service.rate * share as f64 / 10.0);
        let mut sources = vec![None; weights.len()];
        sources[0] = Some((burst, rate));
        let seen = worst(Order::Packets(weights), &sources, seed);
        prop_assert!(seen as f64 <= delay(service, burst), "{} beyond {}", seen, delay(service, burst));
    }

    /// Weighted fair queueing, by self-clocked tags.
    #[test]
    fn fair_queueing_is_within_its_bound(
        weights in prop::collection::vec(1..10_u64, 2..6), packets in 1..6_u64, share in 1..10_u64, seed: u64,
    ) {
        let sum: u64 = weights.iter().sum();
        let service = Service::WHOLE.fair(weights[0] as f64 / sum as f64, (weights.len() - 1) as f64, LARGEST);
        let (burst, rate) = (packets * PACKET, service.rate * share as f64 / 10.0);
        let mut sources = vec![None; weights.len()];
        sources[0] = Some((burst, rate));
        let seen = worst(Order::Fair(weights), &sources, seed);
        prop_assert!(seen as f64 <= delay(service, burst), "{} beyond {}", seen, delay(service, burst));
    }

    /// Strict priority: two policed classes above the measured one, or below it a greedy one.
    #[test]
    fn strict_priority_is_within_its_bound(
        above in prop::collection::vec((1..6_u64, 1..4_u64), 0..3), greedy: bool, packets in 1..6_u64, seed: u64,
    ) {
        let mut sum = Arrival::NONE;
        let mut sources = vec![Some((packets * PACKET, 0.05))];
        // In the simulation the child with the greatest number is served first.
        let below = if greedy { LARGEST } else { 0.0 };
        for (bursts, tenths) in &above {
            let (burst, rate) = (bursts * PACKET, *tenths as f64 / 10.0);
            sum = sum.plus(Arrival { burst: burst as f64, rate });
            sources.push(Some((burst, rate)));
        }
        let service = Service::WHOLE.behind(sum, below);
        let seen = if greedy {
            // The measured one must be above the greedy one: the greedy one takes place 0, so the order is turned.
            let mut turned = sources.clone();
            turned.insert(0, None);
            worst_of(1, turned, seed)
        } else {
            worst(Order::Strict, &sources, seed)
        };
        let most = delay(service, packets * PACKET);
        prop_assert!(seen as f64 <= most, "{} beyond {}", seen, most);
    }

    /// The guard of strict priority: a greedy class above leaves the measured one its share.
    #[test]
    fn below_a_guard_is_within_its_bound(
        percent in 10..90_u64, periods in 5..50_u64, packets in 1..6_u64, share in 1..10_u64, seed: u64,
    ) {
        let period = periods * PACKET;
        let most = period * percent / 100;
        let guard = percent as f64 / 100.0;
        let service = Service::WHOLE.below_guard(guard, period as f64, LARGEST);
        let (burst, rate) = (packets * PACKET, service.rate * share as f64 / 10.0);
        prop_assume!(service.rate > 0.0);
        let seen = worst(Order::Guard(1, most, period), &[Some((burst, rate)), None], seed);
        prop_assert!(seen as f64 <= delay(service, burst), "{} beyond {}", seen, delay(service, burst));
    }

    /// The guard of strict priority: a class above that reaches it has the share of the guard.
    #[test]
    fn within_a_guard_is_within_its_bound(
        percent in 10..90_u64, periods in 5..50_u64, packets in 1..20_u64, share in 1..10_u64, seed: u64,
    ) {
        let period = periods * PACKET;
        let most = period * percent / 100;
        let guard = percent as f64 / 100.0;
        let above = Service::WHOLE.behind(Arrival::NONE, LARGEST);
        let service = above.within_guard(Service::WHOLE, guard, period as f64, LARGEST);
        let (burst, rate) = (packets * PACKET, service.rate * share as f64 / 10.0);
        let seen = worst(Order::Guard(0, most, period), &[Some((burst, rate)), None], seed);
        prop_assert!(seen as f64 <= delay(service, burst), "{} beyond {}", seen, delay(service, burst));
    }

    /// The earliest deadline first: what is said to hold holds.
    #[test]
    fn deadlines_that_are_said_to_hold_hold(
        rows in prop::collection::vec((1..4_u64, 1..4_u64, 1..40_u64), 2..4), seed: u64,
    ) {
        let children: Vec<(f64, Arrival)> = rows
            .iter()
            .map(|(bursts, tenths, deadline)| {
                let arrival = Arrival { burst: (bursts * PACKET) as f64, rate: *tenths as f64 / 10.0 };
                ((deadline * PACKET) as f64, arrival)
            })
            .collect();
        prop_assume!(deadlines_hold(Service::WHOLE, &children, LARGEST));
        let sources: Vec<_> = rows.iter().map(|(b, t, _)| Some((b * PACKET, *t as f64 / 10.0))).collect();
        let deadlines: Vec<u64> = rows.iter().map(|(_, _, deadline)| deadline * PACKET).collect();
        let own = deadlines[0];
        let seen = worst(Order::Deadline(deadlines), &sources, seed);
        prop_assert!(seen <= own, "{} beyond {}", seen, own);
    }
}

/// The worst delay of one child under strict priority, the greatest number first.
fn worst_of(child: usize, mut sources: Vec<Option<(u64, f64)>>, seed: u64) -> u64 {
    // Child 0 is the one that is measured, so the server is asked with the places exchanged by a wrapper of tags:
    // a deadline far away makes the greedy child the last one, and one of zero its measured sibling the next.
    sources.swap(0, child);
    let count = sources.len() as u64;
    let far = 1 << 50;
    let deadlines =
        (0..count).map(|i| if i as usize == child { far } else { (count - i) << 40 }).collect::<Vec<_>>();
    worst(Order::Deadline(deadlines), &sources, seed)
}

#[test]
fn the_formulas_by_hand() {
    let whole = Service::WHOLE;
    // Half of a processor in quanta of 10: 10 * (1 + 5 / 10) + 5 ahead.
    assert_eq!(whole.deficit(10.0, &[10.0], 5.0), Service { rate: 0.5, latency: 20.0 });
    assert_eq!(whole.by_packets(1.0, &[1.0], 5.0, 5.0), Service { rate: 0.5, latency: 5.0 });
    assert_eq!(whole.fair(0.25, 2.0, 5.0), Service { rate: 0.25, latency: 30.0 });
    assert_eq!(whole.behind(Arrival { burst: 10.0, rate: 0.5 }, 5.0), Service { rate: 0.5, latency: 30.0 });
    assert_eq!(whole.behind(Arrival { burst: 10.0, rate: 1.0 }, 5.0).rate, 0.0);
    let below = whole.below_guard(0.75, 100.0, 5.0);
    assert_eq!(below, Service { rate: 0.2, latency: 155.0 });
    let half = Service { rate: 0.5, latency: 10.0 };
    assert_eq!(half.shaped(0.25, 5.0), Service { rate: 0.25, latency: 30.0 });
    assert_eq!(half.shaped(0.75, 5.0), half);
    // Nested: the inner one shares what the outer one gives.
    assert_eq!(half.fair(0.5, 1.0, 5.0), Service { rate: 0.25, latency: 40.0 });
    assert_eq!(half.limited(20.0), 50.0);
    assert_eq!(half.within_guard(whole, 0.9, 100.0, 5.0).rate, 0.4);
    assert_eq!(half.worse(Service { rate: 0.25, latency: 5.0 }), Service { rate: 0.25, latency: 10.0 });
    // Two of burst 10 need 20 and a packet by the second deadline.
    let arrival = Arrival { burst: 10.0, rate: 0.1 };
    assert!(deadlines_hold(whole, &[(16.0, arrival), (26.0, arrival)], 5.0));
    assert!(!deadlines_hold(whole, &[(14.0, arrival), (26.0, arrival)], 5.0));
    assert!(!deadlines_hold(whole, &[(16.0, arrival), (25.0, arrival)], 5.0));
}
