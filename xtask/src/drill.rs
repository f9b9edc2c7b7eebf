//! `make drill-kernels`: the demonstration and the tests of `sockmon` on kernels that this machine does not run, in QEMU, without KVM (docs/kernels.md).
//!
//! What enters: Debian's kernels, from its registry, and this tree's `ravelin`. What leaves: a table with a verdict for each. Nothing is
//! installed here; packages and logs stay below `target/drill-kernels`.

mod image;
mod kernels;

use crate::house::House;
use crate::process::{cargo, passes};
use anyhow::{Context, Result, ensure};
use kernels::Kernel;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Options of the task `cargo xtask drill-kernels`.
#[derive(clap::Args)]
pub struct Options {
    /// Releases whose kernels to boot, as `trixie`; default: all
    releases: Vec<String>,
    /// Seconds that one kernel may take
    #[arg(long, default_value_t = 1800)]
    limit: u64,
    /// Only the tests of `sockmon` whose names contain this, without the demonstration
    #[arg(long)]
    tests: Option<String>,
    /// Leave this program of the kernel half out: a test must fail (as `make omit` does it, for programs that only these kernels take)
    #[arg(long, requires = "tests")]
    omit: Option<String>,
    /// Parameters for the kernels, as `lsm=yama`
    #[arg(long, default_value = "")]
    parameters: String,
}

/// What is to become of the demonstration and the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// Every check is as expected, every test passes.
    Runs,
    /// The kernel is refused in one sentence.
    Refused,
}

/// Debian's releases, and what their kernels are good for.
const RELEASES: [(&str, Expected); 3] =
    [("bookworm", Expected::Refused), ("bookworm-backports", Expected::Runs), ("trixie", Expected::Runs)];

/// How an error about tests that fail begins.
const FAILING: &str = "the tests of sockmon fail";

/// How the guest says that a step is over; its exit status follows.
const STEP: &str = "DRILL ";

/// Drill; whether every kernel did what is expected.
pub fn run(options: &Options) -> Result<bool> {
    let known = |name: &String| RELEASES.iter().any(|(release, _)| release == name);
    if let Some(unknown) = options.releases.iter().find(|name| !known(name)) {
        let all: Vec<&str> = RELEASES.iter().map(|(release, _)| *release).collect();
        anyhow::bail!("no release is called {unknown}: there are {}", all.join(", "));
    }
    let target = House::survey()?.target;
    let ravelin = options.tests.is_none().then(|| target.join("debug/ravelin"));
    if ravelin.is_some() {
        let built = passes(Command::new(cargo()).args(["build", "--locked", "--package", "ravelin"]))?;
        ensure!(built, "cannot build ravelin");
    }
    let folder = target.join("drill-kernels");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let tests = image::Tests {
        suite: build_tests()?,
        app: target.join("debug/sockmon-test-app"),
        filter: options.tests.clone(),
        omit: options.omit.clone(),
    };
    let root = image::Root::build(&folder, ravelin.as_deref(), &tests)?;
    let registry = kernels::Registry::open(&folder)?;
    let mut rows = Vec::new();
    for (release, expected) in RELEASES {
        let is_wanted = match options.releases.is_empty() {
            // Where the kernel is refused there is nothing to test.
            true => options.tests.is_none() || expected == Expected::Runs,
            false => options.releases.iter().any(|wanted| wanted == release),
        };
        if !is_wanted {
            continue;
        }
        let started = Instant::now();
        let (name, verdict) = match registry.fetch(release) {
            Ok(kernel) => {
                println!("booting {} ({release})", kernel.name);
                let (limit, only_tests) = (Duration::from_secs(options.limit), options.tests.is_some());
                let verdict =
                    drill(&folder, &kernel, &root, (expected, only_tests, &options.parameters), limit);
                let verdict = match &options.omit {
                    Some(omitted) => missed(omitted, verdict),
                    None => verdict,
                };
                (kernel.name.clone(), verdict)
            }
            Err(error) => (release.to_owned(), Err(error)),
        };
        rows.push((name, release, verdict, started.elapsed().as_secs()));
    }
    println!("\n{:<28} {:<20} {:>7}  verdict", "kernel", "release", "seconds");
    let mut all_well = true;
    for (name, release, verdict, seconds) in rows {
        let text = match verdict {
            Ok(text) => text,
            Err(error) => {
                all_well = false;
                format!("FAILED: {error:#}")
            }
        };
        println!("{name:<28} {release:<20} {seconds:>7}  {text}");
    }
    Ok(all_well)
}

