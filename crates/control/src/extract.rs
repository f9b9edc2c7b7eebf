//! What a handler takes of a request: the query and the body, with refusals in the form of all others.

use axum::RequestExt;
use axum::extract::{FromRequest, FromRequestParts, Request as HttpRequest};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use documents::api_error::{ApiError, Blame};
use documents::request::Request;
use http_body_util::{BodyExt, LengthLimitError};
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use crate::answer::{Failure, MAX_REQUEST};

/// The query of a request as a `T`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let read = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        let refused = |error: axum::extract::rejection::QueryRejection| {
            ApiError::new(Blame::BadRequest, error.body_text())
        };
        read.map(|axum::extract::Query(query)| Query(query)).map_err(|error| Failure(refused(error)))
    }
}

/// The body of a request as a `T`. Its octets are gathered into memory that is wiped, since some hold keys.
#[derive(Clone, Copy, Debug)]
pub struct Body<T>(pub T);

impl<T: Request, S: Send + Sync> FromRequest<S> for Body<T> {
    /// A body that is too long is answered by its status, which [`crate::answer::in_our_words`] says in words.
    type Rejection = Response;

    async fn from_request(request: HttpRequest, _: &S) -> Result<Self, Response> {
        let mut octets = Zeroizing::new(Vec::with_capacity(MAX_REQUEST));
        let mut body = request.into_limited_body();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| unread(error, T::HOLDS_KEYS))?;
            if let Ok(data) = frame.into_data() {
                grow(&mut octets, data.len());
                octets.extend_from_slice(&data);
            }
        }
        T::read(&octets).map(Body).map_err(|refused| Failure(refused).into_response())
    }
}

/// Make room for so many octets more. A vector that grows by itself leaves what it held in memory that nobody wipes.
fn grow(octets: &mut Zeroizing<Vec<u8>>, more: usize) {
    if octets.capacity() - octets.len() < more {
        let mut larger = Zeroizing::new(Vec::with_capacity((octets.len() + more).max(2 * octets.capacity())));
        larger.extend_from_slice(octets);
        *octets = larger;
    }
}

/// The answer to a body that cannot be read to its end: by its status alone if it is too long, unless it may hold a key.
fn unread(error: axum::Error, holds_keys: bool) -> Response {
    let error = error.into_inner();
    if error.is::<LengthLimitError>() && !holds_keys {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    }
    let refused = ApiError::new(Blame::BadRequest, format!("the request cannot be read: {error}"));
    Failure(refused).into_response()
}
