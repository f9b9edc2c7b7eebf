//! `cipher.*`: what ciphers of one's own cost, and what they cost those who do not use them.
//!
//! - `load.{cipher}.ms`: reading, examining, trying in a process apart and mapping an example, with all vectors;
//! - `engine.{seal|open}.{octets}.ratio`: the engine under AES-128-GCM whose registry has eight loaded ciphers, against one
//!   without, in turns;
//! - `abi.{octets}.ns`: a packet through the loader over a call of the same library's function (the example `overhead` of
//!   cipher-loader);
//! - `worker.{suite}.ahead.ratio`, `.call.ns`, `worker.recovery.ms`: the data thread's time for a packet of 1408 octets
//!   with a worker process, and the time until packets go again when the worker was ended (the example `cost` of
//!   cipher-worker);
//! - `maes512.{octets}.ratio`: mAES-512 by AES-256 in counter mode, cipher alone, by the same unit (the example `ratio` of
//!   crypto-maes); and `soft.*`, the same built without AES instructions.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use cipher_loader::{Request, Trial, Trust, load};
use crypto::{Registry, Suites};
use crypto_std::CustomProvider;

use super::FigureFilter;
use super::engine;
use crate::figure::{Figure, Report, Target};
use crate::fixture;
use crate::product;

/// The examples in examples/ciphers.
const EXAMPLES: [&str; 8] = [
    "aes256c",
    "maes512c",
    "chacha20cpp",
    "chachapolyrs",
    "kuznyechik",
    "sm4rs",
    "aria256rs",
    "camellia256rs",
];
/// The example whose functions are called with and without the loader: one that has a counter mode of its own.
const BARE: &str = "maes512c";
const ROUNDS: usize = 5;

/// Measure the figures `cipher.*` that `filter` asks for.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let mut figures = FigureFilter { filter, report };
    let registry = loads(&mut figures)?;
    for (verb, size) in [("seal", 64), ("seal", 1400), ("open", 64), ("open", 1400)] {
        let name = format!("cipher.engine.{verb}.{size}.ratio");
        if !figures.wants(&name) {
            continue;
        }
        let duel = engine::two_registries(verb, size, &fixture::registry()?, &registry);
        let (without, with) = duel.medians();
        let anchor = format!("AES-128-GCM: without {without:.0} ns, with 8 loaded ciphers {with:.0} ns");
        figures.push(Figure::new(name, "ratio", &duel.ratios(), anchor, Target::AtLeast(0.98)));
    }
    overhead(&mut figures)?;
    workers(&mut figures)?;
    maes(&mut figures, "", None)?;
    maes(&mut figures, "soft.", Some("--cfg aes_backend=\"soft\""))
}

/// Load every example; the registry with them all.
fn loads(figures: &mut FigureFilter<'_>) -> anyhow::Result<Registry> {
    let mut suites = Suites::standard();
    let mut ciphers = Vec::new();
    for name in EXAMPLES {
        let request = Request {
            manifest: manifest(name),
            sha256: None,
            trust: Trust::Caller,
            trial: Trial::own([documents::ciphers::TRIAL_COMMAND]),
        };
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let loaded = load(&request).with_context(|| format!("{name}: `make ciphers` builds it"))?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            if times.len() == 1 {
                suites.register(&loaded.manifest.description, loaded.manifest.transform_id, true)?;
                ciphers.push(loaded.cipher);
            }
        }
        let anchor =
            "files to calls: examined, tried in a process apart with all vectors and short checks, mapped";
        figures.push(Figure::new(
            format!("cipher.load.{name}.ms"),
            "ms",
            &times,
            anchor,
            Target::AtMost(2000.0),
        ));
    }
    let mut registry = fixture::registry()?.with_suites(suites.clone());
    for cipher in ciphers {
        registry = registry.with(CustomProvider::new(cipher, &suites)?);
    }
    Ok(registry)
}

