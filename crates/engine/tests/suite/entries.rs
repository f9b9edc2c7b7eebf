//! The paper's own translation in the engine: an entry decides, a packet without one waits and never leaves in clear.

use crate::support;

use std::time::Duration;

use crypto::SuiteId;
use engine::Outcome;
use sadb::per_socket::Call;
use sadb::spd::{Action, AppPolicy, Class, Level, Network, RuleId, Spd};
use sadb::{EntryLimits, Mode, SocketEvent};
use support::*;
use wire::{AppId, DropReason, Flow, Packet, Prefix, Services, Time, protocol, stage};

const SOCKET: u64 = 77;

fn sender(spd: Spd) -> Sender {
    let configs = [outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false)];
    let Sender { engine, pool } = Sender::new(spd, &configs);
    Sender { engine: engine.translating_per_socket(EntryLimits::default()), pool }
}

fn packet(socket: u64, port: u16, number: u8) -> Packet<stage::Inner> {
    let (local, remote) = hosts(false);
    let mut packet = stamped(APP, &udp_packet((local, port), (remote, 53), 0, true, &[number; 20]));
    packet.meta.cookie = socket;
    packet
}

fn event(socket: u64, call: Call, port: u16, now: Time) -> SocketEvent {
    let (local, remote) = hosts(false);
    let flow =
        Flow { opaque: false, local, remote, local_port: port, remote_port: 53, protocol: protocol::UDP };
    SocketEvent { socket, app: APP, call, flow, now }
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

/// The number in each packet that was sent.
fn sent(outcomes: Vec<Outcome>) -> Vec<u8> {
    let mut bob = Receiver::new(&[outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false)]);
    let open = |outcome: Outcome| {
        let Outcome::Send(packet) = outcome else { panic!("{outcome:?}") };
        let (packet, _) = bob.handle(packet.bytes()).unwrap();
        *packet.bytes().last().unwrap()
    };
    outcomes.into_iter().map(open).collect()
}

#[test]
fn a_packet_without_an_entry_waits_for_it_and_leaves_in_order() {
    let mut alice = sender(mandatory());
    for number in 1..=3 {
        assert!(matches!(alice.handle(packet(SOCKET, 40000, number))[..], [Outcome::Held(_)]));
    }
    assert!(matches!(alice.handle(packet(SOCKET, 40001, 9))[..], [Outcome::Held(_)]));
    assert_eq!(alice.engine.held_for_entries(), (4, 0));
    // One for another socket, or another flow, is none for these.
    alice.engine.socket_events(&[event(78, Call::SendTo, 40000, NOW)]);
    assert!(release(&mut alice, NOW).is_empty());
    alice.engine.socket_events(&[event(SOCKET, Call::SendTo, 40000, NOW)]);
    assert_eq!(sent(release(&mut alice, NOW)), [1, 2, 3]);
    assert_eq!(alice.engine.held_for_entries(), (1, 3));
    assert!(matches!(alice.handle(packet(SOCKET, 40000, 4))[..], [Outcome::Send(_)]));
    // What never has one ends, and never in clear.
    let late = expire(&mut alice, NOW + Duration::from_secs(2));
    assert!(
        matches!(&late[..], [Outcome::Drop(dropped)] if dropped.reason == DropReason::NoEntry),
        "{late:?}"
    );
    assert_eq!(alice.engine.stats().clear.packets, 0);
}

#[test]
fn an_entry_lives_while_it_is_used_and_its_end_is_seen_at_once() {
    let mut alice = sender(mandatory());
    alice.engine.socket_events(&[event(SOCKET, Call::SendTo, 40000, NOW)]);
    let mut now = NOW;
    for number in 0..200 {
        now = now + Duration::from_secs(1);
        expire(&mut alice, now);
        let [Outcome::Send(_)] = alice.handle_at(now, packet(SOCKET, 40000, number))[..] else {
            panic!("{number}")
        };
    }
    // Remembered by the flow cache or not: what is closed is closed, but for its own last packets.
    alice.engine.socket_events(&[event(SOCKET, Call::Close, 40000, now)]);
    assert!(matches!(alice.handle_at(now, packet(SOCKET, 40000, 1))[..], [Outcome::Send(_)]));
    let end = now + EntryLimits::default().drain;
    expire(&mut alice, end);
    assert!(matches!(alice.handle_at(end, packet(SOCKET, 40000, 1))[..], [Outcome::Held(_)]));
    assert!(alice.engine.entries().unwrap().is_empty());

    alice.engine.socket_events(&[event(80, Call::SendTo, 40000, end)]);
    let idle = end + EntryLimits::default().ttl;
    expire(&mut alice, idle);
    assert!(matches!(alice.handle_at(idle, packet(80, 40000, 1))[..], [Outcome::Held(_)]));
}

