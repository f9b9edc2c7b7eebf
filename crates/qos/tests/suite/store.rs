//! Stores: their order, their accounts, and that what is put back is where it was.

use std::collections::BTreeMap;

use proptest::prelude::*;
use qos::store::{Fifo, FlowBy, FlowQueues, FlowSettings, Rank, Ranked};
use qos::{AggregateId, Amount, Measure, Meta, Store};
use wire::Time;

use crate::queueing::{amount, packet};

fn settings(queues: u32, measure: Measure, quantum: u64) -> FlowSettings {
    FlowSettings { by: FlowBy::Flow, queues, measure, quantum, seed: 7 }
}

fn drain<T>(store: &mut impl Store<T>) -> Vec<T> {
    std::iter::from_fn(|| store.get()).map(|(item, _)| item).collect()
}

#[test]
fn a_fifo_keeps_the_order_of_arrival() {
    let mut store = Fifo::with_capacity(4);
    (0..5).for_each(|n| store.put(n, packet(n % 2, 100, 10)));
    assert_eq!(store.amount(), amount(5, 500, 50));
    let (item, meta) = store.get().unwrap();
    assert_eq!(item, 0);
    store.put_back(item, meta);
    assert_eq!(store.get_of(1).unwrap().0, 1);
    assert_eq!(store.get_of(9), None);
    assert_eq!(drain(&mut store), [0, 2, 3, 4]);
    assert_eq!(store.amount(), Amount::default());
}

#[test]
fn flows_share_nanoseconds_whatever_a_packet_costs() {
    // One flow costs 55 times as much a packet as the other.
    let mut store = FlowQueues::with_capacity(settings(64, Measure::Nanoseconds, 82_000), 4096);
    for n in 0..2000 {
        store.put(n, packet(1, 1400, 82_000));
        store.put(n, packet(2, 1400, 1_500));
    }
    let mut spent = BTreeMap::new();
    for _ in 0..1100 {
        let meta = store.get().unwrap().1;
        *spent.entry(meta.flow).or_insert(0i64) += meta.amount.ns as i64;
        let apart = spent.get(&1).unwrap_or(&0) - spent.get(&2).unwrap_or(&0);
        assert!(apart.abs() <= 2 * 82_000, "{spent:?}");
    }
    assert!(spent[&1] >= 15 * 82_000);
}

#[test]
fn a_new_flow_goes_ahead_of_old_ones_for_one_quantum() {
    let mut store = FlowQueues::with_capacity(settings(1024, Measure::Octets, 1500), 64);
    (0..10).for_each(|n| store.put(n, packet(1, 1500, 1)));
    // The first one uses up what the flow had as a new one.
    assert_eq!(store.get().unwrap().0, 0);
    (100..103).for_each(|n| store.put(n, packet(2, 750, 1)));
    assert_eq!(store.peek().unwrap().flow, 2);
    let order = drain(&mut store);
    assert_eq!(order[..5], [100, 101, 1, 102, 2]);
}

#[test]
fn a_flow_that_comes_and_goes_does_not_starve_the_others() {
    let mut store = FlowQueues::with_capacity(settings(1024, Measure::Octets, 1500), 64);
    (0..100).for_each(|n| store.put(n, packet(1, 1500, 1)));
    let mut shares = [0; 2];
    for _ in 0..60 {
        // Flow 2 never has more than one packet, so its queue is empty after each.
        store.put(0, packet(2, 1500, 1));
        for _ in 0..2 {
            let meta = store.get().unwrap().1;
            shares[meta.flow as usize - 1] += 1;
        }
    }
    assert!(shares[0] >= 59 && shares[1] >= 59, "{shares:?}");
}

#[test]
fn a_super_packet_is_paid_in_rounds_even_by_a_flow_that_was_idle() {
    let mut store = FlowQueues::with_capacity(settings(1024, Measure::Octets, 1500), 64);
    (0..200).for_each(|n| store.put(n, packet(1, 1500, 1)));
    let burst = Meta { amount: amount(40, 60_000, 40), ..packet(2, 0, 0) };
    store.put(1000, burst);
    assert_eq!(store.get().unwrap().0, 0);
    assert_eq!(store.get().unwrap().0, 1000);
    // Its queue is empty for some rounds, and is no new flow for that.
    let pause: Vec<_> = (0..4).map(|_| store.get().unwrap().0).collect();
    assert_eq!(pause, [1, 2, 3, 4]);
    store.put(1001, burst);
    let wait = (0..).take_while(|_| store.get().unwrap().0 != 1001).count();
    assert!((34..=37).contains(&wait), "waited for {wait} packets");
}

