//! `/v1/sa`: listing, adding, changing, replacing and deleting associations.

use api::{SaAdd, SaAdded, SaDeleted, SaList, SaReplace, SaReplaced, SaUpdate, SaUpdated, Spi, path};
use axum::body::Bytes;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde::Deserialize;

use crate::plane::{SaQuery, Shared};
use control::answer::{Answer, Doc, Failure, whole};
use control::asker::Asker;
use control::extract::{Body, Query};
use documents::api_error::{ApiError, Blame};

pub(super) async fn list(State(plane): State<Shared>) -> Answer<SaList> {
    Ok(Doc(SaList { sas: plane.get().await?.sas().await? }))
}

pub(super) async fn add(State(plane): State<Shared>, Body(request): Body<SaAdd>) -> Answer<SaAdded> {
    let change = async move {
        let sa = plane.get().await?.add_sa(request).await?;
        tracing::info!(direction = %sa.direction, spi = %sa.spi, peer = %sa.remote, suite = sa.suite, "association added");
        Ok(SaAdded { sa })
    };
    Ok(Doc(whole(change).await?))
}

pub(super) async fn del(
    State(plane): State<Shared>,
    Path(spi): Path<String>,
    Query(query): Query<SaQuery>,
) -> Answer<SaDeleted> {
    let spi = spi_of(&spi)?;
    let change = async move {
        let sa = plane.get().await?.delete_sa(spi, &query).await?;
        tracing::info!(direction = %sa.direction, spi = %sa.spi, peer = %sa.remote, "association deleted");
        Ok(SaDeleted { sa })
    };
    Ok(Doc(whole(change).await?))
}

pub(super) async fn update(
    State(plane): State<Shared>,
    Path(spi): Path<String>,
    Query(query): Query<SaQuery>,
    Body(request): Body<SaUpdate>,
) -> Answer<SaUpdated> {
    let spi = spi_of(&spi)?;
    let change = async move {
        let sa = plane.get().await?.update_sa(spi, &query, request).await?;
        tracing::info!(direction = %sa.direction, spi = %sa.spi, peer = %sa.remote, "association changed");
        Ok(SaUpdated { sa })
    };
    Ok(Doc(whole(change).await?))
}

pub(super) async fn replace(
    State(plane): State<Shared>,
    Body(request): Body<SaReplace>,
) -> Answer<SaReplaced> {
    let change = async move {
        let done = plane.get().await?.replace_sas(request).await?;
        for sa in &done.sas {
            tracing::info!(direction = %sa.direction, spi = %sa.spi, peer = %sa.remote, "association took over");
        }
        Ok(done)
    };
    Ok(Doc(whole(change).await?))
}

/// The SPI that a path names.
fn spi_of(text: &str) -> Result<Spi, ApiError> {
    text.parse().map_err(|error| ApiError::new(Blame::BadRequest, format!("{error}")))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportQuery {
    /// Who asks knows that keys come.
    #[serde(default)]
    show_keys: bool,
    spi: Option<Spi>,
}

pub(super) async fn export(
    State(plane): State<Shared>,
    ConnectInfo(asker): ConnectInfo<Asker>,
    Query(ExportQuery { show_keys, spi }): Query<ExportQuery>,
) -> Result<impl IntoResponse, Failure> {
    if !show_keys {
        return Err(Failure(
            ApiError::new(Blame::BadRequest, "the export holds keys in clear")
                .remedy("if that is meant, say so: --show-keys (show_keys=true)"),
        ));
    }
    let plane = plane.get().await?;
    let (rows, written) = plane.wireshark_rows(spi.map(|spi| sadb::Spi(spi.0))).await?;
    let names: Vec<String> = written.iter().map(ToString::to_string).collect();
    plane.audit(asker, "keys_exported", format!("keys of {} for Wireshark", names.join(", ")));
    // The octets are wiped when they have been sent.
    Ok(([(CONTENT_TYPE, path::KEYS_CONTENT_TYPE)], Bytes::from_owner(rows)))
}
