//! `/v1/events`, `/v1/spi`, `/v1/acquire`: what key managers use.

use api::{Released, SpiAllocated};
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use wire::AcquireId;

use super::whole;
use crate::plane::{Shared, events};
use control::answer::{Answer, bad_query};
use documents::refused::{Fault, Refused};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct What {
    /// Packets wait for this listener.
    #[serde(default)]
    acquire: bool,
}

pub(super) async fn stream(
    State(plane): State<Shared>,
    what: Result<Query<What>, QueryRejection>,
) -> Response {
    let what = match what {
        Ok(Query(what)) => what,
        Err(error) => return Answer::<()>(Err(bad_query(&error))).into_response(),
    };
    match events::listen(plane, what.acquire).await {
        Ok(lines) => {
            ([(axum::http::header::CONTENT_TYPE, "application/x-ndjson")], Body::new(lines)).into_response()
        }
        Err(refused) => Answer::<()>(Err(refused)).into_response(),
    }
}

pub(super) async fn allocate(State(plane): State<Shared>) -> Answer<SpiAllocated> {
    Answer(
        whole(async move {
            let spi = plane.get().await?.promise_spi().await?;
            Ok(SpiAllocated { spi: api::Spi(spi.0) })
        })
        .await,
    )
}

pub(super) async fn release(State(plane): State<Shared>, Path(spi): Path<String>) -> Answer<Released> {
    Answer(
        whole(async move {
            let spi: api::Spi =
                spi.parse().map_err(|error| Refused::new(Fault::BadRequest, format!("{error}")))?;
            plane.get().await?.release_spi(sadb::Spi(spi.0)).await?;
            Ok(Released { released: true })
        })
        .await,
    )
}

pub(super) async fn refuse(State(plane): State<Shared>, Path(id): Path<String>) -> Answer<Released> {
    Answer(
        whole(async move {
            let id = id.parse().map_err(|_| {
                Refused::new(Fault::BadRequest, "an acquire has a number")
                    .remedy("give the id that its event had")
            })?;
            plane.get().await?.refuse_acquire(AcquireId(id)).await?;
            Ok(Released { released: true })
        })
        .await,
    )
}
