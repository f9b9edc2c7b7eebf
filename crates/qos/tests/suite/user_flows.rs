//! Flow queues within users: shares of users and of flows, the order within a flow, and that nothing is lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use qos::dequeue::Give;
use qos::enqueue::TailDrop;
use qos::graph::{House, check, print};
use qos::node::{Node, Pull, Queue};
use qos::store::{FlowBy, FlowQueues, FlowSettings, UserFlows};
use qos::{Amount, Limit, Measure, Meta, Store, Weight};
use wire::AppId;

use crate::queueing::{amount, at};
use crate::running::{BE, US, Works, graph, house_of, of_dscp};

/// Places for users, so many that those of the tests have one each.
const USERS: u32 = 4096;

fn settings(measure: Measure, quantum: u64) -> FlowSettings {
    FlowSettings { by: FlowBy::User, queues: USERS, measure, quantum, seed: 7 }
}

fn by_packets<T>() -> UserFlows<T> {
    UserFlows::with_capacity(settings(Measure::Packets, 1), 4096, 64)
}

/// A packet of this user and flow, which costs so many nanoseconds.
fn packet(user: u32, flow: u32, ns: u64) -> Meta {
    Meta { user, flow, amount: amount(1, 100, ns), ..Meta::default() }
}

fn weighed(user: u32, weight: u16, flow: u32, ns: u64) -> Meta {
    Meta { weight: Weight::new(weight).unwrap(), ..packet(user, flow, ns) }
}

fn take<T: Send>(store: &mut UserFlows<T>, count: usize) -> Vec<T> {
    (0..count).map_while(|_| store.get()).map(|(item, _)| item).collect()
}

#[test]
fn flows_of_one_user_share_its_time_whatever_a_packet_costs() {
    let mut store = UserFlows::with_capacity(settings(Measure::Nanoseconds, 82_000), 4096, 4096);
    for n in 0..2000 {
        store.put(n, packet(1, 1, 82_000));
        store.put(n, packet(1, 2, 1_500));
    }
    let mut spent = BTreeMap::new();
    for _ in 0..1100 {
        let meta = store.get().unwrap().1;
        *spent.entry(meta.flow).or_insert(0_i64) += meta.amount.ns as i64;
        let apart = spent.get(&1).unwrap_or(&0) - spent.get(&2).unwrap_or(&0);
        assert!(apart.abs() <= 2 * 82_000, "{spent:?}");
    }
    assert!(spent[&1] >= 15 * 82_000);
}

#[test]
fn a_bulk_flow_delays_no_other_flow_of_its_user() {
    let mut store = by_packets();
    (0..1000).for_each(|n| store.put(n, packet(1, 1, 1)));
    assert_eq!(take(&mut store, 3), [0, 1, 2]);
    // A new flow goes ahead of the old one for a quantum, and then by turns.
    (2000..2003).for_each(|n| store.put(n, packet(1, 2, 1)));
    assert_eq!(take(&mut store, 6), [2000, 3, 2001, 4, 2002, 5]);
}

#[test]
fn a_new_flow_does_not_take_the_turn_of_another_user() {
    let mut store = by_packets();
    (0..4).for_each(|n| store.put(n, packet(1, 1, 1)));
    (10..14).for_each(|n| store.put(n, packet(2, 1, 1)));
    assert_eq!(take(&mut store, 3), [0, 10, 1]);
    // User 1 has used up its turn, so that its new flow waits for the next one.
    store.put(5, packet(1, 2, 1));
    assert_eq!(take(&mut store, 4), [11, 5, 12, 2]);
}

#[test]
fn many_flows_do_not_make_a_user_heavier() {
    let mut store = by_packets();
    (0..100).for_each(|n| store.put(1, packet(1, n % 50, 1)));
    (0..100).for_each(|_| store.put(2, packet(2, 7, 1)));
    let order = take(&mut store, 100);
    assert_eq!(order.iter().filter(|user| **user == 2).count(), 50);
}

