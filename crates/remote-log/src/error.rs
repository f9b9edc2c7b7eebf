//! What keeps a sender from starting.

use std::io;
use std::path::PathBuf;

/// Why a sender cannot start. Each one is a fault of the configuration or of a file that it names.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteLogError {
    /// A file cannot be read.
    #[error("the {what} {}: {source}", path.display())]
    File {
        /// Which file it is.
        what: &'static str,
        /// The path of the file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file or folder has an owner or a mode that lets others change or read it.
    #[error("the {what} {}: {why}", path.display())]
    Unsafe {
        /// Which file it is.
        what: &'static str,
        /// The path of the file or folder.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// A file does not hold what it must hold.
    #[error("the {what} {}: {why}", path.display())]
    Content {
        /// Which file it is.
        what: &'static str,
        /// The path of the file or folder.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The collector's name is neither a host name nor an address.
    #[error(
        "the collector's name `{0}` is neither a host name nor an address; write it as its certificate has it"
    )]
    Name(String),
    /// The TLS library refuses the settings.
    #[error("TLS: {0}")]
    Tls(String),
    /// There is no thread to be had.
    #[error("no thread for the remote log: {0}")]
    Thread(io::Error),
}
