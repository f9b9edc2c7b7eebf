//! The graph of classes that is in force, and what it has done.

use ::qos::graph::Graph;
use ::qos::graph::description::HookPoint;
use api::{QosClassCounts, QosDirection, QosDirectionState, QosState, QosUnitState};
use axum::extract::State;
use engine::Ticket;

use crate::plane::Shared;
use control::answer::{Answer, Doc};

/// The queues that packets of a data thread meet, by the hooks in front of them.
const QUEUES: [HookPoint; 3] = [HookPoint::In1a, HookPoint::In3a, HookPoint::In5a];

pub(super) async fn state(State(plane): State<Shared>) -> Answer<QosState> {
    let plane = &*plane.get().await?;
    let Some(graph) = plane.graph() else { return Ok(Doc(QosState::default())) };
    let outbound =
        |queues: &engine::OutboundGraph| direction(QosDirection::Out, queues.graph(), queues.waiting());
    let outbound = plane.halves().ask_outbound(move |half| half.engine.graph().map(outbound)).await?;
    let inbound =
        |queues: &engine::InboundGraph| direction(QosDirection::In, queues.graph(), queues.waiting());
    let inbound = plane.halves().ask_inbound(move |half| half.engine.graph().map(inbound)).await?;
    Ok(Doc(QosState {
        file: Some(graph.source.clone()),
        graph: Some(::qos::graph::print(&graph.description)),
        directions: outbound.into_iter().chain(inbound).collect(),
    }))
}

/// What the graph of a thread has done, in which so many packets wait and can.
fn direction(
    direction: QosDirection,
    graph: &Graph<Ticket>,
    (waiting, room): (usize, usize),
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
                waiting: tally.queued().unwrap_or(0),
                dropped: dropped.collect(),
            });
        }
    }
    let dispatcher = graph.dispatcher();
    let unit = |unit| {
        let (low_ns, high_ns) = dispatcher.marks(unit).unwrap_or_default();
        let waiting = dispatcher.waiting(unit);
        QosUnitState {
            unit: dispatcher.name(unit).unwrap_or("?").to_owned(),
            committed_ns: dispatcher.committed(unit).ns,
            waiting: waiting.packets,
            waiting_ns: waiting.ns,
            low_ns,
            high_ns,
        }
    };
    QosDirectionState {
        direction,
        waiting: waiting as u64,
        room: room as u64,
        classes,
        units: dispatcher.units().map(unit).collect(),
    }
}
