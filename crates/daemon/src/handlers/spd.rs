//! `/v1/spd`: the rules of the security policy database.

use api::{SpdAdd, SpdAdded, SpdDeleted, SpdList};
use axum::body::Bytes;
use axum::extract::{Path, State};

use super::whole;
use crate::plane::Shared;
use control::answer::Answer;
use documents::refused::{Fault, Refused};

pub(super) async fn list(State(plane): State<Shared>) -> Answer<SpdList> {
    Answer(match plane.get().await {
        Ok(plane) => plane.list_rules().await.map(|rules| SpdList { rules }),
        Err(refused) => Err(refused),
    })
}

pub(super) async fn add(State(plane): State<Shared>, body: Bytes) -> Answer<SpdAdded> {
    Answer(add_one(plane, &body).await)
}

async fn add_one(plane: Shared, body: &[u8]) -> Result<SpdAdded, Refused> {
    let request: SpdAdd = serde_json::from_slice(body).map_err(|error| {
        Refused::new(Fault::BadRequest, format!("the request is not a rule: {error}"))
            .remedy("see ravelin(1), SECURITY POLICY DATABASE")
    })?;
    whole(async move {
        let rule = plane.get().await?.add_rule(&request).await?;
        tracing::info!(name = rule.name, position = rule.position, "rule of the SPD added");
        Ok(SpdAdded { rule })
    })
    .await
}

pub(super) async fn del(State(plane): State<Shared>, Path(name): Path<String>) -> Answer<SpdDeleted> {
    Answer(
        whole(async move {
            let rule = plane.get().await?.delete_rule(&name).await?;
            tracing::info!(name = rule.name, "rule of the SPD deleted");
            Ok(SpdDeleted { rules: vec![rule] })
        })
        .await,
    )
}

pub(super) async fn flush(State(plane): State<Shared>) -> Answer<SpdDeleted> {
    Answer(
        whole(async move {
            let rules = plane.get().await?.flush_rules().await?;
            tracing::info!(rules = rules.len(), "every rule of the SPD deleted");
            Ok(SpdDeleted { rules })
        })
        .await,
    )
}
