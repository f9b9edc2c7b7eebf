//! From a process to the next one: what workers know (docs/design/0024, "Hand-over").
//!
//! ```text
//! new                                          old
//! loads its guard, opens its sockets, listens
//! connects to handover.sock  ----------------> checks: root? same version and instance?
//! asks                       ----------------> hears no more, scrubs what it has heard, stops its workers,
//!                                              puts what they know into sealed memory
//!                            <---------------- sends the memory; ends
//! waits until it has ended, exchanges the guards' programs, goes on with what waits in its sockets
//! ```
//!
//! Between the two nothing passes, and nothing is lost that the sockets have room for. What both have heard passes twice, scrubbed each time.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crypto::Secret;
use scrub::Saved;
use serde::{Deserialize, Serialize};

use crate::error::LineError;
use crate::settings::run_dir;
use control::handover as channel;
use control::socket;

/// The protocol's version; that of the state is in the state.
const VERSION: u32 = 1;
/// How long either side may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Octets of state at most.
const MOST: u64 = 4 << 30;

/// The hand-over socket of an instance.
fn path(instance: &str) -> PathBuf {
    run_dir(instance).join("handover.sock")
}

/// Where the next process asks.
///
/// # Errors
/// If the system refuses.
pub fn listen(instance: &str) -> Result<UnixListener, LineError> {
    Ok(socket::bind(&path(instance))?)
}

#[derive(Debug, Serialize, Deserialize)]
struct Request {
    version: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    /// The reason why the hand-over is refused, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

/// Ask the process that has the line for what it knows. Returns when that process has ended.
///
/// # Errors
/// [`LineError::TakeOver`], with whether the line is still served.
pub fn take(instance: &str) -> Result<Secret, LineError> {
    let failed = |text: String| LineError::TakeOver(instance.to_owned(), text);
    let stream = connect(&path(instance)).map_err(|error| {
        failed(format!("there is no process to take it over from ({error}); start without --take-over"))
    })?;
    let ask = || -> io::Result<(Answer, Option<std::os::fd::OwnedFd>)> {
        channel::peer_is_root(&stream)?;
        channel::send(&stream, &serde_json::to_vec(&Request { version: VERSION })?, &[])?;
        let (text, fds) = channel::receive(&stream)?;
        Ok((serde_json::from_slice(&text)?, fds.into_iter().next()))
    };
    let broken = |error: io::Error| {
        failed(format!(
            "the hand-over broke off ({error}); if the other process has ended, start without --take-over: connections that are open end"
        ))
    };
    let (answer, memory) = ask().map_err(broken)?;
    if let Some(reason) = answer.refused {
        return Err(failed(format!("the other process goes on: {reason}")));
    }
    let memory = memory.ok_or_else(|| broken(io::ErrorKind::UnexpectedEof.into()))?;
    let state = channel::unseal(memory, MOST).map_err(broken)?;
    // The end of the process closes the connection.
    (&stream).read_to_end(&mut Vec::new()).map_err(broken)?;
    Ok(state)
}

fn connect(path: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Look through what came.
///
/// # Errors
/// [`LineError::TakeOver`].
pub fn check<'s>(instance: &str, state: &'s Secret) -> Result<Saved<'s>, LineError> {
    Saved::check(state.expose()).map_err(|error| {
        let text = format!(
            "{error}; the other process has ended. Start without --take-over: connections that are open end"
        );
        LineError::TakeOver(instance.to_owned(), text)
    })
}

/// The process that has the line: somebody asked, and may have it.
#[derive(Debug)]
pub struct Giving(UnixStream);

impl Giving {
    /// Read what is asked.
    ///
    /// # Errors
    /// If it was refused or went away; this process goes on.
    pub fn answer(stream: UnixStream) -> io::Result<Giving> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        channel::peer_is_root(&stream)?;
        let (text, _) = channel::receive(&stream)?;
        let giving = Giving(stream);
        match serde_json::from_slice::<Request>(&text) {
            Ok(Request { version: VERSION }) => Ok(giving),
            _ => {
                let reason = format!("it hands over in version {VERSION} only");
                giving.refuse(&reason);
                Err(io::Error::other(reason))
            }
        }
    }

    /// Say why not; this process goes on.
    pub fn refuse(self, reason: &str) {
        let text = serde_json::to_vec(&Answer { refused: Some(reason.to_owned()) }).unwrap_or_default();
        if let Err(error) = channel::send(&self.0, &text, &[]) {
            tracing::debug!(%error, "the refusal of a hand-over did not arrive");
        }
    }

    /// Give what workers know. The connection must stay open until this process ends: keep the answer.
    ///
    /// # Errors
    /// If it did not arrive.
    #[must_use = "dropping it tells the next process that this one has ended"]
    pub fn give(self, state: &Secret) -> io::Result<UnixStream> {
        let memory = channel::seal(state)?;
        channel::send(&self.0, &serde_json::to_vec(&Answer { refused: None })?, &[memory.as_fd()])?;
        Ok(self.0)
    }
}
