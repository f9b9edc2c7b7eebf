//! What a large policy takes: read, checked and compiled by itself, and over the one before with a block changed.
//!
//! `cargo run --release -p policy --example scale [RUNS]`: the median of so many runs, 5 unless said.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a measurement, run by hand"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use policy::{AppTable, Compiled, NoHost, compile, compile_over, parse_bytes, parse_over};

/// Applications with networks of their own, a line each.
fn text(applications: u32, networks: u32, changed: bool) -> String {
    let mut out = String::new();
    for app in 0..applications {
        out.push_str(&format!("application /usr/bin/app{app} {{\n"));
        for at in 0..networks {
            let [_, a, b, c] = (app * networks + at).to_be_bytes();
            let is_changed = changed && app == applications / 2 && at == 0;
            let kind = if is_changed { "untrusted" } else { "protected P" };
            out.push_str(&format!("  network 10.{a}.{b}.{c} {kind};\n"));
        }
        out.push_str("  protection P { remoteport=443 encryption mandatory; localport=any remoteport=any encryption optional; }\n}\n");
    }
    out
}

fn median(runs: usize, mut run: impl FnMut() -> Duration) -> Duration {
    let mut took: Vec<Duration> = (0..runs).map(|_| run()).collect();
    took.sort();
    took[runs / 2]
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let out = black_box(work());
    (start.elapsed(), out)
}

fn say(what: &str, took: Duration) {
    println!("{what:<52} {:>9.2} ms", took.as_secs_f64() * 1e3);
}

fn measure(runs: usize, applications: u32, networks: u32) {
    let before = text(applications, networks, false);
    let after = text(applications, networks, true);
    println!(
        "{applications} applications of {networks} networks: {} lines, {:.1} MB",
        before.lines().count(),
        before.len() as f64 / 1e6
    );
    let load = |text: &str, over: Option<&Compiled>| {
        let mut table = AppTable::new();
        match over {
            Some(over) => {
                let parsed = parse_over("p", text.as_bytes(), &NoHost, over);
                assert!(!parsed.has_errors(), "{}", parsed.render(false));
                let compiled = compile_over(&parsed, &mut table, 2, over);
                (parsed, compiled)
            }
            None => {
                let parsed = parse_bytes("p", text.as_bytes());
                assert!(!parsed.has_errors(), "{}", parsed.render(false));
                let compiled = compile(&parsed, &mut table, 2);
                (parsed, compiled)
            }
        }
    };
    let nothing = compile(&parse_bytes("p", b""), &mut AppTable::new(), 0);
    say("read and checked (policy check)", median(runs, || timed(|| parse_bytes("p", before.as_bytes())).0));
    say(
        "read and checked, without the tree",
        median(runs, || timed(|| parse_over("p", before.as_bytes(), &NoHost, &nothing)).0),
    );
    let parsed = parse_bytes("p", before.as_bytes());
    say("compiled", median(runs, || timed(|| compile(&parsed, &mut AppTable::new(), 1)).0));
    drop(parsed);
    say("loaded by itself", median(runs, || timed(|| load(&before, Some(&nothing))).0));
    let (parsed, compiled) = load(&before, Some(&nothing));
    drop(parsed);
    for (what, text) in [("one line changed", &after), ("nothing changed", &before)] {
        let over = median(runs, || timed(|| load(text, Some(&compiled))).0);
        say(&format!("loaded over the one before, {what}"), over);
    }
    let moved = format!("# made another day\n{after}");
    let over = median(runs, || timed(|| load(&moved, Some(&compiled))).0);
    say("the same with a line more at its top", over);
    if networks <= 100 && applications <= 100 {
        assert_eq!(load(&after, Some(&compiled)).1, load(&after, None).1);
    }
}

fn main() {
    let runs = std::env::args().nth(1).and_then(|runs| runs.parse().ok()).unwrap_or(5).max(1);
    measure(runs, 100, 100);
    measure(runs, 10_000, 100);
}
