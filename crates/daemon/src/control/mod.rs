//! The control API: HTTP/JSON over a Unix socket of mode 0600. One file per subject; every answer is a document of the
//! `api` room.

mod capture;
mod counted;
mod counters;
mod debug;
mod entries;
mod events;
mod explain;
mod flows;
mod policy;
mod sa;
mod scrubbed;
mod spd;
mod status;
pub(crate) mod traffic;

use api::{Refusal, Versioned, path};
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use serde::Serialize;
use tokio::net::UnixListener;

use crate::audit::Asker;
use crate::plane::Shared;
use crate::refused::{Fault, Refused};

/// The longest request: an association is a few hundred octets.
const MAX_REQUEST: usize = 64 << 10;

/// Every path of the API.
pub fn router(plane: Shared) -> Router {
    Router::new()
        .route(path::STATUS, get(status::status))
        .route(path::HEALTH, get(status::health))
        .route(path::SA, get(sa::list).post(sa::add))
        .route(path::SA_ONE, delete(sa::del).patch(sa::update))
        .route(path::SA_REPLACE, post(sa::replace))
        .route(path::SA_EXPORT, get(sa::export))
        .route(path::CAPTURE, get(capture::list).post(capture::start))
        .route(path::CAPTURE_ONE, delete(capture::stop))
        .route(path::DEBUG, get(debug::show).post(debug::switch))
        .route(path::SPD, get(spd::list).post(spd::add).delete(spd::flush))
        .route(path::SPD_ONE, delete(spd::del))
        .route(path::ENTRIES, get(entries::list))
        .route(path::EVENTS, get(events::stream))
        .route(path::SPI, post(events::allocate))
        .route(path::SPI_ONE, delete(events::release))
        .route(path::ACQUIRE_ONE, delete(events::refuse))
        .route(path::EXPLAIN, get(explain::explain))
        .route(path::FLOWS, get(flows::list))
        .route(path::FLOWS_COUNTED, get(counted::list))
        .route(path::COUNTERS, get(counters::counters))
        .route(path::TRAFFIC, get(traffic::traffic))
        .route(path::SCRUBBED, get(scrubbed::status))
        .route(path::INLINE_RULES, get(scrubbed::rules))
        .route(path::INLINE_FLOWS, get(scrubbed::flows))
        .route(path::INLINE_EVENTS, get(scrubbed::events))
        .route(path::POLICY_RELOAD, post(policy::reload))
        .route(path::POLICY_PLAN, post(policy::plan).layer(whole_policy()))
        .route(path::POLICY_APPLY, post(policy::apply).layer(whole_policy()))
        .route(path::POLICY_CONFIRM, post(policy::confirm))
        .route(path::POLICY_ROLLBACK, post(policy::rollback))
        .route(path::POLICY_NAMES, get(policy::names))
        .fallback(nothing_here)
        .layer(axum::extract::DefaultBodyLimit::max(MAX_REQUEST))
        .layer(axum::middleware::map_response(in_our_words))
        .with_state(plane)
}

/// Room for a policy as a JSON string: of what a policy is made of, no octet becomes more than two.
fn whole_policy() -> axum::extract::DefaultBodyLimit {
    axum::extract::DefaultBodyLimit::max(2 * ::policy::MAX_TEXT + MAX_REQUEST)
}

/// Answer requests until `ended` does.
///
/// # Errors
/// If the listener breaks.
pub async fn serve(
    listener: UnixListener,
    plane: Shared,
    ended: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let router = router(plane).into_make_service_with_connect_info::<Asker>();
    axum::serve(listener, router).with_graceful_shutdown(ended).await
}

pub(crate) async fn nothing_here() -> Answer<()> {
    let refused = Refused::new(Fault::NotFound, "the control API has no such path");
    Answer(Err(refused.remedy("use the `ravelin` command of the daemon's own version")))
}

/// What is refused before it reaches a handler (a method, a length, a path that is no text), in the form of every refusal.
pub(crate) async fn in_our_words(answer: Response) -> Response {
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
pub(crate) struct Answer<T>(pub(crate) Result<T, Refused>);

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

/// Make a change to its end. A client that hangs up drops its handler, and with it whatever that waits for; a change that is
/// half made, in the engine but not in the kernel half, must not come of it.
async fn whole<T: Send + 'static>(
    change: impl Future<Output = Result<T, Refused>> + Send + 'static,
) -> Result<T, Refused> {
    tokio::spawn(change).await.unwrap_or_else(|error| {
        let refused = Refused::new(Fault::Failed, format!("the request broke ({error}); this is a bug"));
        Err(refused.remedy("see the daemon's log, and `ravelin status` for what is in force"))
    })
}

/// A query string that serde did not like.
pub(crate) fn bad_query(error: &axum::extract::rejection::QueryRejection) -> Refused {
    Refused::new(Fault::BadRequest, error.body_text())
}

#[cfg(test)]
pub(crate) mod tests;
