//! Super-packets under a record: the kernel's segmentation fields and the open checksum survive that the record is taken away
//! on the TUN. Needs root.

use crate::common;

use common::packets::*;
use common::*;
use std::io::Write;
use wire::coalesce::Checks;
use wire::ip::Headers;
use wire::ipv4::Ipv4Repr;
use wire::ipv6::Ipv6Repr;
use wire::{Coalesced, Coalescer, GsoKind, checksum, ipv4, ipv6};

const FULL: u32 = 0x8300_0000;
/// The inner payload of a full segment.
const SIZE: usize = 1348;

/// A whole packet of bob's around a transport header with an empty checksum.
fn packet(v6: bool, protocol: u8, upper: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; if v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN }];
    if v6 {
        let repr = Ipv6Repr {
            src: BOB6.parse().unwrap(),
            dst: ALICE6.parse().unwrap(),
            next_header: protocol,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
            payload_len: upper.len(),
        };
        ipv6::emit(&mut bytes, &repr).unwrap();
    } else {
        let repr = Ipv4Repr {
            src: BOB.parse().unwrap(),
            dst: ALICE.parse().unwrap(),
            protocol,
            ttl: 64,
            tos: 0,
            id: 7,
            df: true,
            payload_len: upper.len(),
        };
        ipv4::emit(&mut bytes, &repr).unwrap();
    }
    bytes.extend_from_slice(upper);
    let headers = Headers::parse(&bytes).unwrap();
    checksum::complete_transport(&mut bytes, &headers).unwrap();
    bytes
}

fn segment(v6: bool, seq: u32, ack: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut upper = [5000u16.to_be_bytes(), 8080u16.to_be_bytes()].concat();
    upper.extend_from_slice(&seq.to_be_bytes());
    upper.extend_from_slice(&ack.to_be_bytes());
    upper.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    upper.extend_from_slice(payload);
    packet(v6, 6, &upper)
}

fn datagram(v6: bool, payload: &[u8]) -> Vec<u8> {
    let len = 8 + payload.len() as u16;
    let mut upper = [5000u16, 7001, len, 0].map(u16::to_be_bytes).concat();
    upper.extend_from_slice(payload);
    packet(v6, 17, &upper)
}

fn octets(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}

/// The sum that the test program answers to `collect`.
fn digest(bytes: &[u8]) -> String {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:x}")
}

/// Write a coalesced packet to the TUN as the daemon does.
fn inject_coalesced(world: &World, coalesced: &Coalesced<'_>) {
    let mut header = [0; wire::coalesced::MAX_HEADER];
    let (len, gso) = coalesced.header(&mut header).expect("two packets or more");
    let version = header[0] & 0xf0;
    let gso_type = match (gso.kind, version) {
        (GsoKind::Udp, _) => 5,
        (_, 0x40) => 1,
        _ => 4,
    };
    let mut bytes = vec![1u8, gso_type];
    for field in [16 + len as u16, gso.size, 16 + gso.checksum_start, gso.checksum_offset] {
        bytes.extend_from_slice(&field.to_ne_bytes());
    }
    bytes.push(version);
    bytes.extend_from_slice(b"RVL");
    bytes.extend_from_slice(&coalesced.mark.to_ne_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&header[..len]);
    coalesced.payloads().for_each(|payload| bytes.extend_from_slice(payload));
    (&world.tun).write_all(&bytes).expect("write the TUN");
}

/// Through a coalescer; how many packets each write carried.
fn inject_all(world: &World, packets: &[Vec<u8>]) -> Vec<usize> {
    let mut carried = Vec::new();
    let mut coalescer = Coalescer::new(Checks::Verify);
    let mut deliver = |coalesced: &Coalesced<'_>| {
        carried.push(coalesced.packets().len());
        match coalesced.packets() {
            [one] => world.inject(coalesced.mark, one),
            _ => inject_coalesced(world, coalesced),
        }
    };
    for packet in packets {
        coalescer.push(packet, FULL, &mut deliver);
    }
    coalescer.flush(&mut deliver);
    carried
}

