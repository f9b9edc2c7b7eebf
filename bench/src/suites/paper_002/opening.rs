//! The gateway as the side that opens, as in the paper's measurement: packets that were sealed before the run come from the far
//! gateway's address, more than the gateway can open, beside probes of another association.
//!
//! - `{suite}.{row}.opening.capacity`: what the row opens at most.
//! - `{suite}.{row}.opening.{load}`: the figures of the sealing direction, for `2x` and `10x`.
//! - `{suite}.{row}.opening.forged.ef.p99_ratio`: probes beside packets with the right SPI and sequence numbers, marked EF, whose
//!   ICV is wrong.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use crypto::{Secret, SuiteId};
use engine::{Outbound, Outcome};
use lab::Side;
use lab::rig::Rig;
use netio::link::Links;
use netio::netns::Netns;
use netio::packet::{Flooder, FrameDevice};
use sadb::{Direction, Endpoints, Mode, OutboundSa, SaConfig, Selectors, Spi};
use serde_json::Value;
use wire::ipv4::{self, Ipv4Repr};
use wire::udp::{self, UdpRepr};
use wire::{Packet, Prefix, protocol};

use super::bed::{self, TUNNELLED};
use super::flood::PACKET;
use super::probe_stats::ProbeStats;
use super::prober::{EF, Probes};
use super::rows::Site;
use crate::figure::{Figure, Report, Target};
use crate::fixture;

/// The host behind the gateway that the load is for, and the far host that it comes from.
const TO: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 18);
const FROM: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
/// Octets of an Ethernet header, and those of the headers in front of ESP.
const ETHERNET: usize = 14;
const OUTER: usize = ipv4::HEADER_LEN + udp::HEADER_LEN;
/// The port of ESP in UDP.
const PORT: u16 = 4500;
/// The longest frame of the load, in octets.
const LONGEST: usize = 1600;
/// How long the load runs before anything is measured, and a step of the search for the capacity.
const SETTLE: Duration = Duration::from_millis(400);
const STEP: Duration = Duration::from_millis(400);
/// The first rate of that search, and factors around the last rate that was opened.
const FIRST: u64 = 2000;
const AROUND: [f64; 5] = [1.0, 1.15, 1.35, 1.6, 1.9];
const ENOUGH: f64 = 0.9;
/// Packets that are sealed for a run at most.
const MOST: usize = 400_000;

/// A load, and the association that seals more of it.
struct Sealed {
    load: Load,
    engine: Outbound,
}

/// Packets that are sealed for the gateway, in the order of their sequence numbers, with the way to it.
struct Load {
    suite: &'static str,
    keymat: Vec<u8>,
    /// The ESP packets, back to back, each of this length.
    packets: Vec<u8>,
    each: usize,
    /// The device in front of the gateway, and the stations of the frames.
    device: FrameDevice,
    stations: [[u8; 6]; 2],
}

/// The SPI of the load's association.
const SPI: u32 = 0x2002_2002;

