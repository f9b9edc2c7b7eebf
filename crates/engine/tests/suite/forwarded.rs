//! Tests of packets on their way through a gateway. The rules decide about those from a network behind it, and about
//! those that arrive in clear for such a network.

use crate::support;

use crypto::SuiteId;
use engine::{Event, HoldLimits, IcmpPolicy, Outcome};
use sadb::rules::{Action, Direction, Place, Protection, Rule, RuleKey, RuleTable, Template};
use sadb::spd::{Level, Spd};
use sadb::{Mode, SaConfig, Selectors, Spi};
use std::net::IpAddr;
use support::*;
use wire::ip::Headers;
use wire::{AcquireId, DropReason, Packet, Prefix, Services, checksum, record, stage};

const INSIDE: u64 = 7;
const OUTSIDE: u64 = 8;

fn here() -> IpAddr {
    ip("10.1.0.2")
}

fn there() -> IpAddr {
    ip("10.2.0.2")
}

fn protect(level: Level) -> Action {
    Action::Protect(Protection {
        bundle: vec![Template::ANY],
        services: Services::ENCRYPTED,
        level,
        suite: None,
    })
}

/// A gateway with these rules for both ways, and a tunnel between the sites if `sa`.
fn gateway(rules: &[(&str, Action)], sa: bool) -> Sender {
    let prefix = |text: &str| Prefix::new(ip(text), 16).unwrap();
    let selectors = Selectors { local: prefix("10.1.0.0"), remote: prefix("10.2.0.0"), ..Selectors::ANY };
    let base = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    let config = SaConfig { spi: Spi(0x1000), selectors, ..base };
    let mut sender = Sender::new(Spd::new(1), if sa { std::slice::from_ref(&config) } else { &[] });
    let mut table: RuleTable = RuleTable::new(0);
    for (number, (selector, action)) in (1..).zip(rules) {
        let rule = Rule::new(RuleKey(number), Direction::Both, selector.parse().unwrap(), action.clone());
        table.add(Place::Last, rule).unwrap();
    }
    sender.engine.set_rules(Some(table.snapshot()));
    sender
}

fn site(level: Level, sa: bool) -> Sender {
    let rules = [
        ("local 10.1.0.0/16 remote 10.2.0.0/16 proto udp remote-port 7000", protect(level)),
        ("local 10.1.0.0/16 remote 10.2.0.0/16 proto udp remote-port 7002", Action::Discard),
        ("any", Action::Bypass),
    ];
    gateway(&rules, sa)
}

fn with(mark: u32, from: u64, bytes: &[u8]) -> Packet<stage::Inner> {
    let mut packet = from_host(bytes);
    (packet.meta.mark, packet.meta.cookie) = (mark, from);
    packet
}

fn leaves(bytes: &[u8]) -> Packet<stage::Inner> {
    with(record::FORWARDED, INSIDE, bytes)
}

fn arrives(bytes: &[u8]) -> Packet<stage::Inner> {
    with(record::FORWARDED | record::ARRIVED, OUTSIDE, bytes)
}

fn to(port: u16) -> Vec<u8> {
    udp_packet((here(), 40000), (there(), port), 0, false, &[7; 600])
}

fn from(port: u16) -> Vec<u8> {
    udp_packet((there(), port), (here(), 40000), 0, false, &[7; 600])
}

/// An ICMP "port unreachable" of `src` about a packet, to its sender.
fn unreachable(src: IpAddr, about: &[u8], to: IpAddr) -> Vec<u8> {
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (src, to) else { panic!("IPv4 here") };
    let mut body = vec![3, 3, 0, 0, 0, 0, 0, 0];
    body.extend(&about[..28]);
    let sum = checksum::ip_checksum(&body);
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut packet = vec![0; 20];
    packet.extend(&body);
    let repr = wire::ipv4::Ipv4Repr {
        src,
        dst,
        protocol: 1,
        ttl: 64,
        tos: 0,
        id: 1,
        df: false,
        payload_len: body.len(),
    };
    wire::ipv4::emit(&mut packet, &repr).unwrap();
    packet
}

