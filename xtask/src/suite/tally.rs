//! What has been counted, and the table at the end.

use super::Test;
use super::build::Program;
use super::count::Count;
use super::watch::watch;
use crate::process::linting_cargo;
use crate::supply;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// What has been counted, by workers side by side.
#[derive(Default)]
pub struct Tally(Mutex<Sums>);

#[derive(Default)]
struct Sums {
    count: Count,
    /// A row for each check and each test program, in the order in which they came first.
    rows: Vec<Row>,
    /// Each job with its time.
    times: BTreeMap<String, Duration>,
}

/// A line of the table.
struct Row {
    title: String,
    passed: u64,
    failed: u64,
    /// Time that its jobs took together; those that ran side by side count each.
    time: Duration,
    is_check: bool,
}

/// Lines of the list of what took longest.
const SLOWEST: usize = 10;

impl Tally {
    /// Run one check and count it.
    pub fn check(&self, title: &str, check: impl FnOnce() -> Result<bool>) {
        println!("\n--- {title}");
        let begin = Instant::now();
        let passed = check().unwrap_or_else(|error| {
            eprintln!("error: {error:#}");
            false
        });
        let count = if passed { Count::one_passed() } else { Count::one_failed(title.to_owned()) };
        self.add(title, None, count, begin.elapsed(), true);
    }

    /// What comes from others. Without an advisory database the rest of it counts, and that is one that was skipped.
    pub fn supply(&self) {
        let mut missing = None;
        self.check("supply chain", || {
            Ok(match supply::run()? {
                supply::Outcome::Checked(passed) => passed,
                supply::Outcome::WithoutAdvisories(why) => {
                    missing = Some(format!("supply chain: advisories: {why}"));
                    true
                }
            })
        });
        self.0.lock().expect("nobody panics while it counts").count.skipped.extend(missing);
    }

