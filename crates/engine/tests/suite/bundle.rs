//! Tests of bundles: a packet goes through every member on the way out, out of every member on the way in, and by no
//! other way.

use crate::auth;
use crate::support;

use auth::{ah_config, bare_config, sha256, v4_with_options};
use crypto::SuiteId;
use engine::{Inbound, Outbound, Outcome};
use sadb::rules::{Action, Direction, Place, Protection, Rule, RuleKey, RuleTable};
use sadb::sa::{DontFragment, Encapsulation, Lifetime, Limits, SaProtocol};
use sadb::spd::Level;
use sadb::{InboundSa, Mode, OutboundSa, SaConfig, Selectors, Spi};
use std::sync::Arc;
use support::*;
use wire::ip::Headers;
use wire::{AppId, DropReason, Packet, Prefix, Services, protocol, record, stage};

const GCM: SuiteId = SuiteId::AES_128_GCM;

/// A chain in the order in which a packet goes through it. Its SPIs are in order, `next` is set, and flows choose only
/// the first.
pub fn chain(mut members: Vec<SaConfig>) -> Vec<SaConfig> {
    let count = members.len();
    for (at, member) in members.iter_mut().enumerate() {
        let spi = 0x1000 + at as u32;
        member.spi = Spi(spi);
        member.options.next = (at + 1 < count).then_some(Spi(spi + 1));
        if member.options.protocol != SaProtocol::Esp || member.mode != Mode::Tunnel {
            member.options.encapsulation = Encapsulation::None;
        }
    }
    // Flows do not choose the later ones: no packet from the host is of their protocol.
    for at in 1..count {
        members[at].selectors.protocol = Some(number(&members[at - 1]));
    }
    members
}

/// The protocol number in the outer header of this member's packets.
fn number(member: &SaConfig) -> u8 {
    match member.options.protocol {
        SaProtocol::Esp => protocol::ESP,
        SaProtocol::Ah => protocol::AH,
        SaProtocol::IpComp => protocol::IPCOMP,
        SaProtocol::IpIp => protocol::IPV4,
    }
}

pub fn esp(mode: Mode) -> SaConfig {
    bare_config(SaProtocol::Esp, mode, GCM, false)
}

fn ah(mode: Mode) -> SaConfig {
    ah_config(mode, sha256(), false)
}

fn ipcomp(mode: Mode) -> SaConfig {
    bare_config(SaProtocol::IpComp, mode, sha256(), false)
}

pub fn ipip() -> SaConfig {
    SaConfig { spi: Spi(0x2000), ..bare_config(SaProtocol::IpIp, Mode::Tunnel, sha256(), false) }
}

pub fn sender(configs: &[SaConfig], need: Services) -> Sender {
    let mut engine = Outbound::new(Arc::new(policy(APP, need, sadb::spd::Level::Mandatory)), 1);
    for config in configs {
        engine.add_sa(OutboundSa::new(config.clone(), registry()).unwrap()).unwrap();
    }
    Sender { engine, pool: pool() }
}

/// The receiving half of Bob. IPComp may leave a packet as it is, so the association around it must take that as well.
pub fn receiver(configs: &[SaConfig]) -> Receiver {
    let mut engine = Inbound::new(PORT);
    for config in configs {
        let mut config = mirror(config);
        if config.selectors.protocol == Some(protocol::IPCOMP) {
            config.selectors.protocol = None;
        }
        engine.add_sa(InboundSa::new(config, registry()).unwrap()).unwrap();
    }
    Receiver { engine, pool: pool() }
}

fn send(sender: &mut Sender, bytes: &[u8]) -> Packet<stage::Outer> {
    sender.send(stamped(APP, bytes)).remove(0)
}

pub fn bundles() -> Vec<(&'static str, Vec<SaConfig>, Services)> {
    use Mode::{Transport, Tunnel};
    let both = Services::ENCRYPTED;
    vec![
        ("AH over ESP, transport", vec![esp(Transport), ah(Transport)], both),
        ("ESP over ESP, transport", vec![esp(Transport), esp(Transport)], both),
        ("tunnel in tunnel", vec![esp(Tunnel), esp(Tunnel)], both),
        ("AH tunnel in ESP tunnel", vec![ah(Tunnel), esp(Tunnel)], both),
        ("ESP transport over IPComp", vec![ipcomp(Transport), esp(Transport)], both),
        ("ESP tunnel over IPComp", vec![ipcomp(Transport), esp(Tunnel)], both),
        ("ESP over IPComp tunnel", vec![ipcomp(Tunnel), esp(Transport)], both),
        ("IP in IP, then ESP transport", vec![ipip(), esp(Transport)], both),
        ("IP in IP, then AH transport", vec![ipip(), ah(Transport)], Services::AUTHENTICATED),
        ("four members", vec![ipcomp(Transport), esp(Transport), ah(Transport), esp(Tunnel)], both),
        ("IPComp, IP in IP, ESP, AH", vec![ipcomp(Transport), ipip(), esp(Transport), ah(Transport)], both),
    ]
}

