//! Fuzz targets: built on nightly with libFuzzer's instrumentation, run for some seconds. `make test` runs them over their
//! corpora without a fuzzer (the room `fuzz-corpora`).
//!
//! The flags are given here, so that `cargo fuzz` need not be installed (`fuzz/` also works with it). A target
//! starts from its committed corpus, `fuzz/corpus/TARGET`, and writes new units and crashes below the build folder.

use crate::house::House;
use crate::process;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// Options of the task `cargo xtask fuzz`.
#[derive(clap::Args)]
pub struct Options {
    /// Seconds for each target
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Run this target and no other
    #[arg(long)]
    target: Option<String>,
    /// Add a line for each run to this file, and print what all its lines sum up to
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// A line of the log: one run of one target.
#[derive(Serialize, Deserialize)]
struct Entry {
    target: String,
    /// The commit that the target was built from.
    commit: String,
    /// Seconds from 1970 until the run ended.
    ended: u64,
    /// Seconds of processor time that the run took: a fuzzer that waits for its turn tries nothing.
    seconds: u64,
    /// Number of inputs that were tried.
    runs: u64,
    crashed: bool,
}

/// Coverage counters, comparison tracing and the address sanitizer: what libFuzzer steers by.
const INSTRUMENTATION: &[&str] = &[
    "--cfg=fuzzing",
    "-Zsanitizer=address",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
];

/// A fuzz target that has been built.
struct Target {
    /// The name of the target, as in `fuzz/fuzz_targets/NAME.rs`.
    name: String,
    program: PathBuf,
    corpus: PathBuf,
    scratch: PathBuf,
}

/// Build and run; whether no target crashed.
pub fn run(options: &Options) -> Result<bool> {
    let mut crashed = Vec::new();
    let commit = commit()?;
    for target in build(options.target.as_deref())? {
        let before = children_ticks()?;
        let runs = target.fuzz(options.seconds)?;
        if let Some(log) = &options.log {
            let ended = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
            let seconds = (children_ticks()? - before) / TICKS;
            let target = target.name.clone();
            let (runs, crashed, commit) = (runs.unwrap_or(0), runs.is_none(), commit.clone());
            append(log, &Entry { target, commit, ended, seconds, runs, crashed })?;
        }
        if runs.is_none() {
            crashed.push(target.name);
        }
    }
    if let Some(log) = &options.log {
        sum_up(log)?;
    }
    if !crashed.is_empty() {
        eprintln!("error: crashed: {}", crashed.join(", "));
    }
    Ok(crashed.is_empty())
}

/// Build the targets, or the one of that name.
fn build(only: Option<&str>) -> Result<Vec<Target>> {
    let profile = "release";
    let house = House::survey()?;
    let fuzz = house.root.join("fuzz");
    let names = names(&fuzz.join("fuzz_targets"))?;
    if let Some(only) = only
        && !names.iter().any(|name| name == only)
    {
        bail!("no fuzz target `{only}`; there are {}", names.join(", "));
    }
    let triple = nightly_host()?;
    let built = house.target.join("fuzz");
    let mut cargo = nightly("cargo");
    cargo.args(["build", "--locked", "--profile", profile, "--target", &triple]);
    cargo.arg("--manifest-path").arg(fuzz.join("Cargo.toml")).arg("--target-dir").arg(&built);
    match only {
        Some(only) => cargo.args(["--bin", only]),
        None => cargo.arg("--bins"),
    };
    cargo.env("CARGO_ENCODED_RUSTFLAGS", INSTRUMENTATION.join("\x1f"));
    if !process::passes(&mut cargo)? {
        bail!("the fuzz targets do not build");
    }
    let wanted = names.into_iter().filter(|name| only.is_none_or(|only| only == name));
    let targets = wanted.map(|name| Target {
        program: built.join(&triple).join(profile).join(&name),
        corpus: fuzz.join("corpus").join(&name),
        scratch: built.join("runs").join(&name),
        name,
    });
    Ok(targets.collect())
}

/// What libFuzzer ends with after a signal that asks it to.
const INTERRUPTED: i32 = 72;
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

impl Target {
    /// Fuzz for that many seconds; how many inputs were tried, or `None` after a crash.
    fn fuzz(&self, seconds: u64) -> Result<Option<u64>> {
        let (found, crashes) = (self.scratch.join("corpus"), self.scratch.join("crashes"));
        for folder in [&found, &crashes, &self.corpus] {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        println!("fuzz target {}: {seconds} s", self.name);
        let mut program = Command::new(&self.program);
        // libFuzzer writes new units to the first folder and reads all of them.
        program.arg(&found).arg(&self.corpus);
        program.arg(format!("-max_total_time={seconds}")).args(["-timeout=10", "-rss_limit_mb=2048"]);
        program.args(["-print_final_stats=1", "-verbosity=0"]);
        program.arg(format!("-artifact_prefix={}/", crashes.display()));
        // Leak detection needs ptrace, which containers refuse.
        program.env("ASAN_OPTIONS", "detect_odr_violation=0:detect_leaks=0");
        let output = program.stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("cannot run {}", self.program.display()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        said.lines().filter(|line| line.starts_with("skipped:")).for_each(|line| println!("  {line}"));
        let killed = matches!(output.status.signal(), Some(SIGKILL | SIGTERM | SIGINT));
        if killed || output.status.code() == Some(INTERRUPTED) {
            bail!("fuzz target {} was interrupted", self.name);
        }
        if output.status.success() {
            said.lines()
                .filter_map(|line| line.strip_prefix("stat::"))
                .for_each(|figure| println!("  {figure}"));
        } else {
            eprintln!(
                "{said}error: fuzz target {} crashed; its input is in {}",
                self.name,
                crashes.display()
            );
            eprintln!("run it again with: {} FILE", self.program.display());
            return Ok(None);
        }
        let tried = said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        let tried = tried.and_then(|figure| figure.trim().parse().ok());
        Ok(Some(tried.context("libFuzzer did not say how many inputs it tried")?))
    }
}

/// The commit that is checked out, and whether something was changed since.
fn commit() -> Result<String> {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty", "--exclude=*"]).stdin(Stdio::null());
    let output = git.output().context("cannot run git")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// Clock ticks of a second in /proc: always 100 (proc(5)).
const TICKS: u64 = 100;

/// Processor time that our children have used, in clock ticks.
fn children_ticks() -> Result<u64> {
    let stat = fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    // The name in parentheses may hold anything; behind it come the state and numbers, cutime and cstime the 14th and 15th.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks = fields.skip(13).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>();
    ticks.context("/proc/self/stat is not as proc(5) says")
}

fn append(log: &Path, entry: &Entry) -> Result<()> {
    let failed = || format!("cannot write {}", log.display());
    let mut file = File::options().create(true).append(true).open(log).with_context(failed)?;
    writeln!(file, "{}", serde_json::to_string(entry)?).with_context(failed)
}

/// Print hours and inputs of each target.
fn sum_up(log: &Path) -> Result<()> {
    let text = fs::read_to_string(log).with_context(|| format!("cannot read {}", log.display()))?;
    let mut sums: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let entry: Entry =
            serde_json::from_str(line).with_context(|| format!("{}:{}", log.display(), index + 1))?;
        let sum = sums.entry(entry.target).or_default();
        *sum = (sum.0 + entry.seconds, sum.1 + entry.runs, sum.2 + u64::from(entry.crashed));
    }
    println!("{:16} {:>8} {:>16} {:>8}", "target", "minutes", "inputs", "crashes");
    for (target, (seconds, runs, crashes)) in sums {
        println!("{target:16} {:8} {runs:16} {crashes:8}", seconds / 60);
    }
    Ok(())
}

/// The targets' names, sorted.
fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("rs")) {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

/// A program of the nightly toolchain, free of what the stable Cargo that runs us has set.
fn nightly(program: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", program]);
    for set in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
        command.env_remove(set);
    }
    command
}

/// The machine's triple, as the nightly compiler names it; an error with a remedy when there is none.
fn nightly_host() -> Result<String> {
    const REMEDY: &str =
        "fuzzing needs a nightly toolchain: run `rustup toolchain install nightly --profile minimal`";
    let output = nightly("rustc").arg("-vV").stdin(Stdio::null()).output().context(REMEDY)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    match host {
        Some(host) if output.status.success() => Ok(host.to_string()),
        _ => bail!("{REMEDY}\n{}", String::from_utf8_lossy(&output.stderr).trim_end()),
    }
}
