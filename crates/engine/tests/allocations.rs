//! In steady state no packet allocates, whichever way it goes and however it ends.

#[path = "../../ipsec/tests/suite/support/auth.rs"]
mod auth;
#[path = "suite/support/mod.rs"]
mod support;

use auth::{ah_config, bare_config, sha256};
use crypto::SuiteId;
use engine::{Delivery, InboundOutcome, Outcome};
use sadb::sa::SaProtocol;
use sadb::spd::Level;
use sadb::{InboundSa, Mode, OutboundSa, SaConfig, Spi};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use support::*;
use wire::{AppId, Burst, Meta, Packet, Pool, Services, Time};

struct Counting;

thread_local! {
    /// Counts the allocations of this thread alone, since the test harness allocates on its own.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands every call on to the system's allocator; counting is all it adds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Fill a buffer of the pool.
fn load(pool: &mut Pool, bytes: &[u8], meta: Meta) -> (wire::Buf, Meta) {
    let mut buf = pool.take();
    buf.push_back(bytes.len()).unwrap().copy_from_slice(bytes);
    (buf, meta)
}

// One test only: another one in parallel would allocate as well.
#[test]
fn no_packet_allocates_in_steady_state() {
    for mode in MODES {
        for suite in SUITES {
            steady_state(mode, suite);
            bursts_in_steady_state(mode, suite, false);
            bursts_in_steady_state(mode, suite, true);
        }
    }
    for mode in MODES {
        through(&format!("{mode} AH"), &[ah_config(mode, sha256(), false)]);
    }
    through("a bundle", &bundle());
    for suite in [SuiteId::AES_128_GCM, SuiteId::CHACHA20_POLY1305] {
        waiting_in_steady_state(suite, "");
    }
    for suite in [SuiteId::AES_128_GCM, stepped()] {
        waiting_in_steady_state(suite, "[unit.slow]\nkind = \"sliced\"\nstep = \"10us\"\n");
    }
}

fn steady_state(mode: Mode, suite: SuiteId) {
    through(&format!("{mode} {suite}"), &[outbound_config(mode, suite, false)]);
}

/// A bundle of AH, compression, IP in IP and ESP.
fn bundle() -> Vec<SaConfig> {
    let members = [
        (SaProtocol::IpComp, Mode::Transport, sha256(), 0x3000),
        (SaProtocol::IpIp, Mode::Tunnel, sha256(), 0x3001),
        (SaProtocol::Esp, Mode::Transport, SuiteId::AES_128_GCM, 0x3002),
        (SaProtocol::Ah, Mode::Transport, sha256(), 0x3003),
    ];
    let mut members: Vec<SaConfig> = members
        .into_iter()
        .map(|(protocol, mode, suite, spi)| {
            let mut config = bare_config(protocol, mode, suite, false);
            config.spi = Spi(spi);
            config.options.next = Some(Spi(spi + 1));
            config
        })
        .collect();
    members[3].options.next = None;
    for later in &mut members[1..] {
        // No flow of the host's chooses it.
        later.selectors.app = Some(AppId(99));
    }
    members
}

fn through(name: &str, configs: &[SaConfig]) {
    let registry = registry();
    let mut alice = Sender::new(policy(APP, Services::AUTHENTICATED, Level::Mandatory), &[]);
    let mut bob = Receiver::new(&[]);
    for config in configs {
        alice.engine.add_sa(OutboundSa::new(config.clone(), registry).unwrap()).unwrap();
        let mut theirs = mirror(config);
        theirs.selectors.app = None;
        bob.engine.add_sa(InboundSa::new(theirs, registry).unwrap()).unwrap();
    }
    let small = stamped(APP, &alice_to_bob(false, 0, 100));
    let (large, _) = tcp_super(false, 1, 1400, 60_000);
    let unstamped = from_host(&alice_to_bob(false, 0, 100));
    let (mut out, mut delivered) = (Vec::with_capacity(128), Vec::with_capacity(128));
    let (mut count, mut arrived) = (0u64, 0u64);
    let mut round = |count: &mut u64| {
        for template in [&small, &large, &unstamped] {
            let (buf, meta) = load(&mut alice.pool, template.bytes(), template.meta);
            alice.engine.handle(Time(1), Packet::from_host(buf, meta), &mut alice.pool, &mut out);
        }
        for outcome in out.drain(..) {
            let Outcome::Send(packet) = outcome else { continue };
            *count += 1;
            // The packet, a copy of it, and a forgery.
            for forged in [false, false, true] {
                let (mut buf, meta) = load(&mut bob.pool, packet.bytes(), Meta::default());
                if forged {
                    *buf.as_mut_slice().last_mut().unwrap() ^= 1;
                    buf.as_mut_slice()[35] ^= 0x55;
                }
                bob.engine.handle(Time(1), Packet::raw(buf, meta), &mut bob.pool, &mut delivered);
            }
            alice.pool.put(packet.into_buf());
        }
        for outcome in delivered.drain(..) {
            if let InboundOutcome::Deliver(packet, _) = outcome {
                arrived += 1;
                bob.pool.put(packet.into_buf());
            }
        }
    };
    // Tables, pools and the list of recent drops fill up first.
    for _ in 0..8 {
        round(&mut count);
    }
    let (before, counted) = (ALLOCATIONS.get(), count);
    for _ in 0..50 {
        round(&mut count);
    }
    let allocated = ALLOCATIONS.get() - before;
    assert_eq!(allocated, 0, "{name}: {} packets sealed and opened", count - counted);
    assert!(count - counted > 2000);
    // The packet of each, once.
    assert_eq!(arrived, count, "{name}");
}

fn bursts_in_steady_state(mode: Mode, suite: SuiteId, v6: bool) {
    let config = outbound_config(mode, suite, v6);
    let mut alice = Sender::new(mandatory(), std::slice::from_ref(&config));
    alice.engine = alice.engine.gathering();
    let mut bob = Receiver::new(std::slice::from_ref(&config));
    let small = stamped(APP, &alice_to_bob(v6, 0, 100));
    let (large, _) = tcp_super(v6, 1, 1400, 60_000);
    let (mut out, mut delivery) = (Vec::with_capacity(128), Delivery::new());
    let mut round = || {
        for template in [&small, &small, &large, &large, &small] {
            let (buf, meta) = load(&mut alice.pool, template.bytes(), template.meta);
            alice.engine.handle(Time(1), Packet::from_host(buf, meta), &mut alice.pool, &mut out);
        }
        alice.engine.flush(&mut alice.pool, &mut out);
        let mut count = 0;
        for outcome in out.drain(..) {
            let Outcome::Burst(burst) = outcome else { panic!("{outcome:?}") };
            // The burst, and a copy of it.
            for _ in 0..2 {
                let (buf, _) = load(&mut bob.pool, burst.bytes(), Meta::default());
                let raw = Burst::raw(buf, burst.header, burst.stride(), Time(1)).unwrap();
                bob.engine.handle_burst(Time(1), raw, &mut bob.pool, &mut delivery);
            }
            count += burst.count();
            alice.pool.put(burst.into_buf());
        }
        assert_eq!(delivery.len(), count);
        let mut delivered = 0;
        delivery.coalesced(|coalesced| delivered += coalesced.packets().len());
        assert_eq!(delivered, count);
        delivery.clear(&mut bob.pool);
        count
    };
    for _ in 0..8 {
        round();
    }
    let before = ALLOCATIONS.get();
    let count: usize = (0..50).map(|_| round()).sum();
    let allocated = ALLOCATIONS.get() - before;
    assert_eq!(allocated, 0, "{mode} {suite}: {count} packets in bursts");
    assert!(count > 2000);
}

/// A suite of a cipher and a MAC, each of which works in steps.
fn stepped() -> SuiteId {
    "aes256cbc-sha256".parse().unwrap()
}

/// Bursts and packets that wait in an inbound graph of two classes, some of which are cut, and forgeries.
fn waiting_in_steady_state(suite: SuiteId, units: &str) {
    let suites = || SUITES.into_iter().chain([stepped()]);
    let text = "discipline = \"strict\"\nstages = [1, 3, 5]\nguard = \"100%\"\n\
                [class.ef]\nmatch = [{ dscp = [\"EF\"] }]\npriority = true\nlimit = { packets = 1000 }\n\
                unpoliced = true\n[class.be]\nmatch = \"rest\"\nlimit = { packets = 1000 }\n";
    let text = &format!("{text}{units}");
    let house = qos::graph::House {
        known_suites: suites().map(|suite| suite.to_string()).collect(),
        ..qos::graph::House::default()
    };
    let description = qos::graph::check(text, &house).unwrap();
    let compiled = qos::graph::compile(&description, &house, qos::Direction::Inbound, 7).unwrap();
    let graph = engine::InboundGraph::new(compiled, suites().zip(0..).collect(), 11).unwrap();
    let config = outbound_config(Mode::Tunnel, suite, false);
    let mut alice = Sender::new(mandatory(), std::slice::from_ref(&config));
    alice.engine = alice.engine.gathering();
    let mut bob = Receiver::new(std::slice::from_ref(&config));
    let (mut sent, mut out, mut delivery) =
        (Vec::with_capacity(128), Vec::with_capacity(128), Delivery::new());
    bob.engine.set_graph(Time(1), Some(Box::new(graph)), &mut bob.pool, &mut out, &mut delivery);
    let small = stamped(APP, &alice_to_bob(false, 0, 100));
    let (large, _) = tcp_super(false, 1, 1400, 60_000);
    let mut now = 1;
    let mut round = || {
        for template in [&small, &large, &large, &small] {
            let (buf, meta) = load(&mut alice.pool, template.bytes(), template.meta);
            alice.engine.handle(Time(1), Packet::from_host(buf, meta), &mut alice.pool, &mut sent);
        }
        alice.engine.flush(&mut alice.pool, &mut sent);
        let mut count = 0;
        for outcome in sent.drain(..) {
            let Outcome::Burst(burst) = outcome else { panic!("{outcome:?}") };
            for is_forged in [true, false] {
                let (mut buf, _) = load(&mut bob.pool, burst.bytes(), Meta::default());
                if is_forged {
                    *buf.as_mut_slice().last_mut().unwrap() ^= 1;
                    buf.truncate(burst.stride());
                }
                let raw = Burst::raw(buf, burst.header, burst.stride(), Time(now)).unwrap();
                bob.engine.receive_burst(Time(now), raw, &mut bob.pool, &mut out, &mut delivery);
            }
            count += burst.count();
            alice.pool.put(burst.into_buf());
        }
        for _ in 0..1000 {
            bob.engine.look_up(Time(now), 64, &mut bob.pool, &mut out, &mut delivery);
            let any = bob.engine.turn(Time(now), &mut bob.pool, &mut out, &mut delivery);
            now += 1000;
            bob.engine.settle(Time(now));
            while bob.engine.step(Time(now), &mut bob.pool, &mut out, &mut delivery) {
                now += 1000;
                bob.engine.settle(Time(now));
            }
            if !any {
                break;
            }
        }
        let delivered = delivery.len();
        delivery.clear(&mut bob.pool);
        (count, delivered)
    };
    for _ in 0..8 {
        round();
    }
    let before = ALLOCATIONS.get();
    let all = (0..50).map(|_| round()).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    let allocated = ALLOCATIONS.get() - before;
    assert_eq!(allocated, 0, "{suite}: {} packets that waited", all.0);
    // A burst that is forged at its first datagram and has no other is the only one that is lost.
    assert!(all.0 > 2000 && all.1 > all.0 / 2, "{all:?}");
}
