//! Flows that policy or rules want scrubbed: one reading behind the association, both ways, by both halves together.

use crate::support;

use crate::auth::{bare_config, sha256};
use crypto::SuiteId;
use engine::{Outbound, Outcome, Scrubbers, scrub_config};
use sadb::rules::{Action, Direction, Place, Rule, RuleKey, RuleTable};
use sadb::sa::SaProtocol;
use sadb::spd::{AppPolicy, Class, Item, Level, Network, PortRange, RuleId, Spd};
use sadb::{InboundSa, Mode, SaConfig, Spi};
use scrub::Profile;
use std::net::SocketAddr;
use std::sync::Arc;
use support::*;
use wire::ip::Headers;
use wire::tcp::{Flags, TcpRepr};
use wire::{AppId, DropReason, Prefix, ScrubId, Services, checksum, record};

const CLIENT: u16 = 40_000;
const SERVER: u16 = 443;

/// One TCP segment of Alice's to Bob, or back.
fn segment(from_alice: bool, seq: u32, ack: u32, flags: Flags, data: &[u8]) -> Vec<u8> {
    let (alice, bob) = hosts(false);
    let (alice, bob) = (SocketAddr::new(alice, CLIENT), SocketAddr::new(bob, SERVER));
    let (src, dst) = if from_alice { (alice, bob) } else { (bob, alice) };
    tcp(src, dst, seq, ack, flags, data)
}

fn tcp(src: SocketAddr, dst: SocketAddr, seq: u32, ack: u32, flags: Flags, data: &[u8]) -> Vec<u8> {
    let repr = TcpRepr { src, dst, seq, ack, flags, window: 60_000, timestamps: None, ttl: 64 };
    let mut bytes = wire::tcp::packet(&repr).unwrap().as_slice().to_vec();
    bytes.extend_from_slice(data);
    let mut headers = Headers::parse(&bytes[..40]).unwrap();
    let total = bytes.len();
    wire::ip::put_total_len(&mut bytes, &mut headers, total).unwrap();
    checksum::complete_transport(&mut bytes, &headers).unwrap();
    bytes
}

/// The data that a TCP packet carries.
fn data(packet: &[u8]) -> Vec<u8> {
    let headers = Headers::parse(packet).unwrap();
    assert_eq!(checksum::verify_transport(packet, &headers), Some(true));
    let tcp = wire::tcp::Tcp::new_checked(headers.upper(packet)).unwrap();
    tcp.payload().to_vec()
}

fn policy_with(scrub: ScrubId) -> AppPolicy {
    let mut item =
        Item::new(PortRange::ANY, PortRange::ANY, Services::ENCRYPTED, Level::Mandatory, RuleId(2));
    item.terms = item.terms.scrubbed(scrub);
    let network = Network { prefix: Prefix::ANY, class: Class::Protected(0), rule: RuleId(1) };
    AppPolicy::new(vec![network], vec![vec![item]])
}

fn policy(scrub: ScrubId) -> Spd {
    let mut spd = Spd::new(1);
    spd.insert(APP, policy_with(scrub));
    spd
}

/// Both hosts: Alice sends, and Bob has both halves.
struct World {
    alice: Sender,
    out: Sender,
    into: Receiver,
}

#[expect(clippy::result_large_err, reason = "few packets, and each test looks into what is told of them")]
impl World {
    fn new(spd: Spd) -> World {
        World::bound_to(spd, None)
    }

    fn bound_to(spd: Spd, app: Option<AppId>) -> World {
        let there = outbound_config(Mode::Transport, SuiteId::AES_128_GCM, false);
        let mut back = mirror(&there);
        back.direction = sadb::Direction::Outbound;
        back.spi = Spi(0x4001);
        back.keymat = keymat(back.suite, 9);
        back.selectors.app = app;
        let mut arriving = mirror(&there);
        arriving.selectors.app = app;
        let alice = Sender::new(mandatory(), std::slice::from_ref(&there));
        let out = Sender::new(spd, std::slice::from_ref(&back));
        let mut into = Receiver::new(&[]);
        into.engine.add_sa(InboundSa::new(arriving, registry()).unwrap()).unwrap();
        into.engine.scrub_with(out.engine.scrubbers().clone(), Arc::clone(out.engine.policy()), 7);
        World { alice, out, into }
    }

    /// Send a segment of Alice's, and return it as Bob's host is given it.
    fn arrives(&mut self, seq: u32, ack: u32, flags: Flags, data: &[u8]) -> Result<Vec<u8>, engine::Dropped> {
        let packet = stamped(APP, &segment(true, seq, ack, flags, data));
        let [outer] = <[_; 1]>::try_from(self.alice.send(packet)).unwrap();
        self.into.handle(outer.bytes()).map(|(packet, _)| packet.bytes().to_vec())
    }

