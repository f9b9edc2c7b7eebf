//! Tests of the terms of a demand: protocol, suite, levels, and what becomes of packets while an association is
//! negotiated and when there will be none.

use crate::support;

use crypto::SuiteId;
use engine::{Acquire, Event, HoldLimits, Outcome};
use sadb::spd::{
    AppPolicy, Class, Failure, Item, Level, Negotiating, Network, PortRange, RuleId, Spd, Terms,
};
use sadb::{Mode, OutboundSa, SaConfig, Spi};
use std::time::Duration;
use support::*;
use wire::{DropReason, Prefix, Services, Time};

const AGE: Duration = Duration::from_secs(10);

/// A policy of one item for every flow.
fn spd(item: Item) -> Spd {
    spd_of(vec![item])
}

fn spd_of(items: Vec<Item>) -> Spd {
    let network = Network { prefix: Prefix::ANY, class: Class::Protected(0), rule: RuleId(1) };
    let mut spd = Spd::new(1);
    spd.insert(APP, AppPolicy::new(vec![network], vec![items]));
    spd
}

fn item(level: Level) -> Item {
    Item::new(PortRange::ANY, PortRange::ANY, Services::ENCRYPTED, level, RuleId(2))
}

fn on(level: Level, negotiating: Negotiating, failure: Failure) -> Item {
    Item { terms: Terms { negotiating, failure, ..Terms::of(level) }, ..item(level) }
}

fn waiting(item: Item) -> Sender {
    let mut alice = Sender::new(spd(item), &[]);
    alice.engine.set_hold(Some(HoldLimits {
        acquires: 4,
        each: 3,
        packets: 4,
        age: AGE,
        ..HoldLimits::default()
    }));
    alice
}

fn datagram(number: u8) -> wire::Packet<wire::stage::Inner> {
    let (local, remote) = hosts(false);
    stamped(APP, &udp_packet((local, 40000), (remote, 53), 0, true, &[number; 20]))
}

fn config(spi: u32, suite: SuiteId) -> SaConfig {
    SaConfig {
        spi: Spi(spi),
        keymat: keymat(suite, spi as u8),
        ..outbound_config(Mode::Tunnel, suite, false)
    }
}

fn add(alice: &mut Sender, config: SaConfig) {
    let sa = OutboundSa::new(config, registry()).unwrap();
    alice.engine.add_sa(sa.starting(NOW)).unwrap();
}

fn release(alice: &mut Sender, now: Time) -> Vec<Outcome> {
    let mut out = Vec::new();
    alice.engine.release(now, &mut alice.pool, &mut out);
    out
}

fn expire(alice: &mut Sender, now: Time) -> Vec<Outcome> {
    let mut out = Vec::new();
    alice.engine.expire(now, &mut alice.pool, &mut out);
    out
}

fn refuse(alice: &mut Sender, asked: &Acquire) -> Vec<Outcome> {
    let mut out = Vec::new();
    alice.engine.refuse_acquire(asked.id, &mut alice.pool, &mut out);
    out
}

fn asked(alice: &mut Sender) -> Option<Acquire> {
    match alice.engine.poll_event() {
        Some(Event::Acquire(acquire)) => Some(acquire),
        None => None,
        other => panic!("{other:?}"),
    }
}

/// The outcomes of packets, a word for each.
fn words(outcomes: &[Outcome]) -> Vec<&'static str> {
    let word = |outcome: &Outcome| match outcome {
        Outcome::Clear(_) => "clear",
        Outcome::Held(_) => "held",
        Outcome::Send(_) => "sent",
        Outcome::Drop(dropped) if dropped.reason == DropReason::NoSa => "no association",
        Outcome::Drop(dropped) if dropped.reason == DropReason::AcquireRefused => "refused",
        Outcome::Drop(dropped) if dropped.reason == DropReason::HoldExpired => "expired",
        other => panic!("{other:?}"),
    };
    outcomes.iter().map(word).collect()
}

