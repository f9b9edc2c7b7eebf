//! The claim to a lab's name. Everything in a lab is named after it, so two labs of one name at a time would remove
//! each other's namespaces in the middle of their work.

use netio::{Error, Result};
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// How long a name may still be taken. Between `fork` and `exec` a child has a copy of a socket that is closed already.
const PATIENCE: Duration = Duration::from_secs(1);

/// A name that no other lab of this network namespace has while this value lives. The kernel ends the claim of a process
/// that ends in whatever way, because it is a socket with an abstract address. Anybody on the host may hold such an
/// address, and keep a lab from being built by that.
#[derive(Debug)]
pub(crate) struct Claim {
    _socket: UnixDatagram,
}

impl Claim {
    /// Claim the name of a lab.
    ///
    /// # Errors
    /// If a lab of this name is there, in this process or in another.
    pub(crate) fn take(name: &str) -> Result<Claim> {
        let in_use = |error: &std::io::Error| {
            Error::unfit(
                format!("a lab named `{name}` is in use, or its name cannot be claimed: {error}"),
                "wait until the process that built it has ended, or choose another name; `ss -xa` shows who holds \
                 `@ravelin-lab/NAME`",
            )
        };
        let address =
            SocketAddr::from_abstract_name(format!("ravelin-lab/{name}")).map_err(|error| in_use(&error))?;
        let begin = Instant::now();
        loop {
            match UnixDatagram::bind_addr(&address) {
                Ok(socket) => return Ok(Claim { _socket: socket }),
                Err(error) if error.kind() == ErrorKind::AddrInUse && begin.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) => return Err(in_use(&error)),
            }
        }
    }
}
