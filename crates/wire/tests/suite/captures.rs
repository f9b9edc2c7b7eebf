//! Every packet of every shared capture goes through the parsers and the reassembler: no panic, a name for
//! every end. The captures are those of RAVELIN_SHARED, or of `shared` beside the repository.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "this test reads files and says what it skipped"
)]

use crate::capture;

use capture::{captures, ip_packet, read};
use std::collections::BTreeMap;
use wire::ip::{self, Headers};
use wire::ipv4::Ipv4;
use wire::segment::segments;
use wire::tcp::Tcp;
use wire::{Buf, DropReason, Gso, GsoKind, Pool, Reassembled, Reassembler, Time, checksum, protocol};

#[derive(Default)]
struct Tally {
    ends: BTreeMap<&'static str, u64>,
    options: u64,
    checksums_right: u64,
    /// The sum of the pseudo-header only: captured on a host that leaves the rest to its device.
    checksums_open: u64,
    checksums_wrong: u64,
    cut: u64,
}

/// Judge the transport checksum of a real packet, and finish it if its host left it open.
fn look_at_checksum(packet: &[u8], headers: &Headers, tally: &mut Tally) {
    match checksum::verify_transport(packet, headers) {
        None => return,
        Some(true) => {
            tally.checksums_right += 1;
            return;
        }
        Some(false) => {}
    }
    let offset = match headers.protocol {
        protocol::TCP => 16,
        protocol::UDP => 6,
        _ => return,
    };
    let len = headers.total_len - headers.header_len;
    let pseudo = checksum::pseudo(headers.src, headers.dst, headers.protocol, len);
    let at = headers.header_len + offset;
    if packet[at..at + 2] != checksum::fold(pseudo).to_be_bytes() {
        tally.checksums_wrong += 1;
        return;
    }
    let mut finished = packet[..headers.total_len].to_vec();
    checksum::complete_partial(&mut finished, headers.header_len, offset).unwrap();
    assert_eq!(checksum::verify_transport(&finished, headers), Some(true));
    tally.checksums_open += 1;
}

/// Cut a whole TCP packet into segments as if it were a super-packet.
fn segment(packet: &[u8], headers: &Headers, tally: &mut Tally) {
    let gso = Gso { kind: GsoKind::Tcp, size: 100, ..Gso::default() };
    let Ok(mut iter) = segments(packet, headers, &gso, 1500) else { return };
    let mut payload = Vec::new();
    let mut buf = Buf::with_capacity(2000, 0);
    while let Some(result) = iter.next_into(&mut buf) {
        result.unwrap();
        let own = Headers::parse(buf.as_slice()).unwrap();
        assert_eq!((own.total_len, own.header_len), (buf.len(), headers.header_len));
        assert_eq!(checksum::verify_transport(buf.as_slice(), &own), Some(true));
        payload.extend_from_slice(Tcp::new_checked(own.upper(buf.as_slice())).unwrap().payload());
        buf.reset(0);
    }
    assert_eq!(payload, Tcp::new_checked(headers.upper(packet)).unwrap().payload());
    tally.cut += 1;
}

/// Cut a whole IPv4 packet into two fragments and join them again.
fn fragment(packet: &[u8], headers: &Headers, pool: &mut Pool, tally: &mut Tally) {
    let payload = headers.upper(packet);
    if headers.version == 6 || payload.len() <= 8 {
        return;
    }
    let mut whole = packet[..headers.total_len].to_vec();
    let mut view = Ipv4::new_checked(&mut whole[..]).unwrap();
    view.set_unfragmented(false);
    view.fill_checksum();
    let mut r = Reassembler::default();
    let middle = (payload.len() / 16 * 8).max(8);
    for (from, to, field) in [(middle, payload.len(), (middle / 8) as u16), (0, middle, 0x2000)] {
        let mut piece = packet[..headers.header_len].to_vec();
        piece.extend_from_slice(&payload[from..to]);
        piece[6..8].copy_from_slice(&field.to_be_bytes());
        let len = piece.len() as u16;
        piece[2..4].copy_from_slice(&len.to_be_bytes());
        let own = Headers::parse(&piece).unwrap();
        match r.push(Time(0), 0, &piece, &own, pool) {
            Reassembled::Incomplete => assert_ne!(from, 0),
            Reassembled::Complete(buf) => assert_eq!(buf.as_slice(), whole),
            Reassembled::Rejected(reason) => panic!("{reason}: {own:?}"),
        }
    }
    assert!(r.is_empty());
    tally.cut += 1;
}

