//! Tests of which packets may leave, and how: policy, associations, answers, and what changes while packets flow.

use crate::support;

use crypto::SuiteId;
use engine::Outcome;
use sadb::spd::{AppPolicy, Class, Item, Level, Network, PortRange, RuleId, Spd};
use sadb::{Mode, OutboundSa, SaConfig, Selectors, Spi};
use std::net::IpAddr;
use std::sync::Arc;
use support::*;
use wire::ip::Headers;
use wire::{AppId, DropReason, Gso, GsoKind, Packet, Prefix, Services, checksum, protocol, record, stage};

fn prefix(text: &str) -> Prefix {
    let (addr, len) = text.split_once('/').unwrap();
    Prefix::new(addr.parse().unwrap(), len.parse().unwrap()).unwrap()
}

/// Application 7: port 53 of Bob's network must be protected, port 80 may be, others are refused; one host there
/// is trusted, one network is untrusted.
fn spd() -> Spd {
    let item = |port, level, rule| {
        Item::new(PortRange::ANY, PortRange::one(port), Services::ENCRYPTED, level, RuleId(rule))
    };
    let network = |text, class, rule| Network { prefix: prefix(text), class, rule: RuleId(rule) };
    let mut spd = Spd::new(1);
    let networks = vec![
        network("192.0.2.0/24", Class::Protected(0), 1),
        network("192.0.2.99/32", Class::Trusted, 2),
        network("203.0.113.0/24", Class::Untrusted, 3),
        network("2001:db8::/32", Class::Protected(0), 4),
    ];
    let items = vec![item(53, Level::Mandatory, 5), item(80, Level::Optional, 6)];
    spd.insert(APP, AppPolicy::new(networks, vec![items]));
    spd
}

fn tunnel() -> SaConfig {
    outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false)
}

fn to(remote: &str, port: u16) -> Vec<u8> {
    let remote: IpAddr = remote.parse().unwrap();
    let (local, _) = hosts(remote.is_ipv6());
    udp_packet((local, 40000), (remote, port), 0, true, b"a question")
}

/// The outcome of the packet in one word, with the rule that decided.
fn fate(alice: &mut Sender, packet: Packet<stage::Inner>) -> (&'static str, u32) {
    match alice.handle(packet).remove(0) {
        Outcome::Send(packet) => ("protected", packet.meta.rule),
        Outcome::Burst(_) => ("burst", 0),
        Outcome::Clear(packet) => ("clear", packet.meta.rule),
        Outcome::Reply(packet, _) => ("reply", packet.meta.rule),
        Outcome::Held(_) => ("held", 0),
        Outcome::Drop(dropped) => (dropped.reason.name(), dropped.rule),
    }
}

#[test]
fn policy_decides() {
    let bound_to_other = SaConfig {
        spi: Spi(0x2000),
        keymat: keymat(SuiteId::AES_128_GCM, 2),
        selectors: Selectors { app: Some(AppId(8)), ..Selectors::ANY },
        ..tunnel()
    };
    let mut with = Sender::new(spd(), &[tunnel()]);
    let mut without = Sender::new(spd(), &[bound_to_other]);
    let table = [
        ("192.0.2.11", 53, ("protected", 5), ("no_sa", 5)),
        ("192.0.2.11", 80, ("protected", 6), ("clear", 6)),
        ("192.0.2.11", 81, ("policy_discard", 1), ("policy_discard", 1)),
        ("192.0.2.99", 53, ("clear", 2), ("clear", 2)),
        ("203.0.113.5", 53, ("policy_discard", 3), ("policy_discard", 3)),
        ("198.51.100.1", 53, ("clear", 0), ("clear", 0)),
        ("2001:db8::b", 53, ("protected", 5), ("no_sa", 5)),
        ("2001:db8::b", 80, ("protected", 6), ("clear", 6)),
    ];
    // Twice: the second answer is the remembered one.
    for _ in 0..2 {
        for (remote, port, protected, unprotected) in table {
            assert_eq!(fate(&mut with, stamped(APP, &to(remote, port))), protected, "{remote}:{port}");
            assert_eq!(fate(&mut without, stamped(APP, &to(remote, port))), unprotected, "{remote}:{port}");
            // An application without policy is none of our business.
            assert_eq!(fate(&mut with, stamped(AppId(9), &to(remote, port))), ("clear", 0));
        }
    }
    // The other application's association serves only that application.
    without.engine.set_policy(Arc::new(policy(AppId(8), Services::ENCRYPTED, Level::Mandatory)));
    assert_eq!(fate(&mut without, stamped(AppId(8), &to("192.0.2.11", 53))), ("protected", 2));
}