#[test]
fn room_is_made_in_the_longest_flow_of_the_user_that_is_longest_by_weight() {
    let mut store = by_packets();
    (0..12).for_each(|n| store.put(n, weighed(1, 4, n % 2, 1)));
    (20..23).for_each(|n| store.put(n, weighed(2, 1, 8, 1)));
    (30..35).for_each(|n| store.put(n, weighed(2, 1, 9, 1)));
    // User 1 has three by weight and user 2 eight, of which flow 9 has more. The oldest of its packets goes.
    for expected in [30, 31] {
        let user = store.longest().unwrap();
        assert_eq!(user, 2);
        assert_eq!(store.get_of(user).unwrap().0, expected);
    }
    assert_eq!(store.get_of(3), None);
    assert_eq!(store.amount().packets, 18);
}

#[test]
fn a_super_packet_is_paid_for_within_its_user_and_by_its_user() {
    let mut store = UserFlows::with_capacity(settings(Measure::Octets, 100), 4096, 64);
    let burst = Meta { amount: amount(40, 4_000, 40), ..packet(1, 1, 0) };
    store.put(1000, burst);
    (0..60).for_each(|n| store.put(n, packet(1, 2, 1)));
    (100..160).for_each(|n| store.put(n, packet(2, 1, 1)));
    assert_eq!(take(&mut store, 1), [1000]);
    store.put(1001, burst);
    let order = take(&mut store, 121);
    // User 1 owes 39 rounds to user 2. Its other flow is served first then, and flow 1 owes 39 packets to it.
    assert_eq!(order[..39], (100..139).collect::<Vec<_>>());
    let [first, second] = [0, 1001].map(|item| order.iter().position(|its| *its == item).unwrap());
    let between = order[first..second].iter().filter(|item| **item < 60).count();
    assert!((38..=40).contains(&between), "{order:?}");
}

#[test]
fn what_is_put_back_is_next_again_and_only_its_part_is_charged() {
    let mut store = UserFlows::with_capacity(settings(Measure::Octets, 100), 4096, 64);
    store.put(1, Meta { amount: amount(10, 1_000, 10), ..packet(1, 1, 0) });
    (10..14).for_each(|n| store.put(n, packet(1, 2, 1)));
    let mut order = Vec::new();
    while let Some((item, mut meta)) = store.get() {
        order.push(item);
        if meta.amount.packets > 1 {
            meta.amount -= amount(1, 100, 1);
            store.put_back(item, meta);
        }
    }
    // One piece of the super-packet, then one packet of the other flow, and so on.
    assert_eq!(order[..8], [1, 10, 1, 11, 1, 12, 1, 13]);
    assert_eq!(order.len(), 14);
}

#[test]
fn nobody_pays_for_a_packet_that_ends() {
    let mut store = by_packets();
    (1..=2).for_each(|flow| (0..400).for_each(|_| store.put((), packet(1, flow, 1))));
    let mut left = [0; 2];
    for _ in 0..200 {
        // Each packet of flow 1 that leaves follows one that ends.
        if store.peek().unwrap().flow == 1 {
            store.get_to_end();
        }
        left[store.get().unwrap().1.flow as usize - 1] += 1;
    }
    assert_eq!(left, [100, 100]);
}

#[test]
fn the_key_of_the_hash_changes_who_shares_a_spare_queue() {
    // 100 flows and 64 queues: the key decides which flows find one.
    let alone = |seed| {
        let settings = FlowSettings { seed, ..settings(Measure::Packets, 1) };
        let mut store = UserFlows::with_capacity(settings, 64, 256);
        (0..100).for_each(|flow| store.put(flow, packet(1, flow, 1)));
        (0..100).filter(|flow| store.queue_of(&packet(1, *flow, 1)) < 64).collect::<Vec<_>>()
    };
    assert_eq!(alone(1), alone(1));
    assert_ne!(alone(1), alone(2));
}

