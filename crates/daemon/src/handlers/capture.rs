//! `/v1/capture`: packets in clear, for root.

use api::{CaptureForm, CaptureList, CaptureRequest, CaptureStopped, path};
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::whole;
use crate::plane::{Shared, capture};
use control::answer::Answer;
use control::asker::Asker;
use documents::refused::{Fault, Refused};

pub(super) async fn start(
    State(plane): State<Shared>,
    ConnectInfo(asker): ConnectInfo<Asker>,
    body: Bytes,
) -> Response {
    match begin(plane, asker, &body).await {
        Ok((form, stream)) => {
            let kind = match form {
                CaptureForm::Pcapng => "application/x-pcapng",
                CaptureForm::Text => "text/plain; charset=utf-8",
            };
            let head =
                [(CONTENT_TYPE.as_str(), kind.to_owned()), (path::CAPTURE_HEADER, stream.id.to_string())];
            (head, Body::new(stream.octets)).into_response()
        }
        Err(refused) => Answer::<()>(Err(refused)).into_response(),
    }
}

async fn begin(plane: Shared, asker: Asker, body: &[u8]) -> Result<(CaptureForm, capture::Stream), Refused> {
    let request: CaptureRequest = serde_json::from_slice(body).map_err(|error| {
        Refused::new(Fault::BadRequest, format!("the request is not one for a capture: {error}"))
            .remedy("see ravelin-capture(7)")
    })?;
    whole(async move { Ok((request.form, capture::start(plane, asker, request).await?)) }).await
}

pub(super) async fn list(State(plane): State<Shared>) -> Answer<CaptureList> {
    Answer(plane.get().await.map(|plane| CaptureList { captures: plane.observers().captures().list() }))
}

pub(super) async fn stop(State(plane): State<Shared>, Path(id): Path<String>) -> Answer<CaptureStopped> {
    Answer(
        async {
            let id = id.parse().map_err(|_| {
                Refused::new(Fault::BadRequest, "a capture has a number")
                    .remedy("`ravelin capture --list` shows those that run")
            })?;
            plane.get().await?.observers().captures().stop(id).map(|()| CaptureStopped { stopped: true })
        }
        .await,
    )
}
