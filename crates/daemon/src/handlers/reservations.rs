//! `/v1/qos/reservations`: rates of classes that flows are promised.

use api::{QosHolder, QosRefresh, QosReservationRemoved, QosReservations, QosReserve, QosReserved};
use axum::extract::{ConnectInfo, Path, State};

use crate::plane::Shared;
use control::answer::{Answer, Doc, whole};
use control::asker::Asker;
use control::extract::{Body, Query};
use documents::api_error::{ApiError, Blame};

/// The number of a reservation, from a path.
fn number(id: &str) -> Result<u64, ApiError> {
    id.parse().map_err(|_| {
        ApiError::new(Blame::BadRequest, "a reservation has a number")
            .remedy("`ravelin qos reserve list` shows those there are")
    })
}

pub(super) async fn list(State(plane): State<Shared>) -> Answer<QosReservations> {
    Ok(Doc(plane.get().await?.list_reservations().await?))
}

pub(super) async fn add(
    State(plane): State<Shared>,
    ConnectInfo(asker): ConnectInfo<Asker>,
    Body(request): Body<QosReserve>,
) -> Answer<QosReserved> {
    let change = async move { plane.get().await?.reserve(asker, &request).await };
    Ok(Doc(whole(change).await?))
}

pub(super) async fn refresh(
    State(plane): State<Shared>,
    Path(id): Path<String>,
    Body(request): Body<QosRefresh>,
) -> Answer<QosReserved> {
    let id = number(&id)?;
    let change = async move { plane.get().await?.refresh_reservation(id, &request.holder).await };
    Ok(Doc(whole(change).await?))
}

pub(super) async fn remove(
    State(plane): State<Shared>,
    ConnectInfo(asker): ConnectInfo<Asker>,
    Path(id): Path<String>,
    Query(query): Query<QosHolder>,
) -> Answer<QosReservationRemoved> {
    let id = number(&id)?;
    let change = async move { plane.get().await?.remove_reservation(asker, id, &query.holder).await };
    Ok(Doc(whole(change).await?))
}
