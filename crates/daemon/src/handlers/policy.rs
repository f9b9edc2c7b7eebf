//! `/v1/policy/...`: reload, what changes by a plan, and names.

use api::{NameList, PolicyApplied, PolicyApply, PolicyPlan, PolicyReload, PolicyText};
use axum::extract::{ConnectInfo, State};
use serde::Deserialize;

use crate::plane::{Allow, Shared};
use control::answer::{Answer, Doc, whole};
use control::asker::Asker;
use control::extract::{Body, Query};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReloadQuery {
    #[serde(default)]
    allow_empty: bool,
    #[serde(default)]
    allow_missing: bool,
}

pub(super) async fn reload(
    State(plane): State<Shared>,
    Query(query): Query<ReloadQuery>,
) -> Answer<PolicyReload> {
    let allow = Allow { empty: query.allow_empty, missing: query.allow_missing };
    Ok(Doc(whole(async move { plane.get().await?.reload(allow).await }).await?))
}

pub(super) async fn names(State(plane): State<Shared>) -> Answer<NameList> {
    Ok(Doc(NameList { names: plane.get().await?.names()? }))
}

pub(super) async fn plan(State(plane): State<Shared>, Body(text): Body<PolicyText>) -> Answer<PolicyPlan> {
    Ok(Doc(plane.get().await?.plan(&text)?))
}

pub(super) async fn apply(
    State(plane): State<Shared>,
    ConnectInfo(asker): ConnectInfo<Asker>,
    Body(request): Body<PolicyApply>,
) -> Answer<PolicyApplied> {
    let change = async move {
        let mut plane = plane.get().await?;
        let source = request.file.clone().unwrap_or_else(|| plane.policy().file().display().to_string());
        let applied = plane.apply(request).await?;
        let trial = applied.waiting.as_ref().map_or_else(String::new, |waiting| {
            format!(", to be confirmed within {} s", waiting.seconds_left)
        });
        plane.audit(asker, "policy_applied", format!("{source} is in force{trial}"));
        Ok(applied)
    };
    Ok(Doc(whole(change).await?))
}

pub(super) async fn confirm(
    State(plane): State<Shared>,
    ConnectInfo(asker): ConnectInfo<Asker>,
) -> Answer<PolicyApplied> {
    let change = async move {
        let mut plane = plane.get().await?;
        let applied = plane.confirm()?;
        plane.audit(asker, "policy_confirmed", "the policy on trial stays".to_owned());
        Ok(applied)
    };
    Ok(Doc(whole(change).await?))
}

pub(super) async fn rollback(
    State(plane): State<Shared>,
    ConnectInfo(asker): ConnectInfo<Asker>,
) -> Answer<PolicyApplied> {
    let change = async move {
        let mut plane = plane.get().await?;
        let applied = plane.roll_back().await?;
        plane.audit(asker, "policy_rolled_back", "the policy before is in force again".to_owned());
        Ok(applied)
    };
    Ok(Doc(whole(change).await?))
}
