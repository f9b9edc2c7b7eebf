//! IP headers, flows, checksums, ICMP errors, segmentation, reassembly.
//!
//! The first octet says how the rest is read:
//! 0 a packet; 1 a super-packet behind `size u16, longest u16, flags u8`; 2 packets, each behind its length (u16),
//! for one reassembler; 3 a payload behind `fragment size u8, order u8`, cut, shuffled and put together again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use wire::ip::{self, Headers};
use wire::ipv4::{self, Ipv4, Ipv4Repr};
use wire::reassembly::Limits;
use wire::tcp::Tcp;
use wire::udp::Udp;
use wire::{Buf, Gso, GsoKind, Pool, Reassembled, Reassembler, Time, checksum, icmp, protocol, segment};

fuzz_target!(|bytes: &[u8]| {
    let Some((mode, rest)) = bytes.split_first() else { return };
    match mode % 4 {
        0 => packet(rest),
        1 => super_packet(rest),
        2 => stream(rest),
        _ => cut_and_join(rest),
    }
});

fn packet(bytes: &[u8]) {
    let Ok(headers) = Headers::parse(bytes) else { return };
    assert!(headers.header_len <= headers.total_len && headers.total_len <= bytes.len());
    assert!(headers.protocol_at < headers.header_len);
    assert_eq!(bytes[headers.protocol_at], headers.protocol, "where it says the protocol is, it is");
    let (out, back) = (ip::flow(bytes, &headers, true), ip::flow(bytes, &headers, false));
    assert_eq!((out.local, out.remote, out.protocol), (back.remote, back.local, back.protocol));
    assert_eq!(
        Headers::parse(&bytes[..headers.total_len]),
        Ok(headers),
        "what lies behind a packet says nothing"
    );
    let _ = (ip::checksum_ok(bytes, &headers), checksum::verify_transport(bytes, &headers));

    let mut whole = bytes[..headers.total_len].to_vec();
    if checksum::complete_transport(&mut whole, &headers).is_ok() {
        assert_eq!(checksum::verify_transport(&whole, &headers), Some(true));
    }
    let router: IpAddr = match headers.version {
        4 => Ipv4Addr::new(192, 0, 2, 1).into(),
        _ => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    for from in [None, Some(router)] {
        let Some(error) = icmp::too_big(bytes, &headers, 1280, from) else { continue };
        let error = error.as_slice();
        let answer = Headers::parse(error).expect("an error is a packet");
        assert!(error.len() <= if answer.version == 4 { 576 } else { 1280 });
        assert_eq!((answer.src, answer.dst), (from.unwrap_or(headers.dst), headers.src));
        assert!(ip::checksum_ok(error, &answer));
        assert_eq!(checksum::verify_transport(error, &answer), Some(true));
        assert!(icmp::too_big(error, &answer, 1, from).is_none(), "no error about an error");
    }
}

fn super_packet(bytes: &[u8]) {
    let Some((&[s1, s0, l1, l0, flags], bytes)) = bytes.split_first_chunk() else { return };
    let Ok(headers) = Headers::parse(bytes) else { return };
    let longest = usize::from(u16::from_be_bytes([l1, l0]));
    let kind = [GsoKind::None, GsoKind::Tcp, GsoKind::Udp][usize::from(flags % 3)];
    let gso = Gso {
        kind,
        needs_checksum: flags & 128 != 0,
        size: u16::from_be_bytes([s1, s0]),
        checksum_start: if flags & 64 != 0 { u16::from(flags) } else { headers.header_len as u16 },
        checksum_offset: if kind == GsoKind::Udp { 6 } else { 16 },
    };
    let Ok(mut segments) = segment::segments(bytes, &headers, &gso, longest) else { return };
    let (expected, segment_len) = (segments.remaining(), segments.segment_len());
    let mut joined = Vec::new();
    let mut count = 0;
    let mut out = Buf::with_capacity(longest.max(headers.total_len) + 8, 8);
    while let Some(written) = segments.next_into(&mut out) {
        if written.is_err() {
            return;
        }
        assert!(out.len() <= longest && out.len() <= segment_len);
        let first = joined.len();
        joined.extend_from_slice(segment_payload(out.as_slice(), kind));
        if kind != GsoKind::None {
            sound_segment(out.as_slice(), bytes, first);
        }
        out.reset(8);
        count += 1;
    }
    assert_eq!(count, expected);
    if kind != GsoKind::None {
        assert_eq!(
            joined,
            segment_payload(&bytes[..headers.total_len], kind),
            "cutting loses and adds nothing"
        );
    }
}

/// A segment that holds the data from octet `first` on of the super-packet `whole`.
fn sound_segment(segment: &[u8], whole: &[u8], first: usize) {
    let headers = Headers::parse(segment).expect("a segment is a packet");
    assert_eq!(headers.total_len, segment.len());
    assert!(ip::checksum_ok(segment, &headers));
    let of_whole = Headers::parse(whole).expect("it was cut");
    if headers.protocol == protocol::TCP {
        assert_eq!(checksum::verify_transport(segment, &headers), Some(true));
        let seq = |bytes| Tcp::new_checked(bytes).expect("cut as TCP").seq();
        let (have, begin) = (seq(headers.upper(segment)), seq(of_whole.upper(whole)));
        assert_eq!(have, begin.wrapping_add(first as u32));
    } else if Udp::new_checked(headers.upper(segment)).expect("cut as UDP").checksum() != 0 {
        assert_eq!(checksum::verify_transport(segment, &headers), Some(true));
    }
}

/// The data of a packet, as a super-packet of this kind has it.
fn segment_payload(packet: &[u8], kind: GsoKind) -> &[u8] {
    let Ok(headers) = Headers::parse(packet) else { return &[] };
    let upper = headers.upper(packet);
    let header_len = match kind {
        GsoKind::None => 0,
        GsoKind::Tcp => Tcp::new_checked(upper).expect("cut as TCP").header_len(),
        GsoKind::Udp => {
            let datagram = Udp::new_checked(upper).expect("cut as UDP");
            assert_eq!(datagram.len(), upper.len());
            wire::udp::HEADER_LEN
        }
    };
    &upper[header_len..]
}

fn stream(mut bytes: &[u8]) {
    let limits = Limits { datagrams: 4, memory: 1 << 16, timeout: Duration::from_secs(15) };
    let mut table = Reassembler::new(limits);
    let mut pool = Pool::new(2048, 64, 4);
    let mut now = Time(0);
    while let Some((&[h, l], rest)) = bytes.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([h & 7, l])).min(rest.len());
        let (packet, behind) = rest.split_at(length);
        bytes = behind;
        // The upper bits of the length are time and context.
        now = now + Duration::from_secs(u64::from(h >> 4));
        let Ok(headers) = Headers::parse(packet) else { continue };
        let pushed = table.push(now, u32::from(h >> 3 & 1), packet, &headers, &mut pool);
        assert!(table.memory() <= limits.memory && table.len() <= limits.datagrams);
        if let Reassembled::Complete(whole) = pushed {
            let joined = Headers::parse(whole.as_slice()).expect("a whole packet is a packet");
            assert_eq!(joined.fragment, None, "and no fragment");
            assert_eq!(joined.total_len, whole.len());
            assert_eq!((joined.src, joined.dst), (headers.src, headers.dst));
            assert!(ip::checksum_ok(whole.as_slice(), &joined));
        }
    }
    if let Some(deadline) = table.deadline() {
        table.expire(deadline + Duration::from_secs(1));
    }
}

