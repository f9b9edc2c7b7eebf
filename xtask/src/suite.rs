//! `make test`: every check and every test, one count at the end.
//!
//! A check (format, clippy, layers, purity, clauses, a fuzz target) counts as one. Test programs are built by one `cargo
//! build --tests`, so that all share their dependencies, and run one after the other: those of the pure rooms with all
//! threads, those of rooms with effects with one, since they share one kernel. A test that cannot run here prints
//! `skipped: REASON` and is counted; what else a passing test prints is not shown.

use crate::house::{House, Level, Room};
use crate::process::{self, cargo};
use crate::{clauses, fuzz, layers, purity};
use anyhow::{Context, Result, anyhow};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How to run the suite.
#[derive(clap::Args)]
pub struct Options {
    /// Only the checks that run nothing: format, clippy, layers, purity, clauses
    #[arg(long)]
    lint: bool,
    /// Seconds for each fuzz target; 0 leaves them out
    #[arg(long, default_value_t = 5)]
    fuzz_seconds: u64,
    /// Seconds after which a test program is killed and counted as failed
    #[arg(long, default_value_t = 900)]
    limit: u64,
}

/// How long a test program's output may stay open after its end.
const GRACE: Duration = Duration::from_secs(5);

/// Run it; whether nothing failed.
pub fn run(options: &Options) -> Result<bool> {
    let mut tally = Tally::default();
    tally.check("format", || process::passes(Command::new(cargo()).args(["fmt", "--all", "--check"])));
    tally.check("clippy", || {
        let arguments = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
        process::passes(Command::new(cargo()).args(arguments))
    });
    tally.check("layers", layers::run);
    tally.check("purity", purity::run);
    tally.check("clauses", clauses::run);
    if !options.lint {
        let mut programs = Vec::new();
        tally.check("build", || build(&mut programs));
        for program in &programs {
            tally.run(program, Duration::from_secs(options.limit));
        }
        tally.documentation();
        if options.fuzz_seconds > 0 {
            tally.fuzz(options.fuzz_seconds);
        }
    }
    tally.close();
    Ok(tally.failed == 0)
}

/// A test program that Cargo has built.
struct Program {
    /// `wire`, `tests::netns`.
    title: String,
    path: PathBuf,
    room: Room,
}

/// Build all test programs; whether all could be built. Those that could are in the order of the levels, so that the
/// first failure is the deepest one.
fn build(programs: &mut Vec<Program>) -> Result<bool> {
    let house = House::survey()?;
    let mut cargo = Command::new(cargo());
    cargo.args(["test", "--locked", "--workspace", "--no-run", "--no-fail-fast"]);
    cargo.args(["--message-format", "json-render-diagnostics"]);
    let output =
        cargo.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("cannot run `cargo test`")?;
    for line in output.stdout.lines() {
        programs.extend(program(&house, &line?)?);
    }
    programs.sort_by(|a: &Program, b: &Program| (a.room.level, &a.title).cmp(&(b.room.level, &b.title)));
    Ok(output.status.success())
}

/// The test program that one line of Cargo's messages announces.
fn program(house: &House, line: &str) -> Result<Option<Program>> {
    let message: serde_json::Value =
        serde_json::from_str(line).context("Cargo printed a line that is not JSON")?;
    let text = |pointer: &str| message.pointer(pointer).and_then(serde_json::Value::as_str);
    let is_test = message.pointer("/profile/test") == Some(&serde_json::Value::Bool(true));
    let (true, Some(path), Some(manifest)) = (is_test, text("/executable"), text("/manifest_path")) else {
        return Ok(None);
    };
    let room = house.rooms.iter().find(|room| room.folder.join("Cargo.toml").as_os_str() == manifest);
    let room = room.with_context(|| format!("{manifest} is not a room of this workspace"))?.clone();
    let target = text("/target/name").unwrap_or_default();
    let title = if target == room.name { target.to_string() } else { format!("{}::{target}", room.name) };
    Ok(Some(Program { title, path: path.into(), room }))
}

/// What has been counted.
#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
    skipped: Vec<String>,
    failures: Vec<String>,
    table: Vec<String>,
}

impl Tally {
    /// Run one check and count it.
    fn check(&mut self, title: &str, check: impl FnOnce() -> Result<bool>) {
        println!("\n--- {title}");
        let begin = Instant::now();
        let passed = check().unwrap_or_else(|error| {
            eprintln!("error: {error:#}");
            false
        });
        if passed {
            self.passed += 1;
        } else {
            self.fail(title.to_string());
        }
        self.row(title, if passed { "ok" } else { "FAILED" }, begin);
    }

