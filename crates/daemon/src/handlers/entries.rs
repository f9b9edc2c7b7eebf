//! `/v1/entries`: the entries of sockets, where policy is translated as paper 000 does it.

use api::SpdEntries;
use axum::extract::State;

use crate::plane::Shared;
use control::answer::{Answer, Doc};

pub(super) async fn list(State(plane): State<Shared>) -> Answer<SpdEntries> {
    Ok(Doc(plane.get().await?.entries().await?))
}