#[test]
fn what_a_flow_puts_back_is_next_again_and_only_its_part_is_charged() {
    let mut store = FlowQueues::with_capacity(settings(1024, Measure::Octets, 1500), 64);
    store.put(1, Meta { amount: amount(40, 60_000, 40), ..packet(1, 0, 0) });
    (10..14).for_each(|n| store.put(n, packet(2, 1500, 1)));
    let mut order = Vec::new();
    while let Some((item, mut meta)) = store.get() {
        order.push(item);
        if meta.amount.packets > 1 {
            meta.amount -= amount(1, 1500, 1);
            store.put_back(item, meta);
        }
    }
    // One piece of the super-packet, then one packet of the other flow, and so on.
    assert_eq!(order[..8], [1, 10, 1, 11, 1, 12, 1, 13]);
    assert_eq!(order.len(), 44);
}

#[test]
fn the_hash_of_flows_has_a_key() {
    let place = |seed| {
        let settings = FlowSettings { seed, ..settings(2, Measure::Packets, 1) };
        let mut store = FlowQueues::with_capacity(settings, 64);
        (0..32).for_each(|flow| store.put(flow, packet(flow, 1, 1)));
        drain(&mut store)
    };
    assert_eq!(place(1), place(1));
    assert_ne!(place(1), place(2));
}

#[test]
fn other_fields_can_tell_flows_apart() {
    let settings = FlowSettings { by: FlowBy::User, ..settings(1024, Measure::Packets, 1) };
    let mut store = FlowQueues::with_capacity(settings, 64);
    (0..4).for_each(|n| store.put(n, Meta { user: 1, ..packet(n, 1, 1) }));
    store.put(4, Meta { user: 2, ..packet(9, 1, 1) });
    assert_eq!(store.longest(), Some(1));
    assert_eq!(store.get_of(2).unwrap().0, 4);
}

#[test]
fn packets_of_equal_rank_leave_in_the_order_of_arrival() {
    let rank = Rank::Deadline { within: vec![1000, 100], otherwise: 50 };
    let mut store = Ranked::with_capacity(rank, 8);
    let put = |arrived, aggregate| Meta {
        arrived: Time(arrived),
        aggregate: AggregateId(aggregate),
        ..packet(u32::from(aggregate), 1, 1)
    };
    // Deadlines: 1000, 1000, 150, 1000, 950.
    let metas = [put(0, 0), put(900, 1), put(50, 1), put(0, 0), put(900, 2)];
    metas.into_iter().enumerate().for_each(|(n, meta)| store.put(n, meta));
    let (item, meta) = store.get().unwrap();
    assert_eq!(item, 2);
    store.put_back(item, meta);
    assert_eq!(store.get().unwrap().0, 2);
    assert_eq!(store.get().unwrap().0, 4);
    let (item, meta) = store.get().unwrap();
    assert_eq!(item, 0);
    store.put_back(item, meta);
    assert_eq!(store.get_of(1).unwrap().0, 1);
    // Two that are put back, the last one first, are in their old order.
    let [first, second] = [store.get().unwrap(), store.get().unwrap()];
    store.put_back(second.0, second.1);
    store.put_back(first.0, first.1);
    assert_eq!(drain(&mut store), [0, 3]);
}

#[test]
fn priorities_rank_by_aggregate() {
    let mut store = Ranked::with_capacity(Rank::Priority { order: vec![2, 0], otherwise: 1 }, 8);
    for (n, aggregate) in [0, 1, 2, 1].into_iter().enumerate() {
        store.put(n, Meta { aggregate: AggregateId(aggregate), ..packet(0, 1, 1) });
    }
    assert_eq!(drain(&mut store), [1, 3, 2, 0]);
}

#[derive(Clone, Debug)]
enum Step {
    Put { flow: u32, octets: u64 },
    Get,
    GetAndPutBack,
    EvictLongest,
    GetOf(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..12u32, 1..3000u64).prop_map(|(flow, octets)| Step::Put { flow, octets }),
        2 => Just(Step::Get),
        1 => Just(Step::GetAndPutBack),
        1 => Just(Step::EvictLongest),
        1 => (0..12u32).prop_map(Step::GetOf),
    ]
}

