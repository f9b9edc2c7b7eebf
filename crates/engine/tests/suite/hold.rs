//! Tests of packets that wait for an association: in order, bounded, aged, and nobody loses one without being told.

use crate::support;

use crypto::SuiteId;
use engine::{Acquire, Event, HoldLimits, Outcome};
use sadb::sa::{LifeState, Limits};
use sadb::spd::Level;
use sadb::{Direction, Mode, OutboundSa, SaConfig, Selectors, Spi};
use std::sync::Arc;
use std::time::Duration;
use support::*;
use wire::{AppId, DropReason, Services, Time};

const AGE: Duration = Duration::from_secs(10);

fn limits() -> HoldLimits {
    HoldLimits { acquires: 2, each: 3, packets: 4, age: AGE, ..HoldLimits::default() }
}

fn waiting(level: Level) -> Sender {
    let mut alice = Sender::new(policy(APP, Services::ENCRYPTED, level), &[]);
    alice.engine.set_hold(Some(limits()));
    alice
}

/// A datagram of Alice's with this number in it.
fn numbered(app: AppId, remote: &str, number: u8) -> wire::Packet<wire::stage::Inner> {
    let (local, _) = hosts(false);
    stamped(app, &udp_packet((local, 40000), (ip(remote), 53), 0, true, &[number; 20]))
}

