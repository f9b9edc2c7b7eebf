//! The handlers of `/v1/debug`, which show and change the filter of the log.

use api::{DebugRequest, DebugState};
use axum::extract::{ConnectInfo, State};

use crate::plane::Shared;
use control::answer::{Answer, Doc};
use control::asker::Asker;
use control::debug;
use control::extract::Body;

pub(super) async fn show() -> Answer<DebugState> {
    Ok(Doc(debug::state()?))
}

pub(super) async fn switch(
    State(plane): State<Shared>,
    ConnectInfo(asker): ConnectInfo<Asker>,
    Body(request): Body<DebugRequest>,
) -> Answer<DebugState> {
    let plane = plane.get().await?;
    let end = request.seconds.map_or_else(String::new, |seconds| format!(" for {seconds} s"));
    let switched = debug::switch(&request, |filter| {
        plane.audit(asker, "log_filter_changed", format!("the log shows {filter}{end}"));
    });
    Ok(Doc(switched?))
}
