//! `qos.*`: what a graph of classes costs a packet in the engine (paper 002; docs/design/0040).
//!
//! - `qos.seal.GRAPH.SIZE.added_ns`: a packet that waits in a graph which is not overloaded, less one without a graph, in turns on the
//!   same packets. Everything is in it: describing the packet, its places, look-up, dispatch, the answer.
//! - `qos.components.five.added_ns`: five further components at hook 1a.
//! - `qos.flows.100000.ratio`: offer to answer in the room alone with packets of 100,000 flows, users and associations, by that with 8.
//! - `qos.self_tuning.*` ([`tuning`]): what a limit in nanoseconds lets in while the unit's speed changes, and a token bucket.
//! - `qos.compile.ms`: a graph of 16 classes from its text until it is in force, with 10,000 reservations made in it.

mod tuning;

use std::cell::RefCell;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use crypto::{Registry, SuiteId};
use engine::{Outbound, OutboundGraph, Outcome, Ticket};
use qos::graph::description::HookPoint;
use qos::graph::{Description, Graph, House, check, compile, preset};
use qos::reservation::{Flow, FlowTerms, Scope};
use qos::{Amount, Context, Direction, Meta};
use wire::{Packet, Pool, Time};

use super::FigureFilter;
use crate::figure::{Figure, Report, Target};
use crate::fixture;
use crate::interleave::{Cost, Duel, Plan, timed};

const PLAN: Plan = Plan { rounds: 7, batches: 160 };
const SUITE: SuiteId = SuiteId::AES_128_GCM;
/// Packets of a batch: no more than a turn has jobs.
const BATCH: usize = 32;
/// Nanoseconds that the engine's clock goes on for each packet, so that the graph learns a likely cost.
const STEP: u64 = 400;

/// Figure 6 with five behaviours in front, of which none changes a packet.
const FIVE_MORE: &str = r#"
[class.ef]
match = [{ dscp = ["EF"] }]
unpoliced = true
[class.be]
match = "rest"
[[hook]]
at = "1a"
chain = [
    { kind = "classify", by = "rules" },
    { kind = "limit", class = "be", most = 100000 },
    { kind = "limit", class = "be", most = 100001 },
    { kind = "limit", class = "be", most = 100002 },
    { kind = "limit", class = "be", most = 100003 },
    { kind = "limit", class = "be", most = 100004 },
]
[unit.inline]
kind = "inline"
"#;

/// The same without them.
const NO_MORE: &str = r#"
[class.ef]
match = [{ dscp = ["EF"] }]
unpoliced = true
[class.be]
match = "rest"
[[hook]]
at = "1a"
chain = [{ kind = "classify", by = "rules" }]
[unit.inline]
kind = "inline"
"#;

/// Measure the figures `qos.*` that `filter` asks for.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let registry = fixture::registry()?;
    let mut figures = FigureFilter { filter, report };
    for (name, target) in [
        ("fifo", Target::Recorded),
        ("two-classes", Target::AtMost(60.0)),
        ("voice", Target::Recorded),
        ("fair", Target::Recorded),
    ] {
        for size in [64, 1400] {
            let figure = format!("qos.seal.{name}.{size}.added_ns");
            if figures.wants(&figure) {
                let description = preset(name).context("no such preset")?;
                let duel = beside(None, Some(&description), size, &registry)?;
                figures.push(added(figure, &duel, "no graph", target));
            }
        }
    }
    let figure = "qos.components.five.added_ns".to_owned();
    if figures.wants(&figure) {
        let [without, with] = [described(check(NO_MORE, &house()))?, described(check(FIVE_MORE, &house()))?];
        let duel = beside(Some(&without), Some(&with), 64, &registry)?;
        figures.push(added(figure, &duel, "the same graph without them", Target::AtMost(40.0)));
    }
    let figure = "qos.flows.100000.ratio".to_owned();
    if figures.wants(&figure) {
        let duel = flows()?;
        let (few, many) = duel.medians();
        let anchor = format!("8 flows {few:.0} ns, 100,000 flows {many:.0} ns");
        let ratios: Vec<f64> = duel.rounds.iter().map(|(few, many)| many / few).collect();
        figures.push(Figure::new(figure, "ratio", &ratios, anchor, Target::AtMost(2.0)));
    }
    for (name, text, target) in tuning::ROWS {
        let figure = format!("qos.self_tuning.{name}");
        if figures.wants(&figure) {
            let graph = compiled(&described(check(text, &house()))?)?;
            tuning::figures(&figure, graph, target)?.into_iter().for_each(|figure| figures.push(figure));
        }
    }
    let figure = "qos.compile.ms".to_owned();
    if figures.wants(&figure) {
        let mut rounds = Vec::new();
        for _ in 0..PLAN.rounds {
            rounds.push(in_force(&registry)?.as_secs_f64() * 1e3);
        }
        let anchor = "16 classes, 10,000 reservations";
        figures.push(Figure::new(figure, "ms", &rounds, anchor, Target::AtMost(100.0)));
    }
    Ok(())
}