fn send(alice: &mut Sender, now: Time) -> &'static str {
    words(&alice.handle_at(now, datagram(1)))[0]
}

#[test]
fn an_acquire_awaits_an_answer_until_it_has_one() {
    let terms =
        Terms { negotiating: Negotiating::Hold, failure: Failure::Pass, ..Terms::of(Level::Optional) };
    let mut alice = waiting(Item { terms, ..item(Level::Optional) });
    assert_eq!(send(&mut alice, NOW), "held");
    let first = asked(&mut alice).unwrap();
    assert!(alice.engine.awaits(first.id));
    assert_eq!(words(&refuse(&mut alice, &first)), ["clear"]);
    assert!(!alice.engine.awaits(first.id));
    // That it failed is remembered, and it is asked again all the same.
    assert_eq!(send(&mut alice, NOW + AGE), "clear");
    let again = asked(&mut alice).unwrap();
    assert!(again.id != first.id && alice.engine.awaits(again.id) && !alice.engine.awaits(first.id));
    add(&mut alice, config(0x3000, SuiteId::AES_128_GCM));
    release(&mut alice, NOW + AGE);
    assert!(!alice.engine.awaits(again.id));
}

#[test]
fn accept_only_uses_an_association_and_never_asks() {
    let mut alice = waiting(item(Level::AcceptOnly));
    assert_eq!(send(&mut alice, NOW), "clear");
    assert_eq!(asked(&mut alice), None);
    add(&mut alice, config(0x3000, SuiteId::AES_128_GCM));
    assert_eq!(send(&mut alice, NOW), "sent");
}

#[test]
fn never_is_clear_beside_an_association_and_behind_the_kernel_half() {
    let never = Item { services: Services::NONE, ..item(Level::AcceptOnly) };
    let mut alice = waiting(never);
    add(&mut alice, config(0x3000, SuiteId::AES_128_GCM));
    assert_eq!(send(&mut alice, NOW), "clear");
    assert_eq!(asked(&mut alice), None);
    // The kernel half sends everything for a protected network; what it would not send is a disagreement.
    let mut engine = engine::Outbound::new(std::sync::Arc::new(spd(never)), 1).behind_the_kernel_half();
    let mut out = Vec::new();
    engine.handle(NOW, datagram(1), &mut alice.pool, &mut out);
    assert_eq!(words(&out), ["clear"]);
    let mut empty = Spd::new(1);
    empty.insert(APP, AppPolicy::default());
    engine.set_policy(std::sync::Arc::new(empty));
    out.clear();
    engine.handle(NOW, datagram(1), &mut alice.pool, &mut out);
    assert!(matches!(&out[..], [Outcome::Drop(d)] if d.reason == DropReason::Disagreement));
}

#[test]
fn the_protocol_of_an_item_chooses_its_flows() {
    let udp = Item { protocol: Some(17), services: Services::NONE, ..item(Level::AcceptOnly) };
    let mut alice = Sender::new(spd_of(vec![udp, item(Level::Mandatory)]), &[]);
    assert_eq!(send(&mut alice, NOW), "clear");
    let tcp = Item { protocol: Some(6), ..udp };
    let mut alice = Sender::new(spd_of(vec![tcp, item(Level::Mandatory)]), &[]);
    assert_eq!(send(&mut alice, NOW), "no association");
}

#[test]
fn an_association_of_another_suite_does_not_serve() {
    let terms = Terms { suite: Some(SuiteId::AES_256_GCM), ..Terms::of(Level::Mandatory) };
    let mut alice = waiting(Item { terms, ..item(Level::Mandatory) });
    add(&mut alice, config(0x3000, SuiteId::AES_128_GCM));
    assert_eq!(send(&mut alice, NOW), "held");
    let acquire = asked(&mut alice).unwrap();
    assert_eq!((acquire.suite, acquire.held), (Some(SuiteId::AES_256_GCM), true));
    assert!(release(&mut alice, NOW).is_empty(), "still the wrong suite");
    add(&mut alice, config(0x4000, SuiteId::AES_256_GCM));
    let out = release(&mut alice, NOW);
    let mut bob = Receiver::new(&[config(0x4000, SuiteId::AES_256_GCM)]);
    let [Outcome::Send(packet)] = &out[..] else { panic!("{out:?}") };
    bob.handle(packet.bytes()).unwrap();
}

