//! What went wrong: as a sentence, as a document for programs, and as an exit status.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use api::{CommandProblem, CommandRefusal, Problem};

use crate::output;

/// The kinds of failure that scripts tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The operation failed or was refused.
    Failed = 1,
    /// A file, a packet or an argument is not as it must be.
    BadInput = 2,
    /// No daemon answers on its control socket.
    Unreachable = 3,
    /// `policy plan`: there are changes.
    Changes = 4,
    /// Whoever asks may not use the control socket.
    NotAllowed = 5,
}

impl Kind {
    /// The word for programs, where the daemon gave none.
    fn code(self) -> &'static str {
        match self {
            Kind::Failed | Kind::Changes => "failed",
            Kind::BadInput => "bad_request",
            Kind::Unreachable => "unreachable",
            Kind::NotAllowed => "not_allowed",
        }
    }
}

/// A failure of a certain kind. Errors of other types count as [`Kind::Failed`].
#[derive(Debug)]
pub struct Failure {
    kind: Kind,
    problem: Problem,
}

impl Failure {
    fn new(kind: Kind, message: impl Into<String>) -> Failure {
        let problem = Problem { code: kind.code().to_owned(), message: message.into(), ..Problem::default() };
        Failure { kind, problem }
    }

    pub fn of(kind: Kind, text: impl Into<String>) -> anyhow::Error {
        Failure::new(kind, text).into()
    }

    pub fn bad_input(text: impl Into<String>) -> anyhow::Error {
        Failure::of(Kind::BadInput, text)
    }

    /// A failure with what to do about it.
    pub fn with_remedy(kind: Kind, message: impl Into<String>, remedy: impl Into<String>) -> anyhow::Error {
        let mut failure = Failure::new(kind, message);
        failure.problem.remedy = Some(remedy.into());
        failure.into()
    }

    /// What the daemon refused, in its own words.
    pub fn refused(problem: Problem) -> anyhow::Error {
        let kind = if problem.code == "bad_request" { Kind::BadInput } else { Kind::Failed };
        Failure { kind, problem }.into()
    }

    /// The command said all there is to say; only the status is left.
    pub fn silent(kind: Kind) -> anyhow::Error {
        Failure::of(kind, "")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem.message)?;
        match &self.problem.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

/// The kind of an error.
pub fn kind(error: &anyhow::Error) -> Kind {
    error.downcast_ref::<Failure>().map_or(Kind::Failed, |failure| failure.kind)
}

/// Whether `--json` was given, so that a failure is a document too.
static JSON: AtomicBool = AtomicBool::new(false);

/// Note whether `--json` is among the arguments, which may turn out not to be what a command takes.
pub fn json_is_asked(arguments: &[OsString]) {
    let mut options = arguments.iter().take_while(|word| *word != "--");
    JSON.store(options.any(|word| word == "--json"), Ordering::Relaxed);
}

/// Print the document of a failure, unless the command printed its own, or a capture.
fn document(problem: Problem, kind: Kind) {
    if JSON.load(Ordering::Relaxed) && !output::is_taken() {
        let error = CommandProblem { problem, exit: kind as u8 };
        // Where nobody reads it, the exit status has it still.
        let _ = output::line(&CommandRefusal { error });
    }
}

/// Say what went wrong on standard error, with `--json` on standard output too; the exit status for it.
pub fn report(error: &anyhow::Error) -> ExitCode {
    // A reader that went away (`ravelin ... | head`) is no failure worth a word.
    let gone = error.chain().filter_map(|e| e.downcast_ref::<std::io::Error>());
    if gone.into_iter().any(|e| e.kind() == std::io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    let kind = kind(error);
    let failure = error.downcast_ref::<Failure>();
    if failure.is_none_or(|failure| !failure.problem.message.is_empty()) {
        let text = format!("{error:#}");
        let is_terminal = std::io::stderr().is_terminal();
        eprintln!(
            "ravelin: {}",
            if is_terminal { output::printable(&text) } else { Cow::Borrowed(text.as_str()) }
        );
        let plain =
            || Problem { code: kind.code().to_owned(), message: format!("{error:#}"), ..Problem::default() };
        document(failure.map_or_else(plain, |failure| failure.problem.clone()), kind);
    }
    ExitCode::from(kind as u8)
}

/// Print what clap says of the arguments: help and version to standard output, faults as [`report`] does.
pub fn report_usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    document(usage_problem(&error.render().to_string()), Kind::BadInput);
    ExitCode::from(Kind::BadInput as u8)
}

/// The first paragraph of clap's message is what is wrong, the others say what to do.
fn usage_problem(text: &str) -> Problem {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let mut paragraphs = text.split("\n\n").map(words).filter(|paragraph| !paragraph.is_empty());
    let message = paragraphs.next().unwrap_or_default();
    let remedy = paragraphs.collect::<Vec<_>>().join("; ");
    Problem {
        code: Kind::BadInput.code().to_owned(),
        message,
        remedy: (!remedy.is_empty()).then_some(remedy),
        ..Problem::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clap_says_is_taken_apart() {
        let text = "error: unexpected argument '--foo' found\n\n  tip: a similar argument exists: '--for'\n\nUsage: ravelin debug\n";
        let problem = usage_problem(text);
        assert_eq!(problem.message, "unexpected argument '--foo' found");
        assert_eq!(
            problem.remedy.as_deref(),
            Some("tip: a similar argument exists: '--for'; Usage: ravelin debug")
        );
    }

    #[test]
    fn a_failure_says_its_remedy_last() {
        let error = Failure::with_remedy(Kind::Unreachable, "no daemon", "start one");
        assert_eq!((error.to_string().as_str(), kind(&error)), ("no daemon; start one", Kind::Unreachable));
    }
}