fn is_clear(gateway: &mut Sender, packet: Packet<stage::Inner>) -> bool {
    matches!(gateway.handle(packet)[..], [Outcome::Clear(_)])
}

fn is_sent(gateway: &mut Sender, packet: Packet<stage::Inner>) -> bool {
    matches!(gateway.handle(packet)[..], [Outcome::Send(_)])
}

#[test]
fn what_leaves_is_ruled_and_without_a_rule_ends() {
    let mut gateway = site(Level::Mandatory, true);
    assert!(is_sent(&mut gateway, leaves(&to(7000))));
    assert!(is_clear(&mut gateway, leaves(&to(7001))));
    assert_eq!(gateway.refuse(leaves(&to(7002))).reason, DropReason::RuleDiscard);
    gateway.engine.set_rules(None);
    for packet in [leaves(&to(7000)), arrives(&from(7001))] {
        assert_eq!(gateway.refuse(packet).reason, DropReason::NoSpdEntry);
    }
    let mut without = site(Level::Mandatory, false);
    assert_eq!(without.refuse(leaves(&to(7000))).reason, DropReason::NoSa);
}

#[test]
fn what_arrives_in_clear_must_be_clear_by_the_rules() {
    let mut gateway = site(Level::Mandatory, true);
    assert_eq!(gateway.refuse(arrives(&from(7000))).reason, DropReason::ClearRefused);
    assert_eq!(gateway.refuse(arrives(&from(7002))).reason, DropReason::RuleDiscard);
    assert!(is_clear(&mut gateway, arrives(&from(7001))));
    let counts: Vec<_> =
        gateway.engine.arrival_counts().iter().map(|(key, count)| (key.0, count.packets)).collect();
    assert_eq!(counts, [(1, 1), (2, 1), (3, 1)]);
    // Nothing that arrives is ever sent under an association, whatever it says of itself.
    assert!(!is_sent(&mut gateway, arrives(&to(7000))));
}

#[test]
fn optional_takes_clear_until_there_is_an_association() {
    assert!(is_clear(&mut site(Level::Optional, false), arrives(&from(7000))));
    assert_eq!(site(Level::Optional, true).refuse(arrives(&from(7000))).reason, DropReason::ClearRefused);
}

#[test]
fn an_error_is_what_it_quotes() {
    let router = ip("198.51.100.7");
    let mut gateway = site(Level::Mandatory, true);
    let about = |port| unreachable(router, &to(port), here());
    assert_eq!(gateway.refuse(arrives(&about(7000))).reason, DropReason::ClearRefused);
    assert!(is_clear(&mut gateway, arrives(&about(7001))));
    // Quoting nothing that can be read.
    let mut broken = about(7001);
    broken[28] = 0x15;
    assert_eq!(gateway.refuse(arrives(&broken)).reason, DropReason::ClearRefused);

    // Of a host behind us, and of this host itself, about what came protected: it leaves the way the traffic would.
    let back = |port| unreachable(here(), &from(port), there());
    assert!(is_sent(&mut gateway, leaves(&back(7000))));
    assert!(is_clear(&mut gateway, leaves(&back(7001))));
    let own = unreachable(ip("192.0.2.10"), &from(7000), there());
    assert!(is_sent(&mut gateway, with(record::PROOF, 0, &own)));
    assert_eq!(site(Level::Mandatory, false).refuse(leaves(&back(7000))).reason, DropReason::NoSa);
}

/// The association that a rule asks for comes before that of the return traffic (RFC 4301 section 6.2).
#[test]
fn an_error_that_a_rule_protects_is_held_like_every_packet() {
    let mut gateway = gateway(&[("local 10.1.0.0/16 remote 10.2.0.0/16", protect(Level::Mandatory))], false);
    gateway.engine.set_hold(Some(HoldLimits::default()));
    let error = unreachable(here(), &from(7000), there());
    assert!(matches!(gateway.handle(leaves(&error))[..], [Outcome::Held(_)]));
    let Some(Event::Acquire(acquire)) = gateway.engine.poll_event() else { panic!("no acquire") };
    assert_eq!((acquire.flow.local, acquire.flow.protocol), (here(), 1));
    // Where only the return traffic is to be protected, nothing is asked for.
    let mut gateway = site(Level::Mandatory, false);
    gateway.engine.set_hold(Some(HoldLimits::default()));
    assert_eq!(gateway.refuse(leaves(&error)).reason, DropReason::NoSa);
    assert!(gateway.engine.poll_event().is_none());
}

