//! What an ICMP error quotes, through every header that may stand in front of ports: in clear it passes only where
//! everything that decides about the quoted packet can be read and says so; inside an association it is what the
//! association carries. And ports that cannot be read are in no range (RFC 4301 section 4.4.1.1: OPAQUE).

use crate::support;

use crypto::SuiteId;
use engine::Outcome;
use sadb::rules::{Action, Direction, Place, Protection, Rule, RuleKey, RuleTable, Template};
use sadb::spd::{Level, PortRange, Spd};
use sadb::{Mode, SaConfig, Selectors, Spi};
use std::net::{IpAddr, Ipv6Addr};
use support::*;
use wire::ip::Headers;
use wire::{DropReason, Packet, Prefix, Services, checksum, protocol, record, stage};

/// The port that a rule protects, and one that no rule names.
const PROTECTED: u16 = 7000;
const CLEAR: u16 = 7001;

fn here() -> IpAddr {
    ip("2001:db8:1::5")
}

fn there() -> IpAddr {
    ip("2001:db8:2::5")
}

/// The IPv6 extension headers in front of a datagram: a name, the number of the first, and the octets of all.
struct Chain {
    name: &'static str,
    first: u8,
    octets: Vec<u8>,
}

fn options(next: u8) -> Vec<u8> {
    // PadN over four octets.
    vec![next, 0, 1, 4, 0, 0, 0, 0]
}

fn routing(next: u8, kind: u8, left: u8, last: IpAddr) -> Vec<u8> {
    let IpAddr::V6(last) = last else { panic!("IPv6 here") };
    [&[next, 2, kind, left, 0, 0, 0, 0][..], &last.octets()].concat()
}

fn fragment(next: u8, offset: u16) -> Vec<u8> {
    let [high, low] = (offset | 1).to_be_bytes();
    vec![next, 0, high, low, 0, 0, 0, 9]
}

/// Chains behind which the ports can be read. `last` is where the datagram goes.
fn readable(last: IpAddr) -> Vec<Chain> {
    let udp = protocol::UDP;
    let chain = |name, first, octets: Vec<u8>| Chain { name, first, octets };
    vec![
        chain("none", udp, vec![]),
        chain("hop-by-hop", 0, options(udp)),
        chain("destination", 60, options(udp)),
        chain("a route at its end", 43, routing(udp, 0, 0, last)),
        chain("the first fragment", 44, fragment(udp, 0)),
        chain("all of them", 0, [options(60), options(44), fragment(60, 0), options(udp)].concat()),
    ]
}

/// Chains behind which the ports cannot be read.
fn unreadable() -> Vec<Chain> {
    let udp = protocol::UDP;
    let chain = |name, first, octets: Vec<u8>| Chain { name, first, octets };
    vec![
        chain("a later fragment", 44, fragment(udp, 64)),
        chain("a later fragment of options", 44, fragment(60, 64)),
        chain("two fragment headers", 44, [fragment(44, 0), fragment(udp, 0)].concat()),
        chain("hop-by-hop in the second place", 60, [options(0), options(udp)].concat()),
        chain("too many", 60, [options(60).repeat(8), options(udp)].concat()),
        chain("a header behind the end", 60, vec![udp, 200, 1, 4, 0, 0, 0, 0]),
        chain("a route that contradicts itself", 43, routing(udp, 0, 7, here())),
    ]
}

/// A datagram behind a chain of headers.
fn datagram(src: (IpAddr, u16), dst: (IpAddr, u16), chain: &Chain) -> Vec<u8> {
    let udp = udp_packet(src, dst, 0, true, &[1; 40]);
    let upper = [&chain.octets[..], &udp[40..]].concat();
    ip_packet(src.0, dst.0, chain.first, 0, true, &upper)
}

