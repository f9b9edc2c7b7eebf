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
    /// The message and, behind a semicolon, the remedy if there is one: for a line of a log or of another error.
    pub fn in_a_line(&self) -> String {
        match &self.remedy {
            Some(remedy) => format!("{}; {remedy}", self.message),
            None => self.message.clone(),
        }
    }

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
        // Some remedies are commands and options of this product, which the databases do not know.
        let remedy = match &error {
            E::UnknownSpi(_) => Some("`ravelin sa list` shows those there are".into()),
            E::KeyBookFull(_) => Some(
                "stop the daemon, run `ravelin detach`, start again, and give only keys that were never used".into(),
            ),
            E::Rival { .. } => Some(
                "replace that one, give one of the two other selectors, or say `takes_over` (`--takes-over`) if that is \
                 meant"
                    .into(),
            ),
            other => other.remedy(),
        };
        ApiError { fault, message: error.to_string(), remedy: remedy.map(|text| text.into_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sadb::{SadError, Spi};

    #[test]
    fn a_remedy_of_the_databases_is_in_words_of_the_command() {
        let shown = |error: SadError| {
            let ApiError { fault, message, remedy } = error.into();
            (fault, message, remedy.unwrap_or_default())
        };
        let (fault, message, remedy) = shown(SadError::UnknownSpi(Spi(0x1000)));
        assert_eq!((fault, message.as_str()), (Blame::NotFound, "no association has SPI 0x00001000"));
        assert_eq!(remedy, "`ravelin sa list` shows those there are");
        assert!(shown(SadError::KeyBookFull(7)).2.contains("`ravelin detach`"));
        let rival = SadError::Rival {
            spi: Spi(0x1000),
            peer: "192.0.2.2:4500".parse().unwrap(),
            remote: wire::Prefix::host("192.0.2.2".parse().unwrap()),
        };
        assert!(shown(rival).2.contains("`takes_over` (`--takes-over`)"));
        let (fault, message, remedy) = shown(SadError::DuplicateSpi(Spi(0x1000)));
        assert_eq!((fault, message.as_str()), (Blame::Conflict, "SPI 0x00001000 is in use"));
        assert_eq!(remedy, "choose another, or delete that association first");
    }
}
