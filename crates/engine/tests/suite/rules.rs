//! Tests of the rules of the SPD in both halves: the first match in order decides, a packet that none matches is
//! dropped, and associations fit the bundle's words.

use crate::support;

use crypto::SuiteId;
use engine::{Event, HoldLimits, Outcome, SPD_RULE};
use sadb::rules::{Action, Direction, Place, Protection, Rule, RuleKey, RuleTable, Template};
use sadb::sa::Encapsulation;
use sadb::spd::{Level, PortRange, Spd};
use sadb::{Mode, OutboundSa, SaConfig, Selectors, Spi, TrafficSelector};
use std::sync::Arc;
use support::*;
use wire::{AppId, DropReason, Flow, Meta, Packet, Prefix, Services, protocol, stage};

fn protect(bundle: &[&str], services: Services, level: Level) -> Action {
    let bundle = bundle.iter().map(|text| text.parse().unwrap()).collect();
    Action::Protect(Protection { bundle, services, level, suite: None })
}

pub fn by(bundle: &[&str]) -> Action {
    protect(bundle, Services::ENCRYPTED, Level::Mandatory)
}

/// A table of the rules 1, 2, 3 ... in this order.
pub fn table(rules: &[(Direction, &str, Action)]) -> Arc<sadb::Snapshot> {
    let mut table: RuleTable = RuleTable::new(0);
    for (number, (direction, selector, action)) in (1..).zip(rules) {
        let selector: TrafficSelector = selector.parse().unwrap();
        table.add(Place::Last, Rule::new(RuleKey(number), *direction, selector, action.clone())).unwrap();
    }
    table.snapshot()
}

fn config(spi: u32, mode: Mode) -> SaConfig {
    SaConfig {
        spi: Spi(spi),
        keymat: keymat(SuiteId::AES_128_GCM, spi as u8),
        ..outbound_config(mode, SuiteId::AES_128_GCM, false)
    }
}

/// An association with another peer than Bob.
fn with_another_peer(spi: u32) -> SaConfig {
    let mut config = config(spi, Mode::Tunnel);
    config.endpoints.remote = ip("192.0.2.99");
    config
}

fn alice(rules: &[(Direction, &str, Action)], configs: &[SaConfig]) -> Sender {
    let mut alice = Sender::new(Spd::new(1), configs);
    alice.engine.set_rules(Some(table(rules)));
    alice
}

/// A datagram of Alice's to this port, as a device without stamps gives it.
fn to(port: u16) -> Packet<stage::Inner> {
    let (alice, bob) = hosts(false);
    from_host(&udp_packet((alice, 40000), (bob, port), 0, true, b"payload"))
}