    fn leaves(&mut self, seq: u32, ack: u32, flags: Flags, data: &[u8]) -> Vec<Outcome> {
        self.out.handle(stamped(APP, &segment(false, seq, ack, flags, data)))
    }

    fn opened(mut self) -> World {
        self.arrives(99, 0, Flags::SYN, &[]).unwrap();
        let answer = self.leaves(499, 100, Flags::SYN | Flags::ACK, &[]);
        assert!(matches!(answer.as_slice(), [Outcome::Send(_)]), "{answer:?}");
        self.arrives(100, 500, Flags::ACK, &[]).unwrap();
        self
    }
}

#[test]
fn a_copy_with_other_octets_is_what_the_first_was() {
    for (scrub, second) in [(Profile::Standard.id(), "first"), (ScrubId::NONE, "other")] {
        let mut world = World::new(policy(scrub)).opened();
        let first = world.arrives(100, 500, Flags::ACK, b"first").unwrap();
        assert_eq!(data(&first), b"first");
        let copy = world.arrives(100, 500, Flags::ACK, b"other").unwrap();
        assert_eq!(data(&copy), second.as_bytes(), "scrub {scrub:?}");
    }
}

/// The octets that a scrubber has seen first are those that a flow carries. Octets that nothing protects must not
/// become that.
#[test]
fn bare_ip_in_ip_gives_a_scrubber_nothing() {
    let mut world = World::new(policy(Profile::Standard.id())).opened();
    let (alice, bob) = hosts(false);
    let mut tunnel = mirror(&bare_config(SaProtocol::IpIp, Mode::Tunnel, sha256(), false));
    tunnel.spi = Spi(0x2000);
    world.into.engine.add_sa(InboundSa::new(tunnel, registry()).unwrap()).unwrap();
    world.into.engine.take_tunnels_from([alice].into());
    let mut table: RuleTable = RuleTable::new(0);
    let rule = Rule::new(RuleKey(1), Direction::In, "any".parse().unwrap(), Action::Bypass);
    table.add(Place::Last, rule).unwrap();
    world.into.engine.set_rules(Some(table.snapshot()));
    let forged = segment(true, 100, 500, Flags::ACK, b"other");
    let bare = ip_packet(alice, bob, wire::protocol::IPV4, 0, true, &forged);
    assert_eq!(world.into.refuse(&bare), DropReason::Scrubbed);
    assert_eq!(data(&world.arrives(100, 500, Flags::ACK, b"first").unwrap()), b"first");
}

#[test]
fn what_this_host_acknowledges_is_forgotten_and_a_copy_of_it_carries_nothing() {
    let mut world = World::new(policy(Profile::Standard.id())).opened();
    world.arrives(100, 500, Flags::ACK, b"first").unwrap();
    assert!(world.out.engine.scrubbers().reports()[0].stored >= 5);
    let ack = world.leaves(500, 105, Flags::ACK, &[]);
    assert!(matches!(ack.as_slice(), [Outcome::Send(_)]), "{ack:?}");
    let report = &world.out.engine.scrubbers().reports()[0];
    assert_eq!((report.profile, report.connections, report.stored), (Profile::Standard, 1, 0));
    // Old data: at most an empty segment goes on, never other octets.
    if let Ok(packet) = world.arrives(100, 500, Flags::ACK, b"other") {
        assert_eq!(data(&packet), b"");
    }
}

#[test]
fn a_packet_that_a_rule_ends_says_which() {
    let mut world = World::new(policy(Profile::Standard.id())).opened();
    world.out.engine.scrubbers().record_incidents();
    let dropped = world.arrives(100, 500, Flags::SYN | Flags::FIN, &[]).unwrap_err();
    assert_eq!(dropped.reason, DropReason::Scrubbed);
    let rule = dropped.scrub.unwrap();
    assert!(dropped.flow.is_some_and(|flow| flow.remote_port == CLIENT));
    let report = &world.out.engine.scrubbers().reports()[0];
    assert_eq!(report.counters.of(rule).dropped, 1);
    let ended = world.out.engine.scrubbers().take_incidents(|_, lost| assert_eq!(lost, 0)).pop().unwrap();
    assert!(matches!(ended.verdict.outcome, scrub::Outcome::Drop(by) if by == rule), "{ended:?}");
    assert_eq!(ended.came.octets(), segment(true, 100, 500, Flags::SYN | Flags::FIN, &[]));
    assert!(ended.went.is_none());
    assert!(world.out.engine.scrubbers().take_incidents(|_, _| {}).is_empty(), "taken once");
    let sa = world.into.engine.sad().list().next().unwrap();
    assert_eq!(sa.counters.drops_for(DropReason::Scrubbed), 1);
}