/// Measure a row with a suite.
///
/// # Errors
/// If a daemon refuses, or nothing is opened.
pub(super) fn run(
    site: &Site,
    suite: &'static str,
    probes: Probes,
    rounds: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    site.install(suite)?;
    site.bed.drop_load_inside()?;
    let mut sealed = Sealed::new(site, suite)?;
    let capacity = sealed.capacity(site)?;
    let name = |part: &str| format!("paper-002.{suite}.{}.opening.{part}", site.row.name);
    let mbit = capacity * PACKET as f64 * 8.0 / 1e6;
    report.push(Figure::new(name("capacity"), "Mbit/s", &[mbit], "opened, 1400 octets", Target::Recorded));
    let mut values: std::collections::BTreeMap<String, Vec<f64>> = std::collections::BTreeMap::new();
    for _ in 0..rounds {
        let idle = ProbeStats::of_answers(&site.bed.probe(site.lab(), probes)?, "ef");
        for (load, times, forged) in [("2x", 2.0, false), ("10x", 10.0, false), ("forged", 2.0, true)] {
            let (answers, goodput) = sealed.beside(site, (capacity * times) as u64, probes, forged)?;
            let is = ProbeStats::of_answers(&answers, "ef");
            let mut put = |part: &str, value: f64| {
                values.entry(format!("{load}.{part}")).or_default().push(value);
            };
            put("ef.loss", is.loss);
            put("ef.avg", is.avg);
            put("ef.avg_ratio", is.avg / idle.avg);
            put("ef.p99_ratio", is.p99 / idle.p99);
            if !forged {
                put("goodput", goodput / capacity);
            }
        }
    }
    let has_graph = site.has_graph();
    for (part, values) in values {
        if !values.iter().all(|value| value.is_finite()) {
            continue;
        }
        let (unit, target) = match &part {
            part if part.ends_with("loss") => ("%", Target::AtMost(0.0)),
            part if part.ends_with(".avg") => ("us", Target::Recorded),
            part if part.starts_with("forged") && part.ends_with("p99_ratio") => {
                ("ratio", Target::AtMost(2.0))
            }
            part if part.ends_with("avg_ratio") => ("ratio", Target::AtMost(1.2)),
            part if part.ends_with("p99_ratio") => ("ratio", Target::AtMost(1.5)),
            _ => ("ratio", Target::AtLeast(0.95)),
        };
        let target = if has_graph { target } else { Target::Recorded };
        report.push(Figure::new(name(&part), unit, &values, "opening; by unloaded, same round", target));
    }
    Ok(())
}

impl Sealed {
    fn new(site: &Site, suite: &'static str) -> anyhow::Result<Sealed> {
        let id: SuiteId = suite.parse().map_err(|_| anyhow!("no suite {suite}"))?;
        let mut keymat = vec![0; id.keymat_len()];
        netio::random::fill(&mut keymat)?;
        let [near, far] = [Side::Alice, Side::Bob].map(|side| side.v4().into());
        let config = SaConfig {
            spi: Spi(SPI),
            direction: Direction::Outbound,
            mode: Mode::Tunnel,
            suite: id,
            keymat: Secret::new(keymat.clone()),
            endpoints: Endpoints { local: far, remote: near, local_port: PORT, remote_port: PORT },
            selectors: Selectors { remote: Prefix::host(TO.into()), ..Selectors::ANY },
            replay_window: 1024,
            path_mtu: 9600,
            options: sadb::sa::SaOptions::default(),
        };
        let policy = fixture::protects(Prefix::host(TO.into()));
        let mut engine = Outbound::new(std::sync::Arc::new(policy), 0x5eed_5eed).gathering();
        let mut registry = fixture::registry()?;
        registry.allow_legacy(true)?;
        let sa = OutboundSa::new(config, &registry).map_err(|error| anyhow!("{error:?}"))?;
        engine.add_sa(sa).map_err(|error| anyhow!("{error:?}"))?;
        let device = site.lab().wire().run(|| -> anyhow::Result<FrameDevice> {
            Ok(FrameDevice::of(Links::open()?.index("alice")?)?)
        })??;
        let stations = [site.lab().alice(), site.lab().bob()].map(|host| -> anyhow::Result<[u8; 6]> {
            let link = host.device()?;
            Ok(host.run(|| FrameDevice::of(link.index))??.station)
        });
        let [near, far] = stations;
        let (packets, each) = (Vec::new(), 0);
        let load = Load { suite, keymat, packets, each, device, stations: [near?, far?] };
        let sealed = Sealed { load, engine };
        sealed.load.associate(site.rig().context("the row has no daemon")?)?;
        Ok(sealed)
    }

    /// Seal so many packets anew: the gateway takes no number twice, and no key either.
    fn seal(&mut self, count: usize) -> anyhow::Result<()> {
        self.load.packets.clear();
        ensure!(count <= MOST, "{count} sealed packets are more than memory is meant for");
        let inner = inner();
        let (mut pool, mut out) = (fixture::pool(64), Vec::new());
        while self.load.count() < count {
            for _ in 0..(count - self.load.count()).min(32) {
                let mut buf = pool.take();
                buf.push_back(inner.len()).context("no room for a packet")?.copy_from_slice(&inner);
                self.engine.handle(
                    wire::Time(1),
                    Packet::from_host(buf, fixture::meta()),
                    &mut pool,
                    &mut out,
                );
            }
            self.engine.flush(&mut pool, &mut out);
            for outcome in out.drain(..) {
                let Outcome::Burst(burst) = outcome else { anyhow::bail!("not sealed: {outcome:?}") };
                for datagram in burst.datagrams() {
                    self.load.each = datagram.len();
                    self.load.packets.extend_from_slice(datagram);
                }
                pool.put(burst.into_buf());
            }
        }
        Ok(())
    }