#[test]
fn out_through_every_member_and_back() {
    for (name, members, services) in bundles() {
        let members = chain(members);
        let (mut alice, mut bob) = (sender(&members, services), receiver(&members));
        let packets = [
            alice_to_bob(false, 0, 11),
            udp_packet((hosts(false).0, 1), (hosts(false).1, 2), 0, true, &[7; 1000]),
            v4_with_options(&[148, 4, 0, 0], &[0, 1, 0, 2, 0, 12, 0, 0, 1, 2, 3, 4]),
        ];
        for packet in &packets {
            let outer = send(&mut alice, packet);
            assert_eq!(outer.meta.services, services, "{name}");
            let (inner, mark) = bob.handle(outer.bytes()).unwrap_or_else(|d| panic!("{name}: {d:?}"));
            assert_eq!(inner.bytes(), packet, "{name}");
            assert_eq!(inner.meta.services, services, "{name}");
            assert_eq!(mark & record::ENCRYPTED != 0, services == Services::ENCRYPTED);
            // Each member that has a window refuses the copy; the outermost is the first.
            assert_eq!(bob.refuse(outer.bytes()), DropReason::Replayed);
        }
        // Every member carried every packet.
        for (_, sa) in alice.engine.sad().list() {
            assert_eq!(sa.counters.packets, packets.len() as u64, "{name} {sa:?}");
        }
        for bit in [0, 1, 9, 30] {
            let mut outer = send(&mut alice, &packets[1]).bytes().to_vec();
            let at = outer.len() - 1 - bit;
            outer[at] ^= 1;
            assert_eq!(bob.refuse(&outer), DropReason::AuthFailed, "{name}");
        }
    }
}

/// Members that flows could choose too are added in any order: a flow gets the whole bundle, or nothing.
#[test]
fn flows_choose_a_bundle_by_its_first_member() {
    for (name, members, services) in bundles() {
        let mut members = chain(members);
        for member in &mut members {
            member.selectors.protocol = None;
        }
        let bob_has = members.clone();
        let newest_last = members.clone();
        members.reverse();
        for order in [newest_last, members] {
            // Even one that asks for less than the whole gives.
            let (mut alice, mut bob) = (sender(&order, Services::AUTHENTICATED), receiver(&bob_has));
            let packet = alice_to_bob(false, 0, 11);
            let outer = send(&mut alice, &packet);
            assert_eq!(outer.meta.services, services, "{name}");
            let (inner, _) = bob.handle(outer.bytes()).unwrap_or_else(|d| panic!("{name}: {d:?}"));
            assert_eq!(inner.bytes(), packet, "{name}");
        }
    }
}

/// A packet that does not fit and may be cut is cut before the bundle if its first member says so.
#[test]
fn the_first_member_says_where_packets_are_cut() {
    let mut members = chain(vec![esp(Mode::Tunnel), ah(Mode::Transport)]);
    members[0].options.headers.fragment = sadb::sa::Fragmentation::Before;
    let (from, to) = hosts(false);
    let whole = udp_packet((from, 1), (to, 2), 0, false, &[7; 4000]);
    let (mut alice, mut bob) = (sender(&members, Services::ENCRYPTED), receiver(&members));
    let sent = alice.send(stamped(APP, &whole));
    assert!(sent.len() == 3 && sent.iter().all(|outer| outer.bytes().len() <= 1500), "{}", sent.len());
    let (last, held) = sent.split_last().unwrap();
    for outer in held {
        assert_eq!(bob.handle(outer.bytes()).unwrap_err().reason, DropReason::FragmentHeld);
    }
    assert_eq!(bob.handle(last.bytes()).unwrap().0.bytes()[20..], whole[20..]);
}