/// A sender behind the gateway may be told why its packet ended (RFC 4301 section 5.1.1).
#[test]
fn a_sender_behind_us_hears_why_if_the_operator_says_so() {
    let tells = |gateway: &mut Sender, packet: Packet<stage::Inner>| {
        let original = packet.bytes().to_vec();
        let mut out = gateway.handle(packet);
        let Some(Outcome::Drop(dropped)) = out.pop() else { panic!("not dropped: {out:?}") };
        let told = out.pop().map(|outcome| {
            let Outcome::Reply(error, mark) = outcome else { panic!("{outcome:?}") };
            assert_eq!(mark & record::PROOF, record::PROOF);
            let headers = Headers::parse(error.bytes()).unwrap();
            let of = Headers::parse(&original).unwrap();
            assert_eq!((headers.src, headers.dst), (of.dst, of.src));
            assert_eq!(checksum::verify_transport(error.bytes(), &headers), Some(true));
            let message = headers.upper(error.bytes());
            assert_eq!(message[4..8], [0; 4]);
            assert!(original.starts_with(&message[8..]), "it quotes the packet");
            (message[0], message[1])
        });
        assert!(out.is_empty());
        (dropped.reason, told)
    };
    let willing = |mut gateway: Sender| {
        gateway.engine.set_icmp(IcmpPolicy { refusals: 100, ..IcmpPolicy::default() });
        gateway
    };
    let mut silent = site(Level::Mandatory, false);
    assert_eq!(tells(&mut silent, leaves(&to(7002))), (DropReason::RuleDiscard, None));

    let mut gateway = willing(site(Level::Mandatory, false));
    assert_eq!(tells(&mut gateway, leaves(&to(7002))), (DropReason::RuleDiscard, Some((3, 13))));
    assert_eq!(tells(&mut gateway, leaves(&to(7000))), (DropReason::NoSa, Some((3, 1))));
    assert_eq!(gateway.engine.stats().replies.packets, 2);
    // Not who is outside, not about an error, not who sent to many.
    assert_eq!(tells(&mut gateway, arrives(&from(7002))), (DropReason::RuleDiscard, None));
    let error = unreachable(here(), &from(7000), there());
    assert_eq!(tells(&mut gateway, leaves(&error)), (DropReason::NoSa, None));
    let many = udp_packet((here(), 40000), (ip("224.0.0.9"), 7000), 0, false, b"x");
    let mut without = willing(self::gateway(&[("proto tcp", Action::Bypass)], false));
    assert_eq!(tells(&mut without, leaves(&many)), (DropReason::NoSpdEntry, None));
    assert_eq!(tells(&mut without, leaves(&to(7000))), (DropReason::NoSpdEntry, Some((3, 13))));
    let six = udp_packet((ip("2001:db8:1::2"), 40000), (ip("2001:db8:2::2"), 7000), 0, false, &[7; 3000]);
    assert_eq!(tells(&mut without, leaves(&six)), (DropReason::NoSpdEntry, Some((1, 1))));

    // Who waited hears it too: the key manager refused, or nobody came.
    let held = |answer: fn(&mut Sender, AcquireId) -> Vec<Outcome>| {
        let mut gateway = willing(site(Level::Mandatory, false));
        gateway.engine.set_hold(Some(HoldLimits::default()));
        let outcomes = gateway.handle(leaves(&to(7000)));
        let [Outcome::Held(id)] = outcomes[..] else { panic!("{outcomes:?}") };
        let out = answer(&mut gateway, id);
        let [Outcome::Reply(error, _), Outcome::Drop(dropped)] = &out[..] else { panic!("{out:?}") };
        (dropped.reason, error.bytes()[20], error.bytes()[21])
    };
    let refused = held(|gateway, id| {
        let mut out = Vec::new();
        gateway.engine.refuse_acquire(id, &mut gateway.pool, &mut out);
        out
    });
    assert_eq!(refused, (DropReason::AcquireRefused, 3, 13));
    let late = held(|gateway, _| {
        let mut out = Vec::new();
        let later = wire::Time(NOW.0 + 3_600_000_000_000);
        gateway.engine.expire(later, &mut gateway.pool, &mut out);
        out
    });
    assert_eq!(late, (DropReason::HoldExpired, 3, 1));

    // So many in a second.
    let mut gateway = site(Level::Mandatory, false);
    gateway.engine.set_icmp(IcmpPolicy { refusals: 3, ..IcmpPolicy::default() });
    let told = |gateway: &mut Sender, at: u64| {
        let mut told = 0;
        for _ in 0..10 {
            let out = gateway.handle_at(wire::Time(at * 1_000_000_000), leaves(&to(7002)));
            told += usize::from(matches!(out[..], [Outcome::Reply(..), Outcome::Drop(_)]));
        }
        told
    };
    assert_eq!((told(&mut gateway, 5), told(&mut gateway, 6)), (3, 3));
}