#[test]
fn a_store_is_exchanged_with_all_that_waits() {
    let limit = Limit { packets: 100, ..Limit::NONE };
    let flows = || Box::new(FlowQueues::with_capacity(settings(Measure::Packets, 1), 64));
    let mut queue = Queue::new(Box::new(TailDrop), flows(), Box::new(Give), limit);
    (0..60_u32).for_each(|n| queue.keep(n, packet(n % 3, n % 4, 1)));
    let before = queue.exchange_store(Box::new(by_packets()));
    assert_eq!(before.amount(), Amount::default());
    assert_eq!(queue.backlog().now.packets, 60);
    queue.exchange_store(flows());
    queue.exchange_store(Box::new(by_packets()));
    let mut node: Node<u32> = queue.into();
    let mut last = BTreeMap::new();
    let mut count = 0;
    while let Pull::Packet(item, meta) = node.take(&at(0), &mut Vec::new()) {
        assert!(last.insert((meta.user, meta.flow), item).is_none_or(|before| before < item));
        count += 1;
    }
    assert_eq!(count, 60);
}

/// The packets of a call that leave, and the longest time that one waited, beside bulk of its application that asks
/// for three times the processor. The call has 200 packets.
fn call_beside_bulk(store: &str) -> (u64, u64) {
    let text = format!(
        "[class.rest]\nmatch = \"rest\"\n[[hook]]\nat = \"1a\"\nchain = [{{ kind = \"classify\" }}, \
         {{ kind = \"users\", class = \"rest\", by = \"application\" }}]\n\
         [[hook]]\nat = \"5b\"\nfrom = \"rest\"\n[queue.rest]\nclasses = [\"rest\"]\n\
         limit = {{ packets = 300 }}\nenqueue = \"longest_flow\"\nstore = {{ kind = \"flows\", {store} }}\n\
         [unit.inline]\nkind = \"inline\"\n"
    );
    let mut works = Works::new(graph(&text, &house_of(10 * US, 8)));
    let meta = |flow| {
        let amount = Amount { packets: 1, octets: 1_000, ns: 11 * US };
        Meta { amount, app: AppId(1), flow, ..of_dscp(BE, 0) }
    };
    let mut longest = 0;
    let mut calls = 0;
    for round in 0..2_000_u64 {
        (0..3).for_each(|_| works.offer(0, meta(1)));
        if round % 10 == 0 {
            works.offer(1, meta(2));
        }
        works.forward();
        if !works.given.is_empty() {
            let given = &works.given[0];
            if given.meta.flow == 2 {
                calls += 1;
                longest = longest.max(works.now - given.meta.arrived.0);
            }
            works.finish(0);
        }
    }
    assert!(works.ended.iter().all(|ended| store.contains("fifo") || ended.meta.flow == 1));
    (calls, longest)
}

#[test]
fn a_call_waits_for_no_bulk_of_its_application() {
    let (calls, longest) = call_beside_bulk("by = \"user\", within = \"flow\"");
    assert!(calls >= 195 && longest < 500 * US, "{calls} packets, {longest} ns");
    // In a queue of the user it waits behind all that the bulk has there.
    let (_, longest) = call_beside_bulk("by = \"user\", within = \"fifo\"");
    assert!(longest > 1_000 * US, "{longest} ns");
}

#[test]
fn the_short_form_has_flow_queues_within_users() {
    for (fair, store) in [
        ("application", "store = { kind = \"flows\", by = \"user\", within = \"flow\" }"),
        ("association", "store = { kind = \"flows\", by = \"user\", within = \"flow\" }"),
        ("flow", "store = { kind = \"flows\", by = \"flow\" }"),
    ] {
        let text = format!("[class.rest]\nmatch = \"rest\"\nfair = \"{fair}\"\n");
        let printed = print(&check(&text, &House::default()).unwrap());
        assert!(printed.contains(store), "{printed}");
        assert_eq!(print(&check(&printed, &House::default()).unwrap()), printed);
    }
    let printed = print(&qos::graph::preset("fair").unwrap());
    assert!(printed.contains("by = \"user\", within = \"flow\""), "{printed}");
}