/// The second member without the first is an association like any other.
#[test]
fn what_is_left_of_a_bundle_stands_alone() {
    let mut members = chain(vec![esp(Mode::Transport), ah(Mode::Transport)]);
    members[1].selectors.protocol = None;
    let mut alice = sender(&members, Services::AUTHENTICATED);
    let packet = alice_to_bob(false, 0, 11);
    assert_eq!(send(&mut alice, &packet).meta.services, Services::ENCRYPTED.union(Services::AUTHENTICATED));
    alice.engine.remove_sa(members[0].spi, members[0].endpoints.remote).unwrap();
    assert_eq!(send(&mut alice, &packet).meta.services, Services::AUTHENTICATED);
    // What must be encrypted does not leave by it.
    let mut alice = sender(&members, Services::ENCRYPTED);
    alice.engine.remove_sa(members[0].spi, members[0].endpoints.remote).unwrap();
    assert_eq!(alice.refuse(stamped(APP, &packet)).reason, DropReason::SaTooWeak);
}

#[test]
fn super_packets_and_sizes_go_by_the_whole_way() {
    for (name, members, services) in bundles() {
        let members = chain(members);
        let (mut alice, mut bob) = (sender(&members, services), receiver(&members));
        let (large, payload) = tcp_super(false, 1, 1448, 20_000);
        let mut got = 0;
        for outer in alice.send(large) {
            assert!(outer.bytes().len() <= 1500, "{name}");
            got += bob.handle(outer.bytes()).unwrap().0.bytes().len() - 40;
        }
        assert_eq!(got, payload.len(), "{name}");
        // What does not fit and forbids fragmentation is answered with the size that does.
        let outcomes = alice.handle(stamped(APP, &alice_to_bob(false, 0, 1480)));
        let told = outcomes.iter().any(|o| matches!(o, Outcome::Reply(..)));
        assert!(told && outcomes.len() == 2, "{name}: {outcomes:?}");
    }
}

/// A datagram whose packet has this many octets, which nothing compresses and nobody may fragment.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut octet = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let payload: Vec<u8> = (0..len - 28).map(|_| octet()).collect();
    let (alice, bob) = hosts(false);
    udp_packet((alice, 40_000), (bob, 53), 0, true, &payload)
}

/// The MTU that the answer to a packet which does not fit tells.
fn told(alice: &mut Sender, len: usize) -> usize {
    let outcomes = alice.handle(stamped(APP, &noise(len)));
    let [Outcome::Reply(reply, _), Outcome::Drop(_)] = &outcomes[..] else { panic!("{outcomes:?}") };
    let headers = Headers::parse(reply.bytes()).unwrap();
    wire::icmp::Icmpv4::new_checked(headers.upper(reply.bytes())).unwrap().mtu().unwrap()
}

/// An error on the way quotes the outermost member's packet. The MTU that this teaches holds for the whole bundle.
#[test]
fn what_the_outermost_member_learns_of_the_path_holds_for_the_bundle() {
    for (name, members, services) in bundles() {
        let members = chain(members);
        let (mut alice, mut bob) = (sender(&members, services), receiver(&members));
        let before = told(&mut alice, 1500);
        let outer = send(&mut alice, &noise(before)).bytes().to_vec();
        assert!((1401..=1500).contains(&outer.len()), "{name}: {}", outer.len());
        let mut message = vec![3, 4, 0, 0, 0, 0, 0x05, 0x78];
        message.extend(&outer);
        let sum = wire::checksum::ip_checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let error = ip_packet(ip("203.0.113.1"), hosts(false).0, protocol::ICMP, 0xc0, false, &message);
        let heard = alice.engine.hear_icmp(NOW, raw(&error), &mut alice.pool);
        assert_eq!(heard, Some(DropReason::IcmpTaken), "{name}");
        // The next one of that size is answered, and one of the size that it was told fits the new path and arrives.
        let after = told(&mut alice, before);
        assert!((before - 132..=before - 84).contains(&after), "{name}: {before}, then {after}");
        let outer = send(&mut alice, &noise(after));
        assert!((1360..=1400).contains(&outer.bytes().len()), "{name}: {}", outer.bytes().len());
        assert!(bob.handle(outer.bytes()).is_ok(), "{name}");
    }
}

