//! The control API: HTTP/JSON over a Unix socket of mode 0600. One file per subject; every answer is a document of the
//! `api` room.

mod capture;
mod counted;
mod counters;
mod debug;
mod entries;
mod events;
mod explain;
mod flows;
mod metrics;
mod openapi;
mod policy;
mod qos;
mod reservations;
mod sa;
mod scrubbed;
mod spd;
mod status;
mod traffic;

use api::path;
use axum::Router;
use axum::routing::{delete, get, post};
use tokio::net::UnixListener;

use crate::plane::Shared;
use control::answer::{MAX_REQUEST, in_our_words, nothing_here};
use control::asker::Asker;

/// Every path of the API.
pub fn router(plane: Shared) -> Router {
    Router::new()
        .route(path::OPENAPI, get(openapi::document))
        .route(path::STATUS, get(status::status))
        .route(path::HEALTH, get(status::health))
        .route(path::SA, get(sa::list).post(sa::add))
        .route(path::SA_ONE, delete(sa::del).patch(sa::update))
        .route(path::SA_REPLACE, post(sa::replace))
        .route(path::SA_EXPORT, get(sa::export))
        .route(path::CAPTURE, get(capture::list).post(capture::start))
        .route(path::CAPTURE_ONE, delete(capture::stop))
        .route(path::DEBUG, get(debug::show).post(debug::switch))
        .route(path::SPD, get(spd::list).post(spd::add).delete(spd::flush))
        .route(path::SPD_ONE, delete(spd::del))
        .route(path::ENTRIES, get(entries::list))
        .route(path::EVENTS, get(events::stream))
        .route(path::SPI, post(events::allocate))
        .route(path::SPI_ONE, delete(events::release))
        .route(path::ACQUIRE_ONE, delete(events::refuse))
        .route(path::EXPLAIN, get(explain::explain))
        .route(path::FLOWS, get(flows::list))
        .route(path::FLOWS_COUNTED, get(counted::list))
        .route(path::COUNTERS, get(counters::counters))
        .route(path::TRAFFIC, get(traffic::traffic))
        .route(path::QOS, get(qos::state))
        .route(path::QOS_APPLY, post(qos::apply).layer(whole_graph()))
        .route(path::QOS_CONFIRM, post(qos::confirm))
        .route(path::QOS_ROLLBACK, post(qos::rollback))
        .route(path::QOS_RESERVATIONS, get(reservations::list).post(reservations::add))
        .route(path::QOS_RESERVATION_ONE, delete(reservations::remove))
        .route(path::QOS_RESERVATION_REFRESH, post(reservations::refresh))
        .route(path::METRICS, get(metrics::metrics))
        .route(path::SCRUBBED, get(scrubbed::status))
        .route(path::INLINE_RULES, get(scrubbed::rules))
        .route(path::INLINE_FLOWS, get(scrubbed::flows))
        .route(path::INLINE_EVENTS, get(scrubbed::events))
        .route(path::POLICY_RELOAD, post(policy::reload))
        .route(path::POLICY_PLAN, post(policy::plan).layer(whole_policy()))
        .route(path::POLICY_APPLY, post(policy::apply).layer(whole_policy()))
        .route(path::POLICY_CONFIRM, post(policy::confirm))
        .route(path::POLICY_ROLLBACK, post(policy::rollback))
        .route(path::POLICY_NAMES, get(policy::names))
        .fallback(nothing_here)
        .layer(axum::extract::DefaultBodyLimit::max(MAX_REQUEST))
        .layer(axum::middleware::map_response(in_our_words))
        .with_state(plane)
}

/// Room for a policy as a JSON string: of what a policy is made of, no octet becomes more than two.
fn whole_policy() -> axum::extract::DefaultBodyLimit {
    axum::extract::DefaultBodyLimit::max(2 * ::policy::MAX_TEXT + MAX_REQUEST)
}

/// Room for a graph as a JSON string.
fn whole_graph() -> axum::extract::DefaultBodyLimit {
    axum::extract::DefaultBodyLimit::max(2 * config::MAX_GRAPH + MAX_REQUEST)
}

/// Answer requests until `ended` does.
///
/// # Errors
/// If the listener breaks.
pub async fn serve(
    listener: UnixListener,
    plane: Shared,
    ended: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let router = router(plane).into_make_service_with_connect_info::<Asker>();
    axum::serve(listener, router).with_graceful_shutdown(ended).await
}

#[cfg(test)]
pub(crate) mod tests;
