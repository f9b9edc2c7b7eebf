//! A limit in nanoseconds of service beside a token bucket, while the speed of the unit changes (paper 002 section III.C).
//!
//! The time is simulated. Packets arrive at four times the unit's first speed. The unit becomes twice as fast, then half as
//! fast as it was at first. Nobody tells the graph: it learns what packets cost from the answers.

use std::collections::VecDeque;
use std::time::Duration;

use qos::graph::Graph;
use qos::graph::description::HookPoint;
use qos::unit::UnitId;
use qos::{Amount, Context, Direction, Meta, dispatcher::JobId};
use wire::Time;

use crate::figure::{Figure, Target};

const OCTETS: u64 = 1000;
/// What a packet costs at first, in nanoseconds: 80 Mbit/s.
const COST: u64 = 100_000;
/// Nanoseconds between two packets.
const ARRIVALS: u64 = COST / 4;
/// The speeds of the unit, by its first one, each for so long. The first second of each is not counted.
const SPEEDS: [(&str, f64); 3] = [("first", 1.0), ("doubled", 2.0), ("halved", 0.5)];
const PHASE: u64 = 3_000_000_000;
const SETTLING: u64 = 1_000_000_000;

/// A limit of what may wait, in nanoseconds.
const LIMIT: &str =
    "[class.be]\nmatch = \"rest\"\nlimit = { time = \"20ms\" }\n[unit.inline]\nkind = \"inline\"\n";
/// A token bucket of the unit's first speed, and a queue that has room.
const BUCKET: &str = "[class.be]\nmatch = \"rest\"\nlimit = { packets = 60000 }\n\
                      police = { rate = \"80Mbit\", burst = \"20kB\" }\n[unit.inline]\nkind = \"inline\"\n";

/// The graphs that are compared, and what each is held to.
pub(super) const ROWS: [(&str, &str, Target); 2] =
    [("limit", LIMIT, Target::Between(0.95, 1.05)), ("bucket", BUCKET, Target::Recorded)];

/// The figures of a graph: what it lets in by what the unit can do, and the longest wait, for each speed.
pub(super) fn figures(figure: &str, graph: Graph<u64>, target: Target) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (phase, (speed, _)) in measure(graph)?.into_iter().zip(SPEEDS) {
        let anchor = "what the unit can do; simulated time";
        let accepted = format!("{figure}.{speed}.accepted");
        figures.push(Figure::new(accepted, "ratio", &[phase.accepted], anchor, target));
        let wait = format!("{figure}.{speed}.wait_ms");
        figures.push(Figure::new(wait, "ms", &[phase.longest], anchor, Target::Recorded));
    }
    Ok(figures)
}

/// What was seen at one speed, behind its first second.
#[derive(Clone, Copy, Default)]
struct Phase {
    /// Packets that were let in, by what the unit can do.
    accepted: f64,
    /// The longest wait from arrival to answer, in milliseconds.
    longest: f64,
}

/// A job of the unit.
struct Job {
    id: JobId,
    unit: UnitId,
    meta: Meta,
}

fn measure(mut graph: Graph<u64>) -> anyhow::Result<Vec<Phase>> {
    let mut phases = Vec::new();
    let (mut jobs, mut ended): (VecDeque<Job>, Vec<_>) = Default::default();
    // When the next packet comes, and when the unit is done with its first job.
    let (mut arrival, mut done) = (1, u64::MAX);
    let mut number = 0;
    for (at, (_, speed)) in SPEEDS.into_iter().enumerate() {
        let begin = 1 + at as u64 * PHASE;
        let cost = (COST as f64 / speed) as u64;
        let mut accepted = 0_u64;
        let mut phase = Phase::default();
        loop {
            let now = arrival.min(done);
            if now >= begin + PHASE {
                break;
            }
            let is_counted = now >= begin + SETTLING;
            number += 1;
            let context = Context { now: Time(now), random: number };
            if done <= arrival {
                if let Some(job) = jobs.pop_front() {
                    graph
                        .done(job.unit, job.id, cost, &context)
                        .map_err(|fault| anyhow::anyhow!("the unit's answer: {fault:?}"))?;
                    graph.pass(&job.meta);
                    let wait = Duration::from_nanos(now - job.meta.arrived.0).as_secs_f64() * 1e3;
                    if is_counted {
                        phase.longest = phase.longest.max(wait);
                    }
                }
                done = if jobs.is_empty() { u64::MAX } else { now + cost };
            } else {
                arrival += ARRIVALS;
                let mut meta = Meta {
                    arrived: context.now,
                    amount: Amount { packets: 1, octets: OCTETS, ns: 0 },
                    direction: Direction::Outbound,
                    ..Meta::default()
                };
                meta.aggregate = graph.classify(&meta);
                meta.amount.ns = graph.expected(0, Direction::Outbound, &meta.amount);
                graph.offer(HookPoint::In1a, number, meta, &context, &mut ended);
                accepted += u64::from(is_counted);
            }
            while let Some(due) = graph.take(HookPoint::Out1b, &context, &mut ended) {
                let units = graph.dispatcher().capable(0, due.meta.aggregate);
                let mut meta = Meta { units, ..due.meta };
                meta.amount.ns = graph.expected(0, Direction::Outbound, &meta.amount);
                graph.offer(HookPoint::In3a, due.item, meta, &context, &mut ended);
            }
            while let Some(given) = graph.next(&context, &mut ended) {
                jobs.push_back(Job { id: given.job, unit: given.unit, meta: given.meta });
                done = done.min(now + cost);
            }
            let lost = if is_counted { ended.len() as u64 } else { 0 };
            accepted = accepted.saturating_sub(lost);
            ended.clear();
        }
        let seconds = Duration::from_nanos(PHASE - SETTLING).as_secs_f64();
        phase.accepted = accepted as f64 / (seconds * 1e9 / cost as f64);
        phases.push(phase);
    }
    Ok(phases)
}