#[test]
fn a_broken_chain_computes_nothing() {
    let packet = alice_to_bob(false, 0, 11);
    let members = chain(vec![esp(Mode::Transport), ah(Mode::Transport)]);
    let refused = |configs: &[SaConfig]| {
        let mut alice = sender(configs, Services::AUTHENTICATED);
        let reason = alice.refuse(stamped(APP, &packet)).reason;
        // No number was taken.
        assert!(alice.engine.sad().list().all(|(_, sa)| sa.next_sequence() == 1));
        reason
    };
    assert_eq!(refused(&members[..1]), DropReason::ChainMissing);
    let mut circle = members.clone();
    circle[1].options.next = Some(circle[0].spi);
    assert_eq!(refused(&circle), DropReason::ChainTooLong);
    let five = chain((0..5).map(|_| esp(Mode::Tunnel)).collect());
    assert_eq!(refused(&five), DropReason::ChainTooLong);
    let mut udp = members.clone();
    udp[0].options.encapsulation = Encapsulation::Udp;
    assert_eq!(refused(&udp), DropReason::ChainEncapsulation);
    // Without a key at the end nobody would take it.
    let open = chain(vec![esp(Mode::Tunnel), ipip()]);
    assert_eq!(refused(&open), DropReason::ChainUnkeyed);
    // Alone it gives nothing, so nothing that demands something is given to it.
    for alone in [ipip(), ipcomp(Mode::Transport)] {
        assert_eq!(refused(&[alone]), DropReason::SaTooWeak);
    }
    // One member is at its end.
    let mut dead = members.clone();
    dead[1].options.lifetime =
        Lifetime { hard: Limits { packets: 1, ..Limits::default() }, ..Lifetime::default() };
    let mut alice = sender(&dead, Services::AUTHENTICATED);
    send(&mut alice, &packet);
    let reasons: Vec<_> = (0..3).map(|_| alice.refuse(stamped(APP, &packet)).reason).collect();
    assert_eq!(reasons[1..], [DropReason::ChainDead; 2], "{reasons:?}");
    // The first member computed for the packet that met the end, and no more.
    let sequences: Vec<_> = alice.engine.sad().list().map(|(_, sa)| sa.next_sequence()).collect();
    assert_eq!(sequences, [3, 2]);
    // A chain that is whole again works.
    let mut alice = sender(&members, Services::ENCRYPTED);
    alice.engine.remove_sa(members[1].spi, hosts(false).1).unwrap();
    assert_eq!(alice.refuse(stamped(APP, &packet)).reason, DropReason::ChainMissing);
    alice.engine.add_sa(OutboundSa::new(members[1].clone(), registry()).unwrap()).unwrap();
    send(&mut alice, &packet);
}

#[test]
fn without_a_key_nothing_is_taken_from_the_wire() {
    let (alice, bob) = hosts(false);
    let mut receiver = receiver(&[ipip(), ipcomp(Mode::Transport), esp(Mode::Tunnel)]);
    let packet = alice_to_bob(false, 0, 400);
    for number in [protocol::IPV4, protocol::IPV6, protocol::IPCOMP] {
        let bare = ip_packet(alice, bob, number, 0, true, &packet);
        assert_eq!(receiver.refuse(&bare), DropReason::Unkeyed);
    }
    // An association without a key is not found by an ESP or AH header that names it either.
    let named = |number: u8, spi: Spi| {
        let mut upper = vec![4, 5, 0, 0];
        if number == protocol::ESP {
            upper.clear();
        }
        upper.extend(spi.0.to_be_bytes());
        upper.extend([0, 0, 0, 1]);
        upper.extend([0; 64]);
        ip_packet(alice, bob, number, 0, true, &upper)
    };
    let mut nobody = Receiver { engine: Inbound::new(PORT), pool: pool() };
    for spi in [Spi(0x3000), ipip().spi] {
        for number in [protocol::ESP, protocol::AH] {
            let got = receiver.refuse(&named(number, spi));
            assert!(matches!(got, DropReason::Unkeyed | DropReason::WrongProtocol), "{got}");
            assert_eq!(nobody.refuse(&named(number, spi)), DropReason::UnknownSpi);
        }
    }
}

/// A rule for everything that comes in.
pub fn for_all_in(action: Action) -> Option<Arc<sadb::Snapshot>> {
    let mut table: RuleTable = RuleTable::new(0);
    table.add(Place::Last, Rule::new(RuleKey(1), Direction::In, "any".parse().unwrap(), action)).unwrap();
    Some(table.snapshot())
}