/// An error of this type from `src` to `to`, the sender of what it quotes.
fn error(kind: u8, src: IpAddr, quoted: &[u8], to: IpAddr) -> Vec<u8> {
    let message = [&[kind, 0, 0, 0, 0, 0, 5, 0][..], quoted].concat();
    let number = if src.is_ipv4() { protocol::ICMP } else { protocol::ICMPV6 };
    let mut bytes = ip_packet(src, to, number, 0, false, &message);
    let headers = Headers::parse(&bytes).unwrap();
    checksum::complete_transport(&mut bytes, &headers).unwrap();
    bytes
}

/// A gateway that protects one port between two sites, and lets everything else pass.
fn gateway(local: Prefix, remote: Prefix) -> Sender {
    let v6 = remote.len() < 96;
    let base = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, v6);
    let selectors = Selectors { local, remote, ..Selectors::ANY };
    let mut sender = Sender::new(Spd::new(1), &[SaConfig { spi: Spi(0x1000), selectors, ..base }]);
    let protect = Action::Protect(Protection {
        bundle: vec![Template::ANY],
        services: Services::ENCRYPTED,
        level: Level::Mandatory,
        suite: None,
    });
    let mut table: RuleTable = RuleTable::new(0);
    let protected = format!("local {local} remote {remote} proto udp remote-port {PROTECTED}");
    for (number, selector, action) in [(1, &*protected, protect), (2, "any", Action::Bypass)] {
        let rule = Rule::new(RuleKey(number), Direction::Both, selector.parse().unwrap(), action);
        table.add(Place::Last, rule).unwrap();
    }
    sender.engine.set_rules(Some(table.snapshot()));
    sender
}

fn nets() -> (Prefix, Prefix) {
    let net = |text| Prefix::new(ip(text), 48).unwrap();
    (net("2001:db8:1::"), net("2001:db8:2::"))
}

fn with(mark: u32, bytes: &[u8]) -> Packet<stage::Inner> {
    let mut packet = from_host(bytes);
    (packet.meta.mark, packet.meta.cookie) = (mark, 7);
    packet
}

/// The outcome of a packet in one word.
fn fate(gateway: &mut Sender, packet: Packet<stage::Inner>) -> &'static str {
    match &gateway.handle(packet)[..] {
        [Outcome::Clear(_)] => "clear",
        [Outcome::Send(_)] => "protected",
        [Outcome::Drop(dropped)] => dropped.reason.name(),
        other => panic!("{other:?}"),
    }
}

const KINDS: [u8; 4] = [1, 2, 3, 4];

#[test]
fn a_clear_error_about_a_protected_flow_is_refused_whatever_stands_in_front_of_its_ports() {
    let (local, remote) = nets();
    let mut gateway = gateway(local, remote);
    let router = ip("2001:db8:9::1");
    let arrived = |bytes: &[u8]| with(record::FORWARDED | record::ARRIVED, bytes);
    for kind in KINDS {
        let about = |port, chain: &Chain| {
            let sent = datagram((here(), 40_000), (there(), port), chain);
            arrived(&error(kind, router, &sent, here()))
        };
        for chain in readable(there()) {
            let fates = [PROTECTED, CLEAR].map(|port| fate(&mut gateway, about(port, &chain)));
            assert_eq!(fates, ["clear_refused", "clear"], "{kind}: {}", chain.name);
        }
        for chain in unreadable() {
            let fates = [PROTECTED, CLEAR].map(|port| fate(&mut gateway, about(port, &chain)));
            assert_eq!(fates, ["clear_refused"; 2], "{kind}: {}", chain.name);
        }
        // On its way to a last stop: both that one and the next are asked.
        for (next, last) in [(there(), router), (router, there())] {
            let chain = Chain { name: "a route", first: 43, octets: routing(protocol::UDP, 0, 1, last) };
            for (port, want) in [(PROTECTED, "clear_refused"), (CLEAR, "clear")] {
                let sent = datagram((here(), 40_000), (next, port), &chain);
                assert_eq!(fate(&mut gateway, arrived(&error(kind, router, &sent, here()))), want);
            }
        }
        // Cut in front of its ports.
        let sent = datagram((here(), 40_000), (there(), CLEAR), &readable(there())[1]);
        assert_eq!(fate(&mut gateway, arrived(&error(kind, router, &sent[..51], here()))), "clear_refused");
        assert_eq!(fate(&mut gateway, arrived(&error(kind, router, &sent[..52], here()))), "clear");
    }
}