    /// The tests of these programs, one by one. A program that cannot list its tests has failed.
    pub fn list<'a>(&self, programs: &[&'a Program]) -> Vec<Test<'a>> {
        let mut tests = Vec::new();
        for program in programs {
            match names(program) {
                Ok(names) => tests.extend(names.into_iter().map(|name| Test { program, name })),
                Err(error) => {
                    let count = Count::one_failed(format!("{}: {error:#}", program.title));
                    self.add(&program.title, None, count, Duration::ZERO, false);
                }
            }
        }
        tests
    }

    /// Run a test program, or the one test of it, and count.
    pub fn run(&self, program: &Program, test: Option<&str>, limit: Duration) {
        let mut command = program.command();
        command.arg("--show-output");
        if let Some(test) = test {
            command.args(["--exact", test]);
        }
        self.stream(&program.title, test, &mut command, limit);
    }

    /// The examples in the documentation.
    pub fn documentation(&self) {
        let mut command = linting_cargo();
        command.args(["test", "--locked", "--workspace", "--doc", "--no-fail-fast", "--quiet"]);
        self.stream("documentation", None, &mut command, Duration::from_secs(900));
    }

    /// Run a program that speaks libtest's language, count, and print what it printed if a test failed.
    fn stream(&self, title: &str, test: Option<&str>, command: &mut Command, limit: Duration) {
        let begin = Instant::now();
        let (mut count, mut shown) = (Count::default(), String::new());
        let ended = watch(command, limit, |line| {
            if count.read(line) {
                shown.push_str(line);
                shown.push('\n');
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
            count.failed += 1;
            count.failures.push(match test {
                Some(test) => format!("{test}: {complaint}"),
                None => complaint,
            });
        } else if test.is_some() && count.passed + count.failed + count.ignored != 1 {
            count.failed += 1;
            count
                .failures
                .push(format!("{}: the program does not know it any more", test.unwrap_or_default()));
        }
        let time = begin.elapsed();
        if count.failed > 0 || test.is_none() {
            // One write, so that jobs side by side do not mix their lines.
            print!("\n--- tests of {title}\n{shown}");
        } else if let Some(test) = test {
            println!("ok {:>7.1} s  {title}::{test}", time.as_secs_f64());
        }
        count.failures.iter_mut().for_each(|name| *name = format!("{title}: {name}"));
        count.skipped.iter_mut().for_each(|reason| *reason = format!("{title}: {reason}"));
        self.add(title, test, count, time, false);
    }

    fn add(&self, title: &str, test: Option<&str>, count: Count, time: Duration, is_check: bool) {
        let mut sums = self.0.lock().expect("nobody panics while it counts");
        let Sums { count: all, rows, times } = &mut *sums;
        if count.passed + count.failed + count.ignored == 0 {
            return;
        }
        let name = test.map_or_else(|| title.to_owned(), |test| format!("{title}::{test}"));
        times.insert(name, time);
        let at = rows.iter().position(|row| row.title == title).unwrap_or_else(|| {
            let title = title.to_owned();
            rows.push(Row { title, passed: 0, failed: 0, time: Duration::ZERO, is_check });
            rows.len() - 1
        });
        if let Some(row) = rows.get_mut(at) {
            row.passed += count.passed;
            row.failed += count.failed;
            row.time += time;
        }
        all.add(count);
    }

    /// Print the table, what took longest, what was left out and why, what failed, and the last line; whether nothing failed.
    pub fn close(&self) -> bool {
        let sums = self.0.lock().expect("nobody panics while it counts");
        let Sums { count, rows, times } = &*sums;
        println!("\n--- summary");
        for row in rows {
            let verdict = match (row.is_check, row.failed) {
                (true, 0) => "ok".to_owned(),
                (true, _) => "FAILED".to_owned(),
                (false, failed) => format!("{} passed, {failed} failed", row.passed),
            };
            println!("{:<24}{verdict:<28}{:>7.1} s", row.title, row.time.as_secs_f64());
        }
        let mut slowest: Vec<_> = times.iter().collect();
        slowest.sort_by_key(|(_, time)| std::cmp::Reverse(**time));
        println!("\nThe {SLOWEST} slowest:");
        for (name, time) in slowest.iter().take(SLOWEST) {
            println!("{:>7.1} s  {name}", time.as_secs_f64());
        }
        count.skipped.iter().for_each(|reason| println!("skipped  {reason}"));
        count.failures.iter().for_each(|name| println!("failed   {name}"));
        if count.ignored > 0 || !count.skipped.is_empty() {
            println!("\n{} ignored, {} skipped", count.ignored, count.skipped.len());
        }
        println!("\n{} passed, {} failed", count.passed, count.failed);
        count.failed == 0
    }
}

/// The names of a program's tests.
fn names(program: &Program) -> Result<Vec<String>> {
    let output = program.command().args(["--list", "--format", "terse"]).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {}", program.path.display()))?;
    ensure!(output.status.success(), "cannot list its tests: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_dies_counts_as_failed() {
        let tally = Tally::default();
        let mut dies = Command::new("sh");
        dies.args(["-c", "kill -ABRT $$"]);
        tally.stream("dies", None, &mut dies, Duration::from_secs(5));
        let sums = tally.0.lock().expect("nobody panicked");
        assert_eq!((sums.count.passed, sums.count.failed), (0, 1));
        let failures = &sums.count.failures;
        assert!(failures[0].starts_with("dies: ended without a verdict"), "{failures:?}");
    }

    #[test]
    fn a_test_that_is_not_run_counts_as_failed() {
        let tally = Tally::default();
        let mut knows_none = Command::new("echo");
        knows_none.arg("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out");
        tally.stream("room", Some("a::test"), &mut knows_none, Duration::from_secs(5));
        let sums = tally.0.lock().expect("nobody panicked");
        assert_eq!((sums.count.passed, sums.count.failed), (0, 1));
    }
}