    /// Packets a second that the row opens at most.
    fn capacity(&mut self, site: &Site) -> anyhow::Result<f64> {
        let (mut rate, mut carried, mut best) = (FIRST, FIRST, 0.0_f64);
        for _ in 0..10 {
            let opened = self.step(site, rate)?;
            best = best.max(opened);
            if opened < ENOUGH * rate as f64 {
                break;
            }
            carried = rate;
            rate *= 2;
        }
        let mut last = Vec::new();
        let mut at = carried;
        for times in AROUND {
            let rate = (carried as f64 * times) as u64;
            let opened = self.step(site, rate)?;
            if opened >= best {
                (best, at) = (opened, rate);
            }
        }
        // The best of many is better than it is: the median of three decides.
        for _ in 0..3 {
            last.push(self.step(site, at)?);
        }
        let capacity = crate::interleave::median(&mut last);
        ensure!(capacity > 0.0, "nothing is opened");
        Ok(capacity)
    }

    fn step(&mut self, site: &Site, rate: u64) -> anyhow::Result<f64> {
        let time = SETTLE + STEP + SETTLE / 2;
        self.seal((rate as f64 * time.as_secs_f64()) as usize)?;
        let (opened, ()) = self.load.while_sending(site, rate, time, false, || {
            std::thread::sleep(STEP);
            Ok(())
        })?;
        Ok(opened)
    }

    /// Probe all ways beside the load. Returns the answers, and the packets a second that were opened.
    fn beside(
        &mut self,
        site: &Site,
        rate: u64,
        probes: Probes,
        is_forged: bool,
    ) -> anyhow::Result<(Vec<super::prober::Answers>, f64)> {
        let time = SETTLE + probes.interval * u32::try_from(probes.count)? + SETTLE;
        self.seal((rate as f64 * time.as_secs_f64()) as usize)?;
        let (opened, answers) =
            self.load.while_sending(site, rate, time, is_forged, || site.bed.probe(site.lab(), probes))?;
        Ok((answers, opened))
    }
}

impl Load {
    fn count(&self) -> usize {
        self.packets.len().checked_div(self.each).unwrap_or(0)
    }

    /// Give the gateway the association that opens them.
    fn associate(&self, rig: &Rig) -> anyhow::Result<()> {
        let spi = format!("{SPI:#x}");
        let (near, far) = (Side::Alice.v4().to_string(), Side::Bob.v4().to_string());
        let hex: String = self.keymat.iter().map(|octet| format!("{octet:02x}")).collect();
        let mut args = vec!["sa", "add", "--direction", "in", "--spi", &spi, "--local", &near];
        args.extend(["--remote", &far, "--mode", "tunnel", "--suite", self.suite]);
        args.extend(["--selector-local", TUNNELLED[0], "--selector-remote", TUNNELLED[1]]);
        rig.ravelin(Side::Alice, &args, &hex).map(drop)
    }

    /// The packets that the association has opened.
    fn opened(rig: &Rig) -> anyhow::Result<u64> {
        let list: Value = serde_json::from_str(&rig.ravelin(Side::Alice, &["sa", "list", "--json"], "")?)?;
        let is_it = |sa: &&Value| {
            let spi = sa["spi"].as_str().unwrap_or_default().trim_start_matches("0x");
            sa["direction"] == "in" && u32::from_str_radix(spi, 16) == Ok(SPI)
        };
        let sa = list["sas"].as_array().and_then(|all| all.iter().find(is_it));
        sa.and_then(|sa| sa["counters"]["packets"].as_u64()).with_context(|| format!("no counter: {list}"))
    }

