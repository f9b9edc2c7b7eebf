//! Why a line does not work.

use control::socket::SocketError;
use sockmon::SockmonError;

/// Why a line does not work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// Lock or control socket.
    #[error("{0}; `ravelin inline status` asks it, or choose another name with --instance")]
    Socket(#[from] SocketError),
    /// The programs that guard the line's interfaces could not be loaded, read or removed.
    #[error("{0}; {remedy}", remedy = .0.remedy())]
    Guard(SockmonError),
    /// A socket of the line.
    #[error(transparent)]
    Netio(#[from] netio::Error),
    /// No interface of this name exists.
    #[error("there is no interface {0}; `ip link` lists them")]
    NoInterface(String),
    /// It has no frames with stations.
    #[error("{0} is no Ethernet, and a line is between two that are; use the interface below it")]
    NotEthernet(String),
    /// The kernel's own bridge or bond takes its frames.
    #[error("{0} belongs to a bridge or bond; take it out: `ip link set {0} nomaster`")]
    Enslaved(String),
    /// An XDP program takes its frames before anybody else.
    #[error(
        "{0} has an XDP program (number {1}), which could pass frames on before they are heard; take it off: `ip link set {0} xdp off`"
    )]
    Xdp(String, u32),
    /// The host answered strangely.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// The error that the system gave.
        source: std::io::Error,
    },
    /// A worker ended that should not have.
    #[error(
        "a worker has ended that should not have; nothing passes the line. See the log, and report it: this is a bug"
    )]
    Broken,
    /// The line was not taken over from another process.
    #[error("line {0} was not taken over: {1}")]
    TakeOver(String, String),
}
