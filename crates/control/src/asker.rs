//! Who had the daemon do what must leave a trace: a line of the log and an event, never a key.

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::net::UnixListener;

/// The target of audit lines: no filter of the log leaves them out.
pub const TARGET: &str = "audit";

/// The other end of a connection to the control socket, as the kernel said when it was made (SO_PEERCRED).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    /// The user; `u32::MAX` if the kernel did not say.
    pub uid: u32,
    /// The process, if there is one on this host.
    pub pid: Option<i32>,
}

impl Asker {
    /// The daemon itself as the one that asks.
    pub fn myself() -> Asker {
        Asker { uid: rustix::process::getuid().as_raw(), pid: i32::try_from(std::process::id()).ok() }
    }
}

impl Connected<IncomingStream<'_, UnixListener>> for Asker {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Asker {
        match stream.io().peer_cred() {
            Ok(peer) => Asker { uid: peer.uid(), pid: peer.pid() },
            Err(_) => Asker { uid: u32::MAX, pid: None },
        }
    }
}
