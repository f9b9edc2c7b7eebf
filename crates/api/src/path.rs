//! The paths of the control API, used by the router and by the client.

/// GET: [`crate::Status`].
pub const STATUS: &str = "/v1/status";
/// GET: [`crate::Health`]; HTTP 503 when degraded.
pub const HEALTH: &str = "/v1/health";
/// GET: [`crate::SaList`]; POST [`crate::SaAdd`]: [`crate::SaAdded`].
pub const SA: &str = "/v1/sa";
/// DELETE `/v1/sa/{spi}?direction=in|out`: [`crate::SaDeleted`].
pub const SA_ONE: &str = "/v1/sa/{spi}";
/// GET: [`crate::SpdList`]; POST [`crate::SpdAdd`]: [`crate::SpdAdded`]; DELETE, all of them: [`crate::SpdDeleted`].
pub const SPD: &str = "/v1/spd";
/// DELETE: [`crate::SpdDeleted`].
pub const SPD_ONE: &str = "/v1/spd/{name}";
/// GET, perhaps with `?acquire=true`: [`crate::Event`]s, one a line, without end.
pub const EVENTS: &str = "/v1/events";
/// POST: [`crate::SpiAllocated`].
pub const SPI: &str = "/v1/spi";
/// DELETE: [`crate::Released`].
pub const SPI_ONE: &str = "/v1/spi/{spi}";
/// DELETE: [`crate::Released`]; what waited for this acquire ends.
pub const ACQUIRE_ONE: &str = "/v1/acquire/{id}";
/// GET with [`crate::ExplainQuery`]: [`crate::Explanation`].
pub const EXPLAIN: &str = "/v1/explain";
/// GET: [`crate::Counters`].
pub const COUNTERS: &str = "/v1/counters";
/// POST, perhaps with `?allow_empty=true`: [`crate::PolicyReload`].
pub const POLICY_RELOAD: &str = "/v1/policy/reload";