/// A packet from a socket whose program asked for more than policy gives (docs/socket-api.md).
fn asking(app: AppId, services: u32, bytes: &[u8]) -> Packet<stage::Inner> {
    let mut packet = stamped(app, bytes);
    packet.meta.mark |= services;
    packet
}

#[test]
fn what_a_socket_asks_for_comes_on_top_of_policy() {
    let mut with = Sender::new(spd(), &[tunnel()]);
    let mut without = Sender::new(spd(), &[]);
    let (auth, both) = (record::AUTHENTICATED, record::AUTHENTICATED | record::ENCRYPTED);
    let table = [
        // No policy, trusted, no network: clear, unless the socket asks.
        (AppId(0), "192.0.2.11", 53, both, "protected", "no_sa"),
        (AppId(0), "192.0.2.11", 53, auth, "protected", "no_sa"),
        (AppId(9), "192.0.2.11", 53, record::ENCRYPTED, "protected", "no_sa"),
        (APP, "192.0.2.99", 53, both, "protected", "no_sa"),
        (APP, "198.51.100.1", 53, both, "protected", "no_sa"),
        // Mandatory stays, optional becomes it, refused stays refused.
        (APP, "192.0.2.11", 53, auth, "protected", "no_sa"),
        (APP, "192.0.2.11", 80, auth, "protected", "no_sa"),
        (APP, "192.0.2.11", 81, both, "policy_discard", "policy_discard"),
        (APP, "203.0.113.5", 53, both, "policy_discard", "policy_discard"),
        (APP, "2001:db8::b", 80, both, "protected", "no_sa"),
    ];
    // Twice, with the same flow not asking between: neither takes the other's remembered answer.
    for _ in 0..2 {
        for (app, remote, port, services, protected, unprotected) in table {
            let bytes = to(remote, port);
            assert_eq!(fate(&mut with, asking(app, services, &bytes)).0, protected, "{remote}:{port}");
            assert_eq!(fate(&mut without, asking(app, services, &bytes)).0, unprotected, "{remote}:{port}");
            if app != APP || port == 80 {
                assert_eq!(fate(&mut without, stamped(app, &bytes)).0, "clear", "{remote}:{port}");
            }
        }
    }
    // What the packet must have is the sum of both.
    let mut asks = Sender::new(spd(), &[]);
    asks.engine.set_hold(Some(engine::HoldLimits::default()));
    for (app, services, sum) in [(APP, auth, Services::ENCRYPTED), (AppId(0), auth, Services::AUTHENTICATED)]
    {
        assert_eq!(fate(&mut asks, asking(app, services, &to("192.0.2.11", 53))).0, "held");
        let Some(engine::Event::Acquire(acquire)) = asks.engine.poll_event() else { panic!("no acquire") };
        assert_eq!(acquire.services, sum);
    }
    // The kernel half does not take part in a decision of the socket's own.
    let engine = std::mem::replace(&mut without.engine, engine::Outbound::new(Arc::new(spd()), 1));
    without.engine = engine.behind_the_kernel_half();
    assert_eq!(fate(&mut without, asking(AppId(0), both, &to("192.0.2.11", 53))).0, "no_sa");
}

#[test]
fn the_first_packet_of_a_socket_that_asks_waits_for_its_association() {
    let registry = crypto_std::registry().unwrap();
    let mut alice = Sender::new(spd(), &[]);
    alice.engine.set_hold(Some(engine::HoldLimits::default()));
    let bytes = to("198.51.100.1", 53);
    let both = record::AUTHENTICATED | record::ENCRYPTED;
    assert_eq!(fate(&mut alice, asking(AppId(0), both, &bytes)).0, "held");
    let Some(engine::Event::Acquire(acquire)) = alice.engine.poll_event() else { panic!("no acquire") };
    assert_eq!((acquire.app, acquire.services, acquire.held), (AppId(0), Services::ENCRYPTED, true));
    let mut out = Vec::new();
    // Another change is no answer to it.
    alice.engine.set_policy(Arc::new(spd()));
    alice.engine.release(NOW, &mut alice.pool, &mut out);
    assert!(out.is_empty(), "{out:?}");
    alice.engine.add_sa(OutboundSa::new(tunnel(), &registry).unwrap()).unwrap();
    alice.engine.release(NOW, &mut alice.pool, &mut out);
    assert!(matches!(out[..], [Outcome::Send(_)]), "{out:?}");
}

