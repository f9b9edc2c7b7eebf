//! The scrubber in line: between two interfaces, in a process of its own (docs/design/0024, docs/inline.md).
//!
//! What enters: [`LineSettings`], frames of both interfaces, requests on the line's own control socket, signals. What leaves: frames that a
//! scrubber let pass, answers, log lines. The order of the start is in [`line`]: first both interfaces are closed, then sockets are
//! opened. The end opens nothing: a process that is gone leaves a line that passes nothing, until [`open`] is asked for.

#![forbid(unsafe_code)]

mod error;
mod feed;
mod handlers;
mod handover;
mod line;
mod link;
mod serve;
mod settings;
mod worker;

pub use error::LineError;
pub use line::LineOptions;
pub use serve::run;
pub use settings::{LineSettings, MAX_WORKERS, control_socket, run_dir, standby_socket};

use control::socket;

/// What is left on the host of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The name of the line.
    pub instance: String,
    /// A process serves it.
    pub running: bool,
    /// Its interfaces, by number.
    pub interfaces: Vec<ClosedInterface>,
}

/// An interface that a line has closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedInterface {
    /// The number (index) of the interface.
    pub index: u32,
    /// Its name, if it is still there.
    pub name: Option<String>,
    /// Both guards are where they belong, in front of all other programs.
    pub guarded: bool,
    /// What the guards of the interface did with frames.
    pub counts: sockmon::line::LineCounts,
}

/// Lines that have guards on this host, whether or not a process lives.
///
/// # Errors
/// If the kernel refuses.
pub fn closed() -> Result<Vec<Closed>, LineError> {
    let links = netio::link::Links::open().and_then(|mut links| links.list()).unwrap_or_default();
    let name = |index: u32| links.iter().find(|link| link.index == index).map(|link| link.name.clone());
    let mut out = Vec::new();
    for instance in sockmon::line::lines().map_err(LineError::Guard)? {
        let interfaces = sockmon::line::closed(&instance).map_err(LineError::Guard)?;
        let interface =
            |(index, guarded, counts)| ClosedInterface { index, name: name(index), guarded, counts };
        let running = socket::is_locked(&run_dir(&instance));
        out.push(Closed { instance, running, interfaces: interfaces.into_iter().map(interface).collect() });
    }
    Ok(out)
}

/// Open a line: its interfaces pass whatever the host lets pass. How many guards went.
///
/// # Errors
/// If its process still lives, or the kernel refuses.
pub fn open(instance: &str) -> Result<usize, LineError> {
    let folder = run_dir(instance);
    let lock = if folder.exists() { Some(socket::lock(&folder)?) } else { None };
    let gone = sockmon::line::open(instance).map_err(LineError::Guard)?;
    if lock.is_some() {
        std::fs::remove_dir_all(&folder)
            .map_err(|source| LineError::System { doing: "removing its folder", source })?;
    }
    Ok(gone)
}

#[cfg(test)]
mod tests;
