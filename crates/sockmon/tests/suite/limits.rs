//! Limits on what an application sends in clear: what leaves is never more, as on the wire; what is protected is not touched. Needs root.
//!
//! The rates are so low that a slow machine hardly earns anything while a test runs; what it may earn is reckoned in.

use crate::common;

use common::*;
use sadb::Selectors;
use sadb::spd::{AppPolicy, Class, ClearLimits, Level, Limit, PortRange, Spd};
use std::time::Instant;
use wire::{AppId, Services};

const fn packets(rate: u64, burst: u64) -> ClearLimits {
    ClearLimits { packets: Some(Limit { rate, burst }), octets: None }
}

const fn octets(rate: u64, burst: u64) -> ClearLimits {
    ClearLimits { octets: Some(Limit { rate, burst }), packets: None }
}

/// Bob is trusted for STRICT and WEAK; 10.99.0.32/28 is optional to 7001, never to 7002, mandatory otherwise. The limits are STRICT's.
fn table(limits: ClearLimits) -> Spd {
    let to = |port, services, level| item(PortRange::ANY, PortRange::one(port), services, level);
    let items = vec![
        to(7001, Services::ENCRYPTED, Level::Optional),
        to(7002, Services::NONE, Level::AcceptOnly),
        everything(Level::Mandatory),
    ];
    let networks = vec![
        network("10.99.0.0/24", Class::Trusted),
        network("10.97.0.0/24", Class::Trusted),
        network("10.99.0.32/28", Class::Protected(0)),
    ];
    let mut spd = Spd::new(1);
    let policy = AppPolicy::new(networks, vec![items]);
    spd.insert(WEAK, policy.clone());
    spd.insert(STRICT, policy.limited(limits));
    spd
}

fn world(name: &str, limits: ClearLimits) -> World {
    let mut world = World::new(name);
    world.attach();
    world.load(&table(limits), &[]);
    world
}

fn refused(world: &mut World, app: AppId) -> u64 {
    world.traffic(app).reasons.get("egress_limited").copied().unwrap_or(0)
}

#[test]
fn what_is_beyond_the_limit_does_not_leave_and_nobody_else_is_held() {
    let mut world = world("limit", packets(1, 5));
    let mut program = world.start("strict");
    let mut other = world.start("weak");
    world.wire();
    let start = Instant::now();
    for process in [&mut program, &mut other] {
        process.run(&["open s udp4", "open t udp4"]);
        for _ in 0..10 {
            // All sockets of the program together.
            process.run(&["sendto s 10.99.0.2:9 100", "sendto t 10.99.0.2:9 100"]);
        }
    }
    let earned = start.elapsed().as_secs() + 1;
    let (sums, others) = (world.traffic(STRICT), world.traffic(WEAK));
    let left = sums.out_clear.packets;
    assert!((5..=5 + earned).contains(&left), "{left} in {earned} s");
    assert_eq!((refused(&mut world, STRICT), sums.out_refused.packets), (20 - left, 20 - left));
    assert_eq!((others.out_clear.packets, refused(&mut world, WEAK)), (20, 0));
    assert_eq!(world.wire_within(SOON / 10).len() as u64, left + 20);
    let told = world.sockmon().events().unwrap();
    let event = told.iter().find(|event| event.reason == "egress_limited").expect("it is told of");
    assert_eq!((event.app, event.peer.to_string().as_str()), (STRICT, "10.99.0.2:9"));
    // A device that nobody guards, where it would be in clear as well.
    world.alice.sh(
        "ip link add d0 type veth peer name d1; ip link set d1 up; ip link set d0 up; ip route add 10.97.0.0/24 dev d0
         ip neigh replace 10.97.0.2 lladdr 02:00:00:00:00:0d dev d0 nud permanent",
    );
    program.run(&["open u udp4"]);
    let before = refused(&mut world, STRICT);
    let calls: Vec<String> = (0..10 + earned).map(|_| program.ask("sendto u 10.97.0.2:9 100")).collect();
    assert!(calls.iter().any(|answer| answer == "EPERM"), "{calls:?}");
    assert!(refused(&mut world, STRICT) > before);
}

