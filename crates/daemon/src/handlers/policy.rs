//! `/v1/policy/...`: reload, what changes by a plan, and names.

use api::{NameList, PolicyApplied, PolicyApply, PolicyPlan, PolicyReload, PolicyText};
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{ConnectInfo, Query, State};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::whole;
use crate::plane::{Allow, Shared};
use control::answer::{Answer, bad_query};
use control::asker::Asker;
use documents::refused::{Fault, Refused};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct How {
    #[serde(default)]
    allow_empty: bool,
    #[serde(default)]
    allow_missing: bool,
}

pub(super) async fn reload(
    State(plane): State<Shared>,
    how: Result<Query<How>, QueryRejection>,
) -> Answer<PolicyReload> {
    Answer(load(plane, how).await)
}

pub(super) async fn names(State(plane): State<Shared>) -> Answer<NameList> {
    Answer(list(plane).await)
}

async fn list(plane: Shared) -> Result<NameList, Refused> {
    Ok(NameList { names: plane.get().await?.names()? })
}

async fn load(plane: Shared, how: Result<Query<How>, QueryRejection>) -> Result<PolicyReload, Refused> {
    let Query(how) = how.map_err(|error| bad_query(&error))?;
    let allow = Allow { empty: how.allow_empty, missing: how.allow_missing };
    whole(async move { plane.get().await?.reload(allow).await }).await
}

pub(super) async fn plan(State(plane): State<Shared>, body: Bytes) -> Answer<PolicyPlan> {
    let answer = async { plane.get().await?.plan(&request::<PolicyText>(&body)?) };
    Answer(answer.await)
}

pub(super) async fn apply(
    State(plane): State<Shared>,
    ConnectInfo(asker): ConnectInfo<Asker>,
    body: Bytes,
) -> Answer<PolicyApplied> {
    let request = request::<PolicyApply>(&body);
    let change = async move {
        let request = request?;
        let mut plane = plane.get().await?;
        let source = request.file.clone().unwrap_or_else(|| plane.policy().file().display().to_string());
        let applied = plane.apply(request).await?;
        let trial = applied.waiting.as_ref().map_or_else(String::new, |waiting| {
            format!(", to be confirmed within {} s", waiting.seconds_left)
        });
        plane.audit(asker, "policy_applied", format!("{source} is in force{trial}"));
        Ok(applied)
    };
    Answer(whole(change).await)
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
    Answer(whole(change).await)
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
    Answer(whole(change).await)
}

fn request<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(body)
        .map_err(|error| Refused::new(Fault::BadRequest, format!("the request cannot be read: {error}")))
}
