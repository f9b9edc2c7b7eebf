//! The queues of the TUN by class (docs/design/0042): a packet waits in the queue of its class, whose flood fills no other.
//! Needs root.

use crate::common;

use std::fs::File;

use common::*;
use sadb::spd::{AppPolicy, Class, Item, Level, PortRange, Spd};
use sockmon::{QueueShare, QueueSplit, QueueTable, ReservedClass, ReservedName};
use wire::{AggregateId, Services};

const DEFAULT: AggregateId = AggregateId(1);
const URGENT: AggregateId = AggregateId(2);
const BULK: AggregateId = AggregateId(3);

/// A split with queue 0 for the default, 1 for urgent and 2 for bulk. DSCP 46 (EF) is urgent, and what an item says is bulk.
fn split(limit: u32) -> QueueSplit {
    let mut of_dscp = [DEFAULT; 64];
    of_dscp[46] = URGENT;
    let mut shares = [QueueShare { first: 0, count: 1 }; 64];
    shares[usize::from(URGENT.0)] = QueueShare { first: 1, count: 1 };
    shares[usize::from(BULK.0)] = QueueShare { first: 2, count: 1 };
    QueueSplit { limits: vec![limit; 3], of_dscp, of_apps: Vec::new(), shares }
}

/// A world whose TUN has these queues; the item of port 99 names a class.
fn world(name: &str, split: QueueSplit) -> (World, Vec<File>, QueueTable) {
    let mut world = World::new(name);
    let further = world.with_queues(split.limits.len());
    world.attach();
    let bulk = item(PortRange::ANY, PortRange::one(99), Services::ENCRYPTED, Level::Mandatory);
    let bulk = Item { terms: bulk.terms.classed(BULK), ..bulk };
    let mut spd = Spd::new(1);
    let networks =
        || vec![network("10.99.0.0/24", Class::Protected(0)), network("fd99::/64", Class::Protected(0))];
    spd.insert(STRICT, AppPolicy::new(networks(), vec![vec![bulk, everything(Level::Mandatory)]]));
    world.load(&spd, &[]);
    let queues = world.monitor(move |sockmon| sockmon.split_queues(Some(&split), SPLIT_KEY).unwrap());
    let tun = world.tun.try_clone().unwrap();
    let sockmon = world.sockmon();
    set_queue_programs(&tun, sockmon.steering().unwrap(), sockmon.queue_filter().unwrap().unwrap());
    (world, further, queues)
}

/// The packets that wait in each queue, taken out.
fn drain(world: &World, further: &[File]) -> Vec<usize> {
    let queue = |file| std::iter::from_fn(move || observe_within(file, NEVER)).count();
    std::iter::once(&world.tun).chain(further).map(queue).collect()
}

#[test]
fn a_packet_waits_in_the_queue_of_its_class() {
    let (world, further, queues) = world("classes", split(100));
    let mut program = world.start("strict");
    let cases: [(&[&str], [usize; 3]); 6] = [
        (&["open a udp4", "sendto a 10.99.0.2:53 40"], [1, 0, 0]),
        (&["open b udp6", "sendto b [fd99::2]:53 40"], [1, 0, 0]),
        (&["open c udp4", "tos c 184", "sendto c 10.99.0.2:53 40"], [0, 1, 0]),
        (&["open d udp6", "tos d 184", "sendto d [fd99::2]:53 40"], [0, 1, 0]),
        // The item says so, whatever the DSCP is.
        (&["open e udp4", "tos e 184", "sendto e 10.99.0.2:99 40"], [0, 0, 1]),
        (&["open f udp6", "sendto f [fd99::2]:99 40"], [0, 0, 1]),
    ];
    for (commands, expected) in cases {
        program.run(commands);
        assert_eq!(drain(&world, &further), expected, "{commands:?}");
    }
    assert_eq!([0, 1, 2].map(|queue| queues.counts(queue).arrived), [2, 2, 2]);
}

