//! The events that wake a control plane beside requests: signals, and descriptors that somebody else made.

use std::future::pending;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal asks for.
pub enum SignalRequest {
    /// To load what can be loaded again (SIGHUP).
    Reload,
    /// To end, by the signal of this name.
    End(&'static str),
}

/// The signals that a process with a control socket hears.
pub struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Hear signals from now on.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Wait for the next signal.
    pub async fn next(&mut self) -> SignalRequest {
        tokio::select! {
            Some(()) = self.hangup.recv() => SignalRequest::Reload,
            Some(()) = self.terminate.recv() => SignalRequest::End("SIGTERM"),
            Some(()) = self.interrupt.recv() => SignalRequest::End("SIGINT"),
            else => pending().await,
        }
    }
}

/// A descriptor whose readiness the runtime tells.
///
/// # Errors
/// What the system says, in words.
#[expect(
    deprecated,
    reason = "an OwnedFd keeps its descriptor; the other way is unsafe, and this room is not"
)]
pub fn registered(fd: OwnedFd) -> Result<AsyncFd<OwnedFd>, String> {
    AsyncFd::with_interest(fd, Interest::READABLE).map_err(|error| error.to_string())
}
