//! What ended the trial of a library, in words for its author.

use cipher_manifest::vectors::VectorError;

/// What a library did in its trial that it must not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// The child could not be started, or could not limit itself.
    #[error("the trial could not begin: {0}")]
    Start(String),
    /// A signal ended the child.
    #[error("{} ended it{}, during {stage}", signal_name(*signal), place.map_or("", Place::text))]
    Signal {
        /// What was being done.
        stage: String,
        /// The number of the signal.
        signal: i32,
        /// What was touched, if that is known.
        place: Option<Place>,
    },
    /// The child asked the kernel for something that no cipher needs.
    #[error("it called {}, which no cipher may, during {stage}", call_name(*call))]
    Refused {
        /// What was being done.
        stage: String,
        /// The number of the system call.
        call: i64,
    },
    /// The child was not ready in time.
    #[error("it was not ready within {seconds} seconds, during {stage}")]
    Deadline {
        /// What was being done.
        stage: String,
        /// The seconds that it had.
        seconds: u64,
    },
    /// The child ended before it was ready.
    #[error("it ended the process with status {status}, during {stage}")]
    Exit {
        /// What was being done.
        stage: String,
        /// The exit status of the child.
        status: i32,
    },
    /// The dynamic loader refuses the library, or its description cannot be used.
    #[error("{0}")]
    Description(String),
    /// A test vector was not passed.
    #[error("{0}")]
    Vector(VectorError),
    /// A check was not passed.
    #[error("check `{check}`: {why}")]
    Check {
        /// The name of the check.
        check: String,
        /// What was wrong, in words for the author.
        why: String,
    },
    /// The child answered something that has no meaning.
    #[error("it disturbed the answer of its trial, during {0}")]
    Answer(String),
}

impl TrialError {
    /// Whether time was what ended the child.
    pub fn is_time(&self) -> bool {
        match self {
            TrialError::Deadline { .. } => true,
            TrialError::Signal { signal, .. } => matches!(*signal, libc::SIGXCPU | libc::SIGKILL),
            _ => false,
        }
    }
}

/// The memory that a library touched as a signal ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// The context of a key, which is read-only behind `setkey`, or the pages around it.
    Context,
    /// The pages around a buffer.
    Buffer,
    /// An address that is not aligned as the instruction needs it, or is none.
    Unaligned,
    /// Any other address at all.
    Elsewhere,
}

impl Place {
    fn text(self) -> &'static str {
        match self {
            Place::Context => " as it touched a context that it may only read, or memory beside it",
            Place::Buffer => " as it touched memory beside a buffer",
            Place::Unaligned => " as it used an address that is not aligned",
            Place::Elsewhere => "",
        }
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGBUS => "SIGBUS",
        libc::SIGILL => "SIGILL",
        libc::SIGFPE => "SIGFPE",
        libc::SIGABRT => "SIGABRT",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSYS => "SIGSYS (a system call)",
        libc::SIGXCPU => "SIGXCPU (it used up its processor time)",
        libc::SIGTRAP => "SIGTRAP",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

/// A system call for a message.
fn call_name(call: i64) -> String {
    let name = match call {
        libc::SYS_openat => "openat",
        libc::SYS_socket => "socket",
        libc::SYS_clone | libc::SYS_clone3 => "clone (fork, or a thread)",
        libc::SYS_execve => "execve",
        libc::SYS_read => "read",
        libc::SYS_write => "write",
        libc::SYS_writev => "writev (the C library does so when it ends a process whose heap is damaged)",
        libc::SYS_rt_sigaction => "rt_sigaction (a signal handler)",
        libc::SYS_mmap => "mmap (executable memory)",
        libc::SYS_mprotect => "mprotect (executable memory)",
        libc::SYS_clock_nanosleep | libc::SYS_nanosleep => "nanosleep",
        libc::SYS_getrandom => "getrandom",
        libc::SYS_newfstatat | libc::SYS_fstat | libc::SYS_statx => "stat",
        libc::SYS_kill => "kill",
        libc::SYS_ioctl => "ioctl",
        other => return format!("system call {other}"),
    };
    name.to_owned()
}
