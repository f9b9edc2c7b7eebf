//! The control API of a line: HTTP/JSON over its own Unix socket of mode 0600.

use api::{
    InlineAmount, InlineDropped, InlineEvents, InlineFlow, InlineFlows, InlineQuery, InlineRules, InlineSide,
    InlineStatus, InlineWorker, path,
};
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use netio::line::SendResult;
use scrub::Counters;
use sockmon::line::LineCounts;
use tokio::net::UnixListener;

use crate::line::{Interface, Line, Shared};
use crate::worker::{LineStats, SIDES, Worker};
use control::answer::{Answer, Doc, in_our_words, nothing_here};
use control::channel::AskError;
use control::extract::Query;
use documents::scrub_record::{EVENTS, FLOWS, KEPT, fits, newest};
use documents::scrub_report;

/// Answer requests until `ended` does.
pub async fn serve(
    listener: UnixListener,
    line: Shared,
    ended: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let router = Router::new()
        .route(path::INLINE_STATUS, get(status))
        .route(path::INLINE_RULES, get(rules))
        .route(path::INLINE_FLOWS, get(flows))
        .route(path::INLINE_EVENTS, get(events))
        .fallback(nothing_here)
        .layer(axum::middleware::map_response(in_our_words))
        .with_state(line);
    axum::serve(listener, router).with_graceful_shutdown(ended).await
}

/// Ask every worker, in order.
async fn each<T: Send + 'static>(
    line: &Line,
    ask: impl Fn(&mut Worker) -> T + Clone + Send + 'static,
) -> Result<Vec<T>, AskError> {
    let mut answers = Vec::new();
    for thread in &line.threads {
        answers.push(thread.handle.ask(ask.clone()).await?);
    }
    Ok(answers)
}

/// What one worker says of itself.
struct WorkerReport {
    worker: InlineWorker,
    tallies: [LineStats; 2],
    lost: [u64; 2],
    observing: bool,
    counters: Option<Counters>,
}

fn said(worker: &mut Worker) -> WorkerReport {
    let lost = std::array::from_fn(|at| {
        worker.ports.get_mut(at).and_then(Option::as_mut).map_or(0, |port| port.lost())
    });
    let mut out = InlineWorker { unrecorded: worker.ring.unrecorded, ..InlineWorker::default() };
    if let Some(scrubber) = &worker.scrubber {
        let (counters, connections) = (scrubber.counters(), scrubber.connections());
        out.packets = counters.packets.iter().sum();
        out.forwarded = counters.forwarded.iter().sum();
        out.held = counters.held.iter().sum();
        out.connections = connections.len();
        out.half_open = connections.half_open();
        out.stored = connections.stored();
    }
    let observing = worker.scrubber.as_ref().is_none_or(|scrubber| scrubber.config().is_observing());
    let counters = worker.scrubber.as_ref().map(|scrubber| scrubber.counters().clone());
    WorkerReport { worker: out, tallies: worker.tallies, lost, observing, counters }
}

async fn status(State(line): State<Shared>) -> Answer<InlineStatus> {
    let line = line.lock().await;
    let said = each(&line, said).await?;
    let sides = SIDES.iter().zip(&line.interfaces).map(|(side, interface)| {
        let tallies: Vec<LineStats> =
            said.iter().filter_map(|s| s.tallies.get(side.index()).copied()).collect();
        let lost = said.iter().filter_map(|s| s.lost.get(side.index())).sum();
        side_of(side.name(), interface, &line, &tallies, lost)
    });
    Ok(Doc(InlineStatus {
        instance: line.settings.instance.clone(),
        pid: std::process::id(),
        profile: if line.settings.bare { "none" } else { line.settings.profile.name() }.to_owned(),
        observing: said.iter().all(|s| s.observing),
        sides: sides.collect(),
        workers: said.iter().map(|s| s.worker).collect(),
        still_closed: line.guard.others().iter().map(u32::to_string).collect(),
    }))
}

fn side_of(side: &str, interface: &Interface, line: &Line, tallies: &[LineStats], lost: u64) -> InlineSide {
    let device = interface.device.as_ref();
    let mut faults = device.map_or_else(Vec::new, |device| line.guard.faults(device.index));
    faults
        .extend(interface.faults.iter().filter(|fault| !faults.contains(fault)).cloned().collect::<Vec<_>>());
    let counts = device.map_or_else(LineCounts::default, |device| line.guard.counts(device.index));
    let amount = |[frames, octets]: [u64; 2]| InlineAmount { frames, octets };
    let sum = |of: fn(&LineStats) -> u64| tallies.iter().map(of).sum::<u64>();
    let sent = tallies.iter().fold(SendResult::default(), |mut all, tally| {
        all.add(tally.sent);
        all
    });
    InlineSide {
        side: side.to_owned(),
        interface: interface.name.clone(),
        index: device.map(|device| device.index),
        mtu: line.settings.mtu.unwrap_or(device.map_or(0, |device| device.mtu as usize)),
        guarded: device.is_some() && faults.is_empty(),
        faults,
        arrived: amount(counts.arrived),
        sent: amount(counts.sent),
        refused: amount(counts.refused),
        heard: amount([sum(|t| t.frames), sum(|t| t.octets)]),
        super_packets: sum(|t| t.super_packets),
        lost,
        passed: sum(|t| t.passed),
        dropped: InlineDropped {
            not_ip: sum(|t| t.not_ip),
            ip_version: sum(|t| t.ip_version),
            unreadable: sum(|t| t.unreadable),
            too_long: sent.too_long,
            full: sent.full,
            refused: sent.refused,
            no_station: sum(|t| t.own_lost),
        },
        own: sum(|t| t.own),
    }
}

async fn rules(State(line): State<Shared>) -> Answer<InlineRules> {
    let line = line.lock().await;
    let said = each(&line, said).await?;
    let counters: Vec<Counters> = said.into_iter().filter_map(|said| said.counters).collect();
    Ok(Doc(InlineRules { rules: scrub_report::counts(&counters) }))
}

async fn flows(State(line): State<Shared>) -> Answer<InlineFlows> {
    let line = line.lock().await;
    let listed = each(&line, |worker| {
        let Some(scrubber) = &worker.scrubber else { return (Vec::new(), 0) };
        let connections = scrubber.connections();
        (connections.iter().take(FLOWS).collect::<Vec<_>>(), connections.len())
    });
    let listed = listed.await?;
    let total = listed.iter().map(|(_, total)| total).sum();
    let flows = listed.into_iter().enumerate().flat_map(|(worker, (flows, _))| {
        flows.into_iter().map(move |(outside, inside, state)| InlineFlow {
            worker,
            outside,
            inside,
            state: state.name().to_owned(),
        })
    });
    Ok(Doc(InlineFlows { flows: flows.collect(), total }))
}

async fn events(State(line): State<Shared>, Query(query): Query<InlineQuery>) -> Answer<InlineEvents> {
    let line = line.lock().await;
    let most = query.most.unwrap_or(EVENTS).min(KEPT);
    let found = each(&line, move |worker| {
        let fits = |event: &api::InlineEvent| fits(&query, event);
        let after = query.number.map_or(query.after.unwrap_or(0), |number| number.saturating_sub(1));
        (worker.ring.since(after, most, &fits), worker.ring.unrecorded)
    });
    let found = found.await?;
    Ok(Doc(newest(found.into_iter(), most)))
}