fn sent_on(alice: &mut Sender, packet: Packet<stage::Inner>) -> u32 {
    match &alice.handle(packet)[..] {
        [Outcome::Send(outer)] => outer.meta.spi,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_rule_that_matches_decides_and_what_none_matches_ends() {
    let rules = [
        (Direction::Out, "proto udp remote-port 53", Action::Bypass),
        (Direction::Out, "proto udp remote-port 50-60", Action::Discard),
        (Direction::In, "any", Action::Bypass),
        (Direction::Both, "proto udp remote-port 50-100", by(&["any"])),
    ];
    let mut alice = alice(&rules, &[config(0x1000, Mode::Tunnel)]);
    assert!(matches!(alice.handle(to(53))[..], [Outcome::Clear(_)]));
    let dropped = alice.refuse(to(54));
    assert_eq!((dropped.reason, dropped.rule), (DropReason::RuleDiscard, SPD_RULE | 2));
    assert_eq!(sent_on(&mut alice, to(100)), 0x1000);
    let dropped = alice.refuse(to(101));
    assert_eq!((dropped.reason, dropped.rule), (DropReason::NoSpdEntry, 0));
    assert_eq!(sent_on(&mut alice, to(100)), 0x1000);
    let counts: Vec<_> =
        alice.engine.rule_counts().iter().map(|(key, count)| (key.0, count.packets)).collect();
    assert_eq!(counts, [(1, 1), (2, 1), (4, 2)]);
    // A change keeps the counts of the rules that stay, and counts at once.
    alice.engine.set_rules(Some(table(&rules[..2])));
    assert_eq!(alice.refuse(to(100)).reason, DropReason::NoSpdEntry);
    assert_eq!(alice.engine.rule_counts()[0].1.packets, 1);
    alice.engine.set_rules(None);
    assert_eq!(alice.refuse(to(53)).reason, DropReason::Unstamped);
    assert!(matches!(alice.handle(stamped(AppId::NONE, to(53).bytes()))[..], [Outcome::Clear(_)]));
}

#[test]
fn an_application_with_a_policy_is_not_the_rules_matter() {
    let mut alice = Sender::new(mandatory(), &[config(0x1000, Mode::Tunnel)]);
    alice.engine.set_rules(Some(table(&[(Direction::Out, "any", Action::Discard)])));
    assert_eq!(sent_on(&mut alice, stamped(APP, to(53).bytes())), 0x1000);
    for other in [AppId::NONE, AppId(99)] {
        assert_eq!(alice.refuse(stamped(other, to(53).bytes())).reason, DropReason::RuleDiscard);
    }
    // An answer of the kernel's to a protected packet leaves protected whatever rules say.
    let mark = wire::record::PROOF | wire::record::AUTHENTICATED;
    assert_eq!(sent_on(&mut alice, reflected(mark, to(53).bytes())), 0x1000);
    // Only rules for the other way: outbound there is no SPD.
    alice.engine.set_rules(Some(table(&[(Direction::In, "any", Action::Discard)])));
    assert_eq!(alice.refuse(to(53)).reason, DropReason::Unstamped);
}

#[test]
fn a_bundle_says_which_association_serves() {
    let configs = [config(0x1000, Mode::Tunnel), config(0x2000, Mode::Transport), with_another_peer(0x3000)];
    for (bundle, want) in [
        (&["0x1000"][..], Ok(0x1000)),
        (&["0x2000"], Ok(0x2000)),
        (&["esp/tunnel"], Ok(0x3000)),
        (&["esp/transport"], Ok(0x2000)),
        (&["any/tunnel/192.0.2.10-192.0.2.11"], Ok(0x1000)),
        (&["any/any/192.0.2.10-192.0.2.99"], Ok(0x3000)),
        (&["0x4000"], Err(DropReason::NoSa)),
        (&["ah"], Err(DropReason::NoSa)),
        (&["esp/beet"], Err(DropReason::NoSa)),
        (&["esp/tunnel/192.0.2.11-192.0.2.10"], Err(DropReason::NoSa)),
        // Two members, and no association has a next one.
        (&["0x1000", "0x2000"], Err(DropReason::NoSa)),
    ] {
        let mut alice = alice(&[(Direction::Both, "any", by(bundle))], &configs);
        let got = match &alice.handle(to(53))[..] {
            [Outcome::Send(outer)] => Ok(outer.meta.spi),
            [Outcome::Drop(dropped)] => Err(dropped.reason),
            other => panic!("{other:?}"),
        };
        assert_eq!(got, want, "{bundle:?}");
    }
}

/// Two peers may choose one SPI: the rule judges the member that the chain goes to, which is that of the same peer.
#[test]
fn a_bundle_is_judged_by_the_members_that_the_chain_goes_to() {
    let head = {
        let mut config = config(0x2000, Mode::Transport);
        config.options.next = Some(Spi(0x3000));
        config.options.encapsulation = Encapsulation::None;
        config
    };
    let configs = [with_another_peer(0x3000), config(0x3000, Mode::Transport), head];
    for (bundle, is_sent) in [(["0x2000", "esp/tunnel"], false), (["0x2000", "esp/transport"], true)] {
        let mut alice = alice(&[(Direction::Both, "any", by(&bundle))], &configs);
        let outcomes = alice.handle(to(53));
        assert_eq!(matches!(&outcomes[..], [Outcome::Send(_)]), is_sent, "{bundle:?}: {outcomes:?}");
    }
}

#[test]
fn optional_protection_passes_clear_where_there_is_none() {
    let optional = |bundle: &[&str]| protect(bundle, Services::ENCRYPTED, Level::Optional);
    let mut alice = alice(
        &[
            (Direction::Out, "remote-port 1", optional(&["0x1000"])),
            (Direction::Out, "any", optional(&["ah"])),
        ],
        &[config(0x1000, Mode::Tunnel)],
    );
    assert_eq!(sent_on(&mut alice, to(1)), 0x1000);
    assert!(matches!(alice.handle(to(2))[..], [Outcome::Clear(_)]));
}

#[test]
fn a_missing_association_is_asked_for_with_the_narrowed_selectors() {
    let mut alice = alice(
        &[(Direction::Out, "remote 192.0.2.0/24 pfp proto udp remote-port any pfp", by(&["esp/tunnel"]))],
        &[],
    );
    alice.engine.set_hold(Some(HoldLimits::default()));
    for port in [53, 53, 54] {
        assert!(matches!(alice.handle(to(port))[..], [Outcome::Held(_)]));
    }
    let mut asked = Vec::new();
    while let Some(Event::Acquire(acquire)) = alice.engine.poll_event() {
        assert_eq!((acquire.rule, acquire.held), (SPD_RULE | 1, true));
        assert_eq!(acquire.bundle, ["esp/tunnel".parse::<Template>().unwrap()]);
        asked.push(acquire.selectors.iter().map(ToString::to_string).collect::<Vec<_>>());
    }
    assert_eq!(
        asked,
        [["remote 192.0.2.11 proto udp remote-port 53"], ["remote 192.0.2.11 proto udp remote-port 54"]]
    );
    // An association for one port is none for the other, and one for all ports is none for either.
    let registry = crypto_std::registry().unwrap();
    let mut release = |config: SaConfig| {
        alice.engine.add_sa(OutboundSa::new(config, &registry).unwrap()).unwrap();
        let mut out = Vec::new();
        alice.engine.release(NOW, &mut alice.pool, &mut out);
        out.len()
    };
    let remote = Prefix::host(hosts(false).1);
    let narrow = |spi, port| SaConfig {
        selectors: Selectors {
            remote,
            protocol: Some(17),
            remote_ports: sadb::spd::PortRange::one(port),
            ..Selectors::ANY
        },
        ..config(spi, Mode::Tunnel)
    };
    assert_eq!(release(config(0x1000, Mode::Tunnel)), 0);
    assert_eq!(release(narrow(0x1001, 53)), 2);
    assert_eq!(release(narrow(0x1002, 54)), 1);
    assert_eq!(alice.engine.held(), 0);
}

#[test]
fn what_a_rule_takes_from_the_packet_must_be_there() {
    let mut alice =
        alice(&[(Direction::Out, "remote-port pfp", by(&["any"]))], &[config(0x1000, Mode::Tunnel)]);
    let (local, remote) = hosts(false);
    let gre = from_host(&ip_packet(local, remote, 47, 0, true, &[0; 8]));
    assert_eq!(alice.refuse(gre).reason, DropReason::PfpUnavailable);
}

#[test]
fn a_type_that_a_rule_takes_from_the_packet_wants_an_association_of_its_own() {
    let of_type = |kind: u16| {
        let mut config = config(0x1000 + u32::from(kind), Mode::Tunnel);
        config.selectors.protocol = Some(protocol::MOBILITY);
        config.selectors.local_ports = PortRange::one(kind << 8);
        config
    };
    let rules = [(Direction::Out, "proto mh type any pfp", by(&["any"]))];
    let (local, remote) = hosts(false);
    let update =
        || from_host(&ip_packet(local, remote, protocol::MOBILITY, 0, true, &[59, 0, 5, 0, 0, 0, 0, 0]));
    // One for all types is shared, and so not what the rule wants.
    let mut shared = alice(&rules, &[config(0x1000, Mode::Tunnel), of_type(6)]);
    assert_eq!(shared.refuse(update()).reason, DropReason::NoSa);
    let mut own = alice(&rules, &[config(0x1000, Mode::Tunnel), of_type(6), of_type(5)]);
    assert_eq!(sent_on(&mut own, update()), 0x1005);
}

#[test]
fn a_protected_packet_must_have_what_its_rule_demands() {
    let (local, remote) = hosts(false);
    let sa = config(0x1000, Mode::Tunnel);
    let back = |rules: &[(Direction, &str, Action)], app: Option<AppId>| {
        let sa = SaConfig { selectors: Selectors { app, ..Selectors::ANY }, ..sa.clone() };
        let mut alice =
            Sender::new(policy(APP, Services::ENCRYPTED, Level::Mandatory), std::slice::from_ref(&sa));
        let outer = alice.send(stamped(APP, &udp_packet((local, 40000), (remote, 53), 0, true, b"x")));
        let mut bob = Receiver::new(&[sa]);
        bob.engine.set_rules(Some(table(rules)));
        let answer = bob.handle(outer[0].bytes()).map(|_| ()).map_err(|dropped| dropped.reason);
        (answer, bob.engine.rule_counts().first().map_or(0, |(_, count)| count.packets))
    };
    for (rule, want) in [
        (("remote 192.0.2.10 proto udp local-port 53", by(&["any"])), Ok(())),
        (("any", by(&["esp/tunnel/192.0.2.11-192.0.2.10"])), Ok(())),
        (("any", by(&["0x1000"])), Ok(())),
        (("any", protect(&["any"], Services::AUTHENTICATED, Level::Mandatory)), Ok(())),
        (("any", Action::Bypass), Ok(())),
        (("any", Action::Discard), Err(DropReason::RuleDiscard)),
        (("any", by(&["0x1001"])), Err(DropReason::InboundPolicy)),
        (("any", by(&["ah"])), Err(DropReason::InboundPolicy)),
        (("any", by(&["esp/transport"])), Err(DropReason::InboundPolicy)),
        (("any", by(&["esp/tunnel/192.0.2.11-192.0.2.99"])), Err(DropReason::InboundPolicy)),
        (("remote 192.0.2.10 proto tcp", by(&["any"])), Err(DropReason::NoSpdEntry)),
    ] {
        let (selector, action) = rule;
        let (answer, count) = back(&[(Direction::In, selector, action.clone())], None);
        assert_eq!(answer, want, "{selector} {action:?}");
        assert_eq!(count, u64::from(want != Err(DropReason::NoSpdEntry)));
    }
    // Of one application only: the socket's own check decides.
    assert_eq!(back(&[(Direction::In, "any", Action::Discard)], Some(APP)).0, Ok(()));
    // Only rules for the other way: inbound there is no SPD.
    assert_eq!(back(&[(Direction::Out, "any", Action::Discard)], None).0, Ok(()));
    // A rule for both ways names outbound SPIs.
    assert_eq!(back(&[(Direction::Both, "any", by(&["0x7777"]))], None).0, Ok(()));
}

/// Rules may choose associations by the DSCP, and a receiver does not check it (RFC 4301 section 4.1).
#[test]
fn a_code_point_that_changed_on_its_way_is_no_fault() {
    let (local, remote) = hosts(false);
    let voice = config(0x1000, Mode::Tunnel);
    let from_alice = |tos: u8, rules: &[(Direction, &str, Action)]| {
        let mut alice =
            Sender::new(policy(APP, Services::ENCRYPTED, Level::Mandatory), std::slice::from_ref(&voice));
        let outer = alice.send(stamped(APP, &udp_packet((local, 40000), (remote, 53), tos, true, b"x")));
        let mut bob = Receiver::new(std::slice::from_ref(&voice));
        bob.engine.set_rules(Some(table(rules)));
        let answer = bob.handle(outer[0].bytes()).map(|_| ()).map_err(|dropped| dropped.reason);
        (answer, bob.engine.rule_counts().iter().map(|(_, count)| count.packets).collect::<Vec<_>>())
    };
    let protected = |by: &str, then: Action| {
        [(Direction::Both, "dscp 46", self::by(&[by])), (Direction::Both, "any", then)]
    };
    let voice_first = "esp/tunnel/192.0.2.11-192.0.2.10";
    let ah = protected(voice_first, self::by(&["ah"]));
    assert_eq!(from_alice(46 << 2, &ah), (Ok(()), vec![1, 0]));
    // Marked down on its way: the rule of another code point knows the association.
    assert_eq!(from_alice(0, &ah), (Ok(()), vec![1, 0]));
    assert_eq!(from_alice(46 << 2, &protected("ah", self::by(&[voice_first]))), (Ok(()), vec![0, 1]));
    // One that no rule about it wants is refused all the same, and so is what a rule discards by its code point.
    assert_eq!(
        from_alice(0, &protected("ah", self::by(&["ah"]))),
        (Err(DropReason::InboundPolicy), vec![0, 1])
    );
    assert_eq!(from_alice(0, &[(Direction::Both, "dscp 46", self::by(&["any"]))]), (Ok(()), vec![1]));
    let discards =
        [(Direction::Both, "dscp 0", Action::Discard), (Direction::Both, "any", self::by(&["any"]))];
    assert_eq!(from_alice(0, &discards), (Err(DropReason::RuleDiscard), vec![1, 0]));
    // A rule that lets pass in clear, by a code point that the packet has not, allows nothing.
    let bypass = [(Direction::Both, "dscp 46", Action::Bypass), (Direction::Both, "any", self::by(&["ah"]))];
    assert_eq!(from_alice(0, &bypass), (Err(DropReason::InboundPolicy), vec![0, 1]));
}

#[test]
fn the_mark_of_an_unstamped_packet_is_a_selector() {
    let mut alice = alice(&[(Direction::Out, "mark 0x5", Action::Bypass)], &[]);
    let bytes = to(53).bytes().to_vec();
    let marked = |mark| {
        let mut packet = from_host(&bytes);
        packet.meta = Meta { mark, ..packet.meta };
        packet
    };
    assert!(matches!(alice.handle(marked(5))[..], [Outcome::Clear(_)]));
    assert_eq!(alice.refuse(marked(6)).reason, DropReason::NoSpdEntry);
}

/// What is asked once a second of a flow whose packets ended under a rule.
#[test]
fn a_rule_is_asked_for_the_association_that_it_has_for_a_flow() {
    let (local, remote) = hosts(false);
    let (local_port, remote_port) = (40000, 53);
    let flow = Flow { opaque: false, local, remote, local_port, remote_port, protocol: protocol::UDP };
    let rules = [
        (Direction::Out, "remote 192.0.2.0/24 remote-port 53", by(&["esp/transport"])),
        (Direction::Out, "remote 192.0.2.0/24", Action::Bypass),
    ];
    let ask = |alice: &Sender, number| alice.engine.preview_rule(number, AppId::NONE, &flow);
    let without = alice(&rules, &[]);
    assert_eq!(ask(&without, SPD_RULE | 1), Some(Err(DropReason::NoSa)));
    // One of the wrong mode is none.
    let unfit = alice(&rules, &[config(0x1000, Mode::Tunnel)]);
    assert_eq!(ask(&unfit, SPD_RULE | 1), Some(Err(DropReason::NoSa)));
    let with = alice(&rules, &[config(0x1000, Mode::Transport)]);
    let found = ask(&with, SPD_RULE | 1).unwrap().unwrap();
    assert_eq!(with.engine.sad().get(found).unwrap().spi(), Spi(0x1000));
    assert_eq!([SPD_RULE | 2, SPD_RULE | 3, 1].map(|number| ask(&with, number)), [None; 3]);
}
