//! Documents about a graph of classes: what is wrong with it, and what it promises and needs.
//!
//! What enters: a graph that was read (`config::LoadedGraph`), and the gateway that it is for (`qos::graph::House`).
//! What leaves: the documents of `ravelin qos`, which need neither a daemon nor root.

use std::collections::BTreeSet;

use api::{
    Finding, Place, Position, QosCapability, QosCheck, QosCostSource, QosCosts, QosDelay, QosDirection,
    QosKernelQueue, QosPathCost, QosPlan, QosPreset, QosPresets, QosSuiteCost, QosTerms, QosUnit, QosWindow,
};
use config::{BrokenGraph, LoadedGraph};
use qos::Direction;
use qos::behaviour::foreign::{Library, LibraryState};
use qos::bound::{Bound, Bounds, Terms, bounds, unproved};
use qos::graph::description::{Description, UnitKind};
use qos::graph::fault::Place as FaultPlace;
use qos::graph::house::{House, Line};
use qos::graph::kinds::Kind;
use qos::graph::{Fault, KernelShare, PRESETS, kernel_shares, preset};
use qos::unit::MOST_AWAY;
use sadb::ReplayWindow;

/// The reason why nothing is promised where a sliced unit works beside another unit of its thread (docs/design/0046).
pub const SLICED: &str = "sliced unit beside another one";

/// What the kernel queues of a plan do not hold for.
const FRAMES: &str = "where outer packets arrive as frames (`outer` in [io]), fragments wait with what names no \
                      association; with \"af_xdp\" the socket of a class holds 512 packets at most, with more than 6 kernel \
                      queues 256, with more than 14 128, whatever its limit is";

/// What the priorities of classes need of the host.
const PRIORITIES: &str = "`socket_priority` needs Linux 6.14 and outer = \"udp\" in [io], and packets leave without it \
                          elsewhere: `ravelin doctor` says what holds here";

/// The document that says that a graph is sound.
pub fn sound(graph: &LoadedGraph, house: &House) -> QosCheck {
    let classes = class_names(&graph.description);
    let notes = unchecked(&graph.description, house);
    let findings = findings(&graph.source, &graph.text, &graph.warnings, "warning");
    QosCheck { ok: true, file: graph.source.clone(), classes, findings, notes }
}

/// Sentences for each unit that answers later: what it holds, and who overtakes it.
fn apart(description: &Description) -> Vec<String> {
    let later = |unit: &&qos::graph::description::Unit| {
        matches!(unit.kind.value, UnitKind::Worker | UnitKind::Async(_))
    };
    let mut notes = Vec::new();
    for unit in description.units.iter().filter(later) {
        let name = &unit.name.value;
        notes.push(format!(
            "the unit `{name}` answers later: it holds at most {MOST_AWAY} packets or bursts beside the queues, each in a \
             buffer of up to 64 KiB"
        ));
        if description.units.len() > 1 {
            notes.push(format!(
                "packets that go by another unit overtake those that `{name}` has, which are numbered already: peers need \
                 the outbound replay window for associations whose classes go by several units"
            ));
        }
    }
    notes
}

/// A sentence for each library of components that a graph names and that is not loaded here.
fn unchecked(description: &Description, house: &House) -> Vec<String> {
    let parts = description.hooks.iter().flat_map(|hook| &hook.chain);
    let names: BTreeSet<&str> = parts
        .filter(|part| part.kind.value == Kind::Foreign)
        .filter_map(|part| part.word("library"))
        .collect();
    let sentence = |name: &str| match house.libraries.find(name) {
        Some(Library { state: LibraryState::Loaded(_), .. }) => None,
        Some(_) => Some(format!(
            "the library `{name}` is in the configuration and not loaded here, so its file and parameters are not checked; \
             add --load"
        )),
        None => Some(format!(
            "no configuration is read, so it is not known whether there is a library `{name}`; add --config FILE --load"
        )),
    };
    names.into_iter().filter_map(sentence).collect()
}

/// The document that says what is wrong with a graph.
pub fn broken(graph: &BrokenGraph) -> QosCheck {
    QosCheck {
        ok: false,
        file: graph.source.clone(),
        classes: Vec::new(),
        findings: findings(&graph.source, &graph.text, &graph.faults, "error"),
        notes: Vec::new(),
    }
}