fn config(spi: u32) -> SaConfig {
    SaConfig {
        spi: Spi(spi),
        keymat: keymat(SuiteId::AES_128_GCM, spi as u8),
        ..outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false)
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

fn reasons(outcomes: &[Outcome]) -> Vec<DropReason> {
    let reason = |outcome: &Outcome| match outcome {
        Outcome::Drop(dropped) => dropped.reason,
        other => panic!("{other:?}"),
    };
    outcomes.iter().map(reason).collect()
}

#[test]
fn the_first_packets_of_a_flow_wait_and_leave_in_order() {
    let mut alice = waiting(Level::Mandatory);
    let mut ids = Vec::new();
    for number in 1..=3 {
        let [Outcome::Held(id)] = alice.handle(numbered(APP, "192.0.2.11", number))[..] else { panic!() };
        ids.push(id);
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "one acquire for one pair of hosts: {ids:?}");
    let Some(Event::Acquire(acquire)) = alice.engine.poll_event() else { panic!("no event") };
    assert_eq!(alice.engine.poll_event(), None, "asked once");
    let (local, remote) = hosts(false);
    let Acquire { id, app, flow, services, rule, held, .. } = acquire;
    assert_eq!((id, app, services, rule, held), (ids[0], APP, Services::ENCRYPTED, 2, true));
    assert_eq!((flow.local, flow.remote, flow.local_port, flow.remote_port), (local, remote, 40000, 53));
    // Nothing happens until there is an association, and one for somebody else is none.
    assert!(release(&mut alice, NOW).is_empty());
    add(
        &mut alice,
        SaConfig { selectors: Selectors { app: Some(AppId(99)), ..Selectors::ANY }, ..config(0x2000) },
    );
    assert!(release(&mut alice, NOW).is_empty());
    assert_eq!(alice.engine.held(), 3);

    add(&mut alice, config(0x3000));
    let (mut bob, mut got) = (Receiver::new(&[config(0x3000)]), Vec::new());
    for outcome in release(&mut alice, NOW) {
        let Outcome::Send(packet) = outcome else { panic!("{outcome:?}") };
        let (packet, _) = bob.handle(packet.bytes()).unwrap();
        got.push(*packet.bytes().last().unwrap());
    }
    assert_eq!(got, [1, 2, 3]);
    assert_eq!(alice.engine.held(), 0);
    assert!(release(&mut alice, NOW).is_empty());
    assert!(matches!(alice.handle(numbered(APP, "192.0.2.11", 4))[..], [Outcome::Send(_)]));
}

#[test]
fn every_bound_holds_and_what_came_first_stays() {
    let mut alice = waiting(Level::Mandatory);
    for number in 1..=3 {
        assert!(matches!(alice.handle(numbered(APP, "192.0.2.11", number))[..], [Outcome::Held(_)]));
    }
    // Behind one acquire.
    assert_eq!(alice.refuse(numbered(APP, "192.0.2.11", 4)).reason, DropReason::HoldFull);
    // In all.
    assert!(matches!(alice.handle(numbered(APP, "192.0.2.12", 1))[..], [Outcome::Held(_)]));
    assert_eq!(alice.refuse(numbered(APP, "192.0.2.12", 2)).reason, DropReason::HoldFull);
    // Acquires.
    assert_eq!(alice.refuse(numbered(APP, "192.0.2.13", 1)).reason, DropReason::HoldFull);
    assert_eq!(alice.engine.held(), 4);
    assert_eq!(alice.engine.stats().drops_for(DropReason::HoldFull), 3);
    add(&mut alice, config(0x3000));
    assert_eq!(release(&mut alice, NOW).len(), 4);
}

#[test]
fn what_waits_too_long_ends_and_the_next_packet_asks_again() {
    let mut alice = waiting(Level::Mandatory);
    alice.handle(numbered(APP, "192.0.2.11", 1));
    assert!(matches!(alice.engine.poll_event(), Some(Event::Acquire(_))));
    let later = NOW + Duration::from_secs(6);
    assert!(expire(&mut alice, later).is_empty());
    alice.handle_at(later, numbered(APP, "192.0.2.11", 2));
    assert_eq!(reasons(&expire(&mut alice, NOW + AGE)), [DropReason::HoldExpired]);
    assert_eq!(alice.engine.held(), 1);
    assert_eq!(reasons(&expire(&mut alice, later + AGE)), [DropReason::HoldExpired]);
    assert_eq!(alice.engine.poll_event(), None);
    alice.handle_at(later + AGE, numbered(APP, "192.0.2.11", 3));
    assert!(matches!(alice.engine.poll_event(), Some(Event::Acquire(_))));
}

#[test]
fn a_refused_acquire_ends_its_packets_and_no_others() {
    let mut alice = waiting(Level::Mandatory);
    let [Outcome::Held(id)] = alice.handle(numbered(APP, "192.0.2.11", 1))[..] else { panic!() };
    alice.handle(numbered(APP, "192.0.2.12", 1));
    let mut out = Vec::new();
    alice.engine.refuse_acquire(id, &mut alice.pool, &mut out);
    assert_eq!(reasons(&out), [DropReason::AcquireRefused]);
    alice.engine.refuse_acquire(id, &mut alice.pool, &mut out);
    assert_eq!((out.len(), alice.engine.held()), (1, 1));
}

#[test]
fn optional_traffic_does_not_wait_and_asks_once() {
    let mut alice = waiting(Level::Optional);
    for number in 1..=3 {
        assert!(matches!(alice.handle(numbered(APP, "192.0.2.11", number))[..], [Outcome::Clear(_)]));
    }
    let Some(Event::Acquire(Acquire { held: false, .. })) = alice.engine.poll_event() else { panic!() };
    assert_eq!((alice.engine.poll_event(), alice.engine.held()), (None, 0));
}

#[test]
fn without_anybody_who_answers_nothing_waits() {
    let mut alice = Sender::new(mandatory(), &[]);
    assert_eq!(alice.refuse(numbered(APP, "192.0.2.11", 1)).reason, DropReason::NoSa);
    alice.engine.set_hold(Some(limits()));
    alice.handle(numbered(APP, "192.0.2.11", 1));
    alice.engine.set_hold(None);
    assert_eq!(alice.refuse(numbered(APP, "192.0.2.11", 2)).reason, DropReason::HoldFull);
    assert_eq!(reasons(&expire(&mut alice, NOW)), [DropReason::HoldExpired]);
    assert_eq!(alice.refuse(numbered(APP, "192.0.2.11", 3)).reason, DropReason::NoSa);
}

#[test]
fn a_new_policy_may_answer_too() {
    let mut alice = waiting(Level::Mandatory);
    alice.handle(numbered(APP, "192.0.2.11", 1));
    alice.engine.set_policy(Arc::new(policy(APP, Services::ENCRYPTED, Level::Optional)));
    assert!(matches!(release(&mut alice, NOW)[..], [Outcome::Clear(_)]));
}

#[test]
fn held_packets_leave_for_somebody_else_when_the_association_is_narrow() {
    // It serves one port only: the packet for the other port asks anew.
    let mut alice = waiting(Level::Mandatory);
    let (local, remote) = hosts(false);
    for port in [53, 54] {
        let packet = stamped(APP, &udp_packet((local, 40000), (remote, port), 0, true, b"x"));
        assert!(matches!(alice.handle(packet)[..], [Outcome::Held(_)]));
    }
    let narrow = Selectors { remote_ports: sadb::spd::PortRange::one(53), ..Selectors::ANY };
    add(&mut alice, SaConfig { selectors: narrow, ..config(0x3000) });
    let out = release(&mut alice, NOW);
    assert!(matches!(out[..], [Outcome::Send(_), Outcome::Held(_)]), "{out:?}");
    assert!(matches!(alice.engine.poll_event(), Some(Event::Acquire(a)) if a.flow.remote_port == 53));
    assert!(matches!(alice.engine.poll_event(), Some(Event::Acquire(a)) if a.flow.remote_port == 54));
}

#[test]
fn an_association_announces_its_end_and_goes() {
    let mut alice = Sender::new(mandatory(), &[]);
    let mut mortal = config(0x3000);
    mortal.options.lifetime.soft = Limits { packets: 2, ..Limits::default() };
    mortal.options.lifetime.hard = Limits { packets: 3, ..Limits::default() };
    add(&mut alice, mortal);
    let send = |alice: &mut Sender, n| alice.handle(numbered(APP, "192.0.2.11", n)).remove(0);
    assert!(matches!(send(&mut alice, 1), Outcome::Send(_)));
    expire(&mut alice, NOW);
    assert_eq!(alice.engine.poll_event(), None);
    assert!(matches!(send(&mut alice, 2), Outcome::Send(_)));
    expire(&mut alice, NOW);
    let Some(Event::Expire(soft)) = alice.engine.poll_event() else { panic!() };
    assert_eq!(
        (soft.spi, soft.direction, soft.state, soft.packets),
        (Spi(0x3000), Direction::Outbound, LifeState::Dying, 2)
    );
    assert!(matches!(send(&mut alice, 3), Outcome::Send(_)));
    let Outcome::Drop(dropped) = send(&mut alice, 4) else { panic!() };
    assert_eq!(dropped.reason, DropReason::SaExpired);
    assert_eq!(alice.engine.sad().len(), 1);
    expire(&mut alice, NOW);
    assert!(matches!(alice.engine.poll_event(), Some(Event::Expire(e)) if e.state == LifeState::Dead));
    assert!(alice.engine.sad().is_empty());
    assert_eq!(alice.refuse(numbered(APP, "192.0.2.11", 5)).reason, DropReason::NoSa);
}

#[test]
fn an_inbound_association_ends_by_the_clock() {
    let mut mortal = config(0x3000);
    mortal.options.lifetime.hard = Limits { seconds: 5, ..Limits::default() };
    let mut bob = Receiver::new(&[mortal]);
    bob.engine.expire(Time::from_secs(4));
    assert_eq!(bob.engine.sad().len(), 1);
    bob.engine.expire(Time::from_secs(5));
    assert!(bob.engine.sad().is_empty());
    let Some(Event::Expire(end)) = bob.engine.poll_event() else { panic!() };
    assert_eq!((end.direction, end.state), (Direction::Inbound, LifeState::Dead));
}

#[test]
fn that_both_limits_were_met_is_told_in_order() {
    let mut mortal = config(0x3000);
    mortal.options.lifetime.soft = Limits { seconds: 5, ..Limits::default() };
    mortal.options.lifetime.hard = Limits { seconds: 6, ..Limits::default() };
    let both = [LifeState::Dying, LifeState::Dead];
    let state =
        |event: Event| if let Event::Expire(expire) = event { expire.state } else { panic!("{event:?}") };
    let mut bob = Receiver::new(std::slice::from_ref(&mortal));
    bob.engine.expire(Time::from_secs(9));
    assert_eq!(std::iter::from_fn(|| bob.engine.poll_event()).map(state).collect::<Vec<_>>(), both);
    assert!(bob.engine.sad().is_empty());
    let mut alice = Sender::new(mandatory(), &[mortal]);
    expire(&mut alice, Time::from_secs(9));
    assert_eq!(std::iter::from_fn(|| alice.engine.poll_event()).map(state).collect::<Vec<_>>(), both);
    assert!(alice.engine.sad().is_empty());
}

/// The second of two applications with the same policy.
const OTHER: AppId = AppId(8);

fn shared(level: Level, limits: HoldLimits) -> Sender {
    let mut spd = policy(APP, Services::ENCRYPTED, level);
    spd.insert(OTHER, spd.get(APP).unwrap().clone());
    let mut alice = Sender::new(spd, &[]);
    alice.engine.set_hold(Some(limits));
    alice
}

fn peer(n: u32) -> String {
    format!("192.0.2.{}", n + 1)
}

#[test]
fn no_application_takes_the_room_of_the_others() {
    let limits = HoldLimits { acquires: 8, packets: 12, app_acquires: 3, app_packets: 5, ..limits() };
    let mut alice = shared(Level::Mandatory, limits);
    // Its acquires, and its packets.
    for n in 0..3 {
        assert!(matches!(alice.handle(numbered(APP, &peer(n), 1))[..], [Outcome::Held(_)]));
    }
    assert_eq!(alice.refuse(numbered(APP, &peer(3), 1)).reason, DropReason::HoldFull);
    for n in 0..2 {
        assert!(matches!(alice.handle(numbered(APP, &peer(n), 2))[..], [Outcome::Held(_)]));
    }
    assert_eq!(alice.refuse(numbered(APP, &peer(2), 2)).reason, DropReason::HoldFull);
    // The other has its own.
    for n in 0..3 {
        assert!(matches!(alice.handle(numbered(OTHER, &peer(n), 1))[..], [Outcome::Held(_)]), "{n}");
    }
    assert_eq!(alice.engine.held(), 8);
}

/// A datagram of a socket without application that asks for protection itself.
fn asking(remote: &str) -> wire::Packet<wire::stage::Inner> {
    let mut packet = numbered(AppId::NONE, remote, 1);
    packet.meta.mark |= wire::record::AUTHENTICATED | wire::record::ENCRYPTED;
    packet
}

#[test]
fn sockets_without_application_take_no_more_than_a_share() {
    let limits = HoldLimits { acquires: 8, packets: 12, app_acquires: 3, app_packets: 5, ..limits() };
    let mut alice = shared(Level::Mandatory, limits);
    let mut asked = 0;
    for n in 0..20 {
        asked += alice.handle(asking(&peer(n))).iter().filter(|o| matches!(o, Outcome::Held(_))).count();
    }
    assert_eq!(asked, 3);
    for n in 0..3 {
        assert!(matches!(alice.handle(numbered(APP, &peer(n), 1))[..], [Outcome::Held(_)]), "{n}");
    }
}

#[test]
fn what_only_asks_leaves_room_for_what_waits() {
    let limits = HoldLimits { acquires: 4, packets: 12, ..limits() };
    let mut alice = shared(Level::Optional, limits);
    for n in 0..20 {
        assert!(matches!(alice.handle(numbered(APP, &peer(n), 1))[..], [Outcome::Clear(_)]));
    }
    let mut asked = 0;
    while let Some(Event::Acquire(_)) = alice.engine.poll_event() {
        asked += 1;
    }
    assert_eq!(asked, 2);
    alice.engine.set_policy(Arc::new(policy(OTHER, Services::ENCRYPTED, Level::Mandatory)));
    for n in 0..2 {
        assert!(matches!(alice.handle(numbered(OTHER, &peer(n), 1))[..], [Outcome::Held(_)]));
    }
    assert_eq!(alice.refuse(numbered(OTHER, &peer(2), 1)).reason, DropReason::HoldFull);
}

#[test]
fn an_application_asks_so_often_in_a_second() {
    let limits = HoldLimits { acquires: 64, packets: 64, app_asks: 3, ..limits() };
    let mut alice = shared(Level::Mandatory, limits);
    let asks = |alice: &mut Sender, app, now: Time, first: u32| {
        let held =
            |n: &u32| matches!(alice.handle_at(now, numbered(app, &peer(*n), 1))[..], [Outcome::Held(_)]);
        (first..first + 5).filter(held).count()
    };
    assert_eq!(asks(&mut alice, APP, NOW, 0), 3);
    assert_eq!(asks(&mut alice, APP, NOW + Duration::from_millis(900), 10), 0);
    assert_eq!(asks(&mut alice, OTHER, NOW, 0), 3);
    expire(&mut alice, NOW + Duration::from_secs(1));
    assert_eq!(asks(&mut alice, APP, NOW + Duration::from_secs(1), 20), 3);
}