fn added(name: String, duel: &Duel, beside: &str, target: Target) -> Figure {
    let (first, second) = duel.medians();
    let anchor = format!("{beside} {first:.0} ns, with {second:.0} ns");
    let differences: Vec<f64> = duel.rounds.iter().map(|(first, second)| second - first).collect();
    Figure::new(name, "ns", &differences, anchor, target)
}

/// A gateway with one suite.
fn house() -> House {
    House { known_suites: vec![SUITE.to_string()], ..House::default() }
}

fn described<E: std::fmt::Debug>(read: Result<Description, E>) -> anyhow::Result<Description> {
    read.map_err(|faults| anyhow!("the graph has faults: {faults:?}"))
}

fn compiled<T: Send + 'static>(description: &Description) -> anyhow::Result<Graph<T>> {
    compile(description, &house(), Direction::Outbound, 7)
        .map_err(|faults| anyhow!("the graph does not compile: {faults:?}"))
}

/// A graph of the engine.
fn graph(description: &Description) -> anyhow::Result<Box<OutboundGraph>> {
    let graph: Graph<Ticket> = compiled(description)?;
    let graph = OutboundGraph::new(graph, vec![(SUITE, 0)], 11).map_err(|error| anyhow!("{error}"))?;
    Ok(Box::new(graph))
}

/// A sender with a graph, or with none.
struct Side {
    engine: Outbound,
    pool: Pool,
    out: Vec<Outcome>,
    now: Time,
    has_graph: bool,
}

impl Side {
    fn new(description: Option<&Description>, registry: &Registry) -> anyhow::Result<Side> {
        let mut side = Side {
            engine: fixture::outbound(SUITE, registry).gathering(),
            pool: fixture::pool(BATCH + 8),
            out: Vec::with_capacity(BATCH),
            now: Time(1),
            has_graph: description.is_some(),
        };
        if let Some(description) = description {
            side.engine.set_graph(side.now, Some(graph(description)?), &mut side.pool, &mut side.out);
        }
        Ok(side)
    }

    /// Seal all packets of a batch.
    fn seal(&mut self, packets: &[Vec<u8>]) -> Cost {
        let Side { engine, pool, out, now, has_graph } = self;
        let mut bufs = Vec::new();
        for bytes in packets {
            let mut buf = pool.take();
            buf.push_back(bytes.len()).expect("room for a packet").copy_from_slice(bytes);
            bufs.push(buf);
        }
        let ((), cost) = timed(packets.len(), || {
            if !*has_graph {
                for buf in bufs {
                    engine.handle(*now, Packet::from_host(buf, fixture::meta()), pool, out);
                }
                return engine.flush(pool, out);
            }
            for buf in bufs {
                engine.receive(*now, Packet::from_host(buf, fixture::meta()), pool, out);
            }
            while {
                let more = engine.look_up(*now, BATCH, pool, out);
                let any = engine.turn(*now, pool, out);
                *now = *now + Duration::from_nanos(STEP * BATCH as u64);
                engine.settle(*now);
                more || any
            } {}
        });
        let mut count = 0;
        for outcome in out.drain(..) {
            match outcome {
                Outcome::Send(packet) => {
                    count += 1;
                    pool.put(packet.into_buf());
                }
                Outcome::Burst(burst) => {
                    count += burst.count();
                    pool.put(burst.into_buf());
                }
                outcome => panic!("not sealed: {outcome:?}"),
            }
        }
        assert_eq!(count, packets.len());
        cost
    }
}