#[test]
fn bare_ip_in_ip_is_taken_where_it_is_asked_for_and_where_a_rule_lets_its_packet_pass_in_clear() {
    let (alice, bob) = hosts(false);
    let packet = alice_to_bob(false, 0, 400);
    let bare = |from| ip_packet(from, bob, protocol::IPV4, 0, true, &packet);
    let asked = |rules| {
        let mut receiver = receiver(&[ipip()]);
        receiver.engine.take_tunnels_from([alice].into());
        receiver.engine.set_rules(rules);
        receiver
    };
    // What is in it is clear to whoever gets it.
    let mut willing = asked(for_all_in(Action::Bypass));
    let (got, mark) = willing.handle(&bare(alice)).unwrap();
    assert_eq!((got.bytes(), got.meta.services), (&packet[..], Services::NONE));
    assert_eq!(mark, record::ARRIVED, "no proof");
    // Raw sockets show what GRO joined, and what was left to a device, without its checksum.
    let mut joined = packet.clone();
    wire::checksum::put_pseudo(&mut joined, &Headers::parse(&packet).unwrap()).unwrap();
    assert_ne!(joined, packet);
    let (got, _) = willing.handle(&ip_packet(alice, bob, protocol::IPV4, 0, true, &joined)).unwrap();
    assert_eq!(got.bytes(), &packet[..]);
    // It is refused from any other host, and where the configuration does not ask for it.
    assert_eq!(willing.refuse(&bare(ip("192.0.2.77"))), DropReason::Unkeyed);
    willing.engine.take_tunnels_from([].into());
    assert_eq!(willing.refuse(&bare(alice)), DropReason::Unkeyed);
    // Not without rules, not against them, and not where a rule wants protection, be it optional.
    assert_eq!(asked(None).refuse(&bare(alice)), DropReason::Unkeyed);
    assert_eq!(asked(for_all_in(Action::Discard)).refuse(&bare(alice)), DropReason::RuleDiscard);
    let by_tunnel: Vec<_> = ["ipip/tunnel"].iter().map(|text| text.parse().unwrap()).collect();
    for level in [Level::Mandatory, Level::Optional] {
        let protect = Action::Protect(Protection {
            bundle: by_tunnel.clone(),
            services: Services::AUTHENTICATED,
            level,
            suite: None,
        });
        assert_eq!(asked(for_all_in(protect)).refuse(&bare(alice)), DropReason::InboundPolicy, "{level:?}");
    }
    // Not without an association for it, not outside of its selectors, and not for one that is bound to an application.
    let mut without = receiver(&[esp(Mode::Tunnel)]);
    without.engine.take_tunnels_from([alice].into());
    without.engine.set_rules(for_all_in(Action::Bypass));
    assert_eq!(without.refuse(&bare(alice)), DropReason::UnknownTunnel);
    let mut narrow = ipip();
    narrow.selectors.local = Prefix::host(ip("192.0.2.200"));
    let mut bound = ipip();
    bound.selectors.app = Some(APP);
    for config in [narrow, bound] {
        let mut receiver = receiver(&[config]);
        receiver.engine.take_tunnels_from([alice].into());
        receiver.engine.set_rules(for_all_in(Action::Bypass));
        assert_eq!(receiver.refuse(&bare(alice)), DropReason::SelectorMismatch);
    }
    // What is nested in it and has no key either is no less for a rule to judge, whoever the inner association is bound
    // to.
    let mut other = ipip();
    other.spi = Spi(0x2001);
    (other.endpoints.local, other.endpoints.remote) = (ip("198.51.100.1"), ip("198.51.100.2"));
    other.selectors.app = Some(APP);
    let two = ip_packet(ip("198.51.100.1"), ip("198.51.100.2"), protocol::IPV4, 0, true, &packet);
    for (action, reason) in [(Action::Discard, Some(DropReason::RuleDiscard)), (Action::Bypass, None)] {
        let mut receiver = receiver(&[ipip(), other.clone()]);
        receiver.engine.take_tunnels_from([alice].into());
        receiver.engine.set_rules(for_all_in(action));
        let got = receiver.handle(&ip_packet(alice, bob, protocol::IPV4, 0, true, &two));
        assert_eq!(got.as_ref().err().map(|dropped| dropped.reason), reason);
        assert!(got.is_err() || got.unwrap().1 == record::ARRIVED, "no proof and no application");
    }
    // Version and header disagree.
    let wrong = ip_packet(alice, bob, protocol::IPV6, 0, true, &packet);
    assert_eq!(asked(for_all_in(Action::Bypass)).refuse(&wrong), DropReason::IpIpHeader);
}