/// RFC 5961 section 4: a SYN on an open connection is challenged. The challenge is the scrubber's own, and leaves
/// protected.
#[test]
fn a_packet_of_its_own_leaves_protected_by_the_outbound_half() {
    let mut world = World::new(policy(Profile::Standard.id())).opened();
    let refused = world.arrives(100, 500, Flags::SYN, &[]).unwrap_err();
    assert_eq!(refused.reason, DropReason::Scrubbed);
    assert!(world.into.engine.take_call(), "the outbound half is called");
    assert!(!world.into.engine.take_call(), "once");
    let mut out = Vec::new();
    let Sender { engine, pool } = &mut world.out;
    engine.release(NOW, pool, &mut out);
    let [Outcome::Send(outer)] = out.as_slice() else { panic!("{out:?}") };
    // Alice can read it, so it left under the association with her.
    let there = outbound_config(Mode::Transport, SuiteId::AES_128_GCM, false);
    let mut back = mirror(&there);
    back.spi = Spi(0x4001);
    back.keymat = keymat(back.suite, 9);
    let mut alice = Receiver::new(&[]);
    alice
        .engine
        .add_sa(
            InboundSa::new(
                SaConfig { direction: sadb::Direction::Inbound, endpoints: there.endpoints, ..back },
                registry(),
            )
            .unwrap(),
        )
        .unwrap();
    let (packet, _) = alice.handle(outer.bytes()).unwrap();
    let headers = Headers::parse(packet.bytes()).unwrap();
    let tcp = wire::tcp::Tcp::new_checked(headers.upper(packet.bytes())).unwrap();
    assert_eq!((tcp.seq(), tcp.ack(), tcp.flags()), (500, 100, Flags::ACK));
}

/// The scrubber's own packet is dropped without an association for it, since it never leaves in clear.
#[test]
fn a_packet_of_its_own_does_not_leave_in_clear() {
    let mut world = World::new(policy(Profile::Standard.id())).opened();
    world.arrives(100, 500, Flags::SYN, &[]).unwrap_err();
    let (alice, _) = hosts(false);
    world.out.engine.remove_sa(Spi(0x4001), alice).unwrap();
    let mut table: RuleTable = RuleTable::new(0);
    let bypass = Rule::new(RuleKey(1), Direction::Both, "any".parse().unwrap(), Action::Bypass);
    table.add(Place::Last, bypass).unwrap();
    world.out.engine.set_rules(Some(table.snapshot()));
    let mut out = Vec::new();
    let Sender { engine, pool } = &mut world.out;
    engine.release(NOW, pool, &mut out);
    let [Outcome::Drop(dropped)] = out.as_slice() else { panic!("{out:?}") };
    assert_eq!(dropped.reason, DropReason::NoSa);
}

/// Two applications name one flow. Inbound nobody knows whose it is, so the stricter profile is everybody's.
#[test]
fn the_stricter_profile_is_that_of_both_directions() {
    let mut spd = policy(Profile::Minimal.id());
    spd.insert(AppId(8), policy_with(Profile::Strict.id()));
    let mut world = World::new(spd).opened();
    world.arrives(100, 500, Flags::ACK, b"first").unwrap();
    let reports = world.out.engine.scrubbers().reports();
    assert_eq!(reports.iter().map(|report| report.profile).collect::<Vec<_>>(), [Profile::Strict]);
    // Where the association says whose flows it carries, those of others do not matter.
    let mut spd = policy(Profile::Minimal.id());
    spd.insert(AppId(8), policy_with(Profile::Strict.id()));
    let mut world = World::bound_to(spd, Some(APP)).opened();
    world.arrives(100, 500, Flags::ACK, b"first").unwrap();
    let reports = world.out.engine.scrubbers().reports();
    assert_eq!(reports.iter().map(|report| report.profile).collect::<Vec<_>>(), [Profile::Minimal]);
}

#[test]
fn what_is_to_be_scrubbed_ends_where_nobody_can() {
    let mut world = World::new(policy(Profile::Standard.id()));
    let mut table: RuleTable = RuleTable::new(0);
    let mut rule = Rule::new(RuleKey(1), Direction::Both, "any".parse().unwrap(), Action::Bypass);
    rule.scrub = Profile::Standard.id();
    table.add(Place::Last, rule).unwrap();
    let there = outbound_config(Mode::Transport, SuiteId::AES_128_GCM, false);
    let mut into = Receiver::new(std::slice::from_ref(&there));
    into.engine.set_rules(Some(table.snapshot()));
    let packet = stamped(APP, &segment(true, 99, 0, Flags::SYN, &[]));
    let [outer] = <[_; 1]>::try_from(world.alice.send(packet)).unwrap();
    assert_eq!(into.refuse(outer.bytes()), DropReason::Scrubbed);
}

