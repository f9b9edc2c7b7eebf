//! The events that wake a control plane beside requests: signals, and descriptors that somebody else made.

use std::future::pending;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The request that a signal stands for.
pub(crate) enum Asked {
    Reload,
    End(&'static str),
}

pub(crate) struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    pub(crate) async fn next(&mut self) -> Asked {
        tokio::select! {
            Some(()) = self.hangup.recv() => Asked::Reload,
            Some(()) = self.terminate.recv() => Asked::End("SIGTERM"),
            Some(()) = self.interrupt.recv() => Asked::End("SIGINT"),
            else => pending().await,
        }
    }
}

#[expect(
    deprecated,
    reason = "an OwnedFd keeps its descriptor; the other way is unsafe, and this room is not"
)]
pub(crate) fn registered(fd: OwnedFd) -> Result<AsyncFd<OwnedFd>, String> {
    AsyncFd::with_interest(fd, Interest::READABLE).map_err(|error| error.to_string())
}
