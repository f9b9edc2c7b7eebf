//! `ravelin qos top` against a daemon that answers what the test says.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::kit::{Folder, answer, daemon, err, out, ravelin, run};

/// The state of a graph of which so many packets were sealed, as a daemon answers it.
fn state(packets: u64) -> String {
    let class = json!({
        "class": "ef", "hook": "5a", "arrived": packets, "left": packets, "given_back": 0, "waiting": 0,
        "dropped": { "policed": packets / 2 }, "served_ns": 1000 * packets,
        "sojourn": { "buckets": [packets, 0], "sum_ns": 0 },
    });
    let unit = json!({
        "unit": "inline", "committed_ns": 0, "waiting": 0, "waiting_ns": 0, "busy_ns": 0, "low_ns": 1, "high_ns": 2,
    });
    let direction = json!({ "direction": "out", "waiting": 0, "room": 9, "kernel_queues": [], "classes": [class], "units": [unit] });
    json!({ "api": 1, "file": "preset voice", "sojourn_bounds_ns": [256], "directions": [direction] })
        .to_string()
}

#[test]
fn intervals_follow_one_another_until_sigint_ends_it_cleanly() {
    let folder = Folder::new("top");
    let socket = folder.0.join("c.sock");
    let asked = AtomicU64::new(0);
    daemon(&socket, move |stream| answer(stream, &state(100 * asked.fetch_add(1, Ordering::Relaxed))));
    let socket = socket.to_str().unwrap();
    let mut command = ravelin();
    command.args(["qos", "top", "--json", "--control", socket]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut top = command.spawn().unwrap();
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines();
    for arrived in [100, 200] {
        let line = lines.next().unwrap().unwrap();
        conform::command(&["qos", "top", "--json"], &line);
        let document: Value = serde_json::from_str(&line).unwrap();
        let class = &document["directions"][0]["classes"][0];
        let seconds = document["seconds"].as_f64().unwrap();
        assert_eq!(
            (&class["arrived"], &class["share_ppm"]),
            (&arrived.into(), &1_000_000.into()),
            "{document}"
        );
        let packets = class["arrived_per_second"].as_f64().unwrap() * seconds;
        assert!((99.9..100.1).contains(&packets), "{packets} in the interval: {document}");
        assert_eq!(class["p50_ns"], 256, "{document}");
        let losses = document["directions"][0]["losses"].as_array().unwrap();
        assert_eq!(
            (&losses[0]["place"], &losses[0]["reason"]),
            (&"5a".into(), &"policed".into()),
            "{document}"
        );
    }
    // SAFETY: it is the test's own child, which is not waited for yet.
    assert_eq!(unsafe { libc::kill(top.id() as i32, libc::SIGINT) }, 0);
    let mut told = String::new();
    top.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    let status = top.wait().unwrap();
    assert_eq!((status.code(), told.as_str()), (Some(0), ""));
    assert!(lines.all(|line| line.unwrap().starts_with("{\"api\":1")), "whole lines");
}

#[test]
fn one_interval_is_a_table_without_a_terminal() {
    let folder = Folder::new("top-once");
    let socket = folder.0.join("c.sock");
    let asked = AtomicU64::new(1);
    daemon(&socket, move |stream| answer(stream, &state(1_000 * asked.fetch_add(1, Ordering::Relaxed))));
    let output = run(&["qos", "top", "--once", "--control", socket.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let text = out(&output);
    for wanted in ["graph: preset voice", "KLOST/s", "policed", "UNIT", "100%"] {
        assert!(text.contains(wanted), "{wanted} is not in\n{text}");
    }
    assert!(!text.contains('\u{1b}') && text.lines().all(|line| line.len() <= 80), "{text}");
}

#[test]
fn an_interval_of_no_seconds_is_refused() {
    let output = run(&["qos", "top", "--interval", "0"]);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert!(err(&output).contains("--interval"), "{}", err(&output));
}