fn cut_and_join(bytes: &[u8]) {
    let Some((&[size, order], payload)) = bytes.split_first_chunk() else { return };
    let payload = &payload[..payload.len().min(4000)];
    let size = (usize::from(size % 32) + 1) * 8;
    if payload.len() <= size {
        return;
    }
    let mut fragments: Vec<_> =
        payload.chunks(size).enumerate().map(|(i, c)| fragment(i * size, c)).collect();
    if let Some(last) = fragments.last_mut() {
        set_offset(last, last_offset(payload.len(), size), false);
    }
    let shift = usize::from(order) % fragments.len();
    fragments.rotate_left(shift);
    if order & 1 != 0 {
        fragments.reverse();
    }
    let mut table = Reassembler::new(Limits::default());
    let mut pool = Pool::new(8192, 64, 1);
    let count = fragments.len();
    for (index, packet) in fragments.iter().enumerate() {
        let headers = Headers::parse(packet).expect("made here");
        match table.push(Time(0), 0, packet, &headers, &mut pool) {
            Reassembled::Incomplete => assert!(index + 1 < count, "all are there"),
            Reassembled::Complete(whole) => {
                assert_eq!(index + 1, count, "none is missing");
                assert_eq!(&whole.as_slice()[ipv4::HEADER_LEN..], payload);
            }
            Reassembled::Rejected(reason) => panic!("fragment {index} of {count}: {reason}"),
        }
    }
    assert!(table.is_empty());
}

fn last_offset(len: usize, size: usize) -> usize {
    (len - 1) / size * size
}

fn fragment(offset: usize, data: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER_LEN];
    let repr = Ipv4Repr {
        src: [192, 0, 2, 1].into(),
        dst: [192, 0, 2, 2].into(),
        protocol: 253,
        ttl: 64,
        tos: 0,
        id: 7,
        df: false,
        payload_len: data.len(),
    };
    packet.extend_from_slice(data);
    ipv4::emit(&mut packet, &repr).expect("it fits");
    set_offset(&mut packet, offset, true);
    packet
}

fn set_offset(packet: &mut [u8], offset: usize, more: bool) {
    let field = (offset / 8) as u16 | if more { 0x2000 } else { 0 };
    packet[6..8].copy_from_slice(&field.to_be_bytes());
    Ipv4::new_checked(packet).expect("made here").fill_checksum();
}
