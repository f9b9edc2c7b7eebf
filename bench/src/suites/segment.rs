//! `segment.*`: cutting one TCP super-packet into segments of 1,400 octets, beside a copy of the same octets to the same
//! places, by turns in one process. CPU time.

use super::FigureFilter;
use crate::figure::{Figure, Report, Target};
use crate::interleave::timed;
use anyhow::Context;
use std::hint::black_box;
use wire::coalesce::Checks;
use wire::ip::Headers;
use wire::segment::segments;
use wire::{Coalesced, Coalescer, Gso, GsoKind, checksum, ipv4};

const ROUNDS: usize = 21;
/// Super-packets between two looks at the clock.
const BATCH: usize = 200;
/// Segments of a super-packet.
const COUNT: usize = 44;
/// Octets of a segment, headers with timestamps included.
const LEN: usize = 1400;
const HEADER: usize = 52;
const PAYLOAD: usize = COUNT * (LEN - HEADER);

/// Measure the figures `segment.*` that `filter` asks for.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let mut figures = FigureFilter { filter, report };
    if !["segment.cut.ns", "segment.copy.ns", "segment.over_copy.ns", "segment.join.ns"]
        .iter()
        .any(|name| figures.wants(name))
    {
        return Ok(());
    }
    let (packet, gso) = super_packet()?;
    let headers = Headers::parse(&packet)?;
    let mut arena = vec![0; COUNT * 1500];
    let (mut cut, mut copy, mut over, mut join) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (done, cost) = timed(BATCH * COUNT, || -> anyhow::Result<()> {
            for _ in 0..BATCH {
                let mut pieces = segments(black_box(&packet), &headers, &gso, LEN)?;
                for slot in arena.chunks_mut(1500) {
                    pieces.next_slice(slot).context("a segment")??;
                }
                black_box(&mut arena);
            }
            Ok(())
        });
        done?;
        cut.push(cost.per_item());
        let packets: Vec<Vec<u8>> = arena.chunks(1500).map(|slot| slot[..LEN].to_vec()).collect();
        let ((), cost) = timed(BATCH * COUNT, || {
            for _ in 0..BATCH {
                let packet = black_box(&packet);
                for (slot, data) in arena.chunks_mut(1500).zip(packet[HEADER..].chunks(LEN - HEADER)) {
                    slot[..HEADER].copy_from_slice(&packet[..HEADER]);
                    slot[HEADER..HEADER + data.len()].copy_from_slice(data);
                }
                black_box(&mut arena);
            }
        });
        copy.push(cost.per_item());
        over.push(cut[cut.len() - 1] - copy[copy.len() - 1]);
        let ((), cost) = timed(BATCH * COUNT, || {
            for _ in 0..BATCH {
                let mut coalescer = Coalescer::new(Checks::Trust);
                let mut deliver = |coalesced: &Coalesced<'_>| {
                    black_box(coalesced.header(&mut [0; wire::coalesced::MAX_HEADER]));
                };
                packets.iter().for_each(|packet| coalescer.push(packet, 1, &mut deliver));
                coalescer.flush(&mut deliver);
            }
        });
        join.push(cost.per_item());
    }
    let anchor = || format!("{COUNT} segments of {LEN} octets");
    figures.push(Figure::new("segment.cut.ns", "ns", &cut, anchor(), Target::Recorded));
    figures.push(Figure::new("segment.copy.ns", "ns", &copy, anchor(), Target::Recorded));
    figures.push(Figure::new("segment.over_copy.ns", "ns", &over, anchor(), Target::Recorded));
    figures.push(Figure::new("segment.join.ns", "ns", &join, anchor(), Target::Recorded));
    Ok(())
}

/// A TCP super-packet whose checksum is open.
fn super_packet() -> anyhow::Result<(Vec<u8>, Gso)> {
    let mut packet: Vec<u8> = (0..HEADER + PAYLOAD).map(|i| (i * 13 + i / 256) as u8).collect();
    let repr = ipv4::Ipv4Repr {
        src: crate::fixture::ALICE,
        dst: crate::fixture::BOB,
        protocol: wire::protocol::TCP,
        ttl: 64,
        tos: 0,
        id: 1,
        df: true,
        payload_len: packet.len() - ipv4::HEADER_LEN,
    };
    ipv4::emit(&mut packet, &repr)?;
    // Data offset of eight words, ACK; a no-operation twice and timestamps.
    packet[32..34].copy_from_slice(&[0x80, 0x10]);
    packet[38..44].copy_from_slice(&[0, 0, 1, 1, 8, 10]);
    let headers = Headers::parse(&packet)?;
    checksum::complete_transport(&mut packet, &headers)?;
    let gso = Gso {
        kind: GsoKind::Tcp,
        needs_checksum: true,
        size: (LEN - HEADER) as u16,
        checksum_start: 20,
        checksum_offset: 16,
    };
    Ok((packet, gso))
}