#[test]
fn an_application_has_classes_of_its_own_and_an_item_goes_before_them() {
    let mut of_app = [URGENT; 64];
    of_app[46] = DEFAULT;
    let split = QueueSplit { of_apps: vec![(STRICT, of_app), (OTHER, [BULK; 64])], ..split(100) };
    let (mut world, further, queues) = world("class-apps", split.clone());
    let mut program = world.start("strict");
    program.run(&["open a udp4", "sendto a 10.99.0.2:53 40"]);
    program.run(&["open b udp4", "tos b 184", "sendto b 10.99.0.2:53 40"]);
    program.run(&["open c udp6", "sendto c [fd99::2]:99 40"]);
    assert_eq!(drain(&world, &further), [1, 1, 1]);
    // An application that the next graph does not name has the class of its DSCP again.
    let change = QueueSplit { of_apps: Vec::new(), ..split };
    world.monitor(move |sockmon| sockmon.change_split(&queues, &change, SPLIT_KEY).unwrap());
    program.run(&["sendto a 10.99.0.2:53 40", "sendto b 10.99.0.2:53 40"]);
    assert_eq!(drain(&world, &further), [1, 1, 0]);
}

/// A flow of both families, to this port.
fn flow(destination: &str, destination_port: u16, dscp: Option<u8>) -> ReservedName {
    ReservedName {
        destination: destination.parse().unwrap(),
        protocol: 17,
        source_port: 0,
        destination_port,
        dscp,
    }
}

#[test]
fn a_packet_within_the_rate_of_a_reserved_flow_waits_in_the_queue_of_its_class() {
    let (mut world, further, queues) = world("class-reserved", split(100));
    let mut program = world.start("strict");
    // An octet a second: three packets of 68 octets and not one more.
    let class = ReservedClass { class: URGENT, rate: 1, burst: 3 * 68 + 60, least: 1 };
    let set = |world: &mut World, flow: ReservedName, class: Option<ReservedClass>| {
        world.monitor(move |sockmon| sockmon.set_reserved(&flow, class.as_ref()).unwrap());
    };
    set(&mut world, flow("10.99.0.2", 53, None), Some(class));
    program.run(&["open a udp4", "open b udp6"]);
    for _ in 0..5 {
        program.run(&["sendto a 10.99.0.2:53 40"]);
    }
    assert_eq!(drain(&world, &further), [2, 3, 0]);
    // Other ports and another address are none of it.
    program.run(&["sendto a 10.99.0.2:54 40", "sendto b [fd99::2]:53 40"]);
    assert_eq!(drain(&world, &further), [2, 0, 0]);
    // Another rate begins with its whole burst; what an item says goes behind a reservation.
    set(&mut world, flow("10.99.0.2", 53, None), Some(ReservedClass { class: BULK, ..class }));
    set(&mut world, flow("fd99::2", 99, Some(0)), Some(class));
    program.run(&["sendto a 10.99.0.2:53 40", "sendto b [fd99::2]:99 40"]);
    assert_eq!(drain(&world, &further), [0, 1, 1]);
    // One that names more of the packet goes before one that leaves it open.
    set(&mut world, flow("fd99::2", 0, None), Some(ReservedClass { class: BULK, ..class }));
    program.run(&["sendto b [fd99::2]:99 40", "sendto b [fd99::2]:9 40"]);
    assert_eq!(drain(&world, &further), [0, 1, 1]);
    // At its end a flow is as any other, and the shapes that are left are found.
    set(&mut world, flow("fd99::2", 99, Some(0)), None);
    set(&mut world, flow("10.99.0.2", 53, None), None);
    program.run(&["sendto a 10.99.0.2:53 40", "sendto b [fd99::2]:9 40"]);
    assert_eq!(drain(&world, &further), [1, 0, 1]);
    world.monitor(|sockmon| sockmon.clear_reserved().unwrap());
    program.run(&["sendto b [fd99::2]:9 40"]);
    assert_eq!(drain(&world, &further), [1, 0, 0]);
    assert_eq!(queues.counts(0).lost, 0);
}