#[test]
fn behind_the_kernel_half_a_bypass_is_a_disagreement() {
    let mut alice = Sender::new(spd(), &[]);
    let engine = std::mem::replace(&mut alice.engine, engine::Outbound::new(Arc::new(spd()), 1));
    alice.engine = engine.behind_the_kernel_half();
    // The kernel half lets these pass itself; that it did not says that it has another policy.
    for (app, remote) in [(APP, "192.0.2.99"), (APP, "198.51.100.1"), (AppId(9), "192.0.2.11")] {
        assert_eq!(fate(&mut alice, stamped(app, &to(remote, 53))).0, "disagreement", "{remote}");
    }
    assert_eq!(
        fate(&mut alice, stamped(APP, &to("192.0.2.11", 80))),
        ("clear", 6),
        "optional is its own business"
    );
}

#[test]
fn a_drop_says_who_and_what() {
    let mut alice = Sender::new(spd(), &[]);
    let mut packet = stamped(APP, &to("192.0.2.11", 53));
    packet.meta.cookie = 4711;
    let dropped = alice.refuse(packet);
    assert_eq!((dropped.reason, dropped.app, dropped.rule, dropped.cookie), (DropReason::NoSa, APP, 5, 4711));
    assert_eq!((dropped.at, dropped.len), (NOW, 38));
    assert_eq!(dropped.flow.unwrap().to_string(), "192.0.2.10:40000 -> 192.0.2.11:53/udp");
    assert_eq!(alice.engine.stats().last_drops().copied().collect::<Vec<_>>(), [dropped]);
    assert_eq!(alice.engine.stats().drops_for(DropReason::NoSa), 1);
}

#[test]
fn a_change_of_policy_or_associations_counts_from_the_next_packet() {
    let registry = registry();
    let mut alice = Sender::new(spd(), &[]);
    let packet = to("192.0.2.11", 53);
    assert_eq!(fate(&mut alice, stamped(APP, &packet)).0, "no_sa");
    alice.engine.add_sa(OutboundSa::new(tunnel(), registry).unwrap()).unwrap();
    assert_eq!(fate(&mut alice, stamped(APP, &packet)).0, "protected");
    alice.engine.set_policy(Arc::new(Spd::new(2)));
    assert_eq!(fate(&mut alice, stamped(APP, &packet)).0, "clear");
    alice.engine.set_policy(Arc::new(spd()));
    assert_eq!(fate(&mut alice, stamped(APP, &packet)).0, "protected");
    let sa = alice.engine.remove_sa(Spi(SPI), hosts(false).1).unwrap();
    assert_eq!((sa.next_sequence(), sa.counters.packets), (3, 2));
    assert_eq!(fate(&mut alice, stamped(APP, &packet)).0, "no_sa");
    assert!(alice.engine.export().is_empty());
}

#[test]
fn unstamped_packets_end() {
    let mut alice = Sender::new(Spd::new(1), &[tunnel()]);
    for mark in [0, 7, 0xffff, record::AUTHENTICATED | record::ENCRYPTED | 7, 1 << 19] {
        assert_eq!(alice.refuse(reflected(mark, &to("192.0.2.11", 53))).reason, DropReason::Unstamped);
    }
    let forwarded = reflected(record::FORWARDED, &to("192.0.2.11", 53));
    assert_eq!(
        alice.refuse(forwarded).reason,
        DropReason::NoSpdEntry,
        "a matter of rules, and there is none"
    );
}

#[test]
fn an_answer_without_socket_leaves_as_the_question_came() {
    let shared = tunnel();
    let bound = SaConfig {
        spi: Spi(0x2000),
        keymat: keymat(SuiteId::AES_128_GCM, 2),
        selectors: Selectors { app: Some(APP), ..Selectors::ANY },
        ..tunnel()
    };
    let (alice, bob) = hosts(false);
    let unreachable = ip_packet(alice, bob, protocol::ICMP, 0, false, &[3, 3, 0, 0, 0, 0, 0, 0]);
    // Policy is not asked: it may not even know the application.
    let mut sender = Sender::new(spd(), &[shared, bound]);
    for (mark, spi) in [(record::PROOF | 7, 0x2000), (record::PROOF, SPI), (record::PROOF | 9, SPI)] {
        let [outer] = &sender.send(reflected(mark, &unreachable))[..] else { panic!("one packet") };
        assert_eq!(outer.meta.spi, spi, "{mark:x}");
    }
    // Without an association it does not leave, least of all in clear.
    let mut sender = Sender::new(Spd::new(1), &[]);
    assert_eq!(sender.refuse(reflected(record::PROOF, &unreachable)).reason, DropReason::NoSa);
}