    /// Build the fuzz targets and run each for some seconds; each is one check.
    fn fuzz(&mut self, seconds: u64) {
        let mut targets = Vec::new();
        self.check("fuzz build", || {
            targets = fuzz::build(None, false)?;
            Ok(true)
        });
        for target in &targets {
            self.check(&format!("fuzz {}", target.name), || target.run(seconds));
        }
    }

    /// Run one test program and count its tests.
    fn run(&mut self, program: &Program, limit: Duration) {
        println!("\n--- tests of {}", program.title);
        let mut command = Command::new(&program.path);
        command.current_dir(&program.room.folder).env("CARGO_MANIFEST_DIR", &program.room.folder);
        command.arg("--show-output");
        if matches!(program.room.level, Some(Level::At(5 | 6) | Level::Dev)) {
            command.arg("--test-threads=1");
        }
        self.stream(&program.title, &mut command, limit);
    }

    /// The examples in the documentation.
    fn documentation(&mut self) {
        println!("\n--- tests in documentation");
        let mut command = Command::new(cargo());
        command.args(["test", "--locked", "--workspace", "--doc", "--no-fail-fast", "--quiet"]);
        self.stream("documentation", &mut command, Duration::from_secs(900));
    }

    /// Run a program that speaks libtest's language, print what it prints, count.
    fn stream(&mut self, title: &str, command: &mut Command, limit: Duration) {
        let begin = Instant::now();
        let mut count = Count::default();
        let ended = watch(command, limit, |line| {
            if count.read(line) {
                println!("{line}");
            }
        });
        let complaint = match ended {
            Ok(status) if status.success() => None,
            // A test program that dies, by a signal or an abort, never says how many failed.
            Ok(status) if count.failed == 0 => Some(format!("ended without a verdict: {status}")),
            Ok(_) => None,
            Err(error) => Some(format!("{error:#}")),
        };
        if let Some(complaint) = complaint {
            println!("error: {title}: {complaint}");
            count.failed += 1;
            count.failures.push(complaint);
        }
        self.passed += count.passed;
        self.failed += count.failed;
        self.ignored += count.ignored;
        self.failures.extend(count.failures.iter().map(|name| format!("{title}: {name}")));
        self.skipped.extend(count.skipped.iter().map(|reason| format!("{title}: {reason}")));
        if count.passed + count.failed + count.ignored > 0 {
            let verdict = format!("{} passed, {} failed", count.passed, count.failed);
            self.row(title, &verdict, begin);
        }
    }

    fn fail(&mut self, name: String) {
        self.failed += 1;
        self.failures.push(name);
    }

    fn row(&mut self, title: &str, verdict: &str, begin: Instant) {
        self.table.push(format!("{title:<24}{verdict:<28}{:>7.1} s", begin.elapsed().as_secs_f64()));
    }

    /// The table, what was left out and why, what failed, and the last line.
    fn close(&self) {
        println!("\n--- summary");
        self.table.iter().for_each(|row| println!("{row}"));
        self.skipped.iter().for_each(|reason| println!("skipped  {reason}"));
        self.failures.iter().for_each(|name| println!("failed   {name}"));
        if self.ignored > 0 || !self.skipped.is_empty() {
            println!("\n{} ignored, {} skipped", self.ignored, self.skipped.len());
        }
        println!("\n{} passed, {} failed", self.passed, self.failed);
    }
}

/// What one test program said.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    passed: u64,
    failed: u64,
    ignored: u64,
    skipped: Vec<String>,
    failures: Vec<String>,
    /// The passing test whose output is being read, if it is; empty before the first.
    showing: Option<String>,
}

impl Count {
    /// Read one line of libtest's output; whether it is worth showing.
    fn read(&mut self, line: &str) -> bool {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.passed += number_before(result, " passed");
            self.failed += number_before(result, " failed");
            self.ignored += number_before(result, " ignored");
            self.showing = None;
        } else if line == "successes:" {
            self.showing = Some(String::new());
        } else if line == "failures:" {
            self.showing = None;
        } else if let Some(test) = &mut self.showing {
            if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"))
            {
                *test = name.to_string();
            } else if line.get(..8).is_some_and(|word| word.eq_ignore_ascii_case("skipped:")) {
                self.skipped.push(format!("{test}:{}", &line[8..]));
            }
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED"))
        {
            self.failures.push(name.to_string());
        }
        self.showing.is_none()
    }
}

