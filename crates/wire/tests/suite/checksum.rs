//! Checksums against a naive one, and against known values.

use crate::common;

use common::{ip, naive_sum, naive_verify, tcp, udp};
use proptest::prelude::*;
use wire::checksum;
use wire::ip::Headers;
use wire::{WireError, protocol};

#[test]
fn the_example_of_rfc_1071() {
    // RFC 1071 section 3.
    assert_eq!(checksum::sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    assert_eq!(checksum::sum(&[]), 0);
    assert_eq!(checksum::sum(&[0xab]), 0xab00);
    assert_eq!(checksum::sum(&[0xff; 65536]), 0xffff);
    assert_eq!(checksum::fold(u32::MAX), 0xffff);
}

#[test]
fn udp_never_sends_zero_and_icmp_has_its_own_rules() {
    // A payload whose checksum comes out as zero: the word that makes the sum 0xffff.
    for v6 in [false, true] {
        let mut packet = ip(v6, protocol::UDP, &udp(&[0, 0]));
        let headers = Headers::parse(&packet).unwrap();
        checksum::complete_transport(&mut packet, &headers).unwrap();
        let at = headers.header_len + 6;
        let check: [u8; 2] = packet[at..at + 2].try_into().unwrap();
        packet[at + 2..at + 4].copy_from_slice(&check);
        checksum::complete_transport(&mut packet, &headers).unwrap();
        assert_eq!(packet[at..at + 2], [0xff, 0xff]);
        assert_eq!(checksum::verify_transport(&packet, &headers), Some(true));
        packet[at..at + 2].fill(0);
        assert_eq!(checksum::verify_transport(&packet, &headers), if v6 { Some(true) } else { None });
    }
    for (v6, protocol) in [(false, protocol::ICMP), (true, protocol::ICMPV6)] {
        let mut packet = ip(v6, protocol, &[8, 0, 0, 0, 1, 2, 3, 4, 5]);
        let headers = Headers::parse(&packet).unwrap();
        checksum::complete_transport(&mut packet, &headers).unwrap();
        assert_eq!(naive_verify(&packet), 0);
        assert_eq!(checksum::verify_transport(&packet, &headers), Some(true));
    }
}

#[test]
fn what_cannot_be_summed_is_refused() {
    let complete = |mut packet: Vec<u8>| {
        let headers = Headers::parse(&packet).unwrap();
        checksum::complete_transport(&mut packet, &headers)
    };
    assert_eq!(complete(ip(false, protocol::ESP, &[0; 20])), Err(WireError::Gso));
    assert_eq!(complete(ip(false, protocol::TCP, &[0; 17])), Err(WireError::Truncated));
    assert_eq!(complete(ip(true, protocol::UDP, &[0; 8])), Err(WireError::TotalLength));
    let mut long = udp(&[1, 2, 3]);
    long[5] += 1;
    assert_eq!(complete(ip(true, protocol::UDP, &long)), Err(WireError::TotalLength));
    assert_eq!(
        complete(common::raw_fragment(false, 1, protocol::UDP, &udp(&[0; 8]), 0, true, 0)),
        Err(WireError::Gso)
    );
    assert_eq!(checksum::complete_partial(&mut [0; 10], 4, 5), Err(WireError::Gso));
    assert_eq!(checksum::complete_partial(&mut [0; 10], 11, 0), Err(WireError::Gso));
    assert_eq!(checksum::complete_partial(&mut [0; 10], 1, usize::MAX), Err(WireError::Gso));
    assert_eq!(checksum::complete_partial(&mut [0; 10], 4, 4), Ok(()));
}

#[test]
fn octets_behind_the_udp_length_are_not_covered() {
    let mut datagram = udp(&[1, 2, 3, 4]);
    datagram.extend([0xaa; 5]);
    let mut packet = ip(true, protocol::UDP, &datagram);
    let headers = Headers::parse(&packet).unwrap();
    checksum::complete_transport(&mut packet, &headers).unwrap();
    let mut alone = ip(true, protocol::UDP, &udp(&[1, 2, 3, 4]));
    let alone_headers = Headers::parse(&alone).unwrap();
    checksum::complete_transport(&mut alone, &alone_headers).unwrap();
    assert_eq!(packet[46..48], alone[46..48]);
    assert_eq!(naive_verify(&alone), 0);
}

#[test]
fn a_routing_header_moves_the_final_destination() {
    // The first hop is the header's destination; the sum holds the last address (RFC 8200 section 8.1).
    let last: [u8; 16] = [0x20, 1, 0xd, 0xb8, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9];
    let other = [0x11; 16];
    for (kind, addresses) in [(0_u8, vec![other, last]), (2, vec![last]), (4, vec![last, other])] {
        let mut upper = vec![protocol::TCP, (addresses.len() * 2) as u8, kind, 1, 0, 0, 0, 0];
        addresses.iter().for_each(|address| upper.extend(address));
        let segment = tcp(1, 0x10, 0, &[], b"hello");
        upper.extend(&segment);
        let mut packet = ip(true, protocol::ROUTING, &upper);
        let headers = Headers::parse(&packet).unwrap();
        assert!(headers.has_options);
        assert_eq!(wire::ip::final_destination(&packet, &headers), Ok(std::net::IpAddr::from(last)));
        checksum::complete_transport(&mut packet, &headers).unwrap();

        let mut direct = ip(true, protocol::TCP, &segment);
        direct[24..40].copy_from_slice(&last);
        let direct_headers = Headers::parse(&direct).unwrap();
        checksum::complete_transport(&mut direct, &direct_headers).unwrap();
        assert_eq!(packet[headers.header_len + 16..][..2], direct[40 + 16..][..2], "type {kind}");

        // With no segments left the destination is already the last one.
        packet[43] = 0;
        let headers = Headers::parse(&packet).unwrap();
        assert_eq!(wire::ip::final_destination(&packet, &headers), Ok(headers.dst));
    }
}

/// Which addresses of a source route are behind the next stop and in front of the end.
#[test]
fn the_stops_on_the_way() {
    let address = |n: u8| [[0x20, 1, 0xd, 0xb8].as_slice(), &[n; 12]].concat();
    // Type 0 in travelling order, type 4 from the end; type 2 has one.
    for (kind, list, left, between) in [
        (0_u8, &[1_u8, 2, 3, 4][..], 4_u8, &[1_u8, 2, 3][..]),
        (0, &[1, 2, 3, 4], 3, &[2, 3]),
        (0, &[1, 2, 3, 4], 1, &[]),
        (0, &[1, 2, 3, 4], 0, &[]),
        (4, &[4, 3, 2, 1], 4, &[3, 2, 1]),
        (4, &[4, 3, 2, 1], 3, &[3, 2]),
        (4, &[4, 3, 2, 1], 1, &[]),
        (4, &[4, 3, 2, 1], 0, &[]),
        (2, &[4], 1, &[]),
    ] {
        let mut upper = vec![protocol::UDP, (list.len() * 2) as u8, kind, left, 0, 0, 0, 0];
        list.iter().for_each(|n| upper.extend(address(*n)));
        let packet = ip(true, protocol::ROUTING, &[upper, udp(b"hello")].concat());
        let stops = wire::ip::stops_between(&packet, &Headers::parse(&packet).unwrap());
        let want: Vec<std::net::IpAddr> =
            between.iter().map(|n| <[u8; 16]>::try_from(address(*n)).unwrap().into()).collect();
        assert_eq!(stops, want, "type {kind}, {left} left");
    }
    for (pointer, between) in [(4, &[1_u8, 2][..]), (8, &[2]), (12, &[]), (16, &[])] {
        let mut packet = ip(
            false,
            protocol::UDP,
            &[&[131, 15, pointer, 192, 0, 2, 1, 192, 0, 2, 2, 192, 0, 2, 3, 0][..], &udp(b"hello")].concat(),
        );
        packet[0] = 0x49;
        let stops = wire::ip::stops_between(&packet, &Headers::parse(&packet).unwrap());
        assert_eq!(stops, between.iter().map(|n| [192, 0, 2, *n].into()).collect::<Vec<std::net::IpAddr>>());
    }
}

proptest! {
    #[test]
    fn sum_equals_the_naive_one(bytes in prop::collection::vec(any::<u8>(), 0..5000), skip in 0_usize..9) {
        let bytes = bytes.get(skip..).unwrap_or(&[]);
        prop_assert_eq!(checksum::sum(bytes), u32::from(naive_sum(bytes)));
    }

    #[test]
    fn pieces_of_even_length_add_up(bytes in prop::collection::vec(any::<u8>(), 0..3000), cut in any::<prop::sample::Index>()) {
        let cut = cut.index(bytes.len() + 1) & !1;
        let parts = checksum::sum(&bytes[..cut]) + checksum::sum(&bytes[cut..]);
        // Zero has two forms in one's complement.
        prop_assert_eq!(checksum::fold(parts) % 0xffff, naive_sum(&bytes) % 0xffff);
    }

    #[test]
    fn completed_checksums_verify(
        v6: bool, is_tcp: bool, payload in prop::collection::vec(any::<u8>(), 0..2000),
        flip in any::<prop::sample::Index>(), bit in 0_u32..8,
    ) {
        let upper = if is_tcp { tcp(7, 0x18, 0, &[1, 1, 1, 0], &payload) } else { udp(&payload) };
        let mut scratch = ip(v6, if is_tcp { protocol::TCP } else { protocol::UDP }, &upper);
        let headers = Headers::parse(&scratch).unwrap();
        let mut partial = scratch.clone();
        let gso = common::leave_checksum_open(&mut partial);
        checksum::complete_transport(&mut scratch, &headers).unwrap();
        checksum::complete_partial(&mut partial, gso.checksum_start.into(), gso.checksum_offset.into()).unwrap();
        prop_assert_eq!(naive_verify(&scratch), 0);
        prop_assert_eq!(naive_verify(&partial), 0);
        prop_assert_eq!(checksum::verify_transport(&scratch, &headers), Some(true));

        // One wrong bit in ports or payload is seen.
        let at = headers.header_len + flip.index(upper.len());
        let off = at - headers.header_len;
        let length_or_check = if is_tcp { 16..18 } else { 4..8 };
        if !length_or_check.contains(&off) && (!is_tcp || off != 12) {
            scratch[at] ^= 1 << bit;
            prop_assert_eq!(checksum::verify_transport(&scratch, &headers), Some(false));
        }
    }
}
