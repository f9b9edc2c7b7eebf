//! Limits on what an application accepts in clear: each source has its own, forged ones have no more together than there are places, and
//! nobody loses a place to one that comes later. Needs root.
//!
//! The rates are so low that a slow machine hardly earns anything while a test runs; what it may earn is reckoned in.

use crate::common;

use common::packets::*;
use common::*;
use sadb::spd::{AppPolicy, Class, ClearLimits, Level, Limit, PortRange, Spd};
use std::time::{Duration, Instant};
use wire::Services;

/// Mark of what the daemon hands to the host: proven, encrypted.
const FULL: u32 = 0x8300_0000;
/// How long a source keeps its place without being heard.
const KEPT: Duration = Duration::from_secs(10);
/// Sources that have a place.
const PLACES: u64 = 64 * 8;

const fn packets(rate: u64, burst: u64) -> ClearLimits {
    ClearLimits { packets: Some(Limit { rate, burst }), octets: None }
}

/// STRICT's policy by local port: 7001 is mandatory, 7002 never, 7003 optional; 10.99.0.128/26 is trusted.
fn table(limits: ClearLimits) -> Spd {
    let at = |port, services, level| item(PortRange::one(port), PortRange::ANY, services, level);
    let items = vec![
        at(7001, Services::ENCRYPTED, Level::Mandatory),
        at(7002, Services::NONE, Level::AcceptOnly),
        at(7003, Services::ENCRYPTED, Level::Optional),
    ];
    let networks = vec![
        network("10.99.0.0/24", Class::Protected(0)),
        network("10.98.0.0/16", Class::Protected(0)),
        network("fd99::/16", Class::Protected(0)),
        network("10.99.0.128/26", Class::Trusted),
    ];
    let mut spd = Spd::new(1);
    spd.insert(STRICT, AppPolicy::new(networks, vec![items]).accepting(limits));
    spd
}

struct Stage {
    server: program::Program,
    start: Instant,
    sent: u64,
    /// Last, for it goes when no program of it runs any more.
    world: World,
}

impl Stage {
    fn new(name: &str, limits: ClearLimits) -> Stage {
        let mut world = World::new(name);
        world.attach();
        world.load(&table(limits), &[]);
        let mut server = world.start("strict");
        for port in 7001..=7003 {
            server.run(&[&format!("open p{port} udp4"), &format!("bind p{port} 10.99.0.1:{port}")]);
            server.run(&[&format!("open q{port} udp6"), &format!("bind q{port} [fd99::1]:{port}")]);
        }
        Stage { world, server, start: Instant::now(), sent: 0 }
    }

    /// Seconds that limits may have earned.
    fn earned(&self) -> u64 {
        self.start.elapsed().as_secs() + 1
    }

    /// How many were accepted and how many refused, once all that were sent have been judged.
    fn figures(&mut self) -> (u64, u64) {
        let end = Instant::now() + SOON;
        loop {
            let sums = self.world.traffic(STRICT);
            let refused = sums.reasons.get("ingress_limited").copied().unwrap_or(0);
            let accepted = sums.in_clear.packets;
            assert_eq!(sums.in_refused.packets, refused);
            if accepted + refused == self.sent {
                return (accepted, refused);
            }
            assert!(Instant::now() < end, "{accepted} and {refused} of {}", self.sent);
            common::breathe();
        }
    }

    /// How many of `count` packets from this source are accepted.
    fn accepted(&mut self, from: &str, port: u16, count: u64) -> u64 {
        let before = self.figures().0;
        let to = if from.contains(':') { ALICE6 } else { ALICE };
        for _ in 0..count {
            self.world.bob_sends(&udp((from, 5000), (to, port), b"payload"));
        }
        self.sent += count;
        self.figures().0 - before
    }
}

