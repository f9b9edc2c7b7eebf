//! `/v1/openapi.json`: the description of the API.

use axum::Json;
use serde_json::Value;

/// The description, made anew for each request: it is asked for seldom.
pub(super) async fn document() -> Json<Value> {
    Json(api::openapi::document(env!("CARGO_PKG_VERSION")))
}