#[derive(Clone, Debug)]
enum Step {
    Put { user: u32, flow: u32, ns: u64 },
    Get,
    GetAndPutBack,
    GetTwoAndPutBack,
    EvictLongest,
    GetOf(u32),
    GetToEnd,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6_u32, 0..9_u32, 1..3000_u64).prop_map(|(user, flow, ns)| Step::Put { user, flow, ns }),
        3 => Just(Step::Get),
        1 => Just(Step::GetAndPutBack),
        1 => Just(Step::GetTwoAndPutBack),
        1 => Just(Step::EvictLongest),
        1 => (0..6_u32).prop_map(Step::GetOf),
        1 => Just(Step::GetToEnd),
    ]
}

/// The packets of each flow of each user, in their order, with their nanoseconds.
#[derive(Default)]
struct Model(BTreeMap<(u32, u32), VecDeque<(usize, u64)>>);

impl Model {
    fn put(&mut self, meta: &Meta, item: usize) {
        self.0.entry((meta.user, meta.flow)).or_default().push_back((item, meta.amount.ns));
    }

    /// A packet left: it was the first one of its flow.
    fn left(&mut self, packet: Option<(usize, Meta)>) -> Result<(), TestCaseError> {
        let Some((item, meta)) = packet else { return Ok(()) };
        let list = self.0.get_mut(&(meta.user, meta.flow)).expect("a flow that waits");
        prop_assert_eq!(list.pop_front(), Some((item, meta.amount.ns)));
        if list.is_empty() {
            self.0.remove(&(meta.user, meta.flow));
        }
        Ok(())
    }

    fn length(&self, user: u32, flow: impl Fn(u32) -> bool) -> u64 {
        let lists = self.0.iter().filter(|((its, of), _)| *its == user && flow(*of));
        lists.flat_map(|(_, list)| list).map(|(_, ns)| ns).sum()
    }
}