/// Faults of a text, which messages call `source`, as findings.
fn findings(source: &str, text: &str, faults: &[Fault], severity: &str) -> Vec<Finding> {
    let finding = |fault: &Fault| {
        let (at, end) = (FaultPlace::of(text, fault.span.start), FaultPlace::of(text, fault.span.end));
        Finding {
            code: fault.code.to_string(),
            severity: severity.to_owned(),
            at: Position {
                file: source.to_owned(),
                line: at.line,
                column: Some(at.column),
                text: String::new(),
            },
            message: fault.message.clone(),
            end: Place { line: end.line, column: end.column },
            remedy: Some(fault.remedy.clone()),
            related: Vec::new(),
        }
    };
    faults.iter().map(finding).collect()
}

/// The graphs that come with the program.
pub fn presets() -> QosPresets {
    let rows = PRESETS.iter().map(|(name, _)| QosPreset {
        name: (*name).to_owned(),
        purpose: qos::graph::preset::purpose(name).unwrap_or_default().to_owned(),
        classes: preset(name).map(|graph| class_names(&graph)).unwrap_or_default(),
    });
    QosPresets { presets: rows.collect() }
}

fn class_names(graph: &Description) -> Vec<String> {
    graph.classes.iter().map(|class| class.name.value.clone()).collect()
}

/// A direction as documents have it.
pub const fn direction(direction: Direction) -> QosDirection {
    match direction {
        Direction::Outbound => QosDirection::Out,
        Direction::Inbound => QosDirection::In,
    }
}

/// What a graph promises its classes on a gateway, and what it needs. The times of the gateway's packet path are those
/// that [`House`] has unless told otherwise; `measured` says whether they were measured on the machine itself.
pub fn plan(graph: &LoadedGraph, house: &House, measured: bool) -> QosPlan {
    let description = &graph.description;
    let bounds = bounds(description, house);
    let is_unproved = unproved(description).is_some();
    let costs = costs(house, measured);
    let mut notes = vec![FRAMES.to_owned()];
    if costs.path_is_assumed {
        notes.push("costs of the packet path are assumed, not measured on this machine".to_owned());
    }
    if costs.suites.is_empty() {
        notes.push(
            "no cost of a suite is known, so the work of ciphers counts as nothing and real delays are longer; name a file \
             with --cost"
                .to_owned(),
        );
    }
    if let Some(unit) = unproved(description) {
        notes.push(format!(
            "the sliced unit `{}` shares its thread with another unit: no bound is proved there",
            unit.name.value
        ));
    }
    if description.classes.iter().any(|class| class.socket_priority.is_some()) {
        notes.push(PRIORITIES.to_owned());
    }
    notes.extend(apart(description));
    notes.extend(unchecked(description, house));
    notes.extend(graph.warning_notes());
    QosPlan {
        file: graph.source.clone(),
        costs,
        classes: bounds.classes.iter().map(|bound| delay(description, bound, is_unproved)).collect(),
        memory_octets: bounds.octets,
        replay_windows: vec![
            window(&bounds, Direction::Outbound, is_unproved),
            window(&bounds, Direction::Inbound, is_unproved),
        ],
        units: description.units.iter().map(unit).collect(),
        capabilities: capabilities(description, house),
        kernel_queues: [Direction::Outbound, Direction::Inbound]
            .into_iter()
            .flat_map(|direction| kernel_queues(description, direction, house))
            .collect(),
        notes,
    }
}

/// The kernel queues of a direction.
fn kernel_queues(
    description: &Description,
    of: Direction,
    house: &House,
) -> impl Iterator<Item = QosKernelQueue> {
    let shares = kernel_shares(description, of, house.kernel_queues.unwrap_or(1));
    shares.into_iter().map(move |KernelShare { name, classes, queues, limit }| QosKernelQueue {
        name,
        direction: direction(of),
        classes,
        queues,
        limit,
    })
}

