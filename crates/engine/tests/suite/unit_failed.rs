//! A crypto unit that fails, seen from both ends of the engine: what leaves is what would have left anyway, under the
//! same numbers; what does not leave or is not delivered ends as `unit_failed`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::auth::bare_config;
use crate::faulty::*;
use crate::support;

use crypto::SuiteId;
use engine::{Delivery, Dropped, Inbound, Order, Outbound, Outcome};
use sadb::sa::{Encapsulation, SaOptions, SaProtocol};
use sadb::{InboundSa, Mode, OutboundSa, SaConfig, Selectors, Spi};
use support::*;
use wire::ip::Headers;
use wire::probe::Message;
use wire::tcp::Flags;
use wire::{Burst, DropReason, Gso, GsoKind, OuterHeader, Packet, Services, protocol, record, stage};

const FAILED: DropReason = DropReason::UnitFailed;

/// A sender whose associations are all served by the unit of this plan.
fn sender(configs: &[SaConfig], plan: &Arc<Plan>, gather: bool) -> Sender {
    let registry = plan.registry();
    let mut engine = Outbound::new(Arc::new(mandatory()), 0x5eed);
    for config in configs {
        engine.add_sa(OutboundSa::new(config.clone(), &registry).unwrap()).unwrap();
    }
    Sender { engine: if gather { engine.gathering() } else { engine }, pool: pool() }
}

fn receiver(config: &SaConfig, plan: &Arc<Plan>) -> Receiver {
    let mut engine = Inbound::new(PORT);
    engine.add_sa(InboundSa::new(mirror(config), &plan.registry()).unwrap()).unwrap();
    Receiver { engine, pool: pool() }
}

/// Associations of every mode and family, with a path for long packets.
fn configs() -> Vec<SaConfig> {
    let mut all = Vec::new();
    for mode in MODES {
        for v6 in [false, true] {
            let udp = outbound_config(mode, SuiteId::AES_128_GCM, v6);
            let bare = bare_config(SaProtocol::Esp, mode, SuiteId::CHACHA20_POLY1305, v6);
            all.extend([udp, bare].map(|config| SaConfig { path_mtu: 9000, ..config }));
        }
    }
    all
}

fn is_v6(config: &SaConfig) -> bool {
    config.endpoints.local.is_ipv6()
}

/// A stream of marked octets as TSO hands it over.
fn marked_stream(v6: bool, size: u16, len: usize) -> Packet<stage::Inner> {
    let (alice, bob) = hosts(v6);
    let mut bytes = tcp_packet((alice, 40000), (bob, 443), 9, Flags::ACK, true, &marked(len));
    let gso = half_checksum(&mut bytes, 16);
    let mut packet = stamped(APP, &bytes);
    packet.meta.gso = Gso { kind: GsoKind::Tcp, size, ..gso };
    packet
}

/// Packets that take every way there is: alone, gathered one by one and in pieces, sealed where they lie.
fn traffic(v6: bool) -> Vec<Packet<stage::Inner>> {
    let datagram = |len| stamped(APP, &marked_datagram(v6, len));
    let mut all: Vec<_> = (0..40).map(|n| datagram(60 + n % 3 * 100)).collect();
    all.extend([3000, 4000, 5000, 100, 3500, 200].map(datagram));
    all.extend([marked_stream(v6, 1000, 30_000), marked_stream(v6, 500, 9000), datagram(2500), datagram(70)]);
    all
}

#[derive(Default)]
struct SentTraffic {
    /// The ESP packets by their sequence numbers, in the order in which they left.
    sent: Vec<(u64, Vec<u8>)>,
    dropped: Vec<Dropped>,
}