#[test]
fn below_mandatory_any_association_is_better_than_clear() {
    for level in [Level::Optional, Level::AcceptOnly] {
        let terms = Terms { suite: Some(SuiteId::AES_256_GCM), ..Terms::of(level) };
        let mut alice = waiting(Item { terms, ..item(level) });
        add(&mut alice, config(0x3000, SuiteId::AES_128_GCM));
        let mut other = Receiver::new(&[config(0x3000, SuiteId::AES_128_GCM)]);
        let out = alice.handle(datagram(1));
        let [Outcome::Send(packet)] = &out[..] else { panic!("{out:?}") };
        other.handle(packet.bytes()).unwrap();
        add(&mut alice, config(0x4000, SuiteId::AES_256_GCM));
        // Also where it is older than the other one.
        add(&mut alice, config(0x5000, SuiteId::AES_128_GCM));
        let mut right = Receiver::new(&[config(0x4000, SuiteId::AES_256_GCM)]);
        let out = alice.handle(datagram(2));
        let [Outcome::Send(packet)] = &out[..] else { panic!("{out:?}") };
        right.handle(packet.bytes()).unwrap();
    }
}

#[test]
fn while_negotiating_and_on_failure_by_the_table() {
    use Failure::{Drop as Ends, Pass as Passes};
    use Level::{Mandatory, Optional};
    use Negotiating::{Drop, Hold, Pass};
    // While it is negotiated; what becomes of it when it is refused; the next packet; nobody to ask.
    for (level, negotiating, failure, first, refused, next, alone) in [
        (Mandatory, Hold, Ends, "held", Some("refused"), "held", "no association"),
        (Mandatory, Drop, Ends, "no association", None, "no association", "no association"),
        (Optional, Pass, Passes, "clear", None, "clear", "clear"),
        (Optional, Pass, Ends, "clear", None, "no association", "no association"),
        (Optional, Hold, Passes, "held", Some("clear"), "clear", "clear"),
        (Optional, Hold, Ends, "held", Some("refused"), "held", "no association"),
        (Optional, Drop, Passes, "no association", None, "clear", "clear"),
        (Optional, Drop, Ends, "no association", None, "no association", "no association"),
    ] {
        let case = format!("{level:?} {negotiating:?} {failure:?}");
        let mut alice = waiting(on(level, negotiating, failure));
        assert_eq!(send(&mut alice, NOW), first, "{case}");
        let acquire = asked(&mut alice).unwrap_or_else(|| panic!("{case}: nobody is asked"));
        assert_eq!(acquire.held, negotiating == Hold, "{case}");
        let out = refuse(&mut alice, &acquire);
        assert_eq!(words(&out).first().copied(), refused, "{case}");
        assert_eq!(send(&mut alice, NOW), next, "{case}");
        // An association ends it at once, whatever came before.
        add(&mut alice, config(0x3000, SuiteId::AES_128_GCM));
        release(&mut alice, NOW);
        assert_eq!(send(&mut alice, NOW), "sent", "{case}");

        let mut alice = Sender::new(spd(on(level, negotiating, failure)), &[]);
        assert_eq!(send(&mut alice, NOW), alone, "{case}");
        // Whoever answered has gone.
        let mut alice = waiting(on(level, negotiating, failure));
        send(&mut alice, NOW);
        alice.engine.set_hold(None);
        let out = expire(&mut alice, NOW);
        let wants = if failure == Passes { "clear" } else { "expired" };
        assert!(words(&out).iter().all(|word| *word == wants), "{case}: {out:?}");
        assert_eq!(send(&mut alice, NOW), alone, "{case}");
    }
}

