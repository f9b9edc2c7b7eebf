//! What is looked at: the root of a host, and the time of day that ages are counted from.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The configuration file of a host whose administrator chose no other.
pub const CONFIG: &str = "/etc/ravelin/ravelin.toml";

/// A host to look at.
#[derive(Clone, Debug)]
pub struct Host {
    /// The root of the host's files: `/` is this host.
    pub root: PathBuf,
    /// The path of the configuration file, as it reads on that host.
    pub config: PathBuf,
    /// The user who must own what is trusted: 0, except in tests.
    pub owner: u32,
    /// The time of day since 1970, which ages are counted from.
    pub now: Duration,
}

impl Host {
    /// The host below this root at this time of day since 1970, with the usual configuration file.
    pub fn new(root: &Path, now: Duration) -> Host {
        Host { root: root.to_owned(), config: PathBuf::from(CONFIG), owner: 0, now }
    }
}

/// The reason why nothing of a host can be looked at.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}; name the folder that holds the host's etc, proc and usr with --root", root.display())]
pub struct RootError {
    /// The root of the host.
    root: PathBuf,
    /// The error of the system.
    source: std::io::Error,
}

impl RootError {
    /// The error that opening the root of a host gave.
    pub(crate) fn new(host: &Host, source: std::io::Error) -> RootError {
        RootError { root: host.root.clone(), source }
    }
}