#[test]
fn one_source_is_held_to_its_limit_and_no_other_with_it() {
    let mut stage = Stage::new("accept", packets(1, 5));
    let first = stage.accepted(BOB, 7003, 40);
    assert!((5..=5 + stage.earned()).contains(&first), "{first}");
    // What `never` and a trusted network let in is clear as well, and of this source the limit is spent.
    let more = stage.accepted(BOB, 7002, 40);
    assert!(more <= stage.earned(), "{more}");
    assert_eq!(stage.accepted("10.99.0.130", 7003, 5), 5);
    assert_eq!(stage.accepted("10.98.0.2", 7003, 5), 5);
    let told = stage.world.sockmon().events().unwrap();
    let event = told.iter().find(|event| event.reason == "ingress_limited").expect("it is told of");
    assert_eq!((event.app, event.peer.to_string().as_str()), (STRICT, "10.99.0.2:5000"));

    // One IPv6 host has all addresses of its /64.
    let first = stage.accepted("fd99::2", 7003, 5);
    assert_eq!(first, 5);
    let more = stage.accepted("fd99::3", 7003, 40);
    assert!(more <= stage.earned(), "{more}");
    assert_eq!(stage.accepted("fd99:0:0:1::2", 7003, 5), 5);

    // What is proven is not held.
    for _ in 0..40 {
        stage.world.inject(FULL, &udp((BOB, 5000), (ALICE, 7001), b"payload"));
        assert_eq!(stage.server.ask("recv p7001 5000"), "7");
    }
    // Nor what sockets of this host send to each other.
    let mut neighbour = stage.world.start("unnamed");
    neighbour.run(&["open s udp4"]);
    for _ in 0..40 {
        neighbour.run(&["sendto s 10.99.0.1:7001 7"]);
        assert_eq!(stage.server.ask("recv p7001 5000"), "7");
    }
    let before = stage.figures().1;
    // Another application has no limit.
    let mut spd = table(packets(1, 5));
    spd.insert(WEAK, AppPolicy::new(vec![network("0.0.0.0/0", Class::Trusted)], Vec::new()));
    stage.world.load(&spd, &[]);
    let mut other = stage.world.start("weak");
    other.run(&["open s udp4", "bind s 10.99.0.1:7009"]);
    for _ in 0..40 {
        stage.world.bob_sends(&udp((BOB, 5000), (ALICE, 7009), b"payload"));
        assert_eq!(other.ask("recv s 5000"), "7");
    }
    assert_eq!(stage.figures().1, before);
}

#[test]
fn forged_sources_share_what_places_there_are_and_take_none_from_who_is_heard() {
    let mut stage = Stage::new("acceptforged", packets(1, 20));
    let entries = |stage: &Stage| {
        let path = format!("/sys/fs/bpf/ravelin/{}/sources", stage.world.name);
        let map = libbpf_rs::MapHandle::from_pinned_path(path).unwrap();
        libbpf_rs::MapCore::keys(&map).count()
    };
    let before = entries(&stage);
    let (mut heard, mut longest) = (Instant::now(), Duration::ZERO);
    assert_eq!(stage.accepted(BOB, 7003, 1), 1);
    let mut forged = 0;
    for high in 0..8 {
        let sum = stage.figures().0;
        for low in 0..250 {
            stage.world.bob_sends(&udp((&format!("10.98.{high}.{low}"), 5000), (ALICE, 7003), b"payload"));
        }
        stage.sent += 250;
        forged += stage.figures().0 - sum;
        let honest = stage.accepted(BOB, 7003, 1);
        longest = longest.max(heard.elapsed());
        heard = Instant::now();
        assert!(honest == 1 || longest >= KEPT, "the honest source lost its place after {longest:?}");
    }
    let earned = stage.earned();
    // All places but one, and what those without one have together.
    let most = (PLACES - 1) * (1 + earned / KEPT.as_secs()) + 20 + earned;
    assert!((PLACES - 1..=most).contains(&forged), "{forged} of 2000, at most {most}");
    // It has what is left of its own burst, though 2000 others came meanwhile.
    assert!(stage.accepted(BOB, 7003, 11) == 11 || longest.max(heard.elapsed()) >= KEPT);
    assert_eq!(entries(&stage), before, "a source makes no entry");
}

#[test]
fn a_load_of_policy_gives_a_source_nothing_back_and_leaves_nothing_behind() {
    let mut stage = Stage::new("acceptload", packets(1, 3));
    let first = stage.accepted(BOB, 7003, 20);
    stage.world.load(&table(packets(1, 3)), &[]);
    let second = stage.accepted(BOB, 7003, 20);
    assert!((3..=3 + stage.earned()).contains(&(first + second)), "{first} and {second}");
    // A new limit does not wait for the old one.
    let octets = ClearLimits { octets: Some(Limit { rate: 1, burst: 100_000 }), packets: None };
    stage.world.load(&table(octets), &[]);
    assert_eq!(stage.accepted(BOB, 7003, 20), 20);
    stage.world.load(&table(ClearLimits::default()), &[]);
    assert_eq!(stage.accepted(BOB, 7003, 20), 20);
    let pinned = format!("/sys/fs/bpf/ravelin/{}", stage.world.name);
    for map in ["accepts", "sources"] {
        let map = libbpf_rs::MapHandle::from_pinned_path(format!("{pinned}/{map}")).unwrap();
        assert_eq!(libbpf_rs::MapCore::keys(&map).count(), 0);
    }
}

#[test]
fn what_is_only_watched_is_not_held() {
    let mut stage = Stage::new("acceptwatched", packets(1, 3));
    let mut watched = Spd::new(1);
    let policy = table(packets(1, 3));
    let policy = policy.get(STRICT).unwrap();
    let intended = policy.networks().iter().map(|network| (network.rule, network.class)).collect();
    watched.insert(STRICT, policy.clone().observing(intended));
    stage.world.load(&watched, &[]);
    assert_eq!(stage.accepted(BOB, 7003, 40), 40);
}