/// The verdict on tests that do without a program: one of them must fail.
fn missed(omitted: &str, verdict: Result<String>) -> Result<String> {
    match verdict {
        Ok(verdict) => anyhow::bail!("NOTHING FAILS WITHOUT {omitted}: {verdict}"),
        Err(error) if format!("{error:#}").contains(FAILING) => Ok(format!("without {omitted}: {error:#}")),
        Err(error) => Err(error),
    }
}

/// Build the tests of `sockmon`; their program.
fn build_tests() -> Result<PathBuf> {
    let mut command = Command::new(cargo());
    command.args(["test", "--locked", "--package", "sockmon", "--test", "suite", "--no-run"]);
    let output = command.arg("--message-format=json").stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "cannot build the tests of sockmon");
    let text = String::from_utf8_lossy(&output.stdout);
    program_of(&text).context("cargo does not say where the tests of sockmon are")
}

/// The program of a test in what cargo says, line by line.
fn program_of(said: &str) -> Option<PathBuf> {
    said.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_test = message["target"]["kind"][0] == "test";
        is_test.then(|| message["executable"].as_str().map(PathBuf::from))?
    })
}

/// Boot one kernel and judge what it printed.
fn drill(
    folder: &Path,
    kernel: &Kernel,
    root: &image::Root,
    (expected, only_tests, parameters): (Expected, bool, &str),
    limit: Duration,
) -> Result<String> {
    let disk = root.with_modules(kernel)?;
    let log = folder.join(format!("{}.log", kernel.name));
    boot(kernel, &disk, parameters, &log, limit)?;
    let bytes = fs::read(&log).with_context(|| format!("reading {}", log.display()))?;
    let output = String::from_utf8_lossy(&bytes);
    let verdict = if only_tests { judge_tests(&output) } else { judge(&output, expected) };
    verdict.with_context(|| format!("see {}", log.display()))
}