#[test]
fn inside_an_association_everything_has_a_name() {
    let (from, to) = hosts(false);
    let outer = chain(vec![esp(Mode::Tunnel)]).remove(0);
    let packet = alice_to_bob(false, 0, 30);
    let refused = |inner: &[u8], extra: &[SaConfig]| {
        let mut alice = sender(std::slice::from_ref(&outer), Services::ENCRYPTED);
        let mut all = vec![outer.clone()];
        all.extend_from_slice(extra);
        let mut bob = receiver(&all);
        let sealed = send(&mut alice, inner);
        bob.refuse(sealed.bytes())
    };
    let ip_in = |number: u8, upper: &[u8]| ip_packet(from, to, number, 0, true, upper);
    assert_eq!(refused(&ip_in(protocol::IPV4, &packet), &[]), DropReason::UnknownTunnel);
    assert_eq!(refused(&ip_in(protocol::IPV6, &packet), &[]), DropReason::UnknownTunnel);
    assert_eq!(refused(&ip_in(protocol::IPCOMP, &[17, 0, 0x44, 0, 1]), &[]), DropReason::UnknownCpi);
    assert_eq!(refused(&ip_in(protocol::ESP, &[9; 60]), &[]), DropReason::UnknownSpi);
    assert_eq!(refused(&ip_in(protocol::AH, &[4; 60]), &[]), DropReason::UnknownSpi);
    assert_eq!(refused(&ip_in(protocol::ESP, &[9; 7]), &[]), DropReason::EspTooShort);
    assert_eq!(refused(&ip_in(protocol::AH, &[4; 7]), &[]), DropReason::AhTooShort);
    // Another's CPI, an SPI taken for a CPI.
    let mut other = ipcomp(Mode::Transport);
    other.endpoints.local = ip("192.0.2.99");
    other.selectors = Selectors::ANY;
    assert_eq!(refused(&ip_in(protocol::IPCOMP, &[17, 0, 0x30, 0, 1]), &[other]), DropReason::WrongPeer);
    let mut mine = esp(Mode::Tunnel);
    mine.spi = Spi(0x3000);
    assert_eq!(refused(&ip_in(protocol::IPCOMP, &[17, 0, 0x30, 0, 1]), &[mine]), DropReason::WrongProtocol);
    // Version and header disagree.
    assert_eq!(refused(&ip_in(protocol::IPV6, &packet), &[ipip()]), DropReason::IpIpHeader);
}

/// RFC 4301 section 5.2, step 2: a host has several addresses, and what is protected again may be for any of them.
#[test]
fn what_is_inside_may_be_for_another_address_of_this_host() {
    let outer = chain(vec![esp(Mode::Tunnel)]).remove(0);
    let (from, to) = (ip("10.2.0.1"), ip("10.1.0.1"));
    let mut inner = chain(vec![esp(Mode::Transport)]).remove(0);
    (inner.spi, inner.endpoints.local, inner.endpoints.remote) = (Spi(0x5000), from, to);
    inner.selectors = Selectors { local: Prefix::host(from), remote: Prefix::host(to), ..Selectors::ANY };
    let packet = udp_packet((from, 40000), (to, 53), 0, true, b"twice");
    let once = send(&mut sender(std::slice::from_ref(&inner), Services::ENCRYPTED), &packet).bytes().to_vec();
    assert_eq!(once[9], protocol::ESP);
    let twice = |octets: &[u8]| {
        let mut alice = sender(std::slice::from_ref(&outer), Services::ENCRYPTED);
        send(&mut alice, octets).bytes().to_vec()
    };
    let mut bob = receiver(&[outer.clone(), inner.clone()]);
    assert_eq!(bob.handle(&twice(&once)).unwrap().0.bytes(), packet);
    // An unknown SPI is one, wherever it is for; and ESP in UDP is not opened there either.
    let mut stranger = once.clone();
    stranger[20] ^= 1;
    assert_eq!(receiver(&[outer.clone(), inner.clone()]).refuse(&twice(&stranger)), DropReason::UnknownSpi);
    let encapsulated = udp_packet((from, PORT), (to, PORT), 0, true, &once[20..]);
    let mut bob = receiver(&[outer.clone(), inner.clone()]);
    assert_eq!(bob.refuse(&twice(&encapsulated)), DropReason::EncapsulatedInside);
    // Once its association is gone the address is somebody else's.
    let mut bob = receiver(&[outer.clone(), inner.clone()]);
    bob.engine.remove_sa(inner.spi).unwrap();
    assert_eq!(bob.handle(&twice(&once)).unwrap().0.bytes(), once);
}