#[test]
fn a_failure_is_remembered_while_the_flow_goes_on_and_asked_again() {
    let mut alice = waiting(on(Level::Optional, Negotiating::Hold, Failure::Pass));
    assert_eq!(send(&mut alice, NOW), "held");
    let first = asked(&mut alice).unwrap();
    // Nobody answers.
    assert_eq!(words(&expire(&mut alice, NOW + AGE)), ["clear"]);
    // That was as long ago as an acquire lives: the next packet asks again, and does not wait for the answer.
    assert_eq!(send(&mut alice, NOW + AGE), "clear");
    let second = asked(&mut alice).unwrap();
    assert!(second.id != first.id && !second.held);
    assert_eq!(send(&mut alice, NOW + AGE * 3 / 2), "clear");
    assert_eq!(asked(&mut alice), None, "once in as long as an acquire lives");
    expire(&mut alice, NOW + AGE * 5 / 2);
    assert_eq!(send(&mut alice, NOW + AGE * 5 / 2), "clear");
    assert!(asked(&mut alice).is_some());
    // Silence: forgotten, and the next packet waits as the first did.
    let later = NOW + AGE * 6;
    assert!(expire(&mut alice, later).is_empty());
    assert_eq!(send(&mut alice, later), "held");
}

#[test]
fn what_passes_until_it_fails_stays_shut_then() {
    let mut alice = waiting(on(Level::Optional, Negotiating::Pass, Failure::Drop));
    assert_eq!(send(&mut alice, NOW), "clear");
    assert!(expire(&mut alice, NOW + AGE).is_empty());
    for round in 1..4u32 {
        let now = NOW + AGE * round;
        assert_eq!(send(&mut alice, now), "no association", "{round}");
        expire(&mut alice, now + AGE / 2);
    }
    add(&mut alice, config(0x3000, SuiteId::AES_128_GCM));
    assert_eq!(send(&mut alice, NOW + AGE * 4), "sent");
}

#[test]
fn failures_make_room_for_new_acquires() {
    let mut alice = waiting(on(Level::Optional, Negotiating::Drop, Failure::Pass));
    let (local, _) = hosts(false);
    for host in 1..=20u8 {
        let remote = ip(&format!("192.0.2.{host}"));
        let packet = stamped(APP, &udp_packet((local, 40000), (remote, 53), 0, true, b"x"));
        assert_eq!(words(&alice.handle(packet)), ["no association"], "{host}");
        let acquire = asked(&mut alice).unwrap_or_else(|| panic!("no room for {host}"));
        refuse(&mut alice, &acquire);
    }
}

#[test]
fn a_socket_that_asks_itself_is_not_let_through_by_the_items_terms() {
    let mut alice = waiting(on(Level::Optional, Negotiating::Pass, Failure::Pass));
    let mut packet = datagram(1);
    packet.meta.mark |= wire::record::ENCRYPTED;
    assert_eq!(words(&alice.handle(packet)), ["held"]);
}

#[test]
fn optional_is_sticky_for_the_flows_of_an_association_and_no_others() {
    let mut alice = waiting(item(Level::Optional));
    let (local, remote) = hosts(false);
    let to = |from, port| stamped(APP, &udp_packet((local, from), (remote, port), 0, true, &[1; 20]));
    let mut config = config(0x1000, SuiteId::AES_128_GCM);
    config.selectors.remote_ports = PortRange::one(53);
    add(&mut alice, config.clone());
    for (from, port, want) in [(40000, 53, "sent"), (40000, 54, "clear"), (53, 80, "clear"), (9, 53, "sent")]
    {
        assert_eq!(words(&alice.handle_at(NOW, to(from, port))), [want], "{from} to {port}");
    }
    // One for everything beside it takes the rest.
    config.selectors.remote_ports = PortRange::ANY;
    add(&mut alice, SaConfig { spi: Spi(0x2000), keymat: keymat(config.suite, 9), ..config });
    assert_eq!(words(&alice.handle_at(NOW, to(40000, 54))), ["sent"]);
}
