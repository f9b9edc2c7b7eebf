//! What an HTTP API answers: a document of the `api` room, or a refusal in the one form that all of them have. For the daemon's API
//! and that of a line.

use api::schema::Document;
use api::{Refusal, Versioned};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use documents::api_error::{ApiError, Blame};

/// The longest request in octets; one for an association has a few hundred.
pub const MAX_REQUEST: usize = 64 << 10;

/// The answer where there is no path.
pub async fn nothing_here() -> Failure {
    let refused = ApiError::new(Blame::NotFound, "the control API has no such path");
    Failure(refused.remedy("use the `ravelin` command of the daemon's own version"))
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
    let fault = if head.status.is_client_error() { Blame::BadRequest } else { Blame::Failed };
    let refused = match head.status {
        StatusCode::METHOD_NOT_ALLOWED => {
            ApiError::new(fault, "this path of the control API does not take that method")
                .remedy("use one that the header Allow names")
        }
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::new(fault, "the request is too long"),
        status => {
            let text = axum::body::to_bytes(body, MAX_REQUEST).await.unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            ApiError::new(fault, if text.is_empty() { status.to_string() } else { text.into_owned() })
        }
    };
    (head.status, axum::Json(Versioned::new(Refusal { error: refused.problem() }))).into_response()
}

/// A document that answers a request.
#[derive(Debug)]
pub struct Doc<T>(pub T);

impl<T: Document> IntoResponse for Doc<T> {
    fn into_response(self) -> Response {
        axum::Json(Versioned::new(self.0)).into_response()
    }
}

/// A refusal as the answer to a request, with the HTTP status for it.
#[derive(Debug)]
pub struct Failure(pub ApiError);

impl<E: Into<ApiError>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(error.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self.0.fault {
            Blame::BadRequest => StatusCode::BAD_REQUEST,
            Blame::NotFound => StatusCode::NOT_FOUND,
            Blame::Conflict => StatusCode::CONFLICT,
            Blame::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Blame::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, axum::Json(Versioned::new(Refusal { error: self.0.problem() }))).into_response()
    }
}

/// The answer of a handler: a document, or a refusal.
pub type Answer<T> = Result<Doc<T>, Failure>;

/// Make a change to its end. A client that hangs up drops its handler, and with it whatever that waits for; a change that
/// is half made, in the engine but not in the kernel half, must not come of it.
///
/// # Errors
/// The refusal of the change.
pub async fn whole<T: Send + 'static>(
    change: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::spawn(change).await.unwrap_or_else(|error| {
        let refused = ApiError::new(Blame::Failed, format!("the request broke ({error}); this is a bug"));
        Err(refused.remedy("see the daemon's log, and `ravelin status` for what is in force"))
    })
}
