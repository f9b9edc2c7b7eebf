//! Tests of ICMP errors inside an association: what they quote must be what the association carries (RFC 4301 section
//! 6.2).

use crate::support;

use crypto::SuiteId;
use engine::{IcmpKind, InnerIcmp, QuotedCheck};
use sadb::{Mode, SaConfig, Selectors};
use std::net::IpAddr;
use support::*;
use wire::ip::Headers;
use wire::{DropReason, Prefix, checksum, protocol};

/// An association of Alice's side: from 10.1.0.0/16 to Bob's 10.2.0.0/16, or the same of IPv6.
fn config(v6: bool) -> SaConfig {
    let (local, remote) = nets(v6);
    let one = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    SaConfig { selectors: Selectors { local, remote, ..Selectors::ANY }, ..one }
}

fn nets(v6: bool) -> (Prefix, Prefix) {
    let net = |text: &str, len| Prefix::new(ip(text), len).unwrap();
    if v6 {
        (net("2001:db8:1::", 48), net("2001:db8:2::", 48))
    } else {
        (net("10.1.0.0", 16), net("10.2.0.0", 16))
    }
}

fn host(v6: bool, net: u8) -> IpAddr {
    if v6 { ip(&format!("2001:db8:{net}::5")) } else { ip(&format!("10.{net}.0.5")) }
}

/// An error from `src` to a host of Bob's, about a datagram that `about.0` sent to `about.1`.
fn error(v6: bool, kind: u8, src: IpAddr, about: (IpAddr, IpAddr)) -> Vec<u8> {
    let quoted = udp_packet((about.0, 40_000), (about.1, 53), 0, true, &[1; 40]);
    let message = [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &quoted].concat();
    let number = if v6 { protocol::ICMPV6 } else { protocol::ICMP };
    let mut bytes = ip_packet(src, host(v6, 2), number, 0, false, &message);
    let headers = Headers::parse(&bytes).unwrap();
    checksum::complete_transport(&mut bytes, &headers).unwrap();
    bytes
}