/// RFC 4301 section 4.1: transport mode for a tunnel of the host's own.
#[test]
fn a_tunnel_of_the_hosts_own_goes_in_transport_mode() {
    let (from, to) = hosts(false);
    let config = chain(vec![esp(Mode::Transport)]).remove(0);
    let inside = alice_to_bob(true, 0, 30);
    for (number, inside) in [(protocol::IPV6, &inside), (protocol::IPV4, &alice_to_bob(false, 0, 30))] {
        let packet = ip_packet(from, to, number, 0, true, inside);
        let mut alice = sender(std::slice::from_ref(&config), Services::ENCRYPTED);
        let outer = send(&mut alice, &packet);
        let (got, _) = receiver(std::slice::from_ref(&config)).handle(outer.bytes()).unwrap();
        let headers = Headers::parse(got.bytes()).unwrap();
        assert_eq!((headers.protocol, headers.upper(got.bytes())), (number, &inside[..]));
    }
    // Where there is an association for it, that opens it.
    let mut alice = sender(std::slice::from_ref(&config), Services::ENCRYPTED);
    let plain = alice_to_bob(false, 0, 30);
    let outer = send(&mut alice, &ip_packet(from, to, protocol::IPV4, 0, true, &plain));
    assert_eq!(receiver(&[config, ipip()]).handle(outer.bytes()).unwrap().0.bytes(), plain);
}

