//! `scrub.*`: the scrubber's core alone, in memory, by the profile `standard`.
//!
//! - `scrub.in_order.SIZE.added_ns`: a segment of a connection, in order, and a share of the acknowledgment behind each window, less one
//!   copy of its data to another buffer, in turns.
//! - `scrub.bare_ack.ns`: an acknowledgment without data.
//! - `scrub.capture.mpps`: connections from SYN to FIN, packets of both directions as they were captured, one core.
//! - `scrub.flow.octets`: resident memory that a million idle established connections took, for each of them.
//! - `scrub.half_open.passed`: of segments of a thousand established connections, percent that pass while ten million SYNs come, each from a
//!   host of its own that never answers; `.mib`, what they take; `.ns`, what each costs.
//! - `scrub.million.ratio`: a segment of one of a million connections at random, by one of a thousand; in batches, as packets come from
//!   a device.

use super::FigureFilter;
use crate::figure::{Figure, Report, Target};
use crate::interleave::{Duel, Plan, timed};
use anyhow::{Context, ensure};
use scrub::{Arrival, Config, Outcome, Profile, Scrubber, Side};
use std::cell::RefCell;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use wire::ip::Headers;
use wire::tcp::{Flags, TcpRepr};
use wire::{Buf, Gso, Time, checksum, ipv4, tcp};

const SIZES: [usize; 3] = [64, 512, 1460];
/// Segments between two acknowledgments: a window.
const BATCH: usize = 32;
/// Windows that are timed at a time: a processor that has just made packets is still slow.
const WINDOWS: usize = 8;
const PLAN: Plan = Plan { rounds: 7, batches: 400 };
/// A round of packets that cost nothing to make.
const ROUND: usize = 10_000;
const CONNECTIONS: u32 = 1_000_000;
const FEW: u32 = 1000;
/// Connections of the capture, and segments of each with data.
const FLOWS: u32 = 200;
const SEGMENTS: usize = 20;
/// SYNs that nobody answers, and how many of them are made at a time.
const SYNS: u32 = 10_000_000;
const AT_ONCE: u32 = 1000;
const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(198, 51, 100, 2), 80);
const NOW: Time = Time::from_secs(1);
const OUTSIDE: Arrival = Arrival { from: Side::Outside, link: 0, realm: 0 };
const INSIDE: Arrival = Arrival { from: Side::Inside, link: 0, realm: 0 };

/// Measure the figures `scrub.*` that `filter` asks for.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let mut figures = FigureFilter { filter, report };
    for size in SIZES {
        let name = format!("scrub.in_order.{size}.added_ns");
        if figures.wants(&name) {
            figures.push(in_order(&name, size)?);
        }
    }
    if figures.wants("scrub.bare_ack.ns") {
        figures.push(bare_ack()?);
    }
    if figures.wants("scrub.capture.mpps") {
        figures.push(capture()?);
    }
    if ["scrub.flow.octets", "scrub.million.mib", "scrub.million.ratio"]
        .iter()
        .any(|name| figures.wants(name))
    {
        million()?.into_iter().for_each(|figure| figures.push(figure));
    }
    if figures.wants("scrub.half_open.passed") {
        half_open()?.into_iter().for_each(|figure| figures.push(figure));
    }
    Ok(())
}

/// One TCP connection's way of making packets.
#[derive(Clone, Copy)]
struct Talk {
    client: SocketAddr,
    server: SocketAddr,
}