proptest! {
    /// A model of one list for each flow agrees with the store, whatever is done to it.
    #[test]
    fn flow_queues_agree_with_a_model(steps in prop::collection::vec(step(), 1..200)) {
        let mut store = FlowQueues::with_capacity(settings(4096, Measure::Octets, 1000), 16);
        let mut model: BTreeMap<u32, Vec<(usize, u64)>> = BTreeMap::new();
        let take = |model: &mut BTreeMap<u32, Vec<(usize, u64)>>, flow: u32| {
            let list = model.get_mut(&flow).unwrap();
            let first = list.remove(0);
            if list.is_empty() {
                model.remove(&flow);
            }
            first
        };
        for (n, step) in steps.into_iter().enumerate() {
            match step {
                Step::Put { flow, octets } => {
                    store.put(n, packet(flow, octets, octets));
                    model.entry(flow).or_default().push((n, octets));
                }
                Step::Get => {
                    let head = store.peek().copied();
                    let got = store.get();
                    prop_assert_eq!(head, got.map(|(_, meta)| meta));
                    if let Some((item, meta)) = got {
                        prop_assert_eq!(take(&mut model, meta.flow), (item, meta.amount.octets));
                    }
                }
                Step::GetAndPutBack => {
                    if let Some((item, meta)) = store.get() {
                        store.put_back(item, meta);
                        prop_assert_eq!(store.peek(), Some(&meta));
                    }
                }
                Step::EvictLongest => {
                    let length = |list: &Vec<(usize, u64)>| list.iter().map(|(_, octets)| octets).sum::<u64>();
                    let longest = model.values().map(length).max();
                    let flow = store.longest();
                    prop_assert_eq!(flow.map(|flow| length(&model[&flow])), longest);
                    if let Some(flow) = flow {
                        let (item, meta) = store.get_of(flow).unwrap();
                        prop_assert_eq!(take(&mut model, flow), (item, meta.amount.octets));
                    }
                }
                Step::GetOf(flow) => match store.get_of(flow) {
                    Some((item, meta)) => {
                        prop_assert_eq!(meta.flow, flow);
                        prop_assert_eq!(take(&mut model, flow), (item, meta.amount.octets));
                    }
                    None => prop_assert!(!model.contains_key(&flow)),
                },
            }
            let octets: u64 = model.values().flatten().map(|(_, octets)| octets).sum();
            prop_assert_eq!(store.amount().octets, octets);
            prop_assert_eq!(store.peek().is_some(), !model.is_empty());
        }
    }

    /// Flows that always wait are never further apart than a quantum and the largest packet, also when packets are put
    /// back.
    #[test]
    fn flows_that_wait_are_served_alike(sizes in prop::collection::vec((1..1500u64, any::<bool>()), 400)) {
        let mut store = FlowQueues::with_capacity(settings(4096, Measure::Octets, 1500), 512);
        let mut sent = [0i64; 3];
        sizes.iter().for_each(|(size, _)| (0..3).for_each(|flow| store.put((), packet(flow, *size, 1))));
        for (_, comes_back) in sizes {
            let (_, meta) = store.get().unwrap();
            if comes_back {
                store.put_back((), meta);
                continue;
            }
            sent[meta.flow as usize] += meta.amount.octets as i64;
            let apart = sent.iter().max().unwrap() - sent.iter().min().unwrap();
            prop_assert!(apart <= 3 * 1500, "{sent:?}");
        }
    }

    /// A sorted list agrees with the store by rank.
    #[test]
    fn ranks_agree_with_a_sorted_list(arrivals in prop::collection::vec((0..50u64, any::<bool>()), 1..100)) {
        let mut store = Ranked::with_capacity(Rank::Deadline { within: vec![], otherwise: 0 }, 4);
        let mut model: Vec<(u64, usize)> = Vec::new();
        for (n, (arrived, takes)) in arrivals.into_iter().enumerate() {
            store.put(n, Meta { arrived: Time(arrived), ..packet(0, 1, 1) });
            model.push((arrived, n));
            model.sort();
            if takes {
                prop_assert_eq!(store.get().map(|(item, _)| item), Some(model.remove(0).1));
            }
        }
        let rest: Vec<usize> = model.into_iter().map(|(_, n)| n).collect();
        prop_assert_eq!(drain(&mut store), rest);
    }
}