/// The rules for what comes back say what is protected where no rule is about what leaves.
#[test]
fn an_error_is_judged_by_inbound_rules_where_there_are_no_others() {
    let mut table: RuleTable = RuleTable::new(0);
    let rules =
        [("local 10.1.0.0/16 remote 10.2.0.0/16", protect(Level::Mandatory)), ("any", Action::Bypass)];
    for (number, (selector, action)) in (1..).zip(rules) {
        let rule = Rule::new(RuleKey(number), Direction::In, selector.parse().unwrap(), action);
        table.add(Place::Last, rule).unwrap();
    }
    let mut gateway = site(Level::Mandatory, false);
    gateway.engine.set_rules(Some(table.snapshot()));
    let router = ip("198.51.100.7");
    let protected = unreachable(router, &to(7000), here());
    assert_eq!(gateway.refuse(arrives(&protected)).reason, DropReason::ClearRefused);
    let elsewhere = udp_packet((here(), 40000), (ip("203.0.113.9"), 7000), 0, false, &[7; 600]);
    assert!(is_clear(&mut gateway, arrives(&unreachable(router, &elsewhere, here()))));
}

#[test]
fn pieces_from_two_networks_never_make_one_packet() {
    let pieces = fragment(&to(7001), 5, 304);
    let piece = |gateway: &mut Sender, from, bytes: &[u8]| {
        let outcomes = gateway.handle(with(record::FORWARDED, from, bytes));
        outcomes.iter().any(|outcome| matches!(outcome, Outcome::Clear(_)))
    };
    let mut gateway = site(Level::Mandatory, true);
    assert!(!piece(&mut gateway, INSIDE, &pieces[0]));
    assert!(!piece(&mut gateway, INSIDE + 1, &pieces[1]));
    assert!(piece(&mut gateway, INSIDE, &pieces[1]));
    // The protected one is whole before it is decided, so its later fragment needs no port.
    let pieces = fragment(&to(7000), 6, 304);
    assert!(!piece(&mut gateway, INSIDE, &pieces[1]));
    assert!(matches!(&gateway.handle(leaves(&pieces[0]))[..], [Outcome::Send(_)]));
}

#[test]
fn rules_see_the_interface() {
    let mut gateway =
        gateway(&[("dev 7 remote 10.2.0.0/16", protect(Level::Mandatory)), ("dev 8", Action::Bypass)], true);
    assert!(is_sent(&mut gateway, leaves(&to(1))));
    assert!(is_clear(&mut gateway, with(record::FORWARDED, 8, &to(1))));
    assert_eq!(gateway.refuse(with(record::FORWARDED, 9, &to(1))).reason, DropReason::NoSpdEntry);
}
