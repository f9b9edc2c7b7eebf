//! Why a request was not done, in the form that every answer of the control API has.

use api::Problem;

/// A request that was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The kind of fault, which says whose it is.
    pub fault: Blame,
    /// The text that says what happened.
    pub message: String,
    /// What to do next.
    pub remedy: Option<String>,
}

/// Who or what is at fault when a request is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The request contradicts itself or names nothing sensible.
    BadRequest,
    /// What it names is not there.
    NotFound,
    /// It does not go with what is there.
    Conflict,
    /// The data path has too much to do.
    Busy,
    /// The daemon or the kernel could not.
    Failed,
}

impl Blame {
    /// Its word in [`Problem::code`].
    pub fn code(self) -> &'static str {
        match self {
            Blame::BadRequest => "bad_request",
            Blame::NotFound => "not_found",
            Blame::Conflict => "conflict",
            Blame::Busy => "busy",
            Blame::Failed => "failed",
        }
    }
}

impl ApiError {
    /// A refusal that says all in its message.
    pub fn new(fault: Blame, message: impl Into<String>) -> ApiError {
        ApiError { fault, message: message.into(), remedy: None }
    }

    /// And what to do.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> ApiError {
        self.remedy = Some(remedy.into());
        self
    }

    /// The refusal in the form that the API gives to clients.
    pub fn problem(&self) -> Problem {
        Problem {
            code: self.fault.code().to_owned(),
            message: self.message.clone(),
            remedy: self.remedy.clone(),
            ..Problem::default()
        }
    }
}

impl From<sadb::SadError> for ApiError {
    /// The texts of the databases end with what to do.
    fn from(error: sadb::SadError) -> ApiError {
        use sadb::SadError as E;
        let fault = match &error {
            E::DuplicateSpi(_) | E::KeyReused | E::KeyBookFull(_) | E::TooMany(_) | E::Rival { .. } => {
                Blame::Conflict
            }
            E::UnknownSpi(_) => Blame::NotFound,
            E::Crypto(_) | E::ReplayState { .. } | E::SequenceState { .. } => Blame::Failed,
            _ => Blame::BadRequest,
        };
        let text = error.to_string();
        match text.split_once("; ") {
            Some((message, remedy)) => ApiError::new(fault, message).remedy(remedy),
            None => ApiError::new(fault, text),
        }
    }
}