/// RFC 4301 section 5.2, step 4: the packet had the protection that the SPD demands, member by member.
#[test]
fn a_rule_that_names_members_takes_no_less() {
    let both = chain(vec![esp(Mode::Transport), ah(Mode::Transport)]);
    let mut alone = chain(vec![esp(Mode::Transport)]);
    alone[0].keymat = keymat(alone[0].suite, 77);
    alone[0].spi = Spi(0x6000);
    let pressed = chain(vec![ipcomp(Mode::Transport), esp(Mode::Transport)]);
    let packet = |payload: &[u8]| {
        let (from, to) = hosts(false);
        udp_packet((from, 40000), (to, 53), 0, true, payload)
    };
    let noise: Vec<u8> = (0..400u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let answer = |members: &[SaConfig], payload: &[u8], bundle: &[&str], level| {
        let need = if members.len() > 1 {
            members[0].services().union(members[1].services())
        } else {
            members[0].services()
        };
        let outer = send(&mut sender(members, need), &packet(payload));
        let mut bob = receiver(members);
        let bundle = bundle.iter().map(|text| text.parse().unwrap()).collect();
        let protection = Protection { bundle, services: Services::AUTHENTICATED, level, suite: None };
        let mut table: RuleTable = RuleTable::new(0);
        let rule = Rule::new(RuleKey(1), Direction::In, "any".parse().unwrap(), Action::Protect(protection));
        table.add(Place::Last, rule).unwrap();
        bob.engine.set_rules(Some(table.snapshot()));
        bob.handle(outer.bytes()).map(|(inner, _)| inner.bytes().len()).map_err(|dropped| dropped.reason)
    };
    let (esp_ah, less) = (["esp/transport", "ah/transport"], Err(DropReason::InboundPolicy));
    let all = Ok(packet(b"x").len());
    let mandatory = Level::Mandatory;
    assert_eq!(answer(&both, b"x", &esp_ah, mandatory), all);
    assert_eq!(answer(&both, b"x", &["esp/transport"], mandatory), all, "more is no harm");
    assert_eq!(answer(&both, b"x", &["ah/transport"], mandatory), less);
    assert_eq!(answer(&both, b"x", &["ah/transport", "esp/transport"], mandatory), less);
    assert_eq!(answer(&alone, b"x", &esp_ah, mandatory), less);
    assert_eq!(answer(&alone, b"x", &esp_ah, Level::Optional), all);
    // What compression would not have made shorter comes without.
    let pressing = ["ipcomp/transport", "esp/transport"];
    for payload in [&[7; 400][..], &noise] {
        assert_eq!(answer(&pressed, payload, &pressing, mandatory), Ok(packet(payload).len()));
    }
    assert_eq!(answer(&pressed, &noise, &["ipcomp/transport", "ah/transport"], mandatory), less);
}

#[test]
fn rounds_are_counted() {
    // The same tunnel again and again: four rounds are opened, a fifth is not.
    let outer = chain(vec![esp(Mode::Tunnel)]).remove(0);
    let mut alice = sender(std::slice::from_ref(&outer), Services::ENCRYPTED);
    let mut bob = receiver(std::slice::from_ref(&outer));
    let packet = alice_to_bob(false, 0, 30);
    let mut sealed = packet.clone();
    for round in 1..=5 {
        sealed = send(&mut alice, &sealed).bytes().to_vec();
        let got = bob.handle(&sealed);
        match round {
            1..=4 => assert_eq!(got.unwrap().0.bytes(), packet, "{round}"),
            _ => assert_eq!(got.unwrap_err().reason, DropReason::NestingLimit),
        }
        // Fresh windows for the next round: every layer is new to it.
        bob = receiver(std::slice::from_ref(&outer));
    }
}

#[test]
fn every_member_checks_its_selectors_and_its_application() {
    let packet = alice_to_bob(false, 0, 30);
    let members = chain(vec![esp(Mode::Transport), ah(Mode::Transport)]);
    let with = |change: &dyn Fn(&mut Vec<SaConfig>)| {
        let mut alice = sender(&members, Services::ENCRYPTED);
        let mut theirs = members.clone();
        change(&mut theirs);
        let mut bob = receiver(&theirs);
        bob.handle(send(&mut alice, &packet).bytes()).map(|(inner, _)| inner.meta.app).map_err(|d| d.reason)
    };
    assert_eq!(with(&|_| {}), Ok(AppId::NONE));
    // The outer association is for something else than ESP, the inner for something else than UDP.
    assert_eq!(with(&|m| m[1].selectors.protocol = Some(6)), Err(DropReason::SelectorMismatch));
    assert_eq!(with(&|m| m[0].selectors.protocol = Some(6)), Err(DropReason::SelectorMismatch));
    assert_eq!(with(&|m| m[0].selectors.app = Some(AppId(3))), Ok(AppId(3)));
    assert_eq!(with(&|m| m[1].selectors.app = Some(AppId(3))), Ok(AppId(3)));
    let both = |m: &mut Vec<SaConfig>| {
        (m[0].selectors.app, m[1].selectors.app) = (Some(AppId(3)), Some(AppId(4)));
    };
    assert_eq!(with(&both), Err(DropReason::SelectorMismatch));
}

#[test]
fn what_is_not_for_this_host_is_not_opened() {
    // A tunnel whose inner packet is ESP for somebody behind this host.
    let mut outer = chain(vec![esp(Mode::Tunnel)]).remove(0);
    outer.selectors.remote = Prefix::ANY;
    let (mut alice, mut bob) =
        (sender(std::slice::from_ref(&outer), Services::ENCRYPTED), receiver(std::slice::from_ref(&outer)));
    let transit = ip_packet(hosts(false).0, ip("203.0.113.5"), protocol::ESP, 0, true, &[9; 60]);
    let sealed = send(&mut alice, &transit);
    assert_eq!(bob.handle(sealed.bytes()).unwrap().0.bytes(), transit);
    assert_eq!(Headers::parse(&transit).unwrap().protocol, protocol::ESP);
}

/// RFC 4301 section 8.1 in a bundle: the outermost packet is what the path sees, and the first member is where packets
/// are cut.
#[test]
fn who_forbids_fragments_in_a_bundle() {
    let (from, to) = hosts(false);
    let long = udp_packet((from, 40000), (to, 53), 0, false, &[7; 3000]);
    let tunnels = |forbidding: [bool; 2]| {
        let mut members = chain(vec![esp(Mode::Tunnel), esp(Mode::Tunnel)]);
        for (member, forbids) in members.iter_mut().zip(forbidding) {
            let df = if forbids { DontFragment::Set } else { DontFragment::Clear };
            (member.options.headers.df, member.options.encapsulation) = (df, Encapsulation::None);
        }
        members
    };
    for forbidding in [[false, true], [true, true], [true, false], [false, false]] {
        let mut alice = sender(&tunnels(forbidding), Services::ENCRYPTED);
        let outcomes = alice.handle(stamped(APP, &long));
        if forbidding == [false, true] {
            let told = matches!(&outcomes[..], [Outcome::Reply(..), Outcome::Drop(d)] if d.reason == DropReason::TooBig);
            assert!(told, "{outcomes:?}");
            continue;
        }
        let sent: Vec<_> = outcomes
            .iter()
            .filter_map(|one| if let Outcome::Send(outer) = one { Some(outer) } else { None })
            .collect();
        assert_eq!(sent.len(), outcomes.len(), "{forbidding:?} {outcomes:?}");
        // Where the first forbids nothing, one packet travels in pieces.
        assert_eq!(sent.len() > 1, forbidding[0], "{forbidding:?}");
        for outer in sent {
            let whole = Headers::parse(outer.bytes()).unwrap().dont_fragment;
            assert_eq!((whole, outer.meta.may_fragment), (forbidding[1], !forbidding[1]), "{forbidding:?}");
        }
    }
}