#[test]
fn rooms_are_bounded_and_the_newest_packet_is_refused() {
    let mut alice = sender(mandatory());
    let held = |outcomes: Vec<Outcome>| matches!(outcomes[..], [Outcome::Held(_)]);
    let of_one = (0..200).filter(|_| held(alice.handle(packet(1, 40000, 1)))).count();
    assert_eq!(of_one, 32);
    let of_all = (2..100).flat_map(|socket| (0..32).map(move |_| socket));
    let more = of_all.filter(|socket| held(alice.handle(packet(*socket, 40000, 1)))).count();
    assert_eq!(of_one + more, 512);
    assert_eq!(alice.engine.stats().clear.packets, 0);
}

#[test]
fn a_new_policy_and_an_application_without_one() {
    let mut alice = sender(mandatory());
    alice.engine.socket_events(&[event(SOCKET, Call::SendTo, 40000, NOW)]);
    assert!(matches!(alice.handle(packet(SOCKET, 40000, 1))[..], [Outcome::Send(_)]));
    let network = Network { prefix: Prefix::ANY, class: Class::Untrusted, rule: RuleId(5) };
    let mut refusing = Spd::new(2);
    refusing.insert(APP, AppPolicy::new(vec![network], Vec::new()));
    alice.engine.set_policy(refusing.into());
    assert_eq!(alice.refuse(packet(SOCKET, 40000, 1)).reason, DropReason::PolicyDiscard);
    assert_eq!(alice.engine.entries().unwrap().list().next().unwrap().decision.action, Action::Discard);
    // Nobody translates for an application that has no policy: the compiled mode's answer.
    alice.engine.set_policy(policy(AppId(8), Services::ENCRYPTED, Level::Mandatory).into());
    assert!(matches!(alice.handle(packet(SOCKET, 40000, 1))[..], [Outcome::Clear(_)]));
}

#[test]
fn inbound_entries_demand_what_they_say() {
    let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    let sealed = |number: u8| {
        let mut alice = Sender::new(mandatory(), std::slice::from_ref(&config));
        let sent: Vec<_> = (0..=number).map(|_| alice.handle(packet(SOCKET, 40000, number))).collect();
        match sent.into_iter().next_back().unwrap().pop() {
            Some(Outcome::Send(packet)) => packet.bytes().to_vec(),
            other => panic!("{other:?}"),
        }
    };
    let network = |class| Network { prefix: Prefix::ANY, class, rule: RuleId(1) };
    let mut refusing = Spd::new(1);
    refusing.insert(APP, AppPolicy::new(vec![network(Class::Untrusted)], Vec::new()));
    // As the receiver sees the flow: its own end first.
    let (local, remote) = hosts(false);
    let bound = Flow {
        opaque: false,
        local: remote,
        remote: local,
        local_port: 53,
        remote_port: 0,
        protocol: protocol::UDP,
    };
    let waits = SocketEvent { flow: bound, ..event(5, Call::RecvFrom, 53, NOW) };
    for (spd, accepted) in [(mandatory(), true), (refusing, false)] {
        let Receiver { engine, pool } = Receiver::new(std::slice::from_ref(&config));
        let mut bob =
            Receiver { engine: engine.translating_per_socket(spd.into(), EntryLimits::default()), pool };
        // Without an entry it is the kernel half's to say.
        assert!(bob.handle(&sealed(0)).is_ok());
        bob.engine.socket_events(&[waits]);
        let answer = bob.handle(&sealed(1)).map(drop).map_err(|dropped| dropped.reason);
        assert_eq!(answer, if accepted { Ok(()) } else { Err(DropReason::InboundPolicy) });
        bob.engine.socket_events(&[SocketEvent { call: Call::Close, ..waits }]);
        assert!(bob.handle(&sealed(2)).is_ok());
    }
}