#[test]
fn bursts_and_single_packets_meet_in_one_scrubber() {
    let mut world = World::new(policy(Profile::Standard.id())).opened();
    let there = outbound_config(Mode::Transport, SuiteId::AES_128_GCM, false);
    let sent = [b"first", b"other"].map(|octets| {
        let packet = stamped(APP, &segment(true, 100, 500, Flags::ACK, octets));
        world.alice.send(packet).remove(0).bytes().to_vec()
    });
    let mut datagrams = Vec::new();
    let len = sent[0].len() - 28;
    for outer in &sent {
        datagrams.extend_from_slice(&outer[28..]);
    }
    let header = wire::OuterHeader {
        src: there.endpoints.local,
        dst: there.endpoints.remote,
        src_port: there.endpoints.local_port,
        dst_port: there.endpoints.remote_port,
        tos: 0,
        ttl: 64,
        may_fragment: false,
    };
    let burst = wire::Burst::raw(wire::Buf::from_slice(&datagrams, 128, 64), header, len, NOW).unwrap();
    let mut delivery = engine::Delivery::new();
    let Receiver { engine, pool } = &mut world.into;
    engine.handle_burst(NOW, burst, pool, &mut delivery);
    let got: Vec<Vec<u8>> = delivery.packets().map(|(packet, _)| data(packet)).collect();
    assert_eq!(got, [b"first", b"first"]);
}

#[test]
fn a_successor_knows_what_is_under_way() {
    let mut world = World::new(policy(Profile::Standard.id())).opened();
    world.arrives(100, 500, Flags::ACK, b"first").unwrap();
    let saved = world.out.engine.scrubbers().save(NOW);
    let next = Scrubbers::new(scrub_config, [3; 16]);
    for (profile, octets) in &saved {
        assert_eq!(next.restore(NOW, *profile, octets).unwrap().connections, 1);
    }
    assert!(next.restore(NOW, Profile::Standard.id(), b"nonsense").is_err());
    world.into.engine.scrub_with(next, Arc::clone(world.out.engine.policy()), 8);
    let copy = world.arrives(100, 500, Flags::ACK, b"other").unwrap();
    assert_eq!(data(&copy), b"first");
}

/// A gateway that lets the packets pass in clear, both ways, that its rule wants scrubbed.
#[test]
fn clear_packets_through_a_gateway_are_scrubbed_by_their_rule() {
    let (outside, inside) = (ip("10.2.0.2"), ip("10.1.0.2"));
    for scrub in [Profile::Standard.id(), ScrubId::NONE] {
        let mut gateway = Sender { engine: Outbound::new(Arc::new(Spd::new(1)), 1), pool: pool() };
        let mut table: RuleTable = RuleTable::new(0);
        let mut rule = Rule::new(RuleKey(1), Direction::Both, "any".parse().unwrap(), Action::Bypass);
        rule.scrub = scrub;
        table.add(Place::Last, rule).unwrap();
        gateway.engine.set_rules(Some(table.snapshot()));
        let mut pass = |arrives: bool, seq: u32, ack: u32, flags: Flags, octets: &[u8]| {
            let (src, dst) = if arrives { (outside, inside) } else { (inside, outside) };
            let (from, to) = if arrives { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
            let bytes = tcp(SocketAddr::new(src, from), SocketAddr::new(dst, to), seq, ack, flags, octets);
            let mut packet = from_host(&bytes);
            packet.meta.mark = record::FORWARDED | if arrives { record::ARRIVED } else { 0 };
            packet.meta.cookie = 7;
            match gateway.handle(packet).as_slice() {
                [Outcome::Clear(packet)] => data(packet.bytes()),
                other => panic!("{other:?}"),
            }
        };
        pass(true, 99, 0, Flags::SYN, &[]);
        pass(false, 499, 100, Flags::SYN | Flags::ACK, &[]);
        pass(true, 100, 500, Flags::ACK, &[]);
        assert_eq!(pass(true, 100, 500, Flags::ACK, b"first"), b"first");
        let expected = if scrub == ScrubId::NONE { b"other" } else { b"first" };
        assert_eq!(pass(true, 100, 500, Flags::ACK, b"other"), expected);
    }
}
