//! `/v1/events`, `/v1/spi`, `/v1/acquire`: what key managers use.

use api::{Released, SpiAllocated};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde::Deserialize;
use wire::AcquireId;

use crate::plane::{Shared, events};
use control::answer::{Answer, Doc, Failure, whole};
use control::extract::Query;
use documents::api_error::{ApiError, Blame};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    /// Packets wait for this listener.
    #[serde(default)]
    acquire: bool,
}

pub(super) async fn stream(
    State(plane): State<Shared>,
    Query(EventsQuery { acquire }): Query<EventsQuery>,
) -> Result<impl IntoResponse, Failure> {
    let lines = events::listen(plane, acquire).await?;
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::new(lines)))
}

pub(super) async fn allocate(State(plane): State<Shared>) -> Answer<SpiAllocated> {
    let change = async move { plane.get().await?.promise_spi().await };
    let spi = whole(change).await?;
    Ok(Doc(SpiAllocated { spi: api::Spi(spi.0) }))
}

pub(super) async fn release(State(plane): State<Shared>, Path(spi): Path<String>) -> Answer<Released> {
    let spi: api::Spi = spi.parse().map_err(|error| ApiError::new(Blame::BadRequest, format!("{error}")))?;
    whole(async move { plane.get().await?.release_spi(sadb::Spi(spi.0)).await }).await?;
    Ok(Doc(Released { released: true }))
}

pub(super) async fn refuse(State(plane): State<Shared>, Path(id): Path<String>) -> Answer<Released> {
    let id = id.parse().map_err(|_| {
        ApiError::new(Blame::BadRequest, "an acquire has a number").remedy("give the id that its event had")
    })?;
    whole(async move { plane.get().await?.refuse_acquire(AcquireId(id)).await }).await?;
    Ok(Doc(Released { released: true }))
}
