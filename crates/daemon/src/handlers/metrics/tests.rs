//! The text is read by a small reader of its own, by the format's description, and compared with the document.

use std::collections::{BTreeMap, BTreeSet};

use api::{QosSojourn, QosUnitFaults};

use super::*;

/// A sample: its name, its labels in the order of their names, its value.
type Sample = (String, BTreeMap<String, String>, f64);

/// The metrics of a text.
#[derive(Debug, Default)]
struct Read {
    help: BTreeMap<String, String>,
    kinds: BTreeMap<String, String>,
    samples: Vec<Sample>,
}

impl Read {
    /// Read the text of an answer. Each sample stands behind HELP and TYPE of its family, which stand once.
    fn new(text: &str) -> Read {
        let mut read = Read::default();
        let mut current = String::new();
        assert!(text.ends_with('\n'));
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap_or_else(|| panic!("no help: {line}"));
                assert!(help.len() > 5, "{line}");
                assert_eq!(read.help.insert(name.to_owned(), help.to_owned()), None, "{line}");
                current = name.to_owned();
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert_eq!(name, current, "TYPE stands behind its HELP");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert_eq!(read.kinds.insert(name.to_owned(), kind.to_owned()), None, "{line}");
            } else {
                let sample = sample(line);
                let kind = read.kinds.get(&current).unwrap_or_else(|| panic!("no TYPE: {line}"));
                let suffixes: &[&str] =
                    if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
                let is_of = |suffix: &&str| sample.0 == format!("{current}{suffix}");
                assert!(suffixes.iter().any(is_of), "{line} is not of {current}");
                assert_eq!(kind == "counter", current.ends_with("_total"), "{line}");
                read.samples.push(sample);
            }
        }
        let series: BTreeSet<_> = read.samples.iter().map(|(name, labels, _)| (name, labels)).collect();
        assert_eq!(series.len(), read.samples.len(), "each series stands once");
        assert!(read.help.keys().eq(read.kinds.keys()), "HELP and TYPE go together");
        read
    }

    /// The value of a series.
    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let wanted: BTreeMap<String, String> =
            labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let found = self.samples.iter().find(|sample| sample.0 == name && sample.1 == wanted);
        found.unwrap_or_else(|| panic!("no {name} {wanted:?} in {self:#?}")).2
    }
}

