//! `/v1/sa`: associations.

use api::{Direction, SaAdd, SaAdded, SaDeleted, SaList, Spi};
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::{Answer, MAX_REQUEST, bad_query, whole};
use crate::plane::Shared;
use crate::refused::{Fault, Refused};

pub(super) async fn list(State(plane): State<Shared>) -> Answer<SaList> {
    Answer(match plane.get().await {
        Ok(plane) => plane.sas().await.map(|sas| SaList { sas }),
        Err(refused) => Err(refused),
    })
}

pub(super) async fn add(State(plane): State<Shared>, body: Body) -> Answer<SaAdded> {
    Answer(add_one(plane, body).await)
}

async fn add_one(plane: Shared, body: Body) -> Result<SaAdded, Refused> {
    let request = read(body).await?;
    whole(async move {
        let sa = plane.get().await?.add_sa(request).await?;
        tracing::info!(direction = %sa.direction, spi = %sa.spi, peer = %sa.remote, suite = sa.suite, "association added");
        Ok(SaAdded { sa })
    })
    .await
}

/// Not axum's extractor: the octets hold a key, so they are gathered into memory that is wiped.
async fn read(body: Body) -> Result<SaAdd, Refused> {
    let bad = |text: String| Refused::new(Fault::BadRequest, text);
    let mut octets = Zeroizing::new(Vec::with_capacity(MAX_REQUEST));
    let mut body = Limited::new(body, MAX_REQUEST);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| bad(format!("the request cannot be read: {error}")))?;
        if let Ok(data) = frame.into_data() {
            octets.extend_from_slice(&data);
        }
    }
    serde_json::from_slice(&octets).map_err(|error| {
        // Its message may quote what stands in the wrong place: only say where that is.
        let (line, column) = (error.line(), error.column());
        let what = match error.classify() {
            serde_json::error::Category::Data => field(&error.to_string()),
            _ => "it is not JSON".to_owned(),
        };
        bad(format!("the request is not an association (line {line}, column {column}): {what}"))
    })
}

/// serde's words about fields, which quote names but no values.
fn field(text: &str) -> String {
    let harmless = ["missing field", "unknown field", "duplicate field"];
    if harmless.iter().any(|start| text.starts_with(start)) {
        text.split(" at line").next().unwrap_or_default().to_owned()
    } else {
        "a field has a value of the wrong kind".to_owned()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    direction: Option<Direction>,
    remote: Option<std::net::IpAddr>,
}

pub(super) async fn del(
    State(plane): State<Shared>,
    Path(spi): Path<String>,
    which: Result<Query<Which>, QueryRejection>,
) -> Answer<SaDeleted> {
    Answer(delete_one(plane, &spi, which).await)
}

async fn delete_one(
    plane: Shared,
    spi: &str,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<SaDeleted, Refused> {
    let Query(which) = which.map_err(|error| bad_query(&error))?;
    let spi: Spi = spi.parse().map_err(|error| Refused::new(Fault::BadRequest, format!("{error}")))?;
    whole(async move {
        let sa = plane.get().await?.delete_sa(spi, which.direction, which.remote).await?;
        tracing::info!(direction = %sa.direction, spi = %sa.spi, peer = %sa.remote, "association deleted");
        Ok(SaDeleted { sa })
    })
    .await
}