impl Talk {
    fn number(number: u32) -> Talk {
        let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(203, 0, 113, 0)) + number / 50_000);
        let client = SocketAddr::from((address, 10_000 + (number % 50_000) as u16));
        Talk { client, server: SocketAddr::from(SERVER) }
    }

    fn packet(&self, from: Arrival, seq: u32, ack: u32, flags: Flags, data: &[u8]) -> anyhow::Result<Buf> {
        let (src, dst) =
            if from == OUTSIDE { (self.client, self.server) } else { (self.server, self.client) };
        let repr = TcpRepr { src, dst, seq, ack, flags, window: 65535, timestamps: None, ttl: 64 };
        let header = tcp::packet(&repr).context("a segment")?;
        let mut bytes = header.as_slice().to_vec();
        bytes.extend_from_slice(data);
        let mut headers = Headers::parse(header.as_slice())?;
        let total = bytes.len();
        wire::ip::put_total_len(&mut bytes, &mut headers, total)?;
        checksum::complete_transport(&mut bytes, &headers)?;
        Ok(Buf::from_slice(&bytes, 64, 64))
    }

    fn handshake(&self) -> anyhow::Result<[(Arrival, Buf); 3]> {
        Ok([
            (OUTSIDE, self.packet(OUTSIDE, 99, 0, Flags::SYN, &[])?),
            (INSIDE, self.packet(INSIDE, 499, 100, Flags::SYN | Flags::ACK, &[])?),
            (OUTSIDE, self.packet(OUTSIDE, 100, 500, Flags::ACK, &[])?),
        ])
    }

    fn open(&self, scrubber: &mut Scrubber) -> anyhow::Result<()> {
        for (from, mut packet) in self.handshake()? {
            let verdict = scrubber.process(NOW, from, &mut packet, &mut Gso::default());
            ensure!(verdict.outcome == Outcome::Forward, "the handshake: {verdict:?}");
        }
        Ok(())
    }
}

fn scrubber() -> Scrubber {
    let mut config = Config::new(Profile::Standard);
    config.flows.half_open_per_source = 1 << 16;
    config.flows.established = 2 * CONNECTIONS as usize;
    config.flows.established_per_source = config.flows.established;
    Scrubber::new(config, [9; 16])
}

fn pass(scrubber: &mut Scrubber, from: Arrival, packets: &mut [Buf]) -> bool {
    let mut all = true;
    for packet in packets {
        let verdict = scrubber.process(NOW, from, packet, &mut Gso::default());
        all &= verdict.outcome == Outcome::Forward && verdict.met.acted.is_empty();
    }
    all
}

fn in_order(name: &str, size: usize) -> anyhow::Result<Figure> {
    let talk = Talk::number(0);
    let state = RefCell::new((scrubber(), 100_u32));
    talk.open(&mut state.borrow_mut().0)?;
    let data = vec![0x5a; size];
    // Windows of segments, each with its acknowledgment behind it.
    let segments = |mut seq: u32| -> anyhow::Result<Vec<(Vec<Buf>, Buf)>> {
        let mut segment = |_| {
            let packet = talk.packet(OUTSIDE, seq, 500, Flags::ACK, &data);
            seq = seq.wrapping_add(size as u32);
            packet
        };
        let mut window = |_| (0..BATCH).map(&mut segment).collect::<anyhow::Result<Vec<_>>>();
        let windows = (0..WINDOWS).map(&mut window).collect::<anyhow::Result<Vec<_>>>()?;
        let first = seq.wrapping_sub((WINDOWS * BATCH * size) as u32);
        let acknowledged = |n: usize| first.wrapping_add(((n + 1) * BATCH * size) as u32);
        let ack = |n| talk.packet(INSIDE, 500, acknowledged(n), Flags::ACK, &[]);
        windows.into_iter().enumerate().map(|(n, window)| Ok((window, ack(n)?))).collect()
    };
    let items = WINDOWS * BATCH;
    let failed = RefCell::new(None);
    let keep = |error: anyhow::Error| *failed.borrow_mut() = Some(error);
    let mut copied = vec![0; items * size];
    let duel = Duel::run(
        PLAN,
        || {
            let packets = segments(0).unwrap_or_default();
            let copy = || {
                let packets = packets.iter().flat_map(|(window, _)| window);
                for (to, packet) in copied.chunks_exact_mut(size).zip(packets) {
                    let from = packet.as_slice();
                    to.copy_from_slice(&from[from.len() - size..]);
                }
                black_box(&mut copied);
            };
            timed(items, copy).1
        },
        || {
            let (scrubber, seq) = &mut *state.borrow_mut();
            let mut packets = segments(*seq).unwrap_or_default();
            let (clean, cost) = timed(items, || {
                packets.iter_mut().all(|(window, ack)| {
                    pass(scrubber, OUTSIDE, window) && pass(scrubber, INSIDE, std::slice::from_mut(ack))
                })
            });
            *seq = seq.wrapping_add((items * size) as u32);
            if !clean || packets.len() != WINDOWS {
                keep(anyhow::anyhow!("a segment was changed or dropped"));
            }
            cost
        },
    );
    if let Some(error) = failed.into_inner() {
        return Err(error);
    }
    let (copy, whole) = duel.medians();
    let added: Vec<f64> = duel.rounds.iter().map(|(copy, whole)| whole - copy).collect();
    let anchor = format!("whole {whole:.0} ns, one copy of the data {copy:.0} ns");
    let target = if size == 1460 { Target::AtMost(60.0) } else { Target::Recorded };
    Ok(Figure::new(name, "ns", &added, anchor, target))
}

