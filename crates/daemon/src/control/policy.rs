//! `/v1/policy/reload` and `/v1/policy/names`.

use api::{NameList, PolicyReload};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::Deserialize;

use super::{Answer, bad_query, whole};
use crate::plane::Shared;
use crate::refused::Refused;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct How {
    #[serde(default)]
    allow_empty: bool,
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
    whole(async move { plane.get().await?.reload(how.allow_empty).await }).await
}
