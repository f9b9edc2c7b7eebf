//! Why a replay stops, and where its packets go.

use std::time::Duration;

use crypto::CryptoError;

/// Why a replay stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The policy, the file of associations or an argument is not as it must be.
    #[error("{0}")]
    BadInput(String),
    /// A file could not be read or written.
    #[error(transparent)]
    Netio(#[from] netio::Error),
    /// This machine computes wrong answers.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    /// Whoever takes the lines does not.
    #[error("{0}")]
    Line(#[from] std::io::Error),
}

/// Takes the packets that the engine made.
pub(super) type Write<'w> = dyn FnMut(&[u8]) -> Result<(), ReplayError> + 'w;

/// Takes the packets that the engine made, each with the time of the frame that it was made of.
pub(super) type WriteAt<'w> = dyn FnMut(Duration, &[u8]) -> Result<(), ReplayError> + 'w;