impl SentTraffic {
    fn take(&mut self, outcomes: Vec<Outcome>) {
        for outcome in outcomes {
            match outcome {
                Outcome::Send(packet) => {
                    let headers = Headers::parse(packet.bytes()).unwrap();
                    let udp = if headers.protocol == protocol::UDP { 8 } else { 0 };
                    self.sent.push((packet.meta.sequence, headers.upper(packet.bytes())[udp..].to_vec()));
                }
                Outcome::Burst(burst) => {
                    let numbers = burst.meta.sequence..;
                    self.sent.extend(numbers.zip(burst.datagrams().map(<[u8]>::to_vec)));
                }
                Outcome::Drop(dropped) => self.dropped.push(dropped),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Hand over all of it; bursts leave behind every `pause`-th packet and at the end.
fn send(alice: &mut Sender, all: Vec<Packet<stage::Inner>>, pause: usize) -> SentTraffic {
    let mut left = SentTraffic::default();
    let count = all.len();
    for (n, packet) in all.into_iter().enumerate() {
        let mut out = Vec::new();
        alice.engine.handle(NOW, packet, &mut alice.pool, &mut out);
        if (n + 1) % pause == 0 || n + 1 == count {
            alice.engine.flush(&mut alice.pool, &mut out);
        }
        left.take(out);
    }
    left
}

fn sa(alice: &Sender) -> &OutboundSa {
    alice.engine.sad().list().next().unwrap().1
}

#[test]
fn what_leaves_is_what_would_have_left_anyway_and_the_rest_ends_as_unit_failed() {
    for config in configs() {
        let v6 = is_v6(&config);
        for gather in [false, true] {
            let mut healthy = sender(std::slice::from_ref(&config), &Plan::new(Fault::First, 0), gather);
            let whole = send(&mut healthy, traffic(v6), 23);
            let expected: BTreeMap<u64, Vec<u8>> = whole.sent.into_iter().collect();
            let count = expected.len() as u64;
            assert_eq!((sa(&healthy).next_sequence(), whole.dropped.len()), (count + 1, 0));
            assert_eq!(count, 40 + 6 + 30 + 18 + 2);
            for (fault, every) in
                FAULTS.into_iter().flat_map(|fault| [1, 2, 3, 5].map(|every| (fault, every)))
            {
                let case = format!("{:?} gather {gather} {fault:?} every {every}", config.mode);
                let plan = Plan::new(fault, every);
                let mut alice = sender(std::slice::from_ref(&config), &plan, gather);
                let left = send(&mut alice, traffic(v6), 23);
                for (number, octets) in &left.sent {
                    assert!(!shows_plaintext(octets), "{case}: {number}");
                    assert_eq!(Some(octets), expected.get(number), "{case}: {number}");
                }
                assert!(left.sent.is_sorted_by(|one, next| one.0 < next.0), "{case}: a number came twice");
                let sent = left.sent.len() as u64;
                assert!(if every == 1 { sent == 0 } else { 0 < sent && sent < count }, "{case}: {sent}");

                // Each of them has an end.
                let stats = alice.engine.stats();
                assert_eq!(stats.drops().collect::<Vec<_>>(), [(FAILED, count - sent)], "{case}");
                assert_eq!(stats.protected.packets, sent, "{case}");
                assert!(!left.dropped.is_empty(), "{case}");
                for dropped in left.dropped.iter().chain(stats.last_drops()) {
                    let what = (dropped.reason, dropped.app, dropped.rule, dropped.spi, dropped.at);
                    assert_eq!(what, (FAILED, APP, 2, config.spi.0, NOW), "{case}");
                    let flow = dropped.flow.unwrap();
                    assert_eq!((flow.local, flow.remote, flow.local_port), (hosts(v6).0, hosts(v6).1, 40000));
                    assert!(left.sent.iter().all(|(number, _)| *number != dropped.sequence), "{case}");
                }
                // Numbers and lifetimes go on as if all had left.
                let (ours, theirs) = (sa(&alice), sa(&healthy));
                assert_eq!(ours.next_sequence(), count + 1, "{case}");
                assert_eq!(ours.counters.packets, theirs.counters.packets, "{case}");
                assert_eq!(ours.counters.bytes, theirs.counters.bytes, "{case}");
                assert_eq!(ours.counters.drops().collect::<Vec<_>>(), [(FAILED, count - sent)], "{case}");

                // The unit is back: higher numbers, and Bob takes them.
                plan.fail_every(0);
                let left = send(&mut alice, traffic(v6), 23);
                assert_eq!(left.sent.first().map(|(number, _)| *number), Some(count + 1), "{case}");
                assert_eq!((left.sent.len() as u64, left.dropped.len()), (count, 0), "{case}");
            }
        }
    }
}

#[test]
fn a_large_packet_on_the_fast_path_ends_once() {
    let config = SaConfig { path_mtu: 9000, ..outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false) };
    for fault in FAULTS {
        let plan = Plan::new(fault, 0);
        let mut alice = sender(std::slice::from_ref(&config), &plan, true);
        let large = |len| stamped(APP, &marked_datagram(false, len));
        // The first one goes through the stages, and the flow is remembered.
        assert_eq!(send(&mut alice, vec![large(3000), large(3001)], 1).sent.len(), 2);
        plan.fail_every(2);
        let left = send(&mut alice, vec![large(4000), large(4001), large(4002), large(4003)], 1);
        let numbers: Vec<_> = left.sent.iter().map(|(number, _)| *number).collect();
        let ended: Vec<_> = left.dropped.iter().map(|dropped| (dropped.sequence, dropped.len)).collect();
        assert_eq!((numbers, ended), (vec![3, 5], vec![(4, 4001 + 28), (6, 4003 + 28)]), "{fault:?}");
        assert_eq!(alice.engine.stats().drops().collect::<Vec<_>>(), [(FAILED, 2)]);
        assert_eq!((sa(&alice).counters.packets, alice.engine.stats().protected.packets), (6, 4));
    }
}

#[test]
fn a_burst_that_ends_is_reported_by_its_first_packet() {
    let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    let mut alice = sender(std::slice::from_ref(&config), &Plan::new(Fault::First, 1), true);
    let (from, to) = hosts(false);
    let from_port = |port| {
        let mut packet = stamped(APP, &udp_packet((from, port), (to, 53), 0, true, &marked(100)));
        packet.meta.cookie = port.into();
        packet
    };
    let left = send(&mut alice, vec![from_port(1000), from_port(1001), from_port(1002)], 9);
    assert_eq!((left.sent.len(), left.dropped.len()), (0, 1));
    let dropped = left.dropped[0];
    assert_eq!((dropped.reason, dropped.sequence, dropped.cookie, dropped.len), (FAILED, 1, 1000, 128));
    assert_eq!(dropped.mark, record::STAMPED | u32::from(APP.0));
    assert_eq!(dropped.flow.unwrap().local_port, 1000);
    assert_eq!(alice.engine.stats().drops().collect::<Vec<_>>(), [(FAILED, 3)]);
}

/// Two members: flows choose the first, which goes through the second.
fn bundle(v6: bool) -> [SaConfig; 2] {
    let esp = |spi| {
        let config = bare_config(SaProtocol::Esp, Mode::Transport, SuiteId::AES_128_GCM, v6);
        SaConfig { spi: Spi(spi), keymat: keymat(config.suite, spi as u8), ..config }
    };
    let (mut inner, mut outer) = (esp(0x1000), esp(0x1001));
    inner.options.next = Some(outer.spi);
    outer.selectors = Selectors { protocol: Some(protocol::ESP), ..Selectors::ANY };
    [inner, outer]
}

#[test]
fn a_member_of_a_bundle_that_fails_ends_the_packet() {
    for (v6, fault) in [false, true].into_iter().flat_map(|v6| FAULTS.map(|fault| (v6, fault))) {
        for failing in [0, 1] {
            let members = bundle(v6);
            let (broken, whole) = (Plan::new(fault, 2), Plan::new(fault, 0));
            let mut engine = Outbound::new(Arc::new(mandatory()), 1);
            for (n, config) in members.iter().enumerate() {
                let plan = if n == failing { &broken } else { &whole };
                engine.add_sa(OutboundSa::new(config.clone(), &plan.registry()).unwrap()).unwrap();
            }
            let mut alice = Sender { engine, pool: pool() };
            let mut bob = Inbound::new(PORT);
            for config in &members {
                bob.add_sa(InboundSa::new(mirror(config), registry()).unwrap()).unwrap();
            }
            let mut bob = Receiver { engine: bob, pool: pool() };
            for n in 1..=6 {
                match alice.handle(stamped(APP, &marked_datagram(v6, 200))).remove(0) {
                    Outcome::Send(outer) => {
                        assert_eq!(n % 2, 1);
                        assert!(!shows_plaintext(outer.bytes()));
                        assert!(shows_plaintext(bob.handle(outer.bytes()).unwrap().0.bytes()));
                    }
                    Outcome::Drop(dropped) => assert_eq!((dropped.reason, n % 2), (FAILED, 0)),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(alice.engine.stats().drops().collect::<Vec<_>>(), [(FAILED, 3)]);
            for (spi, drops, last) in [
                (0x1000, [3, 0][failing], 7),
                // What the first member did not seal never came to the second.
                (0x1001, [0, 3][failing], [4, 7][failing]),
            ] {
                let (_, sa) = alice.engine.sad().list().find(|(_, sa)| sa.spi() == Spi(spi)).unwrap();
                assert_eq!((sa.counters.drops_for(FAILED), sa.next_sequence()), (drops, last), "{spi:x}");
            }
        }
    }
}

#[test]
fn dummies_and_probes_that_fail_do_not_leave_and_do_not_stop_the_clock() {
    for fault in FAULTS {
        let options = SaOptions { dummy: 10, ..SaOptions::default() };
        let config = SaConfig { options, ..outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false) };
        let plan = Plan::new(fault, 1);
        let mut alice = sender(std::slice::from_ref(&config), &plan, true);
        let order = |alice: &mut Sender, out: &mut Vec<Outcome>| {
            let ends = &config.endpoints;
            let message = Message::Probe { token: 1, answer_by: 2 };
            let (spi, local, remote) = (config.spi, ends.local, ends.remote);
            alice.engine.order(Order { spi, local, remote, message, size: 600 });
            alice.engine.release(NOW, &mut alice.pool, out);
        };
        let listen = |alice: &mut Sender, from: u64| {
            let mut out = Vec::new();
            let mut now = NOW + Duration::from_millis(from);
            while now < NOW + Duration::from_millis(from + 1000) {
                alice.engine.handle_timeout(now, &mut alice.pool, &mut out);
                let (next, _) = alice.engine.poll_timeout().unwrap();
                assert!(next > now, "no busy loop");
                now = next;
            }
            out
        };
        let mut out = listen(&mut alice, 0);
        order(&mut alice, &mut out);
        assert!(out.is_empty(), "{out:?}");
        let failed = sa(&alice).counters.drops_for(FAILED);
        assert!(failed >= 9, "{failed}");
        assert_eq!((sa(&alice).counters.dummies, sa(&alice).next_sequence()), (0, failed + 1));

        plan.fail_every(0);
        let mut out = listen(&mut alice, 1000);
        order(&mut alice, &mut out);
        let mut left = SentTraffic::default();
        left.take(out);
        assert_eq!(left.sent.first().map(|(number, _)| *number), Some(failed + 1));
        let sent = left.sent.len() as u64;
        assert!(sent >= 9, "{sent}");
        assert_eq!((sa(&alice).counters.dummies, sa(&alice).next_sequence()), (sent, failed + sent + 1));
    }
}

#[test]
fn answers_of_the_kernel_end_and_answers_to_the_host_do_not_need_the_unit() {
    let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    for gather in [false, true] {
        let mut alice = sender(std::slice::from_ref(&config), &Plan::new(Fault::Spill, 1), gather);
        // An answer to an echo request that came protected.
        let (from, to) = hosts(false);
        let mut echo = vec![0, 0, 0, 0, 0, 7, 0, 1];
        echo.extend(marked(100));
        let answer = ip_packet(from, to, protocol::ICMP, 0, true, &echo);
        let mark = record::PROOF | Services::ENCRYPTED.in_mark() | u32::from(APP.0);
        let left = send(&mut alice, vec![reflected(mark, &answer)], 1);
        assert_eq!((left.sent.len(), left.dropped.len(), left.dropped[0].reason), (0, 1, FAILED));

        // Too long for the tunnel: the program is told so, and nothing of it is sealed.
        let outcomes = alice.handle(stamped(APP, &marked_datagram(false, 1480)));
        match &outcomes[..] {
            [Outcome::Reply(..), Outcome::Drop(dropped)] => assert_eq!(dropped.reason, DropReason::TooBig),
            other => panic!("{other:?}"),
        }
        assert_eq!(sa(&alice).next_sequence(), 2);
    }
}

/// ESP packets of one association, as they travel in UDP.
fn datagrams(config: &SaConfig, count: usize) -> Vec<Vec<u8>> {
    let mut alice = sender(std::slice::from_ref(config), &Plan::new(Fault::First, 0), false);
    let v6 = is_v6(config);
    (0..count).map(|_| alice.send(stamped(APP, &marked_datagram(v6, 200)))[0].bytes().to_vec()).collect()
}

/// Receive outer packets one by one or as one burst; the inner packets.
fn receive(bob: &mut Receiver, outer: &[Vec<u8>], as_burst: bool) -> Vec<Vec<u8>> {
    if !as_burst {
        let got = outer.iter().filter_map(|bytes| bob.handle(bytes).ok());
        return got.map(|(packet, _)| packet.bytes().to_vec()).collect();
    }
    let headers = Headers::parse(&outer[0]).unwrap();
    let header = OuterHeader {
        src: headers.src,
        dst: headers.dst,
        src_port: PORT,
        dst_port: PORT,
        tos: headers.tos,
        ttl: headers.ttl,
        may_fragment: false,
    };
    let esp = |bytes: &[u8]| Headers::parse(bytes).unwrap().upper(bytes)[8..].to_vec();
    let joined: Vec<Vec<u8>> = outer.iter().map(|bytes| esp(bytes)).collect();
    let stride = joined[0].len();
    let mut buf = bob.pool.take();
    buf.push_back(stride * joined.len()).unwrap().copy_from_slice(&joined.concat());
    let mut delivery = Delivery::new();
    let burst = Burst::raw(buf, header, stride, NOW).unwrap();
    bob.engine.handle_burst(NOW, burst, &mut bob.pool, &mut delivery);
    let got = delivery.packets().map(|(bytes, _)| bytes.to_vec()).collect();
    delivery.clear(&mut bob.pool);
    got
}

#[test]
fn what_is_not_opened_is_not_delivered_and_may_come_again() {
    for config in configs().into_iter().filter(|config| config.options.encapsulation == Encapsulation::Udp) {
        for (fault, as_burst) in FAULTS.into_iter().flat_map(|fault| [(fault, false), (fault, true)]) {
            let case = format!("{:?} {fault:?} burst {as_burst}", config.mode);
            let outer = datagrams(&config, 20);
            let plan = Plan::new(fault, 1);
            let mut bob = receiver(&config, &plan);
            bob.engine.set_audit(Some(100));
            assert_eq!(receive(&mut bob, &outer, as_burst), Vec::<Vec<u8>>::new(), "{case}");
            let stats = bob.engine.stats();
            assert_eq!(stats.drops().collect::<Vec<_>>(), [(FAILED, 20)], "{case}");
            assert_eq!(stats.protected.packets, 0, "{case}");
            assert!(
                stats.last_drops().all(|dropped| (dropped.reason, dropped.spi) == (FAILED, SPI)),
                "{case}"
            );
            // Nobody was attacked, as far as one can tell.
            bob.engine.take_audits(NOW, &mut |audited| panic!("{audited:?}"));
            let sa = bob.engine.sad().get(Spi(SPI)).unwrap();
            assert_eq!((sa.counters.packets, sa.counters.drops_for(FAILED)), (0, 20), "{case}");

            plan.fail_every(0);
            let got = receive(&mut bob, &outer, as_burst);
            assert_eq!(got.len(), 20, "{case}");
            assert!(got.iter().all(|inner| shows_plaintext(inner)), "{case}");
            assert_eq!(receive(&mut bob, &outer, as_burst).len(), 0, "{case}");
            let drops: Vec<_> = bob.engine.stats().drops().collect();
            assert_eq!(drops, [(DropReason::Replayed, 20), (FAILED, 20)], "{case}");
        }
    }
}

#[test]
fn a_burst_of_two_associations_loses_the_packets_of_one() {
    let first = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    let second = SaConfig { spi: Spi(SPI + 1), keymat: keymat(first.suite, 9), ..first.clone() };
    let (broken, whole) = (Plan::new(Fault::Spill, 1), Plan::new(Fault::Spill, 0));
    let mut engine = Inbound::new(PORT);
    engine.add_sa(InboundSa::new(mirror(&first), &broken.registry()).unwrap()).unwrap();
    engine.add_sa(InboundSa::new(mirror(&second), &whole.registry()).unwrap()).unwrap();
    let mut bob = Receiver { engine, pool: pool() };
    let mixed: Vec<_> = datagrams(&first, 6).into_iter().zip(datagrams(&second, 6)).collect();
    let mixed: Vec<_> = mixed.into_iter().flat_map(|(one, other)| [one, other]).collect();
    let got = receive(&mut bob, &mixed, true);
    assert_eq!(got.len(), 6);
    assert_eq!(bob.engine.stats().drops().collect::<Vec<_>>(), [(FAILED, 6)]);
    for (spi, packets, failed) in [(SPI, 0, 6), (SPI + 1, 6, 0)] {
        let counters = &bob.engine.sad().get(Spi(spi)).unwrap().counters;
        assert_eq!((counters.packets, counters.drops_for(FAILED)), (packets, failed));
    }
}
