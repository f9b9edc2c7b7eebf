//! Requests with a body: JSON becomes the document that was asked with, or a refusal that says what is wrong.
//!
//! Where the body may hold a key, the refusal says where the fault is, and repeats nothing of it.

use api::{
    CaptureRequest, DebugRequest, PolicyApply, PolicyText, QosApply, QosRefresh, QosReserve, SaAdd,
    SaReplace, SaUpdate, SpdAdd,
};
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::api_error::{ApiError, Blame};
use crate::import::faults;

/// A document that asks for something.
pub trait Request: DeserializeOwned {
    /// Whether the document may hold a key. What is wrong with one is a bad request throughout, its length too.
    const HOLDS_KEYS: bool = false;

    /// The refusal of octets that are no such document.
    fn refusal(octets: &[u8], error: &serde_json::Error) -> ApiError;

    /// The document that these octets are.
    ///
    /// # Errors
    /// [`Request::refusal`].
    fn read(octets: &[u8]) -> Result<Self, ApiError> {
        serde_json::from_slice(octets).map_err(|error| Self::refusal(octets, &error))
    }
}

fn bad(text: String) -> ApiError {
    ApiError::new(Blame::BadRequest, text)
}

/// The refusal of a document that may hold a key. serde's own message may quote what stands in the wrong place.
fn secret(
    octets: &[u8],
    error: &serde_json::Error,
    name: &str,
    text_of: impl Fn(&str, &serde_json::Error) -> String,
) -> ApiError {
    let (line, column) = (error.line(), error.column());
    // serde calls a number in the place of a word bad JSON.
    let why = match serde_json::from_slice::<IgnoredAny>(octets) {
        Ok(_) => text_of(std::str::from_utf8(octets).unwrap_or_default(), error),
        Err(_) => "it is not JSON".to_owned(),
    };
    bad(format!("the request is not {name} (line {line}, column {column}): {why}"))
}

impl Request for SaAdd {
    const HOLDS_KEYS: bool = true;

    fn refusal(octets: &[u8], error: &serde_json::Error) -> ApiError {
        let text_of = |text: &str, error: &serde_json::Error| faults::fault(text, faults::ASSOCIATION, error);
        secret(octets, error, "an association", text_of)
    }
}

impl Request for SaReplace {
    const HOLDS_KEYS: bool = true;

    fn refusal(octets: &[u8], error: &serde_json::Error) -> ApiError {
        secret(octets, error, "a replacement", faults::fault_of_replacement)
    }
}

impl Request for SaUpdate {
    fn refusal(_: &[u8], error: &serde_json::Error) -> ApiError {
        bad(format!("the request is no change: {error}"))
    }
}

impl Request for SpdAdd {
    fn refusal(_: &[u8], error: &serde_json::Error) -> ApiError {
        bad(format!("the request is not a rule: {error}")).remedy("see ravelin(1), SECURITY POLICY DATABASE")
    }
}

impl Request for CaptureRequest {
    fn refusal(_: &[u8], error: &serde_json::Error) -> ApiError {
        bad(format!("the request is not one for a capture: {error}")).remedy("see ravelin-capture(7)")
    }
}

impl Request for DebugRequest {
    fn refusal(_: &[u8], error: &serde_json::Error) -> ApiError {
        bad(format!("the request is no filter: {error}"))
    }
}

impl Request for PolicyText {
    fn refusal(_: &[u8], error: &serde_json::Error) -> ApiError {
        bad(format!("the request cannot be read: {error}"))
    }
}

impl Request for QosApply {
    fn refusal(_: &[u8], error: &serde_json::Error) -> ApiError {
        bad(format!("the request for a graph cannot be read: {error}"))
    }
}

impl Request for QosReserve {
    fn refusal(_: &[u8], error: &serde_json::Error) -> ApiError {
        bad(format!("the request is no reservation: {error}")).remedy("docs/qos.md has the fields of one")
    }
}

impl Request for QosRefresh {
    fn refusal(_: &[u8], error: &serde_json::Error) -> ApiError {
        bad(format!("the request is no refresh of a reservation: {error}"))
            .remedy("it names the holder: {\"holder\": \"pbx\"}")
    }
}

impl Request for PolicyApply {
    fn refusal(_: &[u8], error: &serde_json::Error) -> ApiError {
        bad(format!("the request cannot be read: {error}"))
    }
}