/// What the loader adds to a call.
fn overhead(figures: &mut FigureFilter<'_>) -> anyhow::Result<()> {
    if !figures.wants("cipher.abi.") {
        return Ok(());
    }
    let said = example("cipher-loader", "overhead", &[manifest(BARE).display().to_string()], None)?;
    for line in said.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["figure", name, value, _] = words.as_slice() {
            let anchor = format!("{BARE}: the same function of the same library called directly, in turns");
            let target = Target::AtMost(5.0);
            figures.push(Figure::new(format!("cipher.{name}"), "ns", &[value.parse()?], anchor, target));
        }
    }
    Ok(())
}

/// What a worker process costs the data thread, and how soon packets go again when it was ended.
fn workers(figures: &mut FigureFilter<'_>) -> anyhow::Result<()> {
    if !figures.wants("cipher.worker.") {
        return Ok(());
    }
    let told = example("cipher-worker", "cost", &[manifest(BARE).display().to_string()], None)?;
    for line in told.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["figure", name, value, unit] = words.as_slice() else { continue };
        let (unit, anchor, target) = match *unit {
            "ratio" => ("ratio", "the library in process; 1408 octets, batches of 16", Target::AtMost(1.1)),
            "ns" => {
                ("ns", "beyond the library in process; 1408 octets, batches of 16", Target::AtMost(1500.0))
            }
            _ => {
                ("ms", "median of 100 ends of the worker: until its packets go again", Target::AtMost(200.0))
            }
        };
        let anchor = format!("{BARE}: {anchor}");
        figures.push(Figure::new(format!("cipher.{name}"), unit, &[value.parse()?], anchor, target));
    }
    Ok(())
}

/// mAES-512 by AES-256, the cipher alone.
fn maes(figures: &mut FigureFilter<'_>, prefix: &str, flags: Option<&str>) -> anyhow::Result<()> {
    if !figures.wants(&format!("cipher.{prefix}maes512.")) {
        return Ok(());
    }
    let said = example("crypto-maes", "ratio", &["16".to_owned()], flags)?;
    for line in said.lines() {
        let numbers: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [len, _, _, _, _, to_suite, to_runs] = numbers.as_slice() else { continue };
        if ![1400.0, 8192.0].contains(len) {
            continue;
        }
        let anchor = format!("AES-256 by the same unit, packets of {len} octets; the paper says 2");
        let name = format!("cipher.{prefix}maes512.{len}.ratio");
        figures.push(Figure::new(name, "ratio", &[*to_runs], anchor, Target::Between(2.0, 2.4)));
        let anchor = format!("the suite aes256ctr's AES-256, packets of {len} octets");
        let name = format!("cipher.{prefix}maes512.{len}.to_suite");
        figures.push(Figure::new(name, "ratio", &[*to_suite], anchor, Target::Recorded));
    }
    Ok(())
}

/// The manifest of an example.
fn manifest(name: &str) -> PathBuf {
    let workspace = std::env::var_os("CARGO_MANIFEST_DIR").map(|own| PathBuf::from(own).join(".."));
    workspace.unwrap_or_default().join(format!("examples/ciphers/build/{name}.json"))
}

/// What an example program of a package prints. Other flags of the compiler have a folder of their own.
fn example(package: &str, name: &str, args: &[String], flags: Option<&str>) -> anyhow::Result<String> {
    let own = product::own()?;
    let target = own.parent().and_then(Path::parent).context("this program is in no target folder")?;
    let cargo = std::env::var_os("CARGO").context("`make bench-cipher` runs the examples by Cargo")?;
    let mut command: Command = product::plain(Path::new(&cargo));
    command.args(["run", "--quiet", "--locked", "--release", "--package", package, "--example", name]);
    match flags {
        None => command.arg("--target-dir").arg(target),
        Some(flags) => command.arg("--target-dir").arg(target.join("bench-soft")).env("RUSTFLAGS", flags),
    };
    let output = command.arg("--").args(args).output().context("running cargo")?;
    ensure!(output.status.success(), "{package}: {name}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