fn costs(house: &House, measured: bool) -> QosCosts {
    let step = |step: &str, line: Line| QosPathCost {
        step: step.to_owned(),
        base_ns: line.base_ns,
        ps_per_octet: line.ps_per_octet,
    };
    let suites = house.costs.iter().map(|cost| QosSuiteCost {
        suite: cost.suite.clone(),
        direction: direction(cost.direction),
        base_ns: cost.line.base_ns,
        ps_per_octet: cost.line.ps_per_octet,
    });
    QosCosts {
        suites_from: if house.costs.is_empty() { QosCostSource::Nothing } else { QosCostSource::File },
        path_is_assumed: !measured,
        suites: suites.collect(),
        path: vec![step("receive", house.path.receive), step("send", house.path.send)],
        wake_ns: house.path.wake_ns,
        other_turn_ns: house.path.other_turn_ns,
        mtu: house.path.mtu,
    }
}

fn delay(graph: &Description, bound: &Bound, is_unproved: bool) -> QosDelay {
    let total = bound.total.filter(|_| !is_unproved);
    let class = graph.find_class(&bound.class);
    QosDelay {
        class: bound.class.clone(),
        direction: direction(bound.direction),
        delay_ns: total,
        no_bound: total.is_none().then(|| no_bound(graph, bound, is_unproved).to_owned()),
        terms: total.map(|_| terms(&bound.terms)),
        promised_ns: class.and_then(|class| class.delay.as_ref()).map(|delay| delay.value),
        share_ppm: bound.rate,
        memory_octets: bound.octets,
    }
}

/// Why a class has no bound.
fn no_bound(graph: &Description, bound: &Bound, is_unproved: bool) -> &'static str {
    let waits_in_turn = || {
        let queues = graph.queues.iter().filter(|queue| queue.classes.iter().any(|c| c.value == bound.class));
        queues.into_iter().any(|queue| queue.store.kind.value != Kind::Fifo)
    };
    if is_unproved {
        SLICED
    } else if bound.rate == 0 || bound.terms.others == u64::MAX {
        "classes that go first can take everything"
    } else if waits_in_turn() {
        "its packets do not leave in the order of arrival"
    } else {
        "neither a policer nor a limit bounds what waits"
    }
}

fn terms(terms: &Terms) -> QosTerms {
    let Terms { kernel, wake, committed, others, own_burst, io, other_direction } = *terms;
    QosTerms {
        kernel_queue_ns: kernel,
        wake_up_ns: wake,
        committed_work_ns: committed,
        other_classes_ns: others,
        own_burst_ns: own_burst,
        io_ns: io,
        other_direction_ns: other_direction,
        error_term_ns: terms.error_term(),
    }
}

fn window(bounds: &Bounds, of: Direction, is_unproved: bool) -> QosWindow {
    let window = bounds.window(of).filter(|_| !is_unproved);
    let no_bound = match window {
        Some(_) => None,
        None if is_unproved => Some(SLICED.to_owned()),
        None => Some("a class has no bound".to_owned()),
    };
    let most = u64::from(ReplayWindow::MAX);
    let too_large = window.filter(|window| window.packets > most).map(|window| {
        let class = &window.class;
        format!(
            "no association can have more than {most}: let packets of `{class}` wait for less (in its `limit` fewer \
             packets, or a shorter time), or give classes associations of their own (`ravelin sa add --class`)"
        )
    });
    QosWindow {
        direction: direction(of),
        packets: window.map(|window| window.packets),
        class: window.map(|window| window.class.clone()),
        too_large,
        no_bound,
    }
}

fn unit(unit: &qos::graph::description::Unit) -> QosUnit {
    let kind = match unit.kind.value {
        UnitKind::Inline => "inline",
        UnitKind::Sliced(_) => "sliced",
        UnitKind::Batch(_) => "batch",
        UnitKind::Worker => "worker",
        UnitKind::Async(_) => "async",
    };
    QosUnit {
        name: unit.name.value.clone(),
        kind: kind.to_owned(),
        reserved: unit.reserved.iter().map(|class| class.value.clone()).collect(),
        most_committed_ns: unit.most_committed.value,
    }
}

/// Each suite with the units that can do it.
fn capabilities(graph: &Description, house: &House) -> Vec<QosCapability> {
    let able = |suite: &str| -> Vec<String> {
        let units = graph.units.iter().filter(|unit| unit.can(suite));
        units.map(|unit| unit.name.value.clone()).collect()
    };
    let rows = qos::graph::compile::suites(house).into_iter().map(|suite| {
        let units = able(&suite);
        QosCapability { suite, units }
    });
    rows.collect()
}
