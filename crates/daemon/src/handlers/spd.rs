//! `/v1/spd`: the rules of the security policy database.

use api::{SpdAdd, SpdAdded, SpdDeleted, SpdList};
use axum::extract::{Path, State};

use crate::plane::Shared;
use control::answer::{Answer, Doc, whole};
use control::extract::Body;

pub(super) async fn list(State(plane): State<Shared>) -> Answer<SpdList> {
    Ok(Doc(SpdList { rules: plane.get().await?.list_rules().await? }))
}

pub(super) async fn add(State(plane): State<Shared>, Body(request): Body<SpdAdd>) -> Answer<SpdAdded> {
    let change = async move {
        let rule = plane.get().await?.add_rule(&request).await?;
        tracing::info!(name = rule.name, position = rule.position, "rule of the SPD added");
        Ok(SpdAdded { rule })
    };
    Ok(Doc(whole(change).await?))
}

pub(super) async fn del(State(plane): State<Shared>, Path(name): Path<String>) -> Answer<SpdDeleted> {
    let change = async move {
        let rule = plane.get().await?.delete_rule(&name).await?;
        tracing::info!(name = rule.name, "rule of the SPD deleted");
        Ok(SpdDeleted { rules: vec![rule] })
    };
    Ok(Doc(whole(change).await?))
}

pub(super) async fn flush(State(plane): State<Shared>) -> Answer<SpdDeleted> {
    let change = async move {
        let rules = plane.get().await?.flush_rules().await?;
        tracing::info!(rules = rules.len(), "every rule of the SPD deleted");
        Ok(SpdDeleted { rules })
    };
    Ok(Doc(whole(change).await?))
}
