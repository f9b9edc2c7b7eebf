//! Bounds: the formulas against a simulated server, and each term of a graph by hand.

use std::collections::VecDeque;

use proptest::prelude::*;
use qos::Direction::{self, Inbound, Outbound};
use qos::bound::arrival::Arrival;
use qos::bound::service::{Service, deadlines_hold};
use qos::bound::view::SMALLEST;
use qos::bound::{Bounds, KERNEL_PACKETS, Terms, bounds};
use qos::graph::house::{Line, Path, SuiteCost};
use qos::graph::{House, check, preset, read};

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

/// A gateway with round figures: 1 us to receive, 2 us to send, 7 us for the suite, whatever the length.
fn house() -> House {
    let line = |base_ns| Line { base_ns, ps_per_octet: 0 };
    let path = Path {
        wake_ns: 100_000,
        other_turn_ns: 50_000,
        receive: line(1_000),
        send: line(2_000),
        batch: 10,
        mtu: 1_500,
        cell: 2_000,
    };
    let cost = |direction| SuiteCost { suite: "3des-md5".to_owned(), direction, line: line(7_000) };
    House { costs: vec![cost(Outbound), cost(Inbound)], path, ..House::default() }
}

const VOICE: &str = "
    [class.ef]
    match = [{ dscp = \"EF\" }]
    priority = true
    police = { rate = \"20%\", burst = \"100us\" }
    limit = { packets = 64 }

    [class.rest]
    match = \"rest\"
    limit = { time = \"20ms\" }

    [unit.inline]
    kind = \"inline\"
    high = \"50us\"
    most_committed = \"200us\"

    [kernel.ef]
    classes = [\"ef\"]
    limit = { packets = 20 }

    [kernel.rest]
    classes = [\"rest\"]
    queues = 4
    limit = { packets = 200 }
";

fn voice(change: impl Fn(&str) -> String) -> Bounds {
    let text = change(VOICE);
    bounds(&check(&text, &house()).unwrap_or_else(|faults| panic!("{faults:#?}")), &house())
}

#[test]
fn each_term_by_hand() {
    let bounds = voice(str::to_owned);
    let ef = bounds.find("ef", Outbound).unwrap();
    let expected = Terms {
        // 20 packets of its own, 10 of each of 4 other kernel queues, 1 us each.
        kernel: 60_000,
        wake: 100_000,
        committed: 50_000,
        // One packet of the rest has begun: 10 us at the rate 1.
        others: 10_000,
        own_burst: 100_000,
        io: 2_000,
        other_direction: 50_000,
    };
    assert_eq!(ef.terms, expected);
    assert_eq!(ef.total, Some(372_000));
    assert_eq!(ef.rate, 1_000_000);
    // RFC 3246: D = B / R + E.
    assert_eq!(ef.terms.error_term(), 272_000);
    assert_eq!(ef.total, Some(ef.terms.error_term() + 100_000));
    let rest = bounds.find("rest", Outbound).unwrap();
    assert_eq!(rest.rate, 800_000);
    // 100 us of the burst of EF at the rate 0.8, and 20 ms of its own.
    assert_eq!((rest.terms.others, rest.terms.own_burst), (125_000, 25_000_000));
    assert_eq!(rest.terms.kernel, 200_000 + 3 * 10_000 + 10_000);
    assert_eq!(bounds.find("ef", Inbound).map(|bound| bound.total), Some(ef.total));
}

#[test]
fn committed_work_follows_the_unit() {
    let committed = |unit: &str| {
        let bounds = voice(|text| text.replace("kind = \"inline\"\n    high = \"50us\"", unit));
        bounds.find("ef", Outbound).unwrap().terms.committed
    };
    assert_eq!(committed("kind = \"inline\""), 200_000);
    assert_eq!(committed("kind = \"inline\"\n    high = \"3us\""), 10_000);
    assert_eq!(committed("kind = \"sliced\"\n    step = \"5us\""), 5_000);
    assert_eq!(committed("kind = \"batch\"\n    lanes = 8\n    high = \"50us\""), 80_000);
    assert_eq!(committed("kind = \"worker\"\n    high = \"50us\""), 60_000);
    assert_eq!(committed("kind = \"async\"\n    high = \"50us\""), 60_000);
    // A worker reserved for others holds nobody up; an inline unit does, whoever it is reserved for.
    let both = |kind: &str| {
        format!(
            "kind = \"sliced\"\n    step = \"5us\"\n    [unit.slow]\n    kind = \"{kind}\"\n    reserved = [\"rest\"]"
        )
    };
    assert_eq!(committed(&both("worker")), 5_000);
    assert_eq!(committed(&both("inline")), 200_000);
}

#[test]
fn further_trees_add_their_latency_and_the_burst_is_paid_once() {
    let one = voice(str::to_owned);
    let three = voice(|text| format!("stages = [1, 3, 5]\n{text}"));
    let (one, three) = (one.find("ef", Outbound).unwrap(), three.find("ef", Outbound).unwrap());
    assert_eq!(three.terms.own_burst, one.terms.own_burst);
    assert_eq!(three.terms.others, 3 * one.terms.others);
    assert_eq!(three.terms.committed, 3 * one.terms.committed);
    assert_eq!((three.terms.kernel, three.terms.wake), (one.terms.kernel, one.terms.wake));
}

#[test]
fn what_leaves_a_tree_is_burstier_for_those_behind_it() {
    let three = voice(|text| format!("stages = [1, 3, 5]\n{text}"));
    // EF waits 100 + 10 us and 50 us of committed work at the first tree, and a fifth of that joins its burst: 132 us at
    // the second tree, where it waits 132 + 10 + 50 us, so 170.4 us at the third. The rest has the rate 0.8 behind it.
    let others = three.find("rest", Outbound).unwrap().terms.others;
    assert_eq!(others, 125_000 + 165_000 + 213_000);
}

#[test]
fn a_policer_behind_which_others_join_bounds_nothing() {
    let joined = |first: &str, second: &str| {
        let text = format!(
            "[class.ef]\nmatch = [{{ dscp = \"EF\" }}]\nunpoliced = true\n\
             [class.video]\nmatch = [{{ dscp = \"AF41\" }}]\n[class.rest]\nmatch = \"rest\"\n\
             [[hook]]\nat = \"1a\"\nchain = [{{ kind = \"classify\" }}, {first}, {second}]\n\
             [[hook]]\nat = \"1b\"\nfrom = \"choice\"\n[scheduler.choice]\nkind = \"strict\"\n\
             children = [\"ef\", \"video\", \"rest\"]\n\
             [queue.ef]\nclasses = [\"ef\"]\nlimit = {{ packets = 64 }}\n\
             [queue.video]\nclasses = [\"video\"]\nlimit = {{ packets = 64 }}\n\
             [queue.rest]\nclasses = [\"rest\"]\nlimit = {{ packets = 64 }}\n[unit.inline]\nkind = \"inline\"\n"
        );
        bounds_of(&text)
    };
    let ef = "{ kind = \"police\", class = \"ef\", rate = \"20%\", burst = \"100us\" }";
    let video =
        "{ kind = \"police\", class = \"video\", rate = \"20%\", burst = \"100us\", excess = \"ef\" }";
    let arrival = |bounds: &Bounds| bounds.find("ef", Outbound).unwrap().arrival;
    assert!(arrival(&joined(video, ef)).is_some());
    assert_eq!(arrival(&joined(ef, video)), None);
}

#[test]
fn without_a_policer_the_limits_of_the_queues_count() {
    let bounds = voice(|text| {
        text.replace("police = { rate = \"20%\", burst = \"100us\" }", "unpoliced = true")
            .replace("[class.ef]", "guard = \"80%\"\n[class.ef]")
    });
    let ef = bounds.find("ef", Outbound).unwrap();
    // The guard may be reached: the rate is 0.8, and 64 packets of 10 us are the burst.
    assert_eq!((ef.rate, ef.terms.own_burst), (800_000, 800_000));
    assert_eq!(ef.arrival, None);
    // The rest has what the guard leaves: two periods of 10 ms at 80 % and a packet.
    let rest = bounds.find("rest", Outbound).unwrap();
    assert_eq!((rest.rate, rest.terms.others), (199_000, 16_010_000));
    // A policed burst can reach it too: half of a period is waited for, and a packet.
    let guarded = |burst: &str| {
        let bounds = voice(|text| {
            let text = text.replace("burst = \"100us\"", &format!("burst = \"{burst}\""));
            text.replace("[class.ef]", "guard = \"50%\"\n[class.ef]")
        });
        let ef = bounds.find("ef", Outbound).unwrap();
        (ef.rate, ef.terms.others)
    };
    assert_eq!(guarded("2990us"), (1_000_000, 10_000));
    assert_eq!(guarded("3010us"), (500_000, 10_000 + 5_000_000 + 10_000));
    // Without a guard nothing is promised to it.
    let open =
        voice(|text| text.replace("police = { rate = \"20%\", burst = \"100us\" }", "unpoliced = true"));
    assert_eq!(open.find("rest", Outbound).unwrap().total, None);
    assert_eq!(open.find("ef", Outbound).unwrap().terms.own_burst, 640_000);
}

#[test]
fn flows_have_a_bound_only_if_the_class_is_policed() {
    let fair = |text: &str| {
        text.replace("limit = { time = \"20ms\" }", "limit = { time = \"20ms\" }\n    fair = \"flow\"")
    };
    let rest = |bounds: &Bounds| bounds.find("rest", Outbound).unwrap().clone();
    let open = rest(&voice(fair));
    assert_eq!(open.total, None);
    // For the window a flow within its share counts as if in order: 20 ms at the rate 0.8, and the rest of the terms.
    assert_eq!(open.overtaken, Some(25_000_000 + open.terms.error_term()));
    let policed = rest(&voice(|text| {
        fair(text).replace("fair =", "police = { rate = \"40%\", burst = \"1ms\" }\n    fair =")
    }));
    // The busy period: (1 ms + 0.8 * 125 us) / (0.8 - 0.4).
    assert_eq!(policed.terms.others, 125_000);
    assert_eq!(policed.terms.own_burst, 2_750_000 - 125_000);
}

#[test]
fn memory_is_cells_of_every_queue_when_it_is_full() {
    let bounds = voice(str::to_owned);
    let ef = bounds.find("ef", Outbound).unwrap();
    // 64 packets and 20 in the kernel, 2,000 octets each.
    assert_eq!(ef.octets, 84 * 2_000);
    // 20 ms of packets of 10 us, and 4 times 200.
    let rest = bounds.find("rest", Outbound).unwrap();
    assert_eq!(rest.octets, 2_000 * 2_000 + 800 * 2_000);
    assert_eq!(bounds.octets, 2 * (ef.octets + rest.octets));
}

#[test]
fn the_window_holds_what_passes_a_waiting_packet() {
    let bounds = voice(str::to_owned);
    let waits = bounds.find("rest", Inbound).unwrap().total.unwrap() as f64;
    // EF sends 100 us and a fifth of the time meanwhile, in packets of 10 us; and the packet itself.
    let passing = ((100_000.0 + 0.2 * waits) / 10_000.0).ceil() as u64 + 1;
    assert_eq!(bounds.window(Inbound), Some(passing));
    let alone = bounds_of("[class.rest]\nmatch = \"rest\"\n");
    assert_eq!(alone.window(Inbound), Some(1));
}

fn bounds_of(text: &str) -> Bounds {
    bounds(&read(text).unwrap(), &house())
}

#[test]
fn a_kernel_queue_that_is_not_limited_holds_the_usual_length() {
    let bounds = bounds_of("[class.rest]\nmatch = \"rest\"\n");
    assert_eq!(bounds.find("rest", Outbound).unwrap().terms.kernel, KERNEL_PACKETS * 1_000);
}

#[test]
fn octets_become_work_by_the_smallest_packets() {
    let bounds = voice(|text| {
        text.replace("rate = \"20%\", burst = \"100us\"", "rate = \"1Mbit\", burst = \"2800B\"")
    });
    let arrival = bounds.find("ef", Outbound).unwrap().arrival.unwrap();
    // 10 us for each 28 octets.
    assert!((arrival.burst - 2_800.0 / SMALLEST as f64 * 10_000.0).abs() < 1.0);
    assert!((arrival.rate - 125_000.0 / SMALLEST as f64 * 1e-5).abs() < 1e-6);
}

#[test]
fn an_uplink_shapes_what_leaves_alone() {
    // 1,500 and 38 octets in 10 us are 1,230 Mbit/s; a hundredth of that is a hundredth of the processor.
    let text = format!("[uplink.eth0]\nrate = \"12304kbit\"\noverhead = 38\n{VOICE}");
    let text = text.replace("rate = \"20%\"", "rate = \"0.5%\"");
    let bounds = bounds_of(&text);
    let ef = |direction: Direction| bounds.find("ef", direction).unwrap();
    assert_eq!(ef(Outbound).rate, 10_000);
    assert_eq!(ef(Inbound).rate, 1_000_000);
    assert!(ef(Outbound).total > ef(Inbound).total);
}

#[test]
fn deadlines_are_bounds_if_they_hold() {
    let text = |deadline: &str| {
        format!(
            "[class.ef]\nmatch = [{{ dscp = \"EF\" }}]\n[class.rest]\nmatch = \"rest\"\n\
             [[hook]]\nat = \"1a\"\nchain = [{{ kind = \"classify\" }}, \
             {{ kind = \"police\", class = \"ef\", rate = \"20%\", burst = \"100us\" }}, \
             {{ kind = \"police\", class = \"rest\", rate = \"50%\", burst = \"1ms\" }}]\n\
             [[hook]]\nat = \"1b\"\nfrom = \"by-deadline\"\n\
             [scheduler.by-deadline]\nkind = \"edf\"\n\
             children = [{{ to = \"ef\", deadline = \"{deadline}\" }}, {{ to = \"rest\", deadline = \"5ms\" }}]\n\
             [queue.ef]\nclasses = [\"ef\"]\nlimit = {{ packets = 64 }}\n\
             [queue.rest]\nclasses = [\"rest\"]\nlimit = {{ time = \"20ms\" }}\n[unit.inline]\nkind = \"inline\"\n"
        )
    };
    let ef = |deadline: &str| bounds_of(&text(deadline)).find("ef", Outbound).unwrap().clone();
    assert_eq!(ef("200us").terms.others, 200_000);
    // A deadline below the burst and a packet cannot be kept; then everything of the other class may go ahead.
    assert_eq!(ef("105us").terms.others, (1_010_000.0_f64 / 0.5).ceil() as u64);
}

#[test]
fn presets_have_the_bounds_that_they_are_made_for() {
    let of = |name: &str, class: &str| {
        bounds(&preset(name).unwrap(), &house()).find(class, Outbound).unwrap().clone()
    };
    for (name, class) in [
        ("fifo", "every"),
        ("two-classes", "ef"),
        ("two-classes", "be"),
        ("voice", "control"),
        ("voice", "ef"),
        ("voice", "af4"),
        ("fair", "control"),
        ("edge", "af4"),
        ("edge", "rest"),
    ] {
        let bound = of(name, class);
        assert!(bound.terms.others < u64::MAX && bound.rate > 0, "{name} {class}: {bound:?}");
        // Users and flows of the last classes pass each other without a bound.
        assert_eq!(bound.total.is_some(), class != "rest", "{name} {class}");
    }
    assert!(of("voice", "ef").total < of("voice", "af4").total);
    assert!(of("voice", "ef").total < Some(3_500_000));
}

proptest! {
    /// More of anything that delays is never less delay.
    #[test]
    fn bounds_grow_with_what_delays(burst in 20..2_000_u64, rate in 1..60_u64, more in 1..500_u64, rank in 0..4_usize) {
        let with = |burst: u64, rate: u64, high: u64, kernel: u64| {
            let bounds = voice(|text| {
                text.replace("rate = \"20%\", burst = \"100us\"", &format!("rate = \"{rate}%\", burst = \"{burst}us\""))
                    .replace("high = \"50us\"", &format!("high = \"{high}us\""))
                    .replace("limit = { packets = 20 }", &format!("limit = {{ packets = {kernel} }}"))
            });
            let total = |class: &str| bounds.find(class, Outbound).unwrap().total.unwrap();
            (total("ef"), total("rest"))
        };
        let before = with(burst, rate, 50, 20);
        let after = match rank {
            0 => with(burst + more, rate, 50, 20),
            1 => with(burst, rate + more % 30, 50, 20),
            2 => with(burst, rate, 50 + more % 150, 20),
            _ => with(burst, rate, 50, 20 + more),
        };
        prop_assert!(after.0 >= before.0 && after.1 >= before.1, "{:?} {:?}", before, after);
    }
}
