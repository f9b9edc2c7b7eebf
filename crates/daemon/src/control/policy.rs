//! `/v1/policy/reload`.

use api::PolicyReload;
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

async fn load(plane: Shared, how: Result<Query<How>, QueryRejection>) -> Result<PolicyReload, Refused> {
    let Query(how) = how.map_err(|error| bad_query(&error))?;
    whole(async move { plane.get().await?.reload(how.allow_empty).await }).await
}
