//! The graph of classes that is in force, and what it has done.

use ::qos::AggregateId;
use ::qos::behaviour::foreign::Report;
use ::qos::graph::description::HookPoint;
use ::qos::graph::{Graph, sojourn};
use ::qos::unit::Kind;
use api::{
    QosApplied, QosApply, QosClassCounts, QosComponentState, QosDirection, QosDirectionState,
    QosKernelCounts, QosSojourn, QosState, QosUnitFaults, QosUnitState,
};
use axum::extract::{ConnectInfo, State};
use engine::{InboundGraph, OutboundGraph, Ticket, UnitFaults};

use sockmon::QueueTable;

use crate::class_queues::ClassQueue;
use crate::plane::Shared;
use control::answer::{Answer, Doc, Failure, whole};
use control::asker::Asker;
use control::extract::Body;

/// The queues that packets of a data thread meet, by the hooks in front of them.
const QUEUES: [HookPoint; 5] =
    [HookPoint::In1a, HookPoint::In3a, HookPoint::In5a, HookPoint::In4a, HookPoint::In2a];

pub(super) async fn state(State(plane): State<Shared>) -> Answer<QosState> {
    Ok(Doc(look(&plane).await?))
}

/// The graph that is in force, and what it has done.
pub(super) async fn look(plane: &Shared) -> Result<QosState, Failure> {
    let plane = &*plane.get().await?;
    let Some(graph) = plane.graph() else { return Ok(QosState::default()) };
    let outbound = |queues: &OutboundGraph| {
        direction(
            QosDirection::Out,
            queues.graph(),
            queues.waiting(),
            queues.no_place(),
            queues.unit_faults(),
        )
    };
    let mut outbound = plane.halves().ask_outbound(move |half| half.engine.graph().map(outbound)).await?;
    let inbound = |queues: &InboundGraph| {
        direction(QosDirection::In, queues.graph(), queues.waiting(), queues.no_place(), queues.unit_faults())
    };
    let mut inbound = plane.halves().ask_inbound(move |half| half.engine.graph().map(inbound)).await?;
    if let (Some(outbound), Some(queues)) = (&mut outbound, &graph.queues) {
        outbound.kernel_queues = kernel_queues(&queues.queues, queues.table());
    }
    if let (Some(inbound), Some(sockets)) = (&mut inbound, &graph.sockets) {
        inbound.kernel_queues = kernel_queues(&sockets.queues, sockets.table());
    }
    Ok(QosState {
        file: Some(graph.loaded.source.clone()),
        origin: Some(graph.store.origin()),
        graph: Some(::qos::graph::print(&graph.loaded.description)),
        waiting: graph.waiting(),
        notes: graph.notes.clone(),
        sojourn_bounds_ns: bounds().collect(),
        resources: graph.booking.resources(),
        reservations: graph.booking.count() as u64,
        directions: outbound.into_iter().chain(inbound).collect(),
    })
}

/// The bounds of the buckets of sojourns, in nanoseconds.
fn bounds() -> impl Iterator<Item = u64> {
    (0..sojourn::BUCKETS).filter_map(sojourn::bound)
}

/// What of a class waits at a queue, and how long that took and takes.
fn waits<T: 'static>(graph: &Graph<T>, hook: HookPoint, aggregate: AggregateId) -> QosClassCounts {
    let (counts, backlog) = (graph.counts(), graph.backlog(hook, aggregate));
    let sojourn = counts.sojourn(hook, aggregate);
    let bounds: Vec<u64> = bounds().collect();
    QosClassCounts {
        waiting: backlog.packets,
        waiting_octets: backlog.octets,
        waiting_ns: backlog.ns,
        longest_loss: counts.longest_loss(hook, aggregate),
        served_ns: if hook == HookPoint::In5a { counts.served(aggregate) } else { 0 },
        sojourn: QosSojourn::new(sojourn.buckets().to_vec(), sojourn.sum(), &bounds),
        ..QosClassCounts::default()
    }
}