/// 12 in `ok. 12 passed; ...` before ` passed`.
fn number_before(text: &str, word: &str) -> u64 {
    let before = text.split_once(word).map_or("", |(before, _)| before);
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Run the command, hand each line of its standard output to `each`, kill it at the limit. A process that outlives
/// it and keeps its output open is an error too: a test must leave nothing behind.
fn watch(command: &mut Command, limit: Duration, mut each: impl FnMut(&str)) -> Result<ExitStatus> {
    let deadline = Instant::now() + limit;
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let child = child
        .as_mut()
        .map_err(|error| anyhow!("cannot start {}: {error}", command.get_program().display()))?;
    let lines = lines(child)?;
    loop {
        match lines.recv_timeout(Duration::from_millis(200)) {
            Ok(line) => each(&line),
            Err(RecvTimeoutError::Disconnected) => {
                return child.wait().context("cannot wait for a test program");
            }
            Err(RecvTimeoutError::Timeout) if child.try_wait()?.is_some() => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if Instant::now() > deadline {
            child.kill().context("cannot kill a test program")?;
            child.wait()?;
            return Err(anyhow!(
                "killed after {} s; it may have left namespaces or processes",
                limit.as_secs()
            ));
        }
    }
    let grace = Instant::now() + GRACE;
    loop {
        match lines.recv_timeout(grace.saturating_duration_since(Instant::now())) {
            Ok(line) => each(&line),
            Err(RecvTimeoutError::Disconnected) => {
                return child.wait().context("cannot wait for a test program");
            }
            Err(RecvTimeoutError::Timeout) => {
                return Err(anyhow!("left a process behind that holds its output"));
            }
        }
    }
}

/// The child's standard output line by line, read by a thread so that waiting can end.
fn lines(child: &mut Child) -> Result<Receiver<String>> {
    let stdout = child.stdout.take().context("a piped child has a standard output")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration) -> (Result<ExitStatus>, Vec<String>) {
        let mut seen = Vec::new();
        let ended = watch(Command::new("sh").args(["-c", script]), limit, |line| seen.push(line.to_string()));
        (ended, seen)
    }

    #[test]
    fn libtest_is_understood() {
        let mut count = Count::default();
        let output = [
            ("running 4 tests", true),
            ("test a::b ... ok", true),
            ("test a::c ... FAILED", true),
            ("", true),
            ("successes:", false),
            ("", false),
            ("---- a::b stdout ----", false),
            ("it says something, not skipped: at the start", false),
            ("skipped: no captures", false),
            ("", false),
            ("successes:", false),
            ("    a::b", false),
            ("failures:", true),
            ("---- a::c stdout ----", true),
            ("skipped: only what passes can be", true),
            (
                "test result: FAILED. 11 passed; 2 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.31s",
                true,
            ),
            (
                "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.00s",
                true,
            ),
        ];
        for (line, shown) in output {
            assert_eq!(count.read(line), shown, "{line}");
        }
        let (skipped, failures) = (vec!["a::b: no captures".into()], vec!["a::c".into()]);
        assert_eq!(count, Count { passed: 12, failed: 2, ignored: 3, skipped, failures, showing: None });
    }

    #[test]
    fn a_program_that_dies_counts_as_failed() {
        let mut tally = Tally::default();
        tally.stream("dies", Command::new("sh").args(["-c", "kill -ABRT $$"]), GRACE);
        assert_eq!((tally.passed, tally.failed), (0, 1));
        assert!(tally.failures[0].starts_with("dies: ended without a verdict"), "{:?}", tally.failures);
    }

    #[test]
    fn a_program_that_hangs_is_killed() {
        let (ended, seen) = sh("echo begun; exec sleep 600", Duration::from_secs(1));
        assert!(ended.is_err_and(|error| error.to_string().starts_with("killed after 1 s")));
        assert_eq!(seen, ["begun"]);
    }

    #[test]
    fn a_process_left_behind_is_an_error() {
        let (ended, seen) = sh("sleep 8 & echo done", Duration::from_secs(60));
        assert!(ended.is_err_and(|error| error.to_string().contains("left a process behind")));
        assert_eq!(seen, ["done"]);
    }

    #[test]
    fn all_output_is_read_before_the_end() {
        let (ended, seen) = sh("seq 1 20000; exit 3", Duration::from_secs(60));
        assert_eq!(ended.expect("it ends").code(), Some(3));
        assert_eq!(seen.len(), 20000);
    }
}