fn bare_ack() -> anyhow::Result<Figure> {
    let talk = Talk::number(0);
    let mut scrubber = scrubber();
    talk.open(&mut scrubber)?;
    let mut rounds = Vec::new();
    let mut packets = (0..BATCH)
        .map(|_| talk.packet(INSIDE, 500, 100, Flags::ACK, &[]))
        .collect::<anyhow::Result<Vec<_>>>()?;
    for _ in 0..PLAN.rounds {
        let (clean, cost) =
            timed(BATCH * ROUND, || (0..ROUND).all(|_| pass(&mut scrubber, INSIDE, &mut packets)));
        ensure!(clean, "an acknowledgment was changed or dropped");
        rounds.push(cost.per_item());
    }
    Ok(Figure::new("scrub.bare_ack.ns", "ns", &rounds, "", Target::Recorded))
}

/// Connections side by side: handshake, requests and answers, acknowledged in turns, both FINs.
fn conversation() -> anyhow::Result<Vec<(Arrival, Buf)>> {
    let (request, answer) = ([1; 300], [2; 1460]);
    let mut lanes = Vec::new();
    for number in 0..FLOWS {
        let talk = Talk::number(number);
        let mut lane = Vec::from(talk.handshake()?);
        let (mut client, mut server) = (100, 500);
        for _ in 0..SEGMENTS {
            lane.push((OUTSIDE, talk.packet(OUTSIDE, client, server, Flags::ACK, &request)?));
            client += request.len() as u32;
            for _ in 0..2 {
                lane.push((INSIDE, talk.packet(INSIDE, server, client, Flags::ACK, &answer)?));
                server += answer.len() as u32;
            }
            lane.push((OUTSIDE, talk.packet(OUTSIDE, client, server, Flags::ACK, &[])?));
        }
        let fin = Flags::FIN | Flags::ACK;
        lane.push((OUTSIDE, talk.packet(OUTSIDE, client, server, fin, &[])?));
        lane.push((INSIDE, talk.packet(INSIDE, server, client + 1, fin, &[])?));
        lane.push((OUTSIDE, talk.packet(OUTSIDE, client + 1, server + 1, Flags::ACK, &[])?));
        lanes.push(lane.into_iter());
    }
    let mut packets = Vec::new();
    loop {
        let before = packets.len();
        packets.extend(lanes.iter_mut().filter_map(Iterator::next));
        if packets.len() == before {
            return Ok(packets);
        }
    }
}

fn capture() -> anyhow::Result<Figure> {
    let mut packets = conversation()?;
    let count = packets.len();
    let mut rounds = Vec::new();
    for _ in 0..PLAN.rounds * 3 {
        let mut scrubber = scrubber();
        let (clean, cost) = timed(count, || {
            packets.iter_mut().all(|(from, packet)| pass(&mut scrubber, *from, std::slice::from_mut(packet)))
        });
        ensure!(clean, "a packet of the capture was changed or dropped");
        rounds.push(1e3 / cost.per_item());
    }
    let anchor = format!(
        "{count} packets, {FLOWS} connections, {} octets on average; tables empty at first",
        packets.iter().map(|(_, packet)| packet.len()).sum::<usize>() / count
    );
    Ok(Figure::new("scrub.capture.mpps", "Mpps", &rounds, anchor, Target::AtLeast(3.0)))
}

/// Resident octets of this process.
fn resident() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kibibytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kibibytes * 1024.0)
}

