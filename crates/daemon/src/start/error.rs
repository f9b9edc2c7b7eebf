//! Why a daemon does not start, or ends.

use crate::datapath::frames::FramesError;
use crate::keys::KeysError;
use crate::{gateway, handover, uplinks};
use control::socket::SocketError;

/// Why a daemon did not start, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The policy has errors: the text that says which.
    #[error("{0}")]
    Policy(String),
    /// The host lacks something.
    #[error("{0}")]
    Unfit(String),
    /// Another daemon, a socket's path.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The take-over from the daemon before failed.
    #[error(transparent)]
    TakeOver(#[from] handover::TakeError),
    /// A device, a cgroup, a setting.
    #[error(transparent)]
    Netio(#[from] netio::Error),
    /// The uplinks could not be found.
    #[error("{0}; set one up, or name it in `uplinks`")]
    Uplinks(#[from] uplinks::UplinkError),
    /// Gateway mode cannot be set up.
    #[error("{0}; `ravelin doctor --config FILE` looks at what gateway mode needs")]
    Gateway(#[from] gateway::GatewayError),
    /// The kernel half could not be loaded or used.
    #[error("{0}; {remedy}", remedy = .0.remedy())]
    Kernel(#[from] sockmon::SockmonError),
    /// A request that the start makes itself.
    #[error("{0}{remedy}", remedy = .0.remedy.as_ref().map_or(String::new(), |r| format!("; {r}")))]
    Refused(#[from] documents::api_error::ApiError),
    /// The graph of classes has faults, or cannot be read.
    #[error("[qos]: {0}")]
    Graph(#[from] config::GraphError),
    /// This machine can have no keys at all.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The operating system refused a call.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// The error that the system gave.
        source: std::io::Error,
    },
    /// A start that failed when the daemon before had handed over.
    #[error(
        "{0}\nthe daemon before has handed over and ended, and its associations are gone: what must be protected is refused until a daemon \
         runs and has keys"
    )]
    AfterTake(Box<RunError>),
    /// A data thread broke.
    #[error(
        "a data thread has ended by itself; protected traffic is refused until the daemon runs again (this is a bug: see the log)"
    )]
    Thread,
}

impl From<FramesError> for RunError {
    fn from(error: FramesError) -> RunError {
        match error {
            FramesError::Unfit(text) => RunError::Unfit(text),
            FramesError::Netio(error) => RunError::Netio(error),
            FramesError::Kernel(error) => RunError::Kernel(error),
        }
    }
}

impl From<crate::monitor::KernelError> for RunError {
    fn from(crate::monitor::KernelError(error): crate::monitor::KernelError) -> RunError {
        RunError::Kernel(error)
    }
}
