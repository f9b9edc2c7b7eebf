//! `make drill-kernels`: the demonstration on kernels that this machine does not run, in QEMU, without KVM (docs/kernels.md).
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
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What to run.
#[derive(clap::Args)]
pub struct Options {
    /// Releases whose kernels to boot, as `trixie`; default: all
    releases: Vec<String>,
    /// Seconds that one kernel may take
    #[arg(long, default_value_t = 900)]
    limit: u64,
}

/// What is to become of the demonstration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// Every check is as expected.
    Runs,
    /// The kernel is refused in one sentence.
    Refused,
}

/// Debian's releases, and what their kernels are good for.
const RELEASES: [(&str, Expected); 3] =
    [("bookworm", Expected::Refused), ("bookworm-backports", Expected::Runs), ("trixie", Expected::Runs)];

/// How the guest says that a step is over; its exit status follows.
const STEP: &str = "DRILL ";

/// Drill; whether every kernel did what is expected.
pub fn run(options: &Options) -> Result<bool> {
    let known = |name: &String| RELEASES.iter().any(|(release, _)| release == name);
    if let Some(unknown) = options.releases.iter().find(|name| !known(name)) {
        let all: Vec<&str> = RELEASES.iter().map(|(release, _)| *release).collect();
        anyhow::bail!("no release is called {unknown}: there are {}", all.join(", "));
    }
    let built = passes(Command::new(cargo()).args(["build", "--locked", "--package", "ravelin"]))?;
    ensure!(built, "cannot build ravelin");
    let target = House::survey()?.target;
    let folder = target.join("drill-kernels");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let root = image::Root::build(&folder, &target.join("debug/ravelin"))?;
    let registry = kernels::Registry::open(&folder)?;
    let mut rows = Vec::new();
    for (release, expected) in RELEASES {
        if !options.releases.is_empty() && !options.releases.iter().any(|wanted| wanted == release) {
            continue;
        }
        let started = Instant::now();
        let (name, verdict) = match registry.fetch(release) {
            Ok(kernel) => {
                println!("booting {} ({release})", kernel.name);
                let verdict = drill(&folder, &kernel, &root, expected, Duration::from_secs(options.limit));
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

/// Boot one kernel and judge what it printed.
fn drill(
    folder: &Path,
    kernel: &Kernel,
    root: &image::Root,
    expected: Expected,
    limit: Duration,
) -> Result<String> {
    let disk = root.with_modules(kernel)?;
    let log = folder.join(format!("{}.log", kernel.name));
    boot(kernel, &disk, &log, limit)?;
    let bytes = fs::read(&log).with_context(|| format!("reading {}", log.display()))?;
    judge(&String::from_utf8_lossy(&bytes), expected).with_context(|| format!("see {}", log.display()))
}

/// Run the machine until it powers off.
fn boot(kernel: &Kernel, disk: &Path, log: &Path, limit: Duration) -> Result<()> {
    let output = File::create(log).with_context(|| format!("making {}", log.display()))?;
    let mut machine = Command::new("qemu-system-x86_64")
        .args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "3072"])
        .args(["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio", "-kernel"])
        .arg(&kernel.image)
        .arg("-initrd")
        .arg(disk)
        .args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off"])
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

/// What the guest's output shows.
fn judge(output: &str, expected: Expected) -> Result<String> {
    let status = |step: &str| {
        let line = output.lines().find_map(|line| line.strip_prefix(STEP)?.trim().strip_prefix(step));
        line.and_then(|rest| rest.trim().parse::<i32>().ok())
            .with_context(|| format!("`{step}` has no end in the guest's output"))
    };
    let demo = status("demo")?;
    let last = output.lines().rev().find(|line| line.contains(" checks as expected, "));
    match expected {
        Expected::Runs => {
            let last = last.context("the demonstration did not come to its checks")?;
            ensure!(demo == 0, "the demonstration: {last}");
            Ok(last.trim().to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_needs_the_end_of_the_demonstration() {
        let good = "12 checks as expected, 0 not, in 30.1 s\nDRILL demo 0\n";
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
