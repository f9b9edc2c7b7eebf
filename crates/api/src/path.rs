//! The paths of the control API, used by the router and by the client.

/// GET answers with the description of all of these in the form of OpenAPI ([`crate::openapi`]).
pub const OPENAPI: &str = "/v1/openapi.json";
/// GET answers with [`crate::Status`].
pub const STATUS: &str = "/v1/status";
/// GET answers with [`crate::Health`], and with HTTP status 503 when degraded.
pub const HEALTH: &str = "/v1/health";
/// GET answers with [`crate::SaList`]. POST [`crate::SaAdd`] answers with [`crate::SaAdded`].
pub const SA: &str = "/v1/sa";
/// DELETE `/v1/sa/{spi}?direction=in|out` answers with [`crate::SaDeleted`]. PATCH [`crate::SaUpdate`] answers with
/// [`crate::SaUpdated`].
pub const SA_ONE: &str = "/v1/sa/{spi}";
/// POST [`crate::SaReplace`] answers with [`crate::SaReplaced`].
pub const SA_REPLACE: &str = "/v1/replace";
/// GET with `?show_keys=true`, and optionally `&spi=SPI`, answers with lines of Wireshark's `esp_sa` table. They hold
/// the keys and have the type [`KEYS_CONTENT_TYPE`].
pub const SA_EXPORT: &str = "/v1/export/wireshark";
/// The content type of the answer of [`SA_EXPORT`]. It is not JSON, so that no key passes through what reads and prints
/// JSON.
pub const KEYS_CONTENT_TYPE: &str = "text/x-wireshark-esp-sa";
/// POST [`crate::CaptureRequest`] answers with a capture file, or lines, until the capture ends; [`CAPTURE_HEADER`]
/// holds the capture's number. GET answers with [`crate::CaptureList`].
pub const CAPTURE: &str = "/v1/capture";
/// DELETE answers with [`crate::CaptureStopped`]; it ends the capture, and the file ends with its statistics.
pub const CAPTURE_ONE: &str = "/v1/capture/{id}";
/// The name of the HTTP header that holds the number of a capture.
pub const CAPTURE_HEADER: &str = "ravelin-capture";
/// GET and POST [`crate::DebugRequest`] both answer with [`crate::DebugState`].
pub const DEBUG: &str = "/v1/debug";
/// GET answers with [`crate::SpdList`]. POST [`crate::SpdAdd`] answers with [`crate::SpdAdded`]. DELETE removes every
/// rule and answers with [`crate::SpdDeleted`].
pub const SPD: &str = "/v1/spd";
/// DELETE answers with [`crate::SpdDeleted`].
pub const SPD_ONE: &str = "/v1/spd/{name}";
/// GET answers with [`crate::SpdEntries`].
pub const ENTRIES: &str = "/v1/entries";
/// GET, optionally with `?acquire=true`, answers with [`crate::Event`]s, one a line, without end.
pub const EVENTS: &str = "/v1/events";
/// POST answers with [`crate::SpiAllocated`].
pub const SPI: &str = "/v1/spi";
/// DELETE answers with [`crate::Released`].
pub const SPI_ONE: &str = "/v1/spi/{spi}";
/// DELETE answers with [`crate::Released`]; packets that waited for this acquire end.
pub const ACQUIRE_ONE: &str = "/v1/acquire/{id}";
/// GET with [`crate::ExplainQuery`] answers with [`crate::Explanation`].
pub const EXPLAIN: &str = "/v1/explain";
/// GET answers with [`crate::Flows`], the flows of programs that have a policy.
pub const FLOWS: &str = "/v1/flows";
/// GET with [`crate::CountedQuery`] answers with [`crate::CountedFlows`].
pub const FLOWS_COUNTED: &str = "/v1/flows/counted";
/// GET answers with [`crate::Counters`].
pub const COUNTERS: &str = "/v1/counters";
/// GET answers with [`crate::AppTrafficList`].
pub const TRAFFIC: &str = "/v1/traffic";
/// GET answers with [`crate::QosState`].
pub const QOS: &str = "/v1/qos";
/// POST [`crate::QosApply`] answers with [`crate::QosApplied`].
pub const QOS_APPLY: &str = "/v1/qos/apply";
/// POST answers with [`crate::QosApplied`].
pub const QOS_CONFIRM: &str = "/v1/qos/confirm";
/// POST answers with [`crate::QosApplied`].
pub const QOS_ROLLBACK: &str = "/v1/qos/rollback";
/// GET answers with [`crate::QosReservations`], POST [`crate::QosReserve`] with [`crate::QosReserved`].
pub const QOS_RESERVATIONS: &str = "/v1/qos/reservations";
/// DELETE with [`crate::QosHolder`] answers with [`crate::QosReservationRemoved`].
pub const QOS_RESERVATION_ONE: &str = "/v1/qos/reservations/{id}";
/// POST [`crate::QosRefresh`] answers with [`crate::QosReserved`].
pub const QOS_RESERVATION_REFRESH: &str = "/v1/qos/reservations/{id}/refresh";
/// GET answers with what the graph of classes has done, in the text form of Prometheus. The path is the one where its
/// readers look, and has the type [`METRICS_CONTENT_TYPE`].
pub const METRICS: &str = "/metrics";
/// The content type of the answer of [`METRICS`]: the text exposition format of Prometheus.
pub const METRICS_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// POST, optionally with `?allow_empty=true` or `allow_missing=true`, answers with [`crate::PolicyReload`].
pub const POLICY_RELOAD: &str = "/v1/policy/reload";
/// POST [`crate::PolicyText`] answers with [`crate::PolicyPlan`].
pub const POLICY_PLAN: &str = "/v1/policy/plan";
/// POST [`crate::PolicyApply`] answers with [`crate::PolicyApplied`].
pub const POLICY_APPLY: &str = "/v1/policy/apply";
/// POST answers with [`crate::PolicyApplied`]; the policy that waits for its confirmation stays.
pub const POLICY_CONFIRM: &str = "/v1/policy/confirm";
/// POST answers with [`crate::PolicyApplied`]; the previous policy is in force again.
pub const POLICY_ROLLBACK: &str = "/v1/policy/rollback";
/// GET answers with [`crate::NameList`].
pub const POLICY_NAMES: &str = "/v1/policy/names";

/// GET answers with [`crate::ScrubbedStatus`], about flows that the policy wants scrubbed. Their rules, connections and
/// packets have the paths of an inline scrubber, below, on the daemon's socket.
pub const SCRUBBED: &str = "/v1/scrubbed";

/// GET on an inline scrubber's own socket answers with [`crate::InlineStatus`].
pub const INLINE_STATUS: &str = "/v1/inline/status";
/// GET answers with [`crate::InlineRules`].
pub const INLINE_RULES: &str = "/v1/inline/rules";
/// GET answers with [`crate::InlineFlows`].
pub const INLINE_FLOWS: &str = "/v1/inline/flows";
/// GET with [`crate::InlineQuery`] answers with [`crate::InlineEvents`].
pub const INLINE_EVENTS: &str = "/v1/inline/events";