#[test]
fn an_error_about_what_came_protected_leaves_protected_whatever_stands_in_front_of_its_ports() {
    let (local, remote) = nets();
    let mut gateway = gateway(local, remote);
    for kind in KINDS {
        let about = |port, chain: &Chain| {
            let came = datagram((there(), port), (here(), 40_000), chain);
            with(record::FORWARDED, &error(kind, here(), &came, there()))
        };
        for chain in readable(here()) {
            let fates = [PROTECTED, CLEAR].map(|port| fate(&mut gateway, about(port, &chain)));
            assert_eq!(fates, ["protected", "clear"], "{kind}: {}", chain.name);
        }
        for chain in unreadable() {
            let fates = [PROTECTED, CLEAR].map(|port| fate(&mut gateway, about(port, &chain)));
            assert_eq!(fates, ["clear_refused"; 2], "{kind}: {}", chain.name);
        }
        // The route's last stop is elsewhere; what came was for this host first.
        let elsewhere = ip("2001:db8:9::9");
        let chain = Chain { name: "a route", first: 43, octets: routing(protocol::UDP, 0, 1, elsewhere) };
        assert_eq!(fate(&mut gateway, about(PROTECTED, &chain)), "protected");
    }
}

#[test]
fn ports_of_an_ipv4_later_fragment_are_not_guessed() {
    let net = |text: &str| Prefix::new(ip(text), 16).unwrap();
    let mut gateway = gateway(net("10.1.0.0"), net("10.2.0.0"));
    let (here, there, router) = (ip("10.1.0.5"), ip("10.2.0.5"), ip("198.51.100.7"));
    for port in [PROTECTED, CLEAR] {
        let mut sent = udp_packet((here, 40_000), (there, port), 0, false, &[1; 40]);
        let mut came = udp_packet((there, port), (here, 40_000), 0, false, &[1; 40]);
        for quoted in [&mut sent, &mut came] {
            quoted[7] = 8;
        }
        let arrived = with(record::FORWARDED | record::ARRIVED, &error(3, router, &sent, here));
        assert_eq!(fate(&mut gateway, arrived), "clear_refused");
        let leaving = with(record::FORWARDED, &error(3, here, &came, there));
        assert_eq!(fate(&mut gateway, leaving), "clear_refused");
    }
}

#[test]
fn inside_an_association_an_error_is_what_it_carries_whatever_stands_in_front_of_its_ports() {
    let (local, remote) = nets();
    let base = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, true);
    let open = SaConfig { selectors: Selectors { local, remote, ..Selectors::ANY }, ..base.clone() };
    // Alice's port 53, and what comes from it.
    let only = PortRange { first: 53, last: 53 };
    let selectors = Selectors { protocol: Some(protocol::UDP), local_ports: only, ..open.selectors };
    let narrow = SaConfig { selectors, ..base };
    let arrives = |config: &SaConfig, bytes: &[u8]| {
        let carrier = SaConfig { selectors: Selectors::ANY, ..config.clone() };
        let outer = Sender::new(mandatory(), &[carrier]).send(stamped(APP, bytes));
        let mut bob = Receiver::new(std::slice::from_ref(config));
        bob.handle(outer[0].bytes()).map(drop).map_err(|dropped| dropped.reason)
    };
    for kind in KINDS {
        let about = |port, chain: &Chain| {
            let sent = datagram((there(), 40_000), (here(), port), chain);
            error(kind, here(), &sent, there())
        };
        for chain in readable(here()) {
            assert_eq!(arrives(&narrow, &about(53, &chain)), Ok(()), "{kind}: {}", chain.name);
            let other = arrives(&narrow, &about(54, &chain));
            assert_eq!(other, Err(DropReason::IcmpQuoted), "{kind}: {}", chain.name);
        }
        for chain in unreadable() {
            let answer = arrives(&narrow, &about(53, &chain));
            assert_eq!(answer, Err(DropReason::IcmpQuoted), "{kind}: {}", chain.name);
        }
        // Where ports do not count they need not be read.
        assert_eq!(arrives(&open, &about(53, &unreadable()[0])), Ok(()));
        assert_eq!(arrives(&open, &about(53, &unreadable()[1])), Err(DropReason::IcmpQuoted));
    }
}

