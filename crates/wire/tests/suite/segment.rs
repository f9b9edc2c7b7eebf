//! Tests of cutting super-packets.

use crate::common;

use common::{ip, leave_checksum_open, naive_verify, tcp, udp};
use proptest::prelude::*;
use wire::ip::Headers;
use wire::ipv4::Ipv4;
use wire::segment::segments;
use wire::tcp::{Flags, Tcp};
use wire::udp::Udp;
use wire::{Buf, Gso, GsoKind, WireError, protocol};

/// All pieces of a packet, in one buffer that is used again for each.
fn cut(packet: &[u8], gso: &Gso, max_len: usize) -> Result<Vec<Vec<u8>>, WireError> {
    let headers = Headers::parse(packet).unwrap();
    let mut iter = segments(packet, &headers, gso, max_len)?;
    let mut buf = Buf::with_capacity(70_000, 16);
    let mut out = Vec::new();
    let mut remaining = iter.remaining();
    let segment_len = iter.segment_len();
    while let Some(result) = iter.next_into(&mut buf) {
        result?;
        out.push(buf.as_slice().to_vec());
        buf.reset(16);
        remaining -= 1;
        assert_eq!(iter.remaining(), remaining);
    }
    assert_eq!(remaining, 0);
    assert!(out.iter().rev().skip(1).all(|segment| segment.len() == segment_len));
    assert!(out.last().is_some_and(|segment| segment.len() <= segment_len));
    assert!(iter.next_into(&mut buf).is_none());
    Ok(out)
}

fn super_tcp(v6: bool, flags: u16, urgent: u16, options: &[u8], payload: &[u8], size: u16) -> (Vec<u8>, Gso) {
    let mut packet = ip(v6, protocol::TCP, &tcp(0xffff_ff00, flags, urgent, options, payload));
    let gso = Gso { kind: GsoKind::Tcp, size, ..leave_checksum_open(&mut packet) };
    (packet, gso)
}

fn super_udp(v6: bool, payload: &[u8], size: u16) -> (Vec<u8>, Gso) {
    let mut packet = ip(v6, protocol::UDP, &udp(payload));
    let gso = Gso { kind: GsoKind::Udp, size, ..leave_checksum_open(&mut packet) };
    (packet, gso)
}

fn tcp_of(packet: &[u8]) -> Tcp<&[u8]> {
    let headers = Headers::parse(packet).unwrap();
    Tcp::new_checked(&packet[headers.header_len..headers.total_len]).unwrap()
}

#[test]
fn flags_go_where_they_belong() {
    let all = (Flags::FIN | Flags::PSH | Flags::ACK | Flags::ECE | Flags::CWR).0;
    let (packet, gso) = super_tcp(false, all, 0, &[], &[7; 3000], 1000);
    let pieces = cut(&packet, &gso, 1500).unwrap();
    let flags: Vec<_> = pieces.iter().map(|p| tcp_of(p).flags()).collect();
    let middle = Flags::ACK | Flags::ECE;
    assert_eq!(flags, [middle | Flags::CWR, middle, middle | Flags::FIN | Flags::PSH]);
    let ids: Vec<_> = pieces.iter().map(|p| Ipv4::new_checked(p).unwrap().id()).collect();
    assert_eq!(ids, [0xfffe, 0xffff, 0]);
    let seqs: Vec<_> = pieces.iter().map(|p| tcp_of(p).seq()).collect();
    assert_eq!(seqs, [0xffff_ff00, 0x2e8, 0x6d0]);
}

#[test]
fn the_urgent_pointer_follows_its_octet() {
    let flags = (Flags::ACK | Flags::URG).0;
    let (packet, gso) = super_tcp(true, flags, 1500, &[], &[7; 3000], 1000);
    let pieces = cut(&packet, &gso, 1500).unwrap();
    let urgent: Vec<_> =
        pieces.iter().map(|p| (tcp_of(p).flags().contains(Flags::URG), tcp_of(p).urgent())).collect();
    assert_eq!(urgent, [(true, 1500), (true, 500), (false, 0)]);
}