/// Read a line such as `name{label="value"} 1.5`.
fn sample(line: &str) -> Sample {
    let (head, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
    let value = match value {
        "+Inf" => f64::INFINITY,
        value => value.parse().unwrap_or_else(|error| panic!("{error}: {line}")),
    };
    let Some((name, labels)) = head.split_once('{') else {
        return (head.to_owned(), BTreeMap::new(), value);
    };
    let mut rest = labels.strip_suffix('}').unwrap_or_else(|| panic!("no end: {line}"));
    let mut read = BTreeMap::new();
    while !rest.is_empty() {
        let (label, behind) = rest.split_once("=\"").unwrap_or_else(|| panic!("no value of a label: {line}"));
        assert!(label.bytes().all(|octet| octet.is_ascii_lowercase() || octet == b'_'), "{line}");
        let mut text = String::new();
        let mut letters = behind.char_indices();
        let end = loop {
            match letters.next().unwrap_or_else(|| panic!("no end of a label: {line}")) {
                (at, '"') => break at,
                (_, '\\') => text.push(match letters.next().unwrap().1 {
                    'n' => '\n',
                    letter => letter,
                }),
                (_, letter) => text.push(letter),
            }
        };
        assert_eq!(read.insert(label.to_owned(), text), None, "{line}");
        rest = behind[end + 1..].trim_start_matches(',');
    }
    (name.to_owned(), read, value)
}

const BOUNDS: [u64; 2] = [256, 512];

/// A class at a hook, with packets that left.
fn class(class: &str, hook: &str, buckets: [u64; 3]) -> QosClassCounts {
    QosClassCounts {
        class: class.into(),
        hook: hook.into(),
        arrived: buckets.iter().sum::<u64>() + 12,
        left: buckets.iter().sum(),
        given_back: 2,
        waiting: 3,
        waiting_octets: 3_000,
        waiting_ns: 4_500,
        dropped: [("queue_full".to_owned(), 6), ("policed".to_owned(), 1)].into(),
        longest_loss: 5,
        served_ns: 1_500_000_000,
        sojourn: QosSojourn::new(buckets.to_vec(), 2_000_000_000, &BOUNDS),
    }
}

fn direction(direction: QosDirection) -> QosDirectionState {
    let kernel = |queue, classes: &[&str]| QosKernelCounts {
        queue,
        classes: classes.iter().map(|class| (*class).to_owned()).collect(),
        arrived: 100 + queue,
        taken: 60,
        lost: 30 + queue,
        waiting: 10,
        limit: 500,
    };
    QosDirectionState {
        direction,
        waiting: 6,
        room: 4_096,
        no_place: 7,
        kernel_queues: vec![kernel(0, &["ef"]), kernel(1, &["be", "a \"b\\c"])],
        classes: vec![
            class("ef", "1a", [4, 0, 0]),
            class("ef", "5a", [1, 2, 1]),
            class("be", "5a", [0, 0, 7]),
        ],
        units: vec![QosUnitState {
            unit: "inline".into(),
            kind: "inline".into(),
            committed_ns: 1_000,
            waiting: 4,
            waiting_ns: 2_000,
            busy_ns: 2_500_000_000,
            low_ns: 125_000,
            high_ns: 250_000,
        }],
        unit_faults: QosUnitFaults { failed: 1, late: 2, disordered: 3 },
        components: vec![QosComponentState {
            hook: "1a".into(),
            library: "quota".into(),
            detached: Some("it answered 7 to a call, which says that it failed".into()),
            on_fault: "pass".into(),
            calls: 11,
            packets: 12,
            dropped: 13,
            unjudged: 14,
            over_budget: 15,
            longest_ns: 16,
        }],
    }
}

#[test]
fn every_figure_of_the_document_is_in_the_text() {
    let state = QosState {
        file: Some("preset two-classes".into()),
        graph: None,
        sojourn_bounds_ns: BOUNDS.to_vec(),
        directions: vec![direction(QosDirection::Out), direction(QosDirection::In)],
        resources: vec![api::QosResource {
            kind: api::QosResourceKind::Uplink,
            name: "eth0".into(),
            reservable: 750,
            reserved: 50,
            free: 700,
        }],
        reservations: 3,
        ..QosState::default()
    };
    let read = Read::new(&text(state.clone()).unwrap());
    let uplink = [("kind", "uplink"), ("name", "eth0")];
    assert_eq!(read.value("ravelin_qos_reservations", &[]), 3.0);
    assert_eq!(read.value("ravelin_qos_reservable", &uplink), 750.0);
    assert_eq!(read.value("ravelin_qos_reserved", &uplink), 50.0);
    assert!(read.help.keys().all(|name| name.starts_with("ravelin_qos_")), "{:?}", read.help);
    assert_eq!(read.value("ravelin_qos_in_force", &[]), 1.0);
    for direction in ["out", "in"] {
        let own = ("direction", direction);
        assert_eq!(read.value("ravelin_qos_places_used", &[own]), 6.0);
        assert_eq!(read.value("ravelin_qos_places", &[own]), 4_096.0);
        assert_eq!(read.value("ravelin_qos_no_place_packets_total", &[own]), 7.0);
        for counts in &state.directions[0].classes {
            let labels = [own, ("hook", &counts.hook), ("class", &counts.class)];
            let value = |name: &str| read.value(&format!("ravelin_qos_{name}"), &labels);
            assert_eq!(value("arrived_packets_total"), counts.arrived as f64);
            assert_eq!(value("left_packets_total"), counts.left as f64);
            assert_eq!(value("given_back_packets_total"), 2.0);
            assert_eq!(value("served_seconds_total"), 1.5);
            assert_eq!((value("backlog_packets"), value("backlog_bytes")), (3.0, 3_000.0));
            assert_eq!((value("backlog_seconds"), value("longest_loss_packets")), (4.5e-6, 5.0));
            for (reason, packets) in &counts.dropped {
                let labels = [&labels[..], &[("reason", reason.as_str())]].concat();
                assert_eq!(read.value("ravelin_qos_dropped_packets_total", &labels), *packets as f64);
            }
            let mut below = 0;
            for (bound, packets) in ["2.56e-07", "5.12e-07", "+Inf"].into_iter().zip(&counts.sojourn.buckets)
            {
                below += packets;
                let labels = [&labels[..], &[("le", bound)]].concat();
                assert_eq!(read.value("ravelin_qos_sojourn_seconds_bucket", &labels), below as f64);
            }
            assert_eq!((value("sojourn_seconds_count"), value("sojourn_seconds_sum")), (below as f64, 2.0));
            assert_eq!(below, counts.left);
        }
        for (queue, class) in [("0", "ef"), ("1", "be,a \"b\\c")] {
            let value = |name: &str| {
                read.value(&format!("ravelin_qos_kernel_{name}"), &[own, ("queue", queue), ("class", class)])
            };
            let number: f64 = queue.parse().unwrap();
            let packets =
                [value("arrived_packets_total"), value("taken_packets_total"), value("lost_packets_total")];
            assert_eq!(packets, [100.0 + number, 60.0, 30.0 + number]);
            assert_eq!((value("backlog_packets"), value("limit_packets")), (10.0, 500.0));
        }
        let unit = |name: &str| read.value(&format!("ravelin_qos_unit_{name}"), &[own, ("unit", "inline")]);
        assert_eq!((unit("busy_seconds_total"), unit("backlog_packets")), (2.5, 4.0));
        assert_eq!((unit("backlog_seconds"), unit("committed_seconds")), (2e-6, 1e-6));
        assert_eq!((unit("low_mark_seconds"), unit("high_mark_seconds")), (0.000_125, 0.000_25));
        let faults = ["units_failed_total", "unit_late_answers_total", "unit_disordered_answers_total"];
        let faults = faults.map(|name| read.value(&format!("ravelin_qos_{name}"), &[own]));
        assert_eq!(faults, [1.0, 2.0, 3.0]);
        let component = |name: &str| {
            let labels = [own, ("hook", "1a"), ("library", "quota")];
            read.value(&format!("ravelin_qos_component_{name}"), &labels)
        };
        let packets = ["packets_total", "dropped_packets_total", "unjudged_packets_total"].map(component);
        assert_eq!(packets, [12.0, 13.0, 14.0]);
        assert_eq!((component("over_budget_calls_total"), component("detached")), (15.0, 1.0));
    }
}

#[test]
fn without_a_graph_the_text_says_so_and_no_more() {
    let read = Read::new(&text(QosState::default()).unwrap());
    assert_eq!(read.samples, [("ravelin_qos_in_force".to_owned(), BTreeMap::new(), 0.0)]);
}

#[test]
fn every_family_stands_in_the_documentation() {
    let state = QosState {
        file: Some("x".into()),
        directions: vec![direction(QosDirection::Out)],
        sojourn_bounds_ns: BOUNDS.to_vec(),
        ..QosState::default()
    };
    let read = Read::new(&text(state).unwrap());
    assert!(read.help.contains_key("ravelin_qos_reservations"), "{:?}", read.help);
    let page = include_str!("../../../../../docs/qos.md");
    for name in read.help.keys() {
        assert!(page.contains(&format!("`{name}`")), "docs/qos.md lacks {name}");
    }
}