pub(super) async fn apply(
    State(plane): State<Shared>,
    ConnectInfo(asker): ConnectInfo<Asker>,
    Body(request): Body<QosApply>,
) -> Answer<QosApplied> {
    let change = async move {
        let mut plane = plane.get().await?;
        let applied = plane.apply_graph(request).await?;
        let trial = applied.waiting.as_ref().map_or_else(String::new, |waiting| {
            format!(", to be confirmed within {} s", waiting.seconds_left)
        });
        plane.audit(asker, "graph_applied", format!("{} is in force{trial}", applied.file));
        Ok(applied)
    };
    Ok(Doc(whole(change).await?))
}

pub(super) async fn confirm(
    State(plane): State<Shared>,
    ConnectInfo(asker): ConnectInfo<Asker>,
) -> Answer<QosApplied> {
    let change = async move {
        let mut plane = plane.get().await?;
        let applied = plane.confirm_graph()?;
        plane.audit(asker, "graph_confirmed", "the graph on trial stays".to_owned());
        Ok(applied)
    };
    Ok(Doc(whole(change).await?))
}

pub(super) async fn rollback(
    State(plane): State<Shared>,
    ConnectInfo(asker): ConnectInfo<Asker>,
) -> Answer<QosApplied> {
    let change = async move {
        let mut plane = plane.get().await?;
        let applied = plane.roll_back_graph().await?;
        plane.audit(asker, "graph_rolled_back", "the graph before is in force again".to_owned());
        Ok(applied)
    };
    Ok(Doc(whole(change).await?))
}

/// What came of kernel queues.
fn kernel_queues(queues: &[ClassQueue], table: &QueueTable) -> Vec<QosKernelCounts> {
    let counts = |(at, queue): (usize, &ClassQueue)| {
        let counts = table.counts(at);
        QosKernelCounts {
            queue: at as u64,
            classes: queue.names.clone(),
            arrived: counts.arrived,
            taken: counts.taken,
            lost: counts.lost,
            waiting: counts.waiting(),
            limit: counts.limit,
        }
    };
    queues.iter().enumerate().map(counts).collect()
}

/// What a component from outside has done at a hook.
fn component(hook: HookPoint, report: Report) -> QosComponentState {
    QosComponentState {
        hook: hook.name().to_owned(),
        library: report.library,
        detached: report.detached.map(|why| why.to_string()),
        on_fault: report.on_fault.word().to_owned(),
        calls: report.calls,
        packets: report.packets,
        dropped: report.dropped,
        unjudged: report.unjudged,
        over_budget: report.over_budget,
        longest_ns: report.longest_ns,
    }
}

/// What the graph of a thread has done, in which so many packets wait and can.
fn direction(
    direction: QosDirection,
    graph: &Graph<Ticket>,
    (waiting, room): (usize, usize),
    no_place: u64,
    faults: UnitFaults,
) -> QosDirectionState {
    let mut classes = Vec::new();
    for hook in QUEUES {
        for (aggregate, tally) in graph.counts().at(hook).filter(|(_, tally)| tally.come > 0) {
            let class = graph.aggregates().name(aggregate).unwrap_or("?").to_owned();
            let dropped =
                tally.causes().map(|(cause, count)| (engine::reason(cause).name().to_owned(), count));
            classes.push(QosClassCounts {
                class,
                hook: hook.name().to_owned(),
                arrived: tally.come,
                left: tally.gone,
                given_back: tally.back,
                dropped: dropped.collect(),
                ..waits(graph, hook, aggregate)
            });
        }
    }
    let dispatcher = graph.dispatcher();
    let unit = |unit| {
        let (low_ns, high_ns) = dispatcher.marks(unit).unwrap_or_default();
        let waiting = dispatcher.waiting(unit);
        QosUnitState {
            unit: dispatcher.name(unit).unwrap_or("?").to_owned(),
            kind: dispatcher.kind(unit).map_or("?", Kind::word).to_owned(),
            committed_ns: dispatcher.committed(unit).ns,
            waiting: waiting.packets,
            waiting_ns: waiting.ns,
            busy_ns: dispatcher.busy(unit),
            low_ns,
            high_ns,
        }
    };
    QosDirectionState {
        direction,
        waiting: waiting as u64,
        room: room as u64,
        no_place,
        kernel_queues: Vec::new(),
        classes,
        units: dispatcher.units().map(unit).collect(),
        unit_faults: QosUnitFaults {
            failed: faults.failed,
            late: faults.late,
            disordered: faults.disordered,
        },
        components: graph.foreign().map(|(hook, report)| component(hook, report)).collect(),
    }
}
