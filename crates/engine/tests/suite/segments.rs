//! Tests of TCP segments that were made for the uplink: what SYNs agree on, and what comes too long all the same.

use crate::support;

use crypto::SuiteId;
use engine::Outcome;
use sadb::{Mode, SaConfig};
use support::*;
use wire::ip::Headers;
use wire::tcp::{Flags, Tcp, TcpOption};
use wire::{DropReason, checksum};

fn configs() -> impl Iterator<Item = SaConfig> {
    MODES.into_iter().flat_map(|mode| [false, true].map(|v6| outbound_config(mode, SuiteId::AES_128_GCM, v6)))
}

/// A segment with these options.
fn segment(v6: bool, flags: Flags, options: &[u8], payload: &[u8]) -> Vec<u8> {
    assert_eq!(options.len() % 4, 0);
    let (alice, bob) = hosts(v6);
    let mut bytes = tcp_packet((alice, 40000), (bob, 443), 9, flags, true, &[options, payload].concat());
    let headers = Headers::parse(&bytes).unwrap();
    bytes[headers.header_len + 12] = (((20 + options.len()) / 4) << 4) as u8;
    checksum::complete_transport(&mut bytes, &headers).unwrap();
    bytes
}

fn max_segment(bytes: &[u8]) -> Option<u16> {
    let headers = Headers::parse(bytes).unwrap();
    let tcp = Tcp::new_checked(headers.upper(bytes)).unwrap();
    tcp.options().find_map(|option| match option {
        Ok(TcpOption::MaxSegment(size)) => Some(size),
        _ => None,
    })
}

#[test]
fn a_connection_agrees_on_segments_that_fit() {
    let plain: &[u8] = &[2, 4, 5, 180];
    let odd: &[u8] = &[1, 2, 4, 5, 180, 4, 2, 0];
    let small: &[u8] = &[2, 4, 2, 24];
    let signed: &[&[u8]] = &[&[2, 4, 5, 180, 19, 18], &[7; 16], &[1, 1]];
    let signed = signed.concat();
    let broken: &[u8] = &[9, 1, 2, 4, 5, 180, 0, 0];
    let syn_ack = Flags(Flags::SYN.0 | Flags::ACK.0);
    for config in configs() {
        let v6 = config.endpoints.local.is_ipv6();
        let fits = ipsec::inner_mtu(&config) as u16 - if v6 { 60 } else { 40 };
        assert!((1300..1460).contains(&fits));
        let table = [
            (Flags::SYN, plain, Some(fits)),
            (syn_ack, plain, Some(fits)),
            (Flags::SYN, odd, Some(fits)),
            (Flags::SYN, small, Some(536)),
            (Flags::SYN, &signed[..], Some(1460)),
            (Flags::SYN, broken, None),
            (Flags::SYN, &[], None),
            (Flags::ACK, plain, Some(1460)),
        ];
        for (flags, options, want) in table {
            for half in [false, true] {
                let mut alice = Sender::new(mandatory(), std::slice::from_ref(&config));
                let mut bob = Receiver::new(std::slice::from_ref(&config));
                let mut packet = stamped(APP, &segment(v6, flags, options, &[]));
                if half {
                    packet.meta.gso = half_checksum(packet.bytes_mut(), 16);
                }
                let [outer] = &alice.send(packet)[..] else { panic!("one packet") };
                let (inner, _) = bob.handle(outer.bytes()).unwrap();
                let headers = Headers::parse(inner.bytes()).unwrap();
                assert_eq!(checksum::verify_transport(inner.bytes(), &headers), Some(true));
                assert_eq!(max_segment(inner.bytes()), want, "{flags:?} {options:?}");
            }
        }
    }
}

#[test]
fn a_segment_of_the_uplinks_size_is_cut_and_not_answered() {
    let flags = Flags(Flags::ACK.0 | Flags::PSH.0 | Flags::FIN.0);
    let payload: Vec<u8> = (0..1460).map(|i| (i * 13) as u8).collect();
    for config in configs() {
        let v6 = config.endpoints.local.is_ipv6();
        for half in [false, true] {
            let mut alice = Sender::new(mandatory(), std::slice::from_ref(&config));
            let mut bob = Receiver::new(std::slice::from_ref(&config));
            let mut packet = stamped(APP, &segment(v6, flags, &[1, 1, 1, 1], &payload));
            if half {
                packet.meta.gso = half_checksum(packet.bytes_mut(), 16);
            }
            let outer = alice.send(packet);
            assert_eq!(outer.len(), 2);
            let mut stream = Vec::new();
            for (index, outer) in outer.iter().enumerate() {
                assert!(outer.bytes().len() <= usize::from(config.path_mtu));
                let (inner, _) = bob.handle(outer.bytes()).unwrap();
                let headers = Headers::parse(inner.bytes()).unwrap();
                assert_eq!(checksum::verify_transport(inner.bytes(), &headers), Some(true));
                let tcp = Tcp::new_checked(headers.upper(inner.bytes())).unwrap();
                assert_eq!(tcp.seq(), 9 + stream.len() as u32);
                assert_eq!(tcp.flags().contains(Flags::FIN), index == 1);
                stream.extend_from_slice(tcp.payload());
            }
            assert!(stream == payload);
        }
    }
}

#[test]
fn what_cannot_be_cut_is_answered() {
    let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    let payload = [7; 1460];
    let mut md5 = vec![1, 1, 19, 18];
    md5.extend([5; 16]);
    let mut wrong = segment(false, Flags::ACK, &[], &payload);
    *wrong.last_mut().unwrap() ^= 1;
    let table = [
        ("with data on a SYN", segment(false, Flags::SYN, &[], &payload)),
        ("signed", segment(false, Flags::ACK, &md5, &payload)),
        ("with a wrong checksum", wrong),
        ("not TCP", alice_to_bob(false, 0, 1460)),
    ];
    for (what, bytes) in table {
        let mut alice = Sender::new(mandatory(), std::slice::from_ref(&config));
        let outcomes = alice.handle(stamped(APP, &bytes));
        let [Outcome::Reply(..), Outcome::Drop(dropped)] = &outcomes[..] else {
            panic!("{what}: {outcomes:?}")
        };
        assert_eq!(dropped.reason, DropReason::TooBig, "{what}");
    }
}
