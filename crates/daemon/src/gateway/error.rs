//! What can be wrong with gateway mode.

use documents::api_error::{ApiError, Blame};

/// Why there are no inside interfaces.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The configuration names an inside interface that is not there.
    #[error("there is no interface {0:?}, which `inside` in [gateway] names")]
    Missing(String),
    /// The kernel does not say.
    #[error(transparent)]
    Netio(#[from] netio::Error),
    /// The file of rules cannot be read, or has a fault.
    #[error("{file}: {text}")]
    Rules {
        /// The file, with the line if it is one.
        file: String,
        /// The text that says what is wrong.
        text: String,
    },
    /// The rules that the daemon before handed over have a fault.
    #[error("the rules handed over: {0}")]
    Handed(String),
}

impl From<GatewayError> for ApiError {
    fn from(error: GatewayError) -> ApiError {
        ApiError::new(Blame::Failed, error.to_string())
    }
}
