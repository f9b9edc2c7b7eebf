//! `/v1/capture`: packets in clear, for root.

use api::{CaptureForm, CaptureList, CaptureRequest, CaptureStopped, path};
use axum::extract::{ConnectInfo, Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use crate::plane::{Shared, capture};
use control::answer::{Answer, Doc, Failure, whole};
use control::asker::Asker;
use control::extract::Body;
use documents::api_error::{ApiError, Blame};

pub(super) async fn start(
    State(plane): State<Shared>,
    ConnectInfo(asker): ConnectInfo<Asker>,
    Body(request): Body<CaptureRequest>,
) -> Result<impl IntoResponse, Failure> {
    let kind = match request.form {
        CaptureForm::Pcapng => "application/x-pcapng",
        CaptureForm::Text => "text/plain; charset=utf-8",
    };
    let stream = whole(capture::start(plane, asker, request)).await?;
    let head = [(CONTENT_TYPE.as_str(), kind.to_owned()), (path::CAPTURE_HEADER, stream.id.to_string())];
    Ok((head, axum::body::Body::new(stream.octets)))
}

pub(super) async fn list(State(plane): State<Shared>) -> Answer<CaptureList> {
    Ok(Doc(CaptureList { captures: plane.get().await?.observers().captures().list() }))
}

pub(super) async fn stop(State(plane): State<Shared>, Path(id): Path<String>) -> Answer<CaptureStopped> {
    let id = id.parse().map_err(|_| {
        ApiError::new(Blame::BadRequest, "a capture has a number")
            .remedy("`ravelin capture --list` shows those that run")
    })?;
    plane.get().await?.observers().captures().stop(id)?;
    Ok(Doc(CaptureStopped { stopped: true }))
}