    /// Send at a rate for so long, from another thread.
    fn send(&self, wire: &Netns, rate: u64, time: Duration, is_forged: bool) -> anyhow::Result<()> {
        let tos = if is_forged { EF } else { 0 };
        let frame = |number: u64, out: &mut [u8]| -> usize {
            let from = number as usize * self.each;
            let Some(esp) = self.packets.get(from..from + self.each) else { return 0 };
            let len = self.frame(esp, tos, out);
            if is_forged && let Some(last) = out.get_mut(len - 1) {
                *last ^= 1;
            }
            len
        };
        wire.run(|| -> anyhow::Result<()> {
            bed::pin_thread(None, bed::OTHERS)?;
            Flooder::open(&self.device)?.run_long(rate, time, LONGEST, frame)?;
            Ok(())
        })?
    }

    /// Write a frame with this ESP packet in UDP.
    fn frame(&self, esp: &[u8], tos: u8, out: &mut [u8]) -> usize {
        let len = ETHERNET + OUTER + esp.len();
        let Some(frame) = out.get_mut(..len) else { return 0 };
        let [near, far] = self.stations;
        frame[..6].copy_from_slice(&near);
        frame[6..12].copy_from_slice(&far);
        frame[12..ETHERNET].copy_from_slice(&[8, 0]);
        let payload_len = udp::HEADER_LEN + esp.len();
        let (src, dst) = (Side::Bob.v4(), Side::Alice.v4());
        let repr = Ipv4Repr { src, dst, protocol: protocol::UDP, ttl: 64, tos, id: 0, df: true, payload_len };
        let packet = &mut frame[ETHERNET..];
        let repr = ipv4::emit(packet, &repr).and_then(|()| {
            let repr = UdpRepr { src_port: PORT, dst_port: PORT, payload_len: esp.len() };
            udp::emit(&mut packet[ipv4::HEADER_LEN..], &repr)
        });
        if repr.is_err() {
            return 0;
        }
        packet[OUTER..].copy_from_slice(esp);
        len
    }

    /// Do something while the load runs. Returns the packets a second that were opened meanwhile.
    fn while_sending<T>(
        &self,
        site: &Site,
        rate: u64,
        time: Duration,
        is_forged: bool,
        work: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<(f64, T)> {
        let rig = site.rig().context("the row has no daemon")?;
        std::thread::scope(|scope| {
            let end = Instant::now() + time;
            let sending = scope.spawn(|| self.send(rig.lab.wire(), rate, time, is_forged));
            std::thread::sleep(SETTLE);
            let (before, began) = (Self::opened(rig)?, Instant::now());
            let counting = scope.spawn(move || -> anyhow::Result<f64> {
                std::thread::sleep(end.saturating_duration_since(Instant::now() + SETTLE / 4));
                let (after, now) = (Self::opened(rig)?, Instant::now());
                Ok((after - before) as f64 / (now - began).as_secs_f64())
            });
            let done = work();
            let opened = counting.join().map_err(|_| anyhow!("counting has panicked"))??;
            sending.join().map_err(|_| anyhow!("the load has panicked"))??;
            Ok((opened, done?))
        })
    }
}

/// The packet that is sealed: from the far host to a source, in UDP to nobody.
fn inner() -> Vec<u8> {
    let mut packet = vec![0x5a; PACKET];
    let payload_len = PACKET - ipv4::HEADER_LEN;
    let repr = Ipv4Repr {
        src: FROM,
        dst: TO,
        protocol: protocol::UDP,
        ttl: 64,
        tos: 0,
        id: 0,
        df: true,
        payload_len,
    };
    ipv4::emit(&mut packet, &repr).expect("room for a header");
    let datagram = &mut packet[ipv4::HEADER_LEN..];
    let repr = UdpRepr { src_port: 40_000, dst_port: 9, payload_len: payload_len - udp::HEADER_LEN };
    udp::emit(datagram, &repr).expect("room for a header");
    udp::Udp::new_checked(datagram).expect("a datagram").fill_checksum(FROM.into(), TO.into());
    packet
}