fn authentication_alone() -> SuiteId {
    "null-sha256".parse().unwrap()
}

/// An association for packets of one protocol, or of all.
fn by_strength(spi: u32, suite: SuiteId, protocol: Option<u8>) -> SaConfig {
    let selectors = Selectors { protocol, ..Selectors::ANY };
    SaConfig { spi: Spi(spi), suite, keymat: keymat(suite, spi as u8), selectors, ..tunnel() }
}

#[test]
fn an_answer_gets_at_least_the_services_of_what_it_answers() {
    let (alice, bob) = hosts(false);
    let echo_reply = ip_packet(alice, bob, protocol::ICMP, 0, false, &[0, 0, 0xff, 0xff, 0, 0, 0, 0]);
    let (null, gcm) = (authentication_alone(), SuiteId::AES_128_GCM);
    let proof = record::PROOF | 7;
    let (authenticated, encrypted) = (proof | record::AUTHENTICATED, proof | record::ENCRYPTED);
    let both = encrypted | record::AUTHENTICATED;
    let weak = by_strength(0x2000, null, None);
    let strong = by_strength(0x3000, gcm, None);
    let older = by_strength(0x4000, gcm, None);
    for order in [[&weak, &older, &strong], [&older, &strong, &weak]] {
        let mut sender = Sender::new(spd(), &order.map(Clone::clone));
        // Also where authentication would do: among equals the strongest, of those the newest.
        for mark in [proof, authenticated, encrypted, both] {
            let [outer] = &sender.send(reflected(mark, &echo_reply))[..] else { panic!("one packet") };
            assert_eq!(outer.meta.spi, 0x3000, "{mark:x}");
        }
    }
    // A more specific one that is too weak is passed over; one that is strong enough stays in front.
    let narrow = by_strength(0x5000, null, Some(protocol::ICMP));
    let mut sender = Sender::new(spd(), &[strong.clone(), narrow]);
    for (mark, spi) in [(both, 0x3000), (authenticated, 0x5000)] {
        let [outer] = &sender.send(reflected(mark, &echo_reply))[..] else { panic!("one packet") };
        assert_eq!(outer.meta.spi, spi, "{mark:x}");
    }
    // Nothing is strong enough: it ends.
    let mut sender = Sender::new(spd(), &[weak]);
    assert_eq!(sender.refuse(reflected(both, &echo_reply)).reason, DropReason::SaTooWeak);
    assert_eq!(sender.send(reflected(authenticated, &echo_reply)).len(), 1);
}

#[test]
fn an_error_about_an_encrypted_packet_is_encrypted_where_it_leaves_with_the_return_traffic() {
    // Associations for datagrams alone, so that the error itself has none.
    let udp = Some(protocol::UDP);
    let weak = by_strength(0x2000, authentication_alone(), udp);
    let strong = by_strength(0x3000, SuiteId::AES_128_GCM, udp);
    let (alice, bob) = hosts(false);
    let quoted = udp_packet((bob, 40_000), (alice, 53), 0, true, &[1; 40]);
    let message = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &quoted].concat();
    let error = ip_packet(alice, bob, protocol::ICMP, 0, false, &message);
    let encrypted = record::PROOF | record::AUTHENTICATED | record::ENCRYPTED;
    let mut sender = Sender::new(spd(), &[strong, weak.clone()]);
    let [outer] = &sender.send(reflected(encrypted, &error))[..] else { panic!("one packet") };
    assert_eq!(outer.meta.spi, 0x3000);
    let mut sender = Sender::new(spd(), &[weak]);
    assert_eq!(sender.refuse(reflected(encrypted, &error)).reason, DropReason::NoSa);
}

#[test]
fn the_most_specific_association_serves() {
    let narrow = SaConfig {
        spi: Spi(0x2000),
        keymat: keymat(SuiteId::AES_128_GCM, 2),
        selectors: Selectors { remote: prefix("192.0.2.0/24"), ..Selectors::ANY },
        ..tunnel()
    };
    let mut alice = Sender::new(mandatory(), &[tunnel(), narrow]);
    let mut spi = |remote| alice.send(stamped(APP, &to(remote, 53)))[0].meta.spi;
    assert_eq!((spi("192.0.2.55"), spi("198.51.100.7")), (0x2000, SPI));
}