proptest! {
    /// Whatever is done: nothing is lost or doubled, the order within a flow holds, what is put back is next, and the
    /// longest user is named. So it is where every flow has a queue, and where few have one and others share the spare
    /// ones.
    #[test]
    fn flow_queues_within_users_agree_with_a_model(
        flows in prop_oneof![Just(1_u32), Just(16), Just(4096)],
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut store = UserFlows::with_capacity(settings(Measure::Nanoseconds, 1000), flows, 16);
        let mut model = Model::default();
        for (n, step) in steps.into_iter().enumerate() {
            match step {
                Step::Put { user, flow, ns } => {
                    let meta = packet(user, flow, ns);
                    store.put(n, meta);
                    model.put(&meta, n);
                }
                Step::Get => {
                    let head = store.peek().copied();
                    let got = store.get();
                    prop_assert_eq!(head, got.map(|(_, meta)| meta));
                    model.left(got)?;
                }
                Step::GetAndPutBack => {
                    if let Some((item, meta)) = store.get() {
                        store.put_back(item, meta);
                        prop_assert_eq!(store.peek(), Some(&meta));
                    }
                }
                Step::GetTwoAndPutBack => {
                    let first = store.get();
                    let second = store.get();
                    for (item, meta) in [second, first].into_iter().flatten() {
                        store.put_back(item, meta);
                    }
                }
                Step::EvictLongest => {
                    let users = model.0.keys().map(|(user, _)| *user).collect::<BTreeSet<_>>();
                    let longest = users.iter().map(|user| model.length(*user, |_| true)).max();
                    let user = store.longest();
                    prop_assert_eq!(user.map(|user| model.length(user, |_| true)), longest);
                    if let Some(user) = user {
                        let packet = store.get_of(user);
                        let flow = packet.map(|(_, meta)| (meta.user, meta.flow));
                        prop_assert_eq!(flow.map(|(its, _)| its), Some(user));
                        if flows == 4096 {
                            let most = (0..9).map(|of| model.length(user, |its| its == of)).max();
                            prop_assert_eq!(flow.map(|(_, of)| model.length(user, |its| its == of)), most);
                        }
                        model.left(packet)?;
                    }
                }
                Step::GetOf(user) => {
                    let packet = store.get_of(user);
                    prop_assert_eq!(packet.is_some(), model.length(user, |_| true) > 0);
                    prop_assert!(packet.is_none_or(|(_, meta)| meta.user == user));
                    model.left(packet)?;
                }
                Step::GetToEnd => {
                    let head = store.peek().copied();
                    let got = store.get_to_end();
                    prop_assert_eq!(head, got.map(|(_, meta)| meta));
                    model.left(got)?;
                }
            }
            let waits: u64 = model.0.values().flatten().map(|(_, ns)| ns).sum();
            prop_assert_eq!(store.amount().ns, waits);
            prop_assert_eq!(store.amount().packets as usize, model.0.values().map(VecDeque::len).sum::<usize>());
            prop_assert_eq!(store.peek().is_some(), !model.0.is_empty());
            // The queue whose state of queue management is asked is that of the packet, and holds no other user's.
            let (queue, own) = store.head_queue();
            if let Some(head) = store.peek() {
                prop_assert_eq!(store.queue_of(head), queue);
                prop_assert!((queue as usize) < UserFlows::<()>::queues(&settings(Measure::Packets, 1), flows));
                prop_assert!(own.ns <= model.length(head.user, |_| true));
            }
        }
    }

    /// No flow of one user has a queue with a flow of another one, however few queues there are.
    #[test]
    fn users_share_no_queue(
        flows in 1..64_u32,
        packets in prop::collection::vec((0..6_u32, 0..30_u32), 1..200),
    ) {
        let mut store = UserFlows::with_capacity(settings(Measure::Packets, 1), flows, 256);
        let mut owners = BTreeMap::new();
        for (user, flow) in packets {
            let meta = packet(user, flow, 1);
            store.put((), meta);
            prop_assert_eq!(*owners.entry(store.queue_of(&meta)).or_insert(user), user);
        }
    }

    /// Users that always wait have been served in proportion to their weights, at each moment, but for a quantum and
    /// the largest packet of each (Shreedhar and Varghese 1996), whatever number of flows each has. Within each of
    /// them, flows have been served alike but for a quantum and the largest packet of both.
    #[test]
    fn shares_follow_weights_and_flows_share_alike(
        users in prop::collection::vec((1..=50_u16, 1..=12_u32), 2..6),
        sizes in prop::collection::vec((1..=40_000_u64, any::<bool>()), 600),
    ) {
        const LARGEST: u64 = 40_000;
        let mut store = UserFlows::with_capacity(settings(Measure::Nanoseconds, LARGEST), 4096, 1024);
        let mut sizes = sizes.into_iter().cycle();
        // Each packet that leaves is followed by another one of its flow, so that every flow waits all the time.
        let offer = |store: &mut UserFlows<(usize, u32)>, user: usize, flow: u32, ns: u64| {
            store.put((user, flow), weighed(user as u32, users[user].0, flow, ns));
        };
        for (user, (_, flows)) in users.iter().enumerate() {
            for flow in 0..*flows {
                (0..3).for_each(|_| offer(&mut store, user, flow, sizes.next().unwrap().0));
            }
        }
        let mut spent: Vec<Vec<u64>> = users.iter().map(|(_, flows)| vec![0; *flows as usize]).collect();
        for _ in 0..3_000 {
            let (size, comes_back) = sizes.next().unwrap();
            let (item, meta) = store.get().unwrap();
            if comes_back {
                store.put_back(item, meta);
                continue;
            }
            let (user, flow) = item;
            spent[user][flow as usize] += meta.amount.ns;
            offer(&mut store, user, flow, size);
            let own = &spent[user];
            let apart = own.iter().max().unwrap() - own.iter().min().unwrap();
            prop_assert!(apart <= 3 * LARGEST, "{own:?}");
            let weight = |user: usize| f64::from(users[user].0);
            let share = |user: usize| spent[user].iter().sum::<u64>() as f64 / weight(user);
            for (one, two) in (0..users.len()).flat_map(|one| (0..users.len()).map(move |two| (one, two))) {
                let slack = LARGEST as f64 * (1.0 + 1.0 / weight(one) + 1.0 / weight(two));
                prop_assert!(share(one) - share(two) <= slack, "{spent:?} of {users:?}");
            }
        }
    }
}
