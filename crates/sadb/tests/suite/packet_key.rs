//! The fields of a packet that selectors see: taken from its headers, and OPAQUE where one is not there (RFC 4301
//! section 4.4.1.1).

use proptest::prelude::*;
use sadb::PacketKey;
use sadb::selector::field;
use wire::ip::Headers;
use wire::ipv4::{self, Ipv4Repr};
use wire::ipv6::{self, Ipv6Repr};
use wire::protocol;

fn v4(protocol: u8, upper: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 20];
    let repr = Ipv4Repr {
        src: [192, 0, 2, 1].into(),
        dst: [198, 51, 100, 2].into(),
        protocol,
        ttl: 64,
        tos: 46 << 2 | 1,
        id: 0,
        df: true,
        payload_len: upper.len(),
    };
    ipv4::emit(&mut bytes, &repr).unwrap();
    bytes.extend(upper);
    bytes
}

fn v6(next_header: u8, upper: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 40];
    let repr = Ipv6Repr {
        src: "2001:db8::1".parse().unwrap(),
        dst: "2001:db8::2".parse().unwrap(),
        next_header,
        hop_limit: 64,
        traffic_class: 0,
        flow_label: 0,
        payload_len: upper.len(),
    };
    ipv6::emit(&mut bytes, &repr).unwrap();
    bytes.extend(upper);
    bytes
}

fn key(bytes: &[u8], outbound: bool) -> PacketKey {
    PacketKey::of_packet(bytes, &Headers::parse(bytes).unwrap(), outbound)
}

const PORTS: [u8; 8] = [0x9c, 0x40, 0x01, 0xbb, 0, 8, 0, 0];

#[test]
fn ends_ports_and_code_point_by_direction() {
    let packet = v4(protocol::UDP, &PORTS);
    let out = key(&packet, true);
    assert_eq!(
        out,
        PacketKey::new([192, 0, 2, 1].into(), [198, 51, 100, 2].into())
            .protocol(17)
            .ports(40000, 443)
            .dscp(46)
    );
    assert_eq!(
        key(&packet, false),
        PacketKey::new([198, 51, 100, 2].into(), [192, 0, 2, 1].into())
            .protocol(17)
            .ports(443, 40000)
            .dscp(46)
    );
}

#[test]
fn each_protocol_has_its_own_upper_fields() {
    let upper =
        |key: PacketKey| [key.get(&field::LOCAL_PORT), key.get(&field::ICMP), key.get(&field::MOBILITY)];
    for protocol in [6, 17, 33, 132, 136] {
        assert_eq!(upper(key(&v4(protocol, &PORTS), true)), [Some(40000), None, None], "{protocol}");
    }
    assert_eq!(upper(key(&v4(1, &[8, 3, 0, 0]), true)), [None, Some(0x803), None]);
    assert_eq!(upper(key(&v6(58, &[128, 0, 0, 0]), false)), [None, Some(0x8000), None]);
    // ICMP of the other version is a protocol like others.
    assert_eq!(upper(key(&v6(1, &[8, 3, 0, 0]), true)), [None, None, None]);
    assert_eq!(upper(key(&v6(135, &[59, 0, 5, 0, 0, 0, 0, 0]), true)), [None, None, Some(5)]);
    // ESP hides everything, other protocols have nothing, short ones neither.
    for protocol in [50, 51, 47, 89] {
        let packet = v4(protocol, &PORTS);
        let key = key(&packet, true);
        assert_eq!((upper(key), key.get(&field::PROTOCOL)), ([None; 3], Some(protocol.into())), "{protocol}");
    }
    assert_eq!(upper(key(&v4(17, &PORTS[..3]), true)), [None; 3]);
    assert_eq!(upper(key(&v4(1, &[8]), true)), [None; 3]);
}

#[test]
fn a_fragment_that_is_not_the_first_has_no_ports() {
    let mut later = v4(protocol::UDP, &PORTS);
    later[6..8].copy_from_slice(&0x0002u16.to_be_bytes());
    let later = key(&later, true);
    assert_eq!((later.get(&field::LOCAL_PORT), later.get(&field::PROTOCOL)), (None, Some(17)));
    let mut first = v4(protocol::UDP, &PORTS);
    first[6..8].copy_from_slice(&0x2000u16.to_be_bytes());
    assert_eq!(key(&first, true).get(&field::LOCAL_PORT), Some(40000));
    // In IPv6 the upper layer may stand behind an extension header that only the first fragment has.
    let fragment = |next: u8, field: u16| {
        let [high, low] = field.to_be_bytes();
        v6(protocol::FRAGMENT, &[&[next, 0, high, low, 0, 0, 0, 9], &PORTS[..]].concat())
    };
    assert_eq!(key(&fragment(17, 0x0010), true).get(&field::PROTOCOL), Some(17));
    assert_eq!(key(&fragment(17, 0x0010), true).get(&field::LOCAL_PORT), None);
    assert_eq!(key(&fragment(60, 0x0010), true).get(&field::PROTOCOL), None);
    assert_eq!(key(&fragment(17, 0x0001), true).get(&field::REMOTE_PORT), Some(443));
}

proptest! {
    #[test]
    fn any_packet_has_a_key(bytes in proptest::collection::vec(any::<u8>(), 0..100), version: bool, outbound: bool) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = if version { 0x45 } else { 0x60 };
        }
        if let Ok(headers) = Headers::parse(&bytes) {
            let key = PacketKey::of_packet(&bytes, &headers, outbound);
            let (local, remote) = if outbound { (headers.src, headers.dst) } else { (headers.dst, headers.src) };
            prop_assert_eq!(key.get(&field::LOCAL), Some(wire::addr::to_bits(local)));
            prop_assert_eq!(key.get(&field::REMOTE), Some(wire::addr::to_bits(remote)));
        }
    }
}
