//! `policy.{10300,1030000}.*`: what a policy of so many lines takes: read, checked and compiled by itself, and loaded over the one
//! before with a line changed (docs/design/0021). CPU time, all of them in turns; no host is asked, no kernel half is written.

use super::FigureFilter;
use crate::figure::{Figure, Report, Target};
use crate::interleave::timed;
use anyhow::ensure;
use policy::{AppTable, Compiled, NoHost, Parsed, compile, compile_over, parse_bytes, parse_over};
use std::fmt::Write as _;

const ROUNDS: usize = 5;
/// Applications of each policy; each has a block of [`NETWORKS`] lines and three more.
const SIZES: [u32; 2] = [100, 10_000];
const NETWORKS: u32 = 100;
/// What a load over the policy before may cost of a load by itself, when one line changed.
const MOST: f64 = 0.25;
const NAMES: [&str; 8] = [
    "check.ms",
    "read.ms",
    "compile.ms",
    "load.ms",
    "over.ms",
    "over_same.ms",
    "over_moved.ms",
    "over.ratio",
];

/// Measure the figures `policy.*` that `filter` asks for.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let mut figures = FigureFilter { filter, report };
    for applications in SIZES {
        let name = |what: &str| format!("policy.{}.{what}", applications * (NETWORKS + 3));
        if NAMES.iter().any(|what| figures.wants(&name(what))) {
            one(applications, &name, &mut figures)?;
        }
    }
    Ok(())
}

fn one(
    applications: u32,
    name: &dyn Fn(&str) -> String,
    figures: &mut FigureFilter<'_>,
) -> anyhow::Result<()> {
    let text = text(applications, false)?;
    let changed = self::text(applications, true)?;
    let moved = format!("# made another day\n{changed}");
    let nothing = compile(&parse_bytes("p", b""), &mut AppTable::new(), 0);
    let (_, before) = load(&text, &nothing);
    ensure!(!before.errors && before.applications.len() == applications as usize, "the policy has errors");
    let (_, after) = load(&changed, &before);
    ensure!(
        load(&changed, &nothing).1.spd == after.spd,
        "a load over another policy is not the load by itself"
    );
    drop(after);
    let mut took: [Vec<f64>; NAMES.len()] = Default::default();
    for _ in 0..ROUNDS {
        let round = [
            ms(|| parse_bytes("p", text.as_bytes())),
            ms(|| parse_over("p", text.as_bytes(), &NoHost, &nothing)),
            {
                let parsed = parse_over("p", text.as_bytes(), &NoHost, &nothing);
                ms(|| compile(&parsed, &mut AppTable::new(), 1))
            },
            ms(|| load(&changed, &nothing)),
            ms(|| load(&changed, &before)),
            ms(|| load(&text, &before)),
            ms(|| load(&moved, &before)),
        ];
        let ratio = round[4] / round[3];
        took.iter_mut().zip(round.into_iter().chain([ratio])).for_each(|(all, new)| all.push(new));
    }
    let anchor =
        format!("{:.1} MB, {applications} applications of {NETWORKS} networks", text.len() as f64 / 1e6);
    for (what, took) in NAMES.iter().zip(&took) {
        let (unit, target) = match what.ends_with("ratio") {
            true => ("ratio", Target::AtMost(MOST)),
            false => ("ms", Target::Recorded),
        };
        figures.push(Figure::new(name(what), unit, took, anchor.as_str(), target));
    }
    Ok(())
}

/// What is made is dropped behind the clock.
fn ms<T>(work: impl FnOnce() -> T) -> f64 {
    let (_made, cost) = timed(1, work);
    cost.time.as_secs_f64() * 1e3
}

/// Read and compile a policy over the one before, like a daemon that loads it.
fn load(text: &str, before: &Compiled) -> (Parsed, Compiled) {
    let parsed = parse_over("p", text.as_bytes(), &NoHost, before);
    let compiled = compile_over(&parsed, &mut AppTable::new(), 2, before);
    (parsed, compiled)
}

/// Applications with networks of their own, a line each; in one of them a line is changed.
fn text(applications: u32, changed: bool) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    for app in 0..applications {
        writeln!(out, "application /usr/bin/app{app} {{")?;
        for at in 0..NETWORKS {
            let [_, a, b, c] = (app * NETWORKS + at).to_be_bytes();
            let is_changed = changed && app == applications / 2 && at == 0;
            let kind = if is_changed { "untrusted" } else { "protected P" };
            writeln!(out, "  network 10.{a}.{b}.{c} {kind};")?;
        }
        out.push_str("  protection P { remoteport=443 encryption mandatory; encryption optional; }\n}\n");
    }
    Ok(out)
}
