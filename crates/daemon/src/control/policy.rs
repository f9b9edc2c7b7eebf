//! `/v1/policy/reload`.

use api::PolicyReload;
use axum::extract::State;

use super::Answer;
use crate::plane::Shared;

pub(super) async fn reload(State(plane): State<Shared>) -> Answer<PolicyReload> {
    Answer(match plane.get().await {
        Ok(mut plane) => plane.reload().await,
        Err(refused) => Err(refused),
    })
}