/// Packets whose ports, or whose type, cannot be read: a datagram and a segment of two octets, the other family's ICMP,
/// a Mobility Header that ends in front of its type.
fn opaque() -> Vec<(u8, Vec<u8>)> {
    let packet = |number, upper: &[u8]| ip_packet(here(), there(), number, 0, true, upper);
    let of = |number, upper: &[u8]| (number, packet(number, upper));
    vec![
        of(protocol::UDP, &[0, 0]),
        of(protocol::TCP, &[0, 0, 0]),
        of(protocol::ICMP, &[0, 0, 0, 0, 0, 0, 0, 0]),
        of(protocol::MOBILITY, &[59, 0]),
    ]
}

#[test]
fn a_range_that_holds_zero_takes_no_packet_without_ports() {
    let base = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, true);
    let from_zero = PortRange { first: 0, last: 1023 };
    for (number, bytes) in opaque() {
        for protocol in [Some(number), None] {
            let narrow = Selectors { protocol, local_ports: from_zero, ..Selectors::ANY };
            let narrow = SaConfig { spi: Spi(0x1000), selectors: narrow, ..base.clone() };
            let whole = SaConfig { spi: Spi(0x2000), keymat: keymat(base.suite, 2), ..base.clone() };
            let mut alice = Sender::new(mandatory(), std::slice::from_ref(&narrow));
            assert_eq!(alice.refuse(stamped(APP, &bytes)).reason, DropReason::NoSa, "{number} {protocol:?}");
            // Beside one for ANY the more specific one is passed over, also where its answer was remembered.
            let mut alice = Sender::new(mandatory(), &[narrow.clone(), whole.clone()]);
            for _ in 0..2 {
                let sent = alice.send(stamped(APP, &bytes));
                assert_eq!(sent[0].meta.spi, 0x2000, "{number} {protocol:?}");
            }
            // What arrives is asked in the same way: the receiver's local ports are the sender's remote ones.
            let outer = Sender::new(mandatory(), std::slice::from_ref(&whole)).send(stamped(APP, &bytes));
            let mut bob = Receiver::new(std::slice::from_ref(&whole));
            assert!(bob.handle(outer[0].bytes()).is_ok());
            let takes = Selectors { protocol, remote_ports: from_zero, ..Selectors::ANY };
            let mut bob = Receiver::new(&[SaConfig { selectors: takes, ..whole }]);
            let refused = bob.handle(outer[0].bytes()).map(drop).map_err(|dropped| dropped.reason);
            assert_eq!(refused, Err(DropReason::SelectorMismatch), "{number} {protocol:?}");
        }
    }
    // A zero that can be read is one: echo replies.
    let echo = ip_packet(ip("192.0.2.10"), ip("192.0.2.11"), protocol::ICMP, 0, true, &[0; 8]);
    let selectors = Selectors { protocol: Some(protocol::ICMP), local_ports: from_zero, ..Selectors::ANY };
    let base = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    assert_eq!(
        Sender::new(mandatory(), &[SaConfig { selectors, ..base }]).send(stamped(APP, &echo)).len(),
        1
    );
}

#[test]
fn the_unspecified_address_of_a_route_is_no_way_out() {
    let (local, remote) = nets();
    let mut gateway = gateway(local, remote);
    let chain = Chain {
        name: "a route to nowhere",
        first: 43,
        octets: routing(protocol::UDP, 0, 1, IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
    };
    let sent = datagram((here(), 40_000), (there(), PROTECTED), &chain);
    let error = error(1, ip("2001:db8:9::1"), &sent, here());
    let arrived = with(record::FORWARDED | record::ARRIVED, &error);
    assert_eq!(fate(&mut gateway, arrived), "clear_refused");
}