#[test]
fn sizes_and_limits() {
    let tcp_len = |v6: bool, payload: usize, size, max| {
        let (packet, gso) = super_tcp(v6, 0x10, 0, &[1; 12], &vec![1; payload], size);
        cut(&packet, &gso, max).map(|p| p.iter().map(Vec::len).collect::<Vec<_>>())
    };
    // 20 + 32 octets of headers, 40 + 32 of them in IPv6.
    assert_eq!(tcp_len(false, 2896, 1448, 1500), Ok(vec![1500, 1500]));
    assert_eq!(tcp_len(false, 2897, 1448, 1500), Ok(vec![1500, 1500, 53]));
    assert_eq!(tcp_len(false, 2896, 1448, 1400), Ok(vec![1400, 1400, 252]));
    assert_eq!(tcp_len(true, 2896, 1428, 1280), Ok(vec![1280, 1280, 552]));
    assert_eq!(tcp_len(false, 100, 1448, 1500), Ok(vec![152]));
    assert_eq!(tcp_len(false, 0, 1448, 1500), Ok(vec![52]));
    assert_eq!(tcp_len(false, 2, 1448, 53), Ok(vec![53, 53]));
    assert_eq!(tcp_len(false, 2, 1448, 52), Err(WireError::TooBig));
    assert_eq!(tcp_len(false, 2, 1448, 0), Err(WireError::TooBig));
    assert_eq!(tcp_len(false, 2, 0, 1500), Err(WireError::Gso));

    let udp_len = |payload: usize, size, max| {
        let (packet, gso) = super_udp(false, &vec![1; payload], size);
        cut(&packet, &gso, max).map(|p| p.iter().map(Vec::len).collect::<Vec<_>>())
    };
    assert_eq!(udp_len(2500, 1000, 1028), Ok(vec![1028, 1028, 528]));
    assert_eq!(udp_len(2500, 1000, 1027), Err(WireError::TooBig));
    assert_eq!(udp_len(500, 1000, 528), Ok(vec![528]));
    assert_eq!(udp_len(500, 0, 1500), Err(WireError::Gso));
}

#[test]
fn contradictions_are_refused() {
    let (packet, gso) = super_tcp(false, 0x10, 0, &[], &[1; 100], 40);
    let (datagrams, udp_gso) = super_udp(false, &[1; 100], 40);
    assert_eq!(cut(&packet, &Gso { kind: GsoKind::Udp, ..gso }, 1500), Err(WireError::Gso));
    assert_eq!(cut(&datagrams, &Gso { kind: GsoKind::Tcp, ..udp_gso }, 1500), Err(WireError::Gso));
    assert_eq!(cut(&packet, &Gso { checksum_start: 24, ..gso }, 1500), Err(WireError::Gso));
    assert_eq!(cut(&packet, &Gso { checksum_offset: 6, ..gso }, 1500), Err(WireError::Gso));
    let plain = Gso { kind: GsoKind::None, ..gso };
    for (start, offset) in [(0, 16), (20, 120), (140, 0), (u16::MAX, u16::MAX)] {
        let wrong = Gso { checksum_start: start, checksum_offset: offset, ..plain };
        assert_eq!(cut(&packet, &wrong, 1500), Err(WireError::Gso), "{start} {offset}");
    }
    for flags in [Flags::SYN, Flags::RST, Flags::SYN | Flags::ACK] {
        let (packet, gso) = super_tcp(false, flags.0, 0, &[], &[1; 100], 40);
        assert_eq!(cut(&packet, &gso, 1500), Err(WireError::Gso));
        assert_eq!(cut(&packet, &Gso { size: 100, ..gso }, 1500).map(|p| p.len()), Ok(1));
    }
    let fragment = common::raw_fragment(false, 1, protocol::TCP, &tcp(0, 0, 0, &[], &[1; 96]), 0, true, 0);
    assert_eq!(cut(&fragment, &gso, 1500), Err(WireError::Gso));
    let mut short = datagrams.clone();
    short[25] -= 1;
    assert_eq!(cut(&short, &udp_gso, 1500), Err(WireError::Gso));
    // Four octets of options, the first of which says it has nine.
    let mut options = packet.clone();
    options.splice(20..20, [7, 9, 0, 0]);
    (options[0], options[3]) = (0x46, options[3] + 4);
    let behind = Gso { checksum_start: 24, ..gso };
    assert_eq!(cut(&options, &behind, 1500), Err(WireError::OptionLength));
    let no_header = ip(false, protocol::TCP, &[0; 10]);
    assert_eq!(cut(&no_header, &gso, 1500), Err(WireError::Gso));
    let headers = Headers::parse(&packet).unwrap();
    assert_eq!(segments(&packet[..100], &headers, &gso, 1500).map(|_| ()), Err(WireError::Truncated));
}

#[test]
fn an_ordinary_packet_is_one_piece() {
    let mut packet = ip(true, protocol::UDP, &udp(b"query"));
    let before = packet.clone();
    assert_eq!(cut(&packet, &Gso::default(), 1500), Ok(vec![before]));
    let gso = leave_checksum_open(&mut packet);
    let pieces = cut(&packet, &gso, packet.len()).unwrap();
    assert_eq!(pieces.len(), 1);
    assert_eq!(naive_verify(&pieces[0]), 0);
    assert_eq!(cut(&packet, &gso, packet.len() - 1), Err(WireError::TooBig));
    // What lies behind the packet is not part of it.
    packet.extend([9; 7]);
    assert_eq!(cut(&packet, &gso, packet.len() - 7), Ok(pieces));
}

#[test]
fn udp_without_checksum_stays_without() {
    let (mut packet, gso) = super_udp(false, &[3; 100], 40);
    packet[26..28].fill(0);
    let pieces = cut(&packet, &Gso { needs_checksum: false, ..gso }, 1500).unwrap();
    assert_eq!(pieces.len(), 3);
    assert!(pieces.iter().all(|p| Udp::new_checked(&p[20..]).unwrap().checksum() == 0));
}