#[test]
fn a_flood_of_one_class_takes_no_place_of_another() {
    let (mut world, further, queues) = world("class-flood", split(8));
    let mut program = world.start("strict");
    program.run(&["open s udp4", "connect s 10.99.0.2:99"]);
    (0..20).for_each(|_| program.run(&["send s 40"]));
    program.run(&["open u udp4", "tos u 184", "connect u 10.99.0.2:53"]);
    (0..5).for_each(|_| program.run(&["send u 40"]));
    let bulk = queues.counts(2);
    assert_eq!((bulk.arrived, bulk.lost, bulk.taken, bulk.waiting()), (20, 12, 0, 8));
    assert_eq!((queues.counts(1).arrived, queues.counts(1).lost), (5, 0));
    assert_eq!(world.counter("tun_queue_full"), 12);
    assert_eq!(drain(&world, &further), [0, 5, 8]);
    // What was taken makes room.
    queues.take(2, 8);
    program.run(&["send s 40"]);
    assert_eq!((queues.counts(2).lost, drain(&world, &further)), (12, vec![0, 0, 1]));
    queues.take(2, 1);
    assert_eq!((queues.counts(2).taken, queues.counts(2).waiting()), (9, 0));
}

#[test]
fn users_are_spread_over_the_queues_of_their_class_and_each_stays_in_one() {
    let mut shares = [QueueShare { first: 0, count: 1 }; 64];
    shares[usize::from(BULK.0)] = QueueShare { first: 1, count: 4 };
    let split = QueueSplit { limits: vec![100; 5], of_dscp: [DEFAULT; 64], of_apps: Vec::new(), shares };
    let (mut world, further, _) = world("class-users", split);
    let addresses: Vec<String> = (0..24).map(|host| format!("10.99.0.{}", 200 + host)).collect();
    let commands: Vec<String> = addresses.iter().map(|own| format!("ip addr add {own}/24 dev up0")).collect();
    world.alice.run_sh(commands.join("\n"));
    let own: Vec<String> = addresses.iter().map(|own| format!("{own}/32")).collect();
    world.monitor(move |sockmon| {
        let mut locals: Vec<_> = own.iter().map(|own| prefix(own)).collect();
        locals.push(prefix("10.99.0.1/32"));
        sockmon.set_locals(&locals).unwrap();
    });
    let mut program = world.start("strict");
    let mut used = [0; 5];
    for own in &addresses {
        program.run(&["open s udp4", &format!("bind s {own}:0"), "connect s 10.99.0.2:99"]);
        (0..3).for_each(|_| program.run(&["send s 40"]));
        let taken = drain(&world, &further);
        assert!(taken[0] == 0 && taken.contains(&3), "{own}: {taken:?}");
        used.iter_mut().zip(taken).for_each(|(sum, packets)| *sum += packets);
        program.run(&["close s"]);
    }
    assert_eq!(used.iter().sum::<usize>(), 3 * addresses.len());
    // A key that is fixed: the hash of each address is known to be even enough.
    assert!(used[1..].iter().all(|packets| *packets > 0), "{used:?}");
}

#[test]
fn without_a_split_everything_is_in_the_first_queue_and_nothing_is_counted() {
    let (mut world, further, _) = world("class-none", split(8));
    let queues = world.monitor(|sockmon| sockmon.split_queues(None, [0; 6]).unwrap());
    let mut program = world.start("strict");
    program.run(&["open s udp4", "tos s 184", "connect s 10.99.0.2:99"]);
    (0..20).for_each(|_| program.run(&["send s 40"]));
    assert_eq!(drain(&world, &further), [20, 0, 0]);
    assert_eq!(queues.counts(0), sockmon::QueueCounts::default());
}