#[test]
fn clear_packets_are_finished_and_otherwise_as_they_were() {
    let (local, remote) = (hosts(false).0, ip("198.51.100.1"));
    let mut alice = Sender::new(spd(), &[tunnel()]);
    let whole = udp_packet((local, 1), (remote, 2), 4, true, &[9; 4000]);
    let mut bytes = whole.clone();
    let gso = half_checksum(&mut bytes, 6);
    let mut packet = stamped(APP, &bytes);
    packet.meta.gso = gso;
    match &alice.handle(packet)[..] {
        [Outcome::Clear(packet)] => assert_eq!(packet.bytes(), whole),
        other => panic!("{other:?}"),
    }
    let mut packet = stamped(APP, &bytes);
    packet.meta.gso = Gso { kind: GsoKind::Udp, size: 1000, ..gso };
    let pieces = alice.handle(packet);
    assert_eq!(pieces.len(), 4);
    for piece in &pieces {
        let Outcome::Clear(piece) = piece else { panic!("{piece:?}") };
        let headers = Headers::parse(piece.bytes()).unwrap();
        assert_eq!((headers.total_len, headers.tos), (1028, 4));
        assert_eq!(checksum::verify_transport(piece.bytes(), &headers), Some(true));
    }
    assert_eq!(alice.engine.stats().clear.packets, 5);
}

#[test]
fn fragments_that_may_pass_in_clear_leave_as_fragments() {
    for remote in ["198.51.100.1", "2001:db9::1"] {
        let (remote, mut alice) = (ip(remote), Sender::new(spd(), &[]));
        let local = hosts(remote.is_ipv6()).0;
        for len in [1500, 3000] {
            let whole = udp_packet((local, 1), (remote, 2), 0, false, &vec![3; len]);
            let mut pieces = fragment(&whole, 0x77, 1400);
            let last = pieces.pop().unwrap();
            for piece in pieces {
                assert_eq!(alice.refuse(stamped(APP, &piece)).reason, DropReason::FragmentHeld);
            }
            let mut table = wire::Reassembler::default();
            let mut got = None;
            for outcome in alice.handle(stamped(APP, &last)) {
                let Outcome::Clear(piece) = outcome else { panic!("{outcome:?}") };
                let headers = Headers::parse(piece.bytes()).unwrap();
                assert!(headers.total_len <= 1280);
                assert_eq!(headers.fragment.unwrap().id, 0x77);
                if let wire::Reassembled::Complete(buf) =
                    table.push(NOW, 0, piece.bytes(), &headers, &mut pool())
                {
                    got = Some(buf);
                }
            }
            let got = got.unwrap();
            let headers = Headers::parse(got.as_slice()).unwrap();
            assert_eq!(headers.upper(got.as_slice()), &whole[whole.len() - len - 8..]);
        }
    }
}

#[test]
fn nonsense_has_a_name() {
    let mut alice = Sender::new(mandatory(), &[tunnel()]);
    let good = to("192.0.2.11", 53);
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    for (bytes, want) in [
        (vec![], DropReason::Truncated),
        (with(0, 0x55), DropReason::BadVersion),
        (with(0, 0x41), DropReason::HeaderLength),
        (with(3, 255), DropReason::Truncated),
        (with(3, 3), DropReason::TotalLength),
        (good[..19].to_vec(), DropReason::Truncated),
    ] {
        assert_eq!(alice.refuse(stamped(APP, &bytes)).reason, want);
    }
    let mut packet = stamped(APP, &good);
    packet.meta.gso = Gso { kind: GsoKind::Tcp, size: 100, ..Gso::default() };
    assert_eq!(alice.refuse(packet).reason, DropReason::GsoInvalid);
}

#[test]
fn an_exhausted_association_ends_the_rest_of_a_super_packet() {
    let config = tunnel();
    let mut state = pair(&config).0.export();
    state.next_sequence = u64::from(u32::MAX) - 1;
    let mut alice = Sender::new(mandatory(), &[]);
    alice.engine.add_sa(OutboundSa::import(state, registry()).unwrap()).unwrap();
    let (packet, _) = tcp_super(false, 1, 1000, 5000);
    let outcomes = alice.handle(packet);
    let sent = outcomes.iter().filter(|o| matches!(o, Outcome::Send(_))).count();
    assert_eq!((sent, outcomes.len()), (2, 5));
    assert_eq!(alice.engine.stats().drops_for(DropReason::SequenceExhausted), 3);
}
