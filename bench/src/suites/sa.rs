//! `engine.sa.{seal,open}.*`: what associations cost that are only there. 64 active ones of 100,000 against 64 of 64, in turns;
//! and all of 100,000 active, whose keys and counters no cache holds. Packets of 64 octets, one by one, each of another
//! association than the one before.

use crate::figure::{Figure, Report, Target};
use crate::fixture;
use crate::interleave::{Cost, Duel, Plan, timed};
use crypto::{Registry, SuiteId};
use engine::{Inbound, InboundOutcome, Outbound, Outcome};
use wire::{Meta, Packet, Pool, Time};

const PLAN: Plan = Plan { rounds: 5, batches: 160 };
const INSTALLED: u32 = 100_000;
const ACTIVE: u32 = 64;
/// Octets of the packets: the shorter, the more the finding weighs.
const PACKET: usize = 64;
const SUITE: SuiteId = SuiteId::AES_128_GCM;
/// The least ratio of the cost of 64 associations alone to that of 64 active ones of 100,000.
const LEAST: f64 = 0.9;

/// Measure the figures `engine.sa.*` that `filter` asks for.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let names = ["seal", "open"].map(|verb| {
        [format!("engine.sa.{verb}.64_of_100000.ratio"), format!("engine.sa.{verb}.100000_active.ratio")]
    });
    if !names.iter().flatten().any(|name| name.contains(filter)) {
        return Ok(());
    }
    let registry = fixture::registry()?;
    for (verb, [some, all]) in [Host::seal, Host::open].into_iter().zip(&names) {
        let mut few = Host::new(ACTIVE, 1, &registry);
        let mut many = Host::new(INSTALLED, INSTALLED / ACTIVE, &registry);
        let duel = Duel::run(PLAN, || verb(&mut few), || verb(&mut many));
        let anchor = |duel: &Duel| {
            let (few, many) = duel.medians();
            format!("64 of 64 {few:.0} ns, of {INSTALLED} {many:.0} ns")
        };
        report.push(Figure::new(
            some.as_str(),
            "ratio",
            &duel.ratios(),
            anchor(&duel),
            Target::AtLeast(LEAST),
        ));
        many.step = 1;
        many.wander = true;
        let duel = Duel::run(PLAN, || verb(&mut few), || verb(&mut many));
        report.push(Figure::new(all.as_str(), "ratio", &duel.ratios(), anchor(&duel), Target::Recorded));
    }
    Ok(())
}

/// Alice, Bob and what they work with.
struct Host {
    alice: Outbound,
    bob: Inbound,
    pool: Pool,
    installed: u32,
    /// Distance from one active association to the next.
    step: u32,
    /// Each batch is for others than the one before.
    wander: bool,
    at: u32,
}

impl Host {
    fn new(installed: u32, step: u32, registry: &Registry) -> Host {
        Host {
            alice: fixture::outbound_to_many(SUITE, installed, registry),
            bob: fixture::inbound_of_many(SUITE, installed, registry),
            pool: fixture::pool(ACTIVE as usize),
            installed,
            step,
            wander: false,
            at: 0,
        }
    }

    /// Packets for the next batch.
    fn packets(&mut self) -> Vec<Packet<wire::stage::Inner>> {
        if self.wander {
            // A step without a common divisor meets every association, and no two neighbours one after the other.
            self.at = (self.at + ACTIVE * 389) % self.installed;
        }
        let step = if self.wander { 389 } else { self.step };
        let targets = (0..ACTIVE).map(|i| (self.at + i * step) % self.installed);
        let packets = targets.map(|target| {
            let bytes = fixture::packet_to(fixture::one_of_many(target), PACKET, 0);
            let mut buf = self.pool.take();
            buf.push_back(bytes.len()).expect("room for a packet").copy_from_slice(&bytes);
            Packet::from_host(buf, fixture::meta())
        });
        packets.collect()
    }

    fn sealed(&mut self) -> (Vec<Packet<wire::stage::Outer>>, Cost) {
        let packets = self.packets();
        let mut out = Vec::with_capacity(packets.len());
        let ((), cost) = timed(packets.len(), || {
            for packet in packets {
                self.alice.handle(Time(1), packet, &mut self.pool, &mut out);
            }
        });
        let sealed = out.into_iter().map(|outcome| match outcome {
            Outcome::Send(packet) => packet,
            outcome => panic!("not sealed: {outcome:?}"),
        });
        (sealed.collect(), cost)
    }

    fn seal(&mut self) -> Cost {
        let (sealed, cost) = self.sealed();
        sealed.into_iter().for_each(|packet| self.pool.put(packet.into_buf()));
        cost
    }

    fn open(&mut self) -> Cost {
        let (sealed, _) = self.sealed();
        let packets: Vec<_> =
            sealed.into_iter().map(|packet| Packet::raw(packet.into_buf(), Meta::default())).collect();
        let mut out = Vec::with_capacity(packets.len());
        let ((), cost) = timed(packets.len(), || {
            for packet in packets {
                self.bob.handle(Time(1), packet, &mut self.pool, &mut out);
            }
        });
        for outcome in out {
            let InboundOutcome::Deliver(packet, _) = outcome else { panic!("not opened: {outcome:?}") };
            self.pool.put(packet.into_buf());
        }
        cost
    }
}