#[test]
fn a_udp_checksum_of_zero_is_written_as_its_other_form() {
    for v6 in [false, true] {
        // The second datagram's checksum, put into its payload, makes its sum the one whose complement is zero.
        let (packet, gso) = super_udp(v6, &[0; 24], 12);
        let second = cut(&packet, &gso, 1500).unwrap()[1].clone();
        let at = Headers::parse(&second).unwrap().header_len;
        let mut payload = [0; 24];
        payload[12..14].copy_from_slice(&second[at + 6..at + 8]);
        let (packet, gso) = super_udp(v6, &payload, 12);
        let second = cut(&packet, &gso, 1500).unwrap()[1].clone();
        assert_eq!(second[at + 6..at + 8], [0xff, 0xff]);
        // The same datagram alone, its sum half done by the kernel.
        let mut alone = second.clone();
        let gso = leave_checksum_open(&mut alone);
        assert_eq!(cut(&alone, &gso, 1500), Ok(vec![second]));
    }
}

#[test]
fn a_small_buffer_is_an_error_that_ends() {
    let (packet, gso) = super_tcp(false, 0x10, 0, &[], &[1; 100], 40);
    let headers = Headers::parse(&packet).unwrap();
    let mut iter = segments(&packet, &headers, &gso, 1500).unwrap();
    let mut buf = Buf::with_capacity(150, 0);
    assert_eq!(iter.next_into(&mut buf), Some(Ok(())));
    assert_eq!(iter.next_into(&mut buf), Some(Err(WireError::NoRoom)));
    assert_eq!(iter.next_into(&mut buf), None);
    assert_eq!((buf.len(), iter.remaining()), (80, 0));
}

#[test]
fn pieces_may_follow_each_other_in_one_buffer() {
    let (packet, gso) = super_tcp(true, 0x18, 0, &[], &[5; 300], 100);
    let headers = Headers::parse(&packet).unwrap();
    let mut iter = segments(&packet, &headers, &gso, 1500).unwrap();
    let mut buf = Buf::with_capacity(1000, 8);
    while let Some(result) = iter.next_into(&mut buf) {
        result.unwrap();
    }
    let one_by_one = cut(&packet, &gso, 1500).unwrap().concat();
    assert_eq!(buf.as_slice(), one_by_one);
}

proptest! {
    #[test]
    fn pieces_add_up_to_the_whole(
        v6: bool, is_tcp: bool, option_words in 0_usize..10, flags in 0_u16..256,
        payload in prop::collection::vec(any::<u8>(), 1..20_000), size in 1_u16..3000, max_len in 100_usize..3000,
    ) {
        let flags = Flags(flags).without(Flags::SYN | Flags::RST).0;
        let (packet, gso) = if is_tcp {
            super_tcp(v6, flags, 0, &vec![1; option_words * 4], &payload, size)
        } else {
            super_udp(v6, &payload, size)
        };
        let headers = Headers::parse(&packet).unwrap();
        let header_len = if is_tcp { headers.header_len + 20 + option_words * 4 } else { headers.header_len + 8 };
        let pieces = match cut(&packet, &gso, max_len) {
            Ok(pieces) => pieces,
            Err(error) => {
                prop_assert_eq!(error, WireError::TooBig);
                let least = if is_tcp { 1 } else { usize::from(size).min(payload.len()) };
                prop_assert!(header_len + least > max_len);
                return Ok(());
            }
        };
        let mut joined: Vec<u8> = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            let own = Headers::parse(piece).unwrap();
            prop_assert_eq!(own.total_len, piece.len());
            prop_assert!(piece.len() <= max_len);
            prop_assert_eq!(own.header_len, headers.header_len);
            prop_assert!(wire::ip::checksum_ok(piece, &own));
            prop_assert_eq!(naive_verify(piece), 0);
            prop_assert_eq!((own.src, own.dst, own.tos, own.ttl), (headers.src, headers.dst, headers.tos, headers.ttl));
            if is_tcp {
                let view = tcp_of(piece);
                prop_assert_eq!(view.seq(), 0xffff_ff00_u32.wrapping_add(joined.len() as u32));
                let last = index + 1 == pieces.len();
                prop_assert!(last || !view.flags().intersects(Flags::FIN | Flags::PSH));
                prop_assert!(index == 0 || !view.flags().contains(Flags::CWR));
                prop_assert_eq!(view.flags().contains(Flags::ECE), Flags(flags).contains(Flags::ECE));
                joined.extend(view.payload());
            } else {
                let view = Udp::new_checked(&piece[own.header_len..]).unwrap();
                prop_assert_eq!(view.len(), piece.len() - own.header_len);
                joined.extend(view.payload());
            }
        }
        prop_assert_eq!(joined, payload);
        if !is_tcp {
            prop_assert_eq!(pieces.len(), (packet.len() - header_len).div_ceil(usize::from(size)));
        }
    }
}