/// The outcome of a packet at Bob's. Alice's engine is one that carries everything.
fn arrives(config: &SaConfig, policy: &InnerIcmp, bytes: &[u8]) -> Result<(), DropReason> {
    let open = SaConfig { selectors: Selectors::ANY, ..config.clone() };
    let mut alice = Sender::new(mandatory(), &[open]);
    let outer = alice.send(stamped(APP, bytes));
    let answers = [false, true].map(|burst| {
        let mut bob = Receiver::new(std::slice::from_ref(config));
        bob.engine.set_icmp(policy.clone());
        if !burst {
            return bob.handle(outer[0].bytes()).map(drop).map_err(|dropped| dropped.reason);
        }
        // The same in a burst of one.
        let headers = Headers::parse(outer[0].bytes()).unwrap();
        let datagram = &headers.upper(outer[0].bytes())[8..];
        let mut buf = wire::Buf::with_capacity(4096, HEADROOM);
        buf.push_back(datagram.len()).unwrap().copy_from_slice(datagram);
        let header = wire::OuterHeader {
            src: headers.src,
            dst: headers.dst,
            src_port: PORT,
            dst_port: PORT,
            tos: 0,
            ttl: 64,
            may_fragment: false,
        };
        let burst = wire::Burst::raw(buf, header, datagram.len(), NOW).unwrap();
        let mut delivery = engine::Delivery::new();
        bob.engine.handle_burst(NOW, burst, &mut bob.pool, &mut delivery);
        let delivered = delivery.len();
        delivery.clear(&mut bob.pool);
        match bob.engine.stats().drops().next() {
            Some((reason, 1)) => Err(reason),
            None if delivered == 1 => Ok(()),
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(answers[0], answers[1], "a burst is judged as its packets are");
    answers[0]
}

#[test]
fn what_an_error_quotes_decides() {
    for v6 in [false, true] {
        let config = config(v6);
        let kind = if v6 { 1 } else { 3 };
        let (router, inside) = (host(v6, 9), host(v6, 1));
        // What a host of Bob's sent to Alice's side, and what it sent to somebody else.
        let (ours, other) = ((host(v6, 2), host(v6, 1)), (host(v6, 2), host(v6, 7)));
        let with = |check| InnerIcmp { check, ..InnerIcmp::default() };
        let quoted = Err(DropReason::IcmpQuoted);
        let outside = Err(DropReason::SelectorMismatch);
        for (check, src, about, want) in [
            (QuotedCheck::Always, inside, ours, Ok(())),
            (QuotedCheck::Always, inside, other, quoted),
            // A router of Alice's side that the selectors do not name.
            (QuotedCheck::Always, router, ours, Ok(())),
            (QuotedCheck::Always, router, other, quoted),
            (QuotedCheck::Unmatched, inside, ours, Ok(())),
            (QuotedCheck::Unmatched, inside, other, Ok(())),
            (QuotedCheck::Unmatched, router, ours, Ok(())),
            (QuotedCheck::Unmatched, router, other, quoted),
            (QuotedCheck::Never, inside, ours, Ok(())),
            (QuotedCheck::Never, inside, other, Ok(())),
            (QuotedCheck::Never, router, ours, outside),
            (QuotedCheck::Never, router, other, outside),
        ] {
            let bytes = error(v6, kind, src, about);
            assert_eq!(arrives(&config, &with(check), &bytes), want, "{check:?} {src} about {about:?}");
        }
        // The same packet the wrong way round: nobody here sent it.
        let reversed = error(v6, kind, inside, (ours.1, ours.0));
        assert_eq!(arrives(&config, &InnerIcmp::default(), &reversed), quoted);
        // A quotation that is none.
        let mut empty = error(v6, kind, inside, ours);
        let at = if v6 { 48 } else { 28 };
        empty[at] = 0;
        let headers = Headers::parse(&empty).unwrap();
        checksum::complete_transport(&mut empty, &headers).unwrap();
        assert_eq!(arrives(&config, &InnerIcmp::default(), &empty), quoted);
    }
}

#[test]
fn types_pass_by_the_list() {
    for v6 in [false, true] {
        let config = config(v6);
        let (inside, ours) = (host(v6, 1), (host(v6, 2), host(v6, 1)));
        let pass: &[u8] = if v6 { &[1, 2, 3, 4] } else { &[3, 11, 12] };
        // Redirects, source quench.
        let refused: &[u8] = if v6 { &[5, 100, 137] } else { &[4, 5] };
        for kind in pass {
            assert_eq!(arrives(&config, &InnerIcmp::default(), &error(v6, *kind, inside, ours)), Ok(()));
        }
        for kind in refused {
            let answer = arrives(&config, &InnerIcmp::default(), &error(v6, *kind, inside, ours));
            assert_eq!(answer, Err(DropReason::IcmpRefused), "{kind}");
        }
        // Everything else of ICMP is a packet like all.
        let echo = if v6 { 128 } else { 8 };
        assert_eq!(arrives(&config, &InnerIcmp::default(), &error(v6, echo, inside, ours)), Ok(()));
        let one = IcmpKind { version: if v6 { 6 } else { 4 }, kind: refused[0], code: Some(0) };
        let policy = InnerIcmp { accept: vec![one], ..InnerIcmp::default() };
        assert_eq!(arrives(&config, &policy, &error(v6, refused[0], inside, ours)), Ok(()));
        let answer = arrives(&config, &policy, &error(v6, pass[0], inside, ours));
        assert_eq!(answer, Err(DropReason::IcmpRefused));
    }
}

#[test]
fn an_answer_that_nothing_carries_leaves_with_the_return_traffic() {
    for v6 in [false, true] {
        // An association for datagrams to and from port 53 of this side alone.
        let config = config(v6);
        let only = sadb::spd::PortRange { first: 53, last: 53 };
        let selectors = Selectors { protocol: Some(protocol::UDP), local_ports: only, ..config.selectors };
        let mut alice = Sender::new(mandatory(), &[SaConfig { selectors, ..config.clone() }]);
        let proven = wire::record::PROOF | wire::record::AUTHENTICATED | wire::record::ENCRYPTED;
        let kind = if v6 { 1 } else { 3 };
        // A router of Alice's side says of a datagram from Bob's side that nobody takes it.
        let about = |port: u16| {
            let quoted = udp_packet((host(v6, 2), 40_000), (host(v6, 1), port), 0, true, &[1; 40]);
            let message = [&[kind, 3, 0, 0, 0, 0, 0, 0][..], &quoted].concat();
            let number = if v6 { protocol::ICMPV6 } else { protocol::ICMP };
            ip_packet(host(v6, 9), host(v6, 2), number, 0, false, &message)
        };
        let sent = alice.send(reflected(proven, &about(53)));
        assert_eq!(sent.len(), 1);
        // At Bob's it is checked in the same way.
        let mut bob = Receiver::new(&[SaConfig { selectors, ..config.clone() }]);
        bob.handle(sent[0].bytes()).unwrap();
        assert_eq!(alice.refuse(reflected(proven, &about(54))).reason, DropReason::NoSa);
    }
}