#[test]
fn super_packets_count_as_what_they_are_on_the_wire() {
    let mut world = world("limitgso", octets(1, 3000));
    let mut program = world.start("strict");
    program.run(&["open s udp4", "open u udp4", "segment u 1000"]);
    // More than the burst, where nothing was sent before: it passes and is paid for.
    program.run(&["sendto u 10.99.0.2:9 5000"]);
    program.run(&["sendto u 10.99.0.2:9 5000", "sendto s 10.99.0.2:9 10"]);
    let sums = world.traffic(STRICT);
    assert_eq!((sums.out_clear.packets, sums.out_clear.octets), (5, 5 * 1028));
    assert_eq!((sums.out_refused.packets, sums.out_refused.octets), (6, 5 * 1028 + 38));
}

#[test]
fn what_is_within_the_burst_passes_to_the_octet() {
    let mut world = world("limitoctets", octets(1, 3 * 128));
    let mut program = world.start("strict");
    program.run(&["open s udp4"]);
    for _ in 0..4 {
        program.run(&["sendto s 10.99.0.2:9 100"]);
    }
    // A fourth would take 128 seconds to earn.
    assert_eq!(world.traffic(STRICT).out_clear.octets, 3 * 128);
}

#[test]
fn a_load_of_policy_gives_nothing_back_and_a_new_limit_does_not_wait_for_the_old() {
    let mut world = world("limitload", packets(1, 3));
    let mut program = world.start("strict");
    program.run(&["open s udp4"]);
    let mut left = |world: &mut World, count: usize| {
        let before = world.traffic(STRICT).out_clear.packets;
        for _ in 0..count {
            program.run(&["sendto s 10.99.0.2:9 100"]);
        }
        world.traffic(STRICT).out_clear.packets - before
    };
    let start = Instant::now();
    let first = left(&mut world, 20);
    world.load(&table(packets(1, 3)), &[]);
    let second = left(&mut world, 20);
    let earned = start.elapsed().as_secs() + 1;
    assert!((3..=3 + earned).contains(&(first + second)), "{first} and {second} in {earned} s");
    // At an octet a second what is spent here takes most of an hour. The new limit begins with all of its burst spent.
    world.load(&table(octets(1, 100_000)), &[]);
    assert_eq!(left(&mut world, 20), 20);
    world.load(&table(octets(1_000_000_000, 128_000)), &[]);
    assert!(left(&mut world, 20) >= 19);
    // And none at all.
    world.load(&table(ClearLimits::default()), &[]);
    assert_eq!(left(&mut world, 20), 20);
    let pinned = format!("/sys/fs/bpf/ravelin/{}", world.name);
    for map in ["limits", "spent"] {
        let map = libbpf_rs::MapHandle::from_pinned_path(format!("{pinned}/{map}")).unwrap();
        assert_eq!(libbpf_rs::MapCore::keys(&map).count(), 0);
    }
}

#[test]
fn only_what_would_be_clear_is_held_before_the_engine() {
    let mut world = world("limitheld", packets(1, 2));
    let mut program = world.start("strict");
    program.run(&["open s udp4"]);
    world.drain();
    let mut reach = |world: &mut World, port: u16| {
        let start = Instant::now();
        for _ in 0..20 {
            program.run(&[&format!("sendto s {NOBODY}:{port} 100")]);
        }
        let earned = start.elapsed().as_secs() + 1;
        (world.drain().len() as u64, earned)
    };
    // Mandatory is never clear; it passes whatever was spent.
    let (optional, earned) = reach(&mut world, 7001);
    assert!((2..=2 + earned).contains(&optional), "{optional} in {earned} s");
    assert_eq!(reach(&mut world, 7003).0, 20);
    let (never, earned) = reach(&mut world, 7002);
    assert!(never <= earned, "{never} in {earned} s");
    // Optional, and an association serves the flow.
    let served = Selectors { remote_ports: PortRange::one(7001), ..serving("10.99.0.33/32") };
    world.sockmon().set_live_sas(&[served]).unwrap();
    assert_eq!(reach(&mut world, 7001).0, 20);
    world.sockmon().set_live_sas(&[]).unwrap();
    let (optional, earned) = reach(&mut world, 7001);
    assert!(optional <= earned, "{optional} in {earned} s");
    let held = refused(&mut world, STRICT);
    assert!(held >= 60 - 2 - 3 * earned.max(1) - 3, "{held}");
}
