//! Completion in a shell: words of the command line, and names that a running daemon knows.
//!
//! The scripts of `ravelin completions` run this program again with [`VARIABLE`] in its environment and the words typed
//! so far as its arguments. It prints candidates and ends. Names of applications, associations, rules and instances
//! come from the daemon; without one, without the right to ask it, or after [`PATIENCE`], there are none and nothing is
//! said.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use api::path;
use clap_complete::CompleteEnv;
use clap_complete::engine::CompletionCandidate;

use crate::client::Connect;

/// The variable whose value names the shell that asks.
pub const VARIABLE: &str = "RAVELIN_COMPLETE";
/// How long a daemon may take before a shell goes on without its names.
const PATIENCE: Duration = Duration::from_millis(500);

/// Answer a shell and end the process, if a shell asks. The scripts pass `--` as the first argument, which no command has: the
/// variable alone, left in an environment, must not turn a command into a success that did nothing.
pub fn answer() {
    if std::env::args_os().nth(1).is_none_or(|word| word != "--") {
        return;
    }
    CompleteEnv::with_factory(crate::cli::arguments)
        .var(VARIABLE)
        .bin("ravelin")
        .completer("ravelin")
        .complete();
}

/// Applications of the policy in force.
pub fn applications() -> Vec<CompletionCandidate> {
    let status: Option<api::Status> = daemon().get_quietly(path::STATUS, PATIENCE);
    let names =
        status.into_iter().flat_map(|status| status.protection.into_iter().map(|app| app.application));
    words(names)
}

/// SPIs of the daemon's associations.
pub fn spis() -> Vec<CompletionCandidate> {
    let list: Option<api::SaList> = daemon().get_quietly(path::SA, PATIENCE);
    let sas = list.into_iter().flat_map(|list| list.sas);
    words(sas.map(|sa| sa.spi.to_string()))
}

/// Names of the rules of the SPD.
pub fn rules() -> Vec<CompletionCandidate> {
    let list: Option<api::SpdList> = daemon().get_quietly(path::SPD, PATIENCE);
    words(list.into_iter().flat_map(|list| list.rules).map(|rule| rule.name))
}

/// Instances with a folder below `/run/ravelin`.
pub fn instances() -> Vec<CompletionCandidate> {
    let socket = config::default_control_socket(config::INSTANCE);
    let above = socket.parent().and_then(|folder| folder.parent()).map(std::fs::read_dir);
    let entries = above.and_then(Result::ok).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    words(folders.filter_map(|entry| entry.file_name().into_string().ok()))
}

/// Candidates that are one word to every shell, in order and once each.
fn words(names: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:%,".contains(c);
    let mut names: Vec<String> = names.filter(|name| !name.is_empty() && name.chars().all(plain)).collect();
    names.sort();
    names.dedup();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// The daemon that the words typed so far name.
fn daemon() -> Connect {
    of_words(&std::env::args_os().collect::<Vec<_>>())
}

fn of_words(words: &[OsString]) -> Connect {
    let value = |option: &str| {
        let after = words.iter().position(|word| word == option).and_then(|at| words.get(at + 1));
        let joined = || {
            let prefix = format!("{option}=");
            words.iter().find_map(|word| word.to_str()?.strip_prefix(&prefix).map(OsStr::new))
        };
        after.map(OsString::as_os_str).or_else(joined)
    };
    let instance =
        value("--instance").and_then(OsStr::to_str).and_then(|name| crate::client::instance(name).ok());
    Connect {
        instance: instance.unwrap_or_else(|| config::INSTANCE.to_owned()),
        control: value("--control").map(PathBuf::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemon_is_the_one_that_is_named_already() {
        let of = |words: &[&str]| of_words(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(of(&["sa", "del"]).instance, "main");
        assert_eq!(of(&["sa", "--instance", "lab", "del"]).instance, "lab");
        assert_eq!(of(&["sa", "--instance=lab", "del"]).instance, "lab");
        // A name that is none is no path.
        assert_eq!(of(&["sa", "--instance=../x", "del"]).instance, "main");
        assert_eq!(of(&["--control", "/a/b", "x"]).control, Some(PathBuf::from("/a/b")));
    }

    #[test]
    fn a_name_that_a_shell_would_take_apart_is_no_candidate() {
        let names = ["b", "curl from sshd", "a", "$(id)", "", "a"].map(str::to_owned);
        let values: Vec<String> =
            words(names.into_iter()).iter().map(|c| c.get_value().to_string_lossy().into_owned()).collect();
        assert_eq!(values, ["a", "b"]);
    }
}