/// Two senders in turns, each with a graph or with none.
fn beside(
    first: Option<&Description>,
    second: Option<&Description>,
    size: usize,
    registry: &Registry,
) -> anyhow::Result<Duel> {
    let packets: Vec<_> = (0..BATCH).map(|number| fixture::packet(size, number as u16)).collect();
    let [mut one, mut other] = [Side::new(first, registry)?, Side::new(second, registry)?];
    Ok(Duel::run(PLAN, || one.seal(&packets), || other.seal(&packets)))
}

/// A graph of the room alone, with packets of so many flows.
struct Room {
    graph: Graph<u64>,
    flows: u32,
    next: u32,
    now: Time,
}

impl Room {
    fn new(flows: u32) -> anyhow::Result<Room> {
        Ok(Room {
            graph: compiled(&preset("fair").context("no such preset")?)?,
            flows,
            next: 0,
            now: Time(1),
        })
    }

    /// Offer a batch, and serve all of it.
    fn serve(&mut self) -> Cost {
        let Room { graph, flows, next, now } = self;
        let mut ended = Vec::new();
        let ((), cost) = timed(BATCH, || {
            let context = Context { now: *now, random: u64::from(*next) };
            for ticket in 0..BATCH as u64 {
                *next = (*next + 1) % *flows;
                let mut meta = Meta {
                    arrived: *now,
                    amount: Amount { packets: 1, octets: 576, ns: STEP },
                    association: *next,
                    user: *next,
                    flow: next.wrapping_mul(2_654_435_761),
                    direction: Direction::Outbound,
                    ..Meta::default()
                };
                meta.units = graph.dispatcher().capable(0, meta.aggregate);
                graph.offer(HookPoint::In1a, ticket, meta, &context, &mut ended);
            }
            let mut left = BATCH;
            while left > 0 {
                *now = *now + Duration::from_nanos(STEP);
                let context = Context { now: *now, random: u64::from(*next) };
                while let Some(due) = graph.take(HookPoint::Out1b, &context, &mut ended) {
                    let meta = Meta { units: graph.dispatcher().capable(0, due.meta.aggregate), ..due.meta };
                    graph.offer(HookPoint::In3a, due.item, meta, &context, &mut ended);
                }
                while let Some(given) = graph.next(&context, &mut ended) {
                    let answered = graph.done(given.unit, given.job, STEP, &context);
                    black_box(answered).expect("an answer in order");
                    graph.pass(&given.meta);
                    left -= 1;
                }
                assert!(ended.is_empty(), "packets were dropped");
            }
        });
        cost
    }
}

fn flows() -> anyhow::Result<Duel> {
    let [few, many] = [RefCell::new(Room::new(8)?), RefCell::new(Room::new(100_000)?)];
    Ok(Duel::run(PLAN, || few.borrow_mut().serve(), || many.borrow_mut().serve()))
}

/// The time from the text of a graph of 16 classes until it is in force with 10,000 reservations.
fn in_force(registry: &Registry) -> anyhow::Result<Duration> {
    let mut text = String::new();
    for class in 0..15 {
        text += &format!(
            "[class.c{class}]\nmatch = [{{ dscp = [\"{}\"] }}]\nweight = {}\n",
            2 * class + 1,
            class + 1
        );
    }
    text += "[class.rest]\nmatch = \"rest\"\n";
    let mut side = Side::new(None, registry)?;
    let began = Instant::now();
    let made = graph(&described(check(&text, &house()))?)?;
    let class = made.graph().aggregates().find("c3").context("no class")?;
    side.engine.set_graph(side.now, Some(made), &mut side.pool, &mut side.out);
    for number in 0..10_000_u32 {
        let destination = IpAddr::V4(Ipv4Addr::from(0xC633_6400 | number & 0xFF));
        let scope = Scope::Spi { spi: 0x1000 + number, virtual_port: 0 };
        let terms = FlowTerms { class, rate: 1_000_000, burst: 10_000, least: 128 };
        let flow = Flow { destination, protocol: wire::protocol::ESP, scope };
        anyhow::ensure!(side.engine.reserve([7; 16], 16_384, &flow, terms), "no room for {number}");
    }
    Ok(began.elapsed())
}
