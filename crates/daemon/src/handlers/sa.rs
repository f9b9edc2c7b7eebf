//! `/v1/sa`: listing, adding, changing, replacing and deleting associations.

use api::{SaAdded, SaDeleted, SaList, SaReplace, SaReplaced, SaUpdate, SaUpdated, Spi, path};
use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{ConnectInfo, Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use zeroize::Zeroizing;

use super::whole;
use crate::plane::{Shared, Which};
use control::answer::{Answer, MAX_REQUEST, bad_query};
use control::asker::Asker;
use documents::import::faults;
use documents::refused::{Fault, Refused};

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
    let told = |text: &str, error: &serde_json::Error| faults::fault(text, faults::ASSOCIATION, error);
    let request = read(body, "an association", told).await?;
    whole(async move {
        let sa = plane.get().await?.add_sa(request).await?;
        tracing::info!(direction = %sa.direction, spi = %sa.spi, peer = %sa.remote, suite = sa.suite, "association added");
        Ok(SaAdded { sa })
    })
    .await
}

/// Read a request of JSON, without axum's extractor: the octets hold a key, so they are gathered into memory that is
/// wiped.
async fn read<T: DeserializeOwned>(
    body: Body,
    what: &str,
    told: impl Fn(&str, &serde_json::Error) -> String,
) -> Result<T, Refused> {
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
        // serde calls a number in the place of a word bad JSON.
        let why = match serde_json::from_slice::<IgnoredAny>(&octets) {
            Ok(_) => told(std::str::from_utf8(&octets).unwrap_or_default(), &error),
            Err(_) => "it is not JSON".to_owned(),
        };
        bad(format!("the request is not {what} (line {line}, column {column}): {why}"))
    })
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
    let (spi, which) = named(spi, which)?;
    whole(async move {
        let sa = plane.get().await?.delete_sa(spi, &which).await?;
        tracing::info!(direction = %sa.direction, spi = %sa.spi, peer = %sa.remote, "association deleted");
        Ok(SaDeleted { sa })
    })
    .await
}

/// The association that path and query name.
fn named(spi: &str, which: Result<Query<Which>, QueryRejection>) -> Result<(Spi, Which), Refused> {
    let Query(which) = which.map_err(|error| bad_query(&error))?;
    let spi = spi.parse().map_err(|error| Refused::new(Fault::BadRequest, format!("{error}")))?;
    Ok((spi, which))
}

pub(super) async fn update(
    State(plane): State<Shared>,
    Path(spi): Path<String>,
    which: Result<Query<Which>, QueryRejection>,
    body: Bytes,
) -> Answer<SaUpdated> {
    Answer(update_one(plane, &spi, which, &body).await)
}

async fn update_one(
    plane: Shared,
    spi: &str,
    which: Result<Query<Which>, QueryRejection>,
    body: &[u8],
) -> Result<SaUpdated, Refused> {
    let (spi, which) = named(spi, which)?;
    let asked: SaUpdate = serde_json::from_slice(body)
        .map_err(|error| Refused::new(Fault::BadRequest, format!("the request is no change: {error}")))?;
    whole(async move {
        let sa = plane.get().await?.update_sa(spi, &which, asked).await?;
        tracing::info!(direction = %sa.direction, spi = %sa.spi, peer = %sa.remote, "association changed");
        Ok(SaUpdated { sa })
    })
    .await
}

pub(super) async fn replace(State(plane): State<Shared>, body: Body) -> Answer<SaReplaced> {
    Answer(replace_pair(plane, body).await)
}

async fn replace_pair(plane: Shared, body: Body) -> Result<SaReplaced, Refused> {
    let request = read::<SaReplace>(body, "a replacement", faults::fault_of_replacement).await?;
    whole(async move {
        let done = plane.get().await?.replace_sas(request).await?;
        for sa in &done.sas {
            tracing::info!(direction = %sa.direction, spi = %sa.spi, peer = %sa.remote, "association took over");
        }
        Ok(done)
    })
    .await
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Export {
    /// Who asks knows that keys come.
    #[serde(default)]
    show_keys: bool,
    spi: Option<Spi>,
}

pub(super) async fn export(
    State(plane): State<Shared>,
    ConnectInfo(asker): ConnectInfo<Asker>,
    asked: Result<Query<Export>, QueryRejection>,
) -> Response {
    match export_rows(plane, asker, asked).await {
        // The octets are wiped when they have been sent.
        Ok(rows) => ([(CONTENT_TYPE, path::KEYS_CONTENT_TYPE)], Bytes::from_owner(rows)).into_response(),
        Err(refused) => Answer::<()>(Err(refused)).into_response(),
    }
}

async fn export_rows(
    plane: Shared,
    asker: Asker,
    asked: Result<Query<Export>, QueryRejection>,
) -> Result<Zeroizing<Vec<u8>>, Refused> {
    let Query(Export { show_keys, spi }) = asked.map_err(|error| bad_query(&error))?;
    if !show_keys {
        return Err(Refused::new(Fault::BadRequest, "the export holds keys in clear")
            .remedy("if that is meant, say so: --show-keys (show_keys=true)"));
    }
    let plane = plane.get().await?;
    let (rows, written) = plane.wireshark_rows(spi.map(|spi| sadb::Spi(spi.0))).await?;
    let names: Vec<String> = written.iter().map(ToString::to_string).collect();
    plane.audit(asker, "keys_exported", format!("keys of {} for Wireshark", names.join(", ")));
    Ok(rows)
}
