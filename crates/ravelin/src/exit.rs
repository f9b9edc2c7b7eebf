//! What went wrong, as an exit status.

use std::fmt;
use std::process::ExitCode;

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
}

/// A failure of a certain kind. Errors of other types count as [`Kind::Failed`].
#[derive(Debug)]
pub struct Failure {
    kind: Kind,
    text: String,
}

impl Failure {
    pub fn of(kind: Kind, text: impl Into<String>) -> anyhow::Error {
        Failure { kind, text: text.into() }.into()
    }

    pub fn bad_input(text: impl Into<String>) -> anyhow::Error {
        Failure::of(Kind::BadInput, text)
    }

    /// The command said all there is to say; only the status is left.
    pub fn silent(kind: Kind) -> anyhow::Error {
        Failure::of(kind, "")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

/// The kind of an error.
pub fn kind(error: &anyhow::Error) -> Kind {
    error.downcast_ref::<Failure>().map_or(Kind::Failed, |failure| failure.kind)
}

/// Say what went wrong on standard error; the exit status for it.
pub fn report(error: &anyhow::Error) -> ExitCode {
    // A reader that went away (`ravelin ... | head`) is no failure worth a word.
    let gone = error.chain().filter_map(|e| e.downcast_ref::<std::io::Error>());
    if gone.into_iter().any(|e| e.kind() == std::io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    let failure = error.downcast_ref::<Failure>();
    if failure.is_none_or(|f| !f.text.is_empty()) {
        eprintln!("ravelin: {error:#}");
    }
    ExitCode::from(kind(error) as u8)
}
