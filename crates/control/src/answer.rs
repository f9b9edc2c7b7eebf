//! What an HTTP API answers: a document of the `api` room, or a refusal in the one form that all of them have. For the daemon's API
//! ([`crate::control`]) and that of a line ([`crate::inline`]).

use api::{Refusal, Versioned};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use documents::refused::{Fault, Refused};

/// The longest request in octets; one for an association has a few hundred.
pub const MAX_REQUEST: usize = 64 << 10;

/// The answer where there is no path.
pub async fn nothing_here() -> Answer<()> {
    let refused = Refused::new(Fault::NotFound, "the control API has no such path");
    Answer(Err(refused.remedy("use the `ravelin` command of the daemon's own version")))
}

/// Give a refusal that was made before any handler (a method, a length, a path that is no text) the form of every
/// refusal.
pub async fn in_our_words(answer: Response) -> Response {
    let (head, body) = answer.into_parts();
    let is_json = |kind: &HeaderValue| kind.as_bytes().starts_with(b"application/json");
    let is_refusal = head.status.is_client_error() || head.status.is_server_error();
    if !is_refusal || head.headers.get(CONTENT_TYPE).is_some_and(is_json) {
        return Response::from_parts(head, body);
    }
    let fault = if head.status.is_client_error() { Fault::BadRequest } else { Fault::Failed };
    let refused = match head.status {
        StatusCode::METHOD_NOT_ALLOWED => {
            Refused::new(fault, "this path of the control API does not take that method")
                .remedy("use one that the header Allow names")
        }
        StatusCode::PAYLOAD_TOO_LARGE => Refused::new(fault, "the request is too long"),
        status => {
            let text = axum::body::to_bytes(body, MAX_REQUEST).await.unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            Refused::new(fault, if text.is_empty() { status.to_string() } else { text.into_owned() })
        }
    };
    (head.status, axum::Json(Versioned::new(Refusal { error: refused.problem() }))).into_response()
}

/// An answer of the API: a document, or a refusal with the HTTP status for it.
pub struct Answer<T>(pub Result<T, Refused>);

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        match self.0 {
            Ok(body) => axum::Json(Versioned::new(body)).into_response(),
            Err(refused) => {
                let status = match refused.fault {
                    Fault::BadRequest => StatusCode::BAD_REQUEST,
                    Fault::NotFound => StatusCode::NOT_FOUND,
                    Fault::Conflict => StatusCode::CONFLICT,
                    Fault::Busy => StatusCode::SERVICE_UNAVAILABLE,
                    Fault::Failed => StatusCode::INTERNAL_SERVER_ERROR,
                };
                (status, axum::Json(Versioned::new(Refusal { error: refused.problem() }))).into_response()
            }
        }
    }
}

/// A query string that serde did not like.
pub fn bad_query(error: &axum::extract::rejection::QueryRejection) -> Refused {
    Refused::new(Fault::BadRequest, error.body_text())
}
