//! What can go wrong between Ravelin and the host, said with what was being done and what to do next.

use std::io;

/// A control-plane error: a device, a namespace, a file of the host. The data path answers with
/// [`wire::DropReason`] instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused: what was asked, and its answer.
    #[error("{doing}: {source}{}", hint(source))]
    System {
        /// The action that failed, and its object.
        doing: String,
        /// The error that the kernel answered.
        source: io::Error,
    },
    /// The kernel did it, but what is there is not what is needed.
    #[error("{what}; {remedy}")]
    Unfit {
        /// A description of what was found, and why it does not fit.
        what: String,
        /// The next step for an operator.
        remedy: String,
    },
}

/// The result of every call of this room.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The kind of the kernel's answer, for callers that treat "exists" or "not found" apart.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Error::System { source, .. } => source.kind(),
            Error::Unfit { .. } => io::ErrorKind::InvalidInput,
        }
    }

    /// An error about what is there and does not fit, with what to do next.
    pub fn unfit(what: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error::Unfit { what: what.into(), remedy: remedy.into() }
    }
}

/// The advice to an operator about an error of the kernel; empty if there is none.
fn hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            " (run as root, or with CAP_NET_ADMIN, CAP_NET_RAW and CAP_SYS_ADMIN)"
        }
        Some(libc::EBUSY) => " (another process holds it)",
        Some(libc::EADDRINUSE) => " (another program holds this port: see `ss -ulnp`)",
        Some(libc::EMFILE | libc::ENFILE) => " (raise the limit of open files)",
        _ => "",
    }
}

/// Says what was being done when an answer of the kernel was an error.
pub trait IoContext<T> {
    /// The value, or an error that begins with `what`.
    ///
    /// # Errors
    /// [`Error::System`].
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> IoContext<T> for std::result::Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::System { doing: what(), source: source.into() })
    }
}

/// The result of a raw system call: -1 means errno.
///
/// # Errors
/// The error that errno has.
pub fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The result of a raw system call that answers a length.
pub(crate) fn check_len(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_was_done_and_what_to_do() {
        let refused: std::result::Result<(), io::Error> = Err(io::Error::from_raw_os_error(libc::EPERM));
        let error = refused.doing(|| "opening the TUN rvl0".into()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let text = error.to_string();
        assert!(text.starts_with("opening the TUN rvl0: ") && text.contains("CAP_NET_ADMIN"), "{text}");
    }
}