#[test]
fn a_tcp_train_reaches_the_program_whole() {
    let mut world = usual_world("train-tcp");
    for v6 in [false, true] {
        let mut program = world.start("strict");
        let (family, address) = if v6 { ("tcp6", ALICE6) } else { ("tcp4", ALICE) };
        let bind = if v6 { format!("bind l [{address}]:8080") } else { format!("bind l {address}:8080") };
        program.run(&[&format!("open l {family}"), &bind, "listen l"]);
        world.inject(FULL, &segment(v6, 100, 0, SYN, &[]));
        // An acknowledgment of the connection before may still come.
        let answer = loop {
            let packet = world.seen_within(SOON).expect("SYN-ACK").packet;
            if (packet[0] >> 4 == 6) == v6 {
                break packet;
            }
        };
        let at = if v6 { 40 } else { 20 };
        let theirs = u32::from_be_bytes(answer[at + 4..at + 8].try_into().unwrap()) + 1;
        world.inject(FULL, &segment(v6, 101, theirs, ACK, &[]));
        program.run(&["accept l c 5000"]);

        let stripped = world.counter("tun_stripped");
        let data = octets(30 * SIZE + 100);
        let mut seq = 101;
        let pieces: Vec<Vec<u8>> = data
            .chunks(SIZE)
            .map(|chunk| {
                let piece = segment(v6, seq, theirs, ACK, chunk);
                seq += chunk.len() as u32;
                piece
            })
            .collect();
        assert_eq!(inject_all(&world, &pieces), [31]);
        assert_eq!(program.ask(&format!("collect c {}", data.len())), digest(&data), "v6 {v6}");
        assert_eq!(world.counter("tun_stripped") - stripped, 1, "one packet for the kernel");
        // What the host acknowledges is the end of the last piece.
        let acked = world.drain().last().expect("an ACK").packet.clone();
        assert_eq!(u32::from_be_bytes(acked[at + 8..at + 12].try_into().unwrap()), seq);
        program.run(&["close c", "close l"]);
        world.drain();
    }
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}

#[test]
fn a_udp_train_arrives_as_the_datagrams_it_was() {
    let mut world = usual_world("train-udp");
    let mut program = world.start("strict");
    program.run(&["open p udp4", "bind p 10.99.0.1:7001", "open q udp6", "bind q [fd99::1]:7001"]);
    for (v6, name) in [(false, "p"), (true, "q")] {
        let stripped = world.counter("tun_stripped");
        let data = octets(5 * 900 + 33);
        let datagrams: Vec<Vec<u8>> = data.chunks(900).map(|chunk| datagram(v6, chunk)).collect();
        assert_eq!(inject_all(&world, &datagrams), [6]);
        for chunk in data.chunks(900) {
            assert_eq!(program.ask(&format!("collect {name} {}", chunk.len())), digest(chunk), "v6 {v6}");
        }
        assert_eq!(program.ask(&format!("recv {name} 40")), "ETIMEDOUT");
        assert_eq!(world.counter("tun_stripped") - stripped, 1, "one packet for the kernel");
    }
}

#[test]
fn a_train_without_proof_ends_at_the_tun() {
    let mut world = usual_world("train-proof");
    let mut program = world.start("strict");
    program.run(&["open p udp4", "bind p 10.99.0.1:7001"]);
    let (first, second) = (datagram(false, &[1; 500]), datagram(false, &[2; 500]));
    let mut coalesced = Coalesced::begin(&first, 0x0300_0000);
    assert!(wire::coalesce::try_append(&mut coalesced, &second, 0x0300_0000));
    inject_coalesced(&world, &coalesced);
    assert_eq!(program.ask("recv p 40"), "ETIMEDOUT");
    assert_eq!(world.counter("tun_no_proof"), 1);
}