/// Run the machine until it powers off.
fn boot(kernel: &Kernel, disk: &Path, parameters: &str, log: &Path, limit: Duration) -> Result<()> {
    let output = File::create(log).with_context(|| format!("making {}", log.display()))?;
    // One thread for both processors: with one for each, QEMU 7.2 can run an instruction that the other processor has just changed (the
    // kernel switches tracepoints so), and the guest ends with `Oops: int3`.
    let mut machine = Command::new("qemu-system-x86_64")
        .args(["-accel", "tcg,thread=single", "-cpu", "max", "-smp", "2", "-m", "3072"])
        .args(["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio", "-kernel"])
        .arg(&kernel.image)
        .arg("-initrd")
        .arg(disk)
        // What is freed of the size of an MPTCP subflow's data is filled (P), so that its use afterwards is seen.
        .arg("-append")
        .arg(format!("console=ttyS0 quiet panic=-1 mitigations=off slub_debug=P,kmalloc-512 {parameters}"))
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .context("cannot run qemu-system-x86_64")?;
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = machine.try_wait()? {
            ensure!(status.success(), "QEMU ended with {status}; see {}", log.display());
            return Ok(());
        }
        if Instant::now() > deadline {
            machine.kill()?;
            machine.wait()?;
            anyhow::bail!("not at its end after {} s; see {}", limit.as_secs(), log.display());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The exit status of a step.
fn status(output: &str, step: &str) -> Result<i32> {
    let line = output.lines().find_map(|line| line.strip_prefix(STEP)?.trim().strip_prefix(step));
    line.and_then(|rest| rest.trim().parse().ok())
        .with_context(|| format!("`{step}` has no end in the guest's output"))
}

/// What the guest's output shows.
fn judge(output: &str, expected: Expected) -> Result<String> {
    let demo = status(output, "demo")?;
    let last = output.lines().rev().find(|line| line.contains(" checks as expected, "));
    match expected {
        Expected::Runs => {
            let last = last.context("the demonstration did not come to its checks")?;
            ensure!(demo == 0, "the demonstration: {last}");
            let tests = judge_tests(output)?;
            Ok(format!("{}; {tests}", last.trim()))
        }
        Expected::Refused => {
            ensure!(demo != 0 && last.is_none(), "the demonstration ran; 6.1 has no tcx");
            let sentence = output.lines().find(|line| line.contains(" is too old: "));
            let sentence = sentence.context("the kernel is not refused in one sentence")?;
            // Behind the name of the check.
            let from = sentence.find("6.1.").context("another kernel than 6.1 is refused")?;
            Ok(format!("refused: {}", sentence[from..].trim()))
        }
    }
}

/// What the last line of the tests says.
fn judge_tests(output: &str) -> Result<String> {
    let status = status(output, "sockmon")?;
    let line = output.lines().rev().find_map(|line| line.trim().strip_prefix("test result: "));
    let result = line.context("the tests of sockmon did not come to their end")?;
    let failed: Vec<&str> = output
        .lines()
        .filter_map(|line| line.trim().strip_prefix("test ")?.strip_suffix(" ... FAILED"))
        .collect();
    ensure!(status == 0 && result.starts_with("ok. "), "{FAILING}: {result} ({})", failed.join(", "));
    let passed = result.trim_start_matches("ok. ").split(';').next().unwrap_or_default();
    Ok(format!("sockmon: {passed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_the_tests_is_what_cargo_says() {
        let said = r#"{"reason":"compiler-artifact","target":{"kind":["bin"]},"executable":"/t/app"}
            {"reason":"compiler-artifact","target":{"kind":["test"]},"executable":"/t/deps/suite-1"}"#;
        assert_eq!(program_of(said), Some(PathBuf::from("/t/deps/suite-1")));
        assert_eq!(program_of("{}"), None);
    }

    #[test]
    fn a_verdict_needs_the_end_of_the_demonstration() {
        let demo = "12 checks as expected, 0 not, in 30.1 s\nDRILL demo 0\n";
        let tests = "test result: ok. 7 passed; 0 failed\nDRILL sockmon 0\n";
        let good = &format!("{demo}{tests}");
        assert_eq!(
            judge(good, Expected::Runs).unwrap(),
            "12 checks as expected, 0 not, in 30.1 s; sockmon: 7 passed"
        );
        assert!(judge(demo, Expected::Runs).is_err());
        let failed = format!(
            "{demo}test a::b ... FAILED\ntest result: FAILED. 6 passed; 1 failed\nDRILL sockmon 101\n"
        );
        assert!(judge(&failed, Expected::Runs).unwrap_err().to_string().ends_with("(a::b)"));
        assert_eq!(judge_tests(tests).unwrap(), "sockmon: 7 passed");
        assert!(judge(good, Expected::Runs).is_ok());
        assert!(judge(good, Expected::Refused).is_err());
        assert!(judge("12 checks as expected, 0 not, in 30.1 s\n", Expected::Runs).is_err());
        assert!(judge("11 checks as expected, 1 not, in 30.1 s\nDRILL demo 1\n", Expected::Runs).is_err());
        assert!(judge("DRILL demo 0\n", Expected::Runs).is_err());
        let refused = "FAIL  kernel    6.1.0-50-amd64 is too old: it has no tcx\nDRILL demo 1\n";
        assert_eq!(
            judge(refused, Expected::Refused).unwrap(),
            "refused: 6.1.0-50-amd64 is too old: it has no tcx"
        );
        assert!(judge("DRILL demo 1\n", Expected::Refused).is_err());
    }
}