fn million() -> anyhow::Result<Vec<Figure>> {
    let before = resident()?;
    let mut scrubber = scrubber();
    for number in 0..CONNECTIONS {
        Talk::number(number).open(&mut scrubber)?;
    }
    let taken = resident()? - before;
    ensure!(scrubber.connections().len() == CONNECTIONS as usize, "connections were lost");
    let each = taken / f64::from(CONNECTIONS);
    let state = RefCell::new((scrubber, 0x9e37_79b9_7f4a_7c15_u64));
    let clean = RefCell::new(true);
    let touch = |of: u32| {
        let (scrubber, random) = &mut *state.borrow_mut();
        let mut packets = Vec::with_capacity(BATCH * 8);
        for _ in 0..BATCH * 8 {
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let talk = Talk::number((*random >> 33) as u32 % of);
            packets.extend(talk.packet(OUTSIDE, 100, 500, Flags::ACK, &[]));
        }
        let (all, cost) = timed(packets.len(), || {
            packets.chunks_mut(Scrubber::BATCH).fold(true, |all, batch| {
                scrubber.expect(batch.iter().map(|packet| (OUTSIDE, packet.as_slice())));
                all & pass(scrubber, OUTSIDE, batch)
            })
        });
        *clean.borrow_mut() &= all && packets.len() == BATCH * 8;
        cost
    };
    let plan = Plan { rounds: PLAN.rounds, batches: 60 };
    let duel = Duel::run(plan, || touch(FEW), || touch(CONNECTIONS));
    ensure!(clean.into_inner(), "a segment was changed or dropped");
    let (few, many) = duel.medians();
    let ratios: Vec<f64> = duel.rounds.iter().map(|(few, many)| many / few).collect();
    let anchor = format!(
        "of {FEW} connections {few:.0} ns, of {CONNECTIONS} {many:.0} ns, headers of {} octets",
        ipv4::HEADER_LEN + tcp::HEADER_LEN
    );
    Ok(vec![
        Figure::new("scrub.flow.octets", "octets", &[each], "resident memory", Target::AtMost(200.0)),
        Figure::new(
            "scrub.million.mib",
            "MiB",
            &[taken / 1_048_576.0],
            "resident memory",
            Target::AtMost(512.0),
        ),
        Figure::new("scrub.million.ratio", "ratio", &ratios, anchor, Target::AtMost(2.0)),
    ])
}

/// A SYN of a host of its own, of sixteen million.
fn syn(number: u32) -> anyhow::Result<Buf> {
    let [_, a, b, c] = number.to_be_bytes();
    let talk = Talk {
        client: SocketAddr::from((Ipv4Addr::new(10, a, b, c), 1024 + (number % 60_000) as u16)),
        server: SocketAddr::from(SERVER),
    };
    talk.packet(OUTSIDE, number, 0, Flags::SYN, &[])
}

fn half_open() -> anyhow::Result<Vec<Figure>> {
    let mut scrubber = Scrubber::new(Config::new(Profile::Standard), [9; 16]);
    for number in 0..FEW {
        Talk::number(number).open(&mut scrubber)?;
    }
    let honest = |number| Talk::number(number).packet(OUTSIDE, 100, 500, Flags::ACK, &[]);
    let mut honest = (0..FEW).map(honest).collect::<anyhow::Result<Vec<_>>>()?;
    let before = resident()?;
    let (mut rounds, mut passed, mut tried) = (Vec::new(), 0, 0);
    for round in 0..SYNS / AT_ONCE {
        let mut packets =
            (0..AT_ONCE).map(|at| syn(round * AT_ONCE + at)).collect::<anyhow::Result<Vec<_>>>()?;
        let ((), cost) = timed(packets.len(), || {
            for packet in &mut packets {
                black_box(scrubber.process(NOW, OUTSIDE, packet, &mut Gso::default()));
            }
        });
        rounds.push(cost.per_item());
        if round.is_multiple_of(100) {
            let forward = |packet: &mut Buf| {
                scrubber.process(NOW, OUTSIDE, packet, &mut Gso::default()).outcome == Outcome::Forward
            };
            passed += honest.iter_mut().map(forward).filter(|forward| *forward).count();
            tried += honest.len();
        }
    }
    let taken = (resident()? - before) / 1_048_576.0;
    let anchor = format!("{SYNS} SYNs of as many hosts, {} kept", scrubber.connections().half_open());
    let passed = 100.0 * passed as f64 / tried as f64;
    Ok(vec![
        Figure::new("scrub.half_open.passed", "percent", &[passed], anchor, Target::AtLeast(95.0)),
        Figure::new("scrub.half_open.mib", "MiB", &[taken], "resident memory", Target::Recorded),
        Figure::new("scrub.half_open.ns", "ns", &rounds, "a SYN", Target::Recorded),
    ])
}
