//! `/v1/debug`: the log's filter.

use api::{DebugRequest, DebugState};
use axum::body::Bytes;
use axum::extract::{ConnectInfo, State};

use crate::plane::Shared;
use control::answer::Answer;
use control::asker::Asker;
use control::debug;
use documents::refused::{Fault, Refused};

pub(super) async fn show() -> Answer<DebugState> {
    Answer(debug::state())
}

pub(super) async fn switch(
    State(plane): State<Shared>,
    ConnectInfo(asker): ConnectInfo<Asker>,
    body: Bytes,
) -> Answer<DebugState> {
    Answer(change(plane, asker, &body).await)
}

async fn change(plane: Shared, asker: Asker, body: &[u8]) -> Result<DebugState, Refused> {
    let request: DebugRequest = serde_json::from_slice(body)
        .map_err(|error| Refused::new(Fault::BadRequest, format!("the request is no filter: {error}")))?;
    let plane = plane.get().await?;
    let end = request.seconds.map_or_else(String::new, |seconds| format!(" for {seconds} s"));
    debug::switch(&request, |filter| {
        plane.audit(asker, "log_filter_changed", format!("the log shows {filter}{end}"));
    })
}
