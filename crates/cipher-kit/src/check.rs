//! All checks of one cipher, each in a child of its own, and the report.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use api::{CipherCheck, CipherChecked};
use cipher_loader::subject::Subject;
use cipher_loader::trial;
use cipher_loader::{LoadError, Trust, examine};
use cipher_manifest::Manifest;

use crate::checks;
use crate::name::CheckName;
use crate::options::Options;
use crate::parent::{Parent, classify};

/// Children at once, at most: checks take a processor each.
const MOST_AT_ONCE: usize = 4;

/// The child's side of [`check`], and of the trial that loading makes: the hidden command calls it first thing, before
/// it starts threads. It ends the process.
pub fn child_main() -> ! {
    trial::child_main_with(run_task)
}

/// Do one check by its name, in a child: for programs that have tasks beside these.
///
/// # Errors
/// What was wrong with the cipher, or that there is no such check.
pub fn run_task(name: &str, subject: &Subject<'_>) -> Result<String, String> {
    checks::run(name, subject)
}

/// Check a cipher in the folder of whoever calls, who answers for the files.
///
/// # Errors
/// [`LoadError`]: the manifest cannot be read, so that nothing is known of the cipher. All other faults are in the
/// report.
pub fn check(options: &Options) -> Result<CipherChecked, LoadError> {
    let examined = match examine(&options.manifest, None, Trust::Caller) {
        Ok(examined) => examined,
        Err(error) => return unexamined(options, error),
    };
    let parent = Parent::new(&examined, options);
    let name = examined.manifest.description.name.clone();
    let mut done = vec![(CheckName::Descriptor, outcome(options, &parent, CheckName::Descriptor))];
    let loads = done.iter().all(|(_, (ok, _))| *ok) || options.without.contains(&CheckName::Descriptor);
    let [_, others @ .., memory] = CheckName::ALL;
    if loads {
        done.extend(at_once(options, &parent, &others));
        done.push((memory, outcome(options, &parent, memory)));
    } else {
        let not_run = |check| (check, not_run(options, check, CheckName::Descriptor));
        done.extend(others.into_iter().chain([memory]).map(not_run));
    }
    Ok(report(name, options, done))
}

/// The report of a cipher whose files cannot be used.
fn unexamined(options: &Options, error: LoadError) -> Result<CipherChecked, LoadError> {
    let text = std::fs::read(&options.manifest).ok();
    let Some(manifest) = text.and_then(|text| Manifest::parse(&text).ok()) else { return Err(error) };
    let at_fault = classify(&error, &manifest);
    let why = format!("{error}; {}", error.remedy());
    let done = CheckName::ALL.map(|check| {
        let outcome =
            if check == at_fault { (false, why.clone()) } else { not_run(options, check, at_fault) };
        (check, outcome)
    });
    Ok(report(manifest.description.name, options, done.to_vec()))
}

type Outcome = (bool, String);

fn not_run(options: &Options, check: CheckName, because: CheckName) -> Outcome {
    let why = || format!("not run, because `{because}` failed");
    left_out(options, check).unwrap_or_else(|| (false, why()))
}

fn left_out(options: &Options, check: CheckName) -> Option<Outcome> {
    options.without.contains(&check).then(|| (false, format!("left out by --without {check}")))
}

fn outcome(options: &Options, parent: &Parent<'_>, check: CheckName) -> Outcome {
    if let Some(outcome) = left_out(options, check) {
        return outcome;
    }
    match parent.run(check) {
        Ok(detail) => (true, detail),
        Err(why) => (false, why),
    }
}

/// These checks, a few at a time, in their order.
fn at_once(options: &Options, parent: &Parent<'_>, checks: &[CheckName]) -> Vec<(CheckName, Outcome)> {
    let next = AtomicUsize::new(0);
    let workers = thread::available_parallelism().map_or(1, usize::from).min(MOST_AT_ONCE);
    let work = || {
        let mut done = Vec::new();
        while let Some(check) = checks.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((*check, outcome(options, parent, *check)));
        }
        done
    };
    let mut done = thread::scope(|scope| {
        let threads = (0..workers).map(|_| scope.spawn(work)).collect::<Vec<_>>();
        threads.into_iter().filter_map(|thread| thread.join().ok()).flatten().collect::<Vec<_>>()
    });
    done.sort_by_key(|(check, _)| *check);
    done
}

fn report(cipher: String, options: &Options, done: Vec<(CheckName, Outcome)>) -> CipherChecked {
    let counts = |(check, (ok, _)): &(CheckName, Outcome)| *ok || options.without.contains(check);
    // A check that gave no outcome is a failure.
    let ok = done.len() == CheckName::ALL.len() && done.iter().all(counts);
    let checks = done
        .into_iter()
        .map(|(check, (ok, detail))| CipherCheck { name: check.word().to_owned(), ok, detail })
        .collect();
    let left_out = options.without.iter().map(|check| check.word().to_owned()).collect();
    CipherChecked { cipher, ok, checks, left_out }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use cipher_loader::Trial;

    use super::*;
    use crate::options::SECONDS;

    fn options(without: &[CheckName]) -> Options {
        let without = without.iter().copied().collect();
        Options { manifest: PathBuf::from("x.json"), trial: Trial::own(["x"]), seconds: SECONDS, without }
    }

    #[test]
    fn what_was_left_out_is_no_failure_and_no_pass_and_what_is_missing_fails() {
        let passed = |check: CheckName| (check, (check != CheckName::Memory, String::new()));
        let all = || CheckName::ALL.map(passed).to_vec();
        assert!(!report("x".to_owned(), &options(&[]), all()).ok);
        let without = report("x".to_owned(), &options(&[CheckName::Memory]), all());
        assert!(without.ok && without.checks.iter().any(|check| !check.ok));
        assert_eq!(without.left_out, ["memory"]);
        let missing = all().split_off(1);
        assert!(!report("x".to_owned(), &options(&[CheckName::Memory]), missing).ok);
    }
}