/// Everything that can be done with one packet; the name of how it ended.
fn take(packet: &[u8], now: Time, r: &mut Reassembler, pool: &mut Pool, tally: &mut Tally) -> &'static str {
    let headers = match Headers::parse(packet) {
        Ok(headers) => headers,
        Err(error) => return DropReason::from(error).name(),
    };
    assert!(headers.header_len <= headers.total_len && headers.total_len <= packet.len());
    let flow = ip::flow(packet, &headers, true);
    assert_eq!((flow.local, flow.remote), (headers.src, headers.dst));
    if headers.protocol == protocol::TCP
        && headers.fragment.is_none()
        && let Ok(view) = Tcp::new_checked(headers.upper(packet))
    {
        tally.options += view.options().count() as u64;
    }
    if let Some(error) = wire::icmp::too_big(packet, &headers, 1000, None) {
        assert!(Headers::parse(error.as_slice()).is_ok());
    }
    if headers.fragment.is_none() {
        return "passed";
    }
    match r.push(now, 0, packet, &headers, pool) {
        Reassembled::Incomplete => DropReason::FragmentHeld.name(),
        Reassembled::Rejected(reason) => reason.name(),
        Reassembled::Complete(buf) => {
            let own = Headers::parse(buf.as_slice()).unwrap();
            assert_eq!((own.fragment, own.total_len), (None, buf.len()));
            pool.put(buf);
            "reassembled"
        }
    }
}

#[test]
fn every_packet_of_every_capture_has_a_named_end() {
    let Some(files) = captures().filter(|files| !files.is_empty()) else {
        println!("SKIPPED: no captures; set RAVELIN_SHARED to the folder that holds `captures`");
        return;
    };
    let mut pool = Pool::new(70_000, 64, 4);
    let (mut tally, mut elsewhere) = (Tally::default(), Tally::default());
    let (mut packets, mut readable) = (0, 0);
    for path in &files {
        let mut r = Reassembler::default();
        let mut scratch = Reassembler::default();
        let frames = read(path);
        readable += usize::from(!frames.is_empty());
        for (index, (link, frame)) in frames.iter().enumerate() {
            packets += 1;
            let now = Time(index as u64);
            if let Some(packet) = ip_packet(*link, frame) {
                let end = take(packet, now, &mut r, &mut pool, &mut tally);
                *tally.ends.entry(end).or_default() += 1;
                if let ("passed", Ok(headers)) = (end, Headers::parse(packet)) {
                    look_at_checksum(packet, &headers, &mut tally);
                    segment(packet, &headers, &mut tally);
                    fragment(packet, &headers, &mut pool, &mut tally);
                }
                // Cut short anywhere in its headers.
                for len in 0..packet.len().min(120) {
                    take(&packet[..len], now, &mut scratch, &mut pool, &mut elsewhere);
                }
            }
            // Frames of other links, and headers inside of tunnels: something may stand anywhere.
            for at in 0..frame.len().min(200) {
                let end = take(&frame[at..], now, &mut scratch, &mut pool, &mut elsewhere);
                *elsewhere.ends.entry(end).or_default() += 1;
            }
            let bound = wire::reassembly::Limits::default();
            assert!(scratch.memory() <= bound.memory && scratch.len() <= bound.datagrams);
        }
    }
    println!("{} files, {readable} readable, {packets} packets", files.len());
    println!("ends {:?}; {} TCP options; {} cuts", tally.ends, tally.options, tally.cut);
    let (right, open, wrong) = (tally.checksums_right, tally.checksums_open, tally.checksums_wrong);
    println!("transport checksums: {right} right, {open} left open by their host, {wrong} wrong");
    println!("at every offset: ends {:?}", elsewhere.ends);
    let names: Vec<_> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
    for end in tally.ends.keys().chain(elsewhere.ends.keys()) {
        assert!(["passed", "reassembled"].contains(end) || names.contains(end), "{end} is no name of an end");
    }
    let passed = tally.ends.get("passed").copied().unwrap_or(0);
    let total: u64 = tally.ends.values().sum();
    assert!(
        readable * 10 > files.len() * 9,
        "the reader of this test reads {readable} of {} files",
        files.len()
    );
    assert!(passed * 2 > total, "only {passed} of {total} IP packets are good");
    // Wrong ones are spoiled packets, of which the collection has many; an error of ours would show in most.
    assert!(right + open > 8 * wrong, "{wrong} checksums are wrong");
    assert!(tally.cut > passed, "{} cuts", tally.cut);
}
