//! `/v1/entries`: the entries of sockets, where policy is translated as paper 000 does it.

use api::SpdEntries;
use axum::extract::State;

use crate::plane::Shared;
use control::answer::Answer;

pub(super) async fn list(State(plane): State<Shared>) -> Answer<SpdEntries> {
    Answer(match plane.get().await {
        Ok(plane) => plane.entries().await,
        Err(refused) => Err(refused),
    })
}
