//! The paths of the control API, used by the router and by the client.

/// GET: [`crate::Status`].
pub const STATUS: &str = "/v1/status";
/// GET: [`crate::Health`]; HTTP 503 when degraded.
pub const HEALTH: &str = "/v1/health";
/// GET: [`crate::SaList`]; POST [`crate::SaAdd`]: [`crate::SaAdded`].
pub const SA: &str = "/v1/sa";
/// DELETE `/v1/sa/{spi}?direction=in|out`: [`crate::SaDeleted`]; PATCH [`crate::SaUpdate`]: [`crate::SaUpdated`].
pub const SA_ONE: &str = "/v1/sa/{spi}";
/// POST [`crate::SaReplace`]: [`crate::SaReplaced`].
pub const SA_REPLACE: &str = "/v1/replace";
/// GET with `?show_keys=true`, perhaps with `&spi=SPI`: lines of Wireshark's `esp_sa` table, with the keys, as
/// [`KEYS_CONTENT_TYPE`].
pub const SA_EXPORT: &str = "/v1/export/wireshark";
/// What the answer of [`SA_EXPORT`] calls itself: no JSON, so that no key passes through what reads and prints JSON.
pub const KEYS_CONTENT_TYPE: &str = "text/x-wireshark-esp-sa";
/// POST [`crate::CaptureRequest`]: a capture file or lines, until it ends, the capture's number in [`CAPTURE_HEADER`]; GET:
/// [`crate::CaptureList`].
pub const CAPTURE: &str = "/v1/capture";
/// DELETE: [`crate::CaptureStopped`]; the capture ends, and its file with its statistics.
pub const CAPTURE_ONE: &str = "/v1/capture/{id}";
/// The HTTP header with the number of a capture.
pub const CAPTURE_HEADER: &str = "ravelin-capture";
/// GET: [`crate::DebugState`]; POST [`crate::DebugRequest`]: the same.
pub const DEBUG: &str = "/v1/debug";
/// GET: [`crate::SpdList`]; POST [`crate::SpdAdd`]: [`crate::SpdAdded`]; DELETE, all of them: [`crate::SpdDeleted`].
pub const SPD: &str = "/v1/spd";
/// DELETE: [`crate::SpdDeleted`].
pub const SPD_ONE: &str = "/v1/spd/{name}";
/// GET: [`crate::SpdEntries`].
pub const ENTRIES: &str = "/v1/entries";
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
/// GET: the flows of programs that have a policy.
pub const FLOWS: &str = "/v1/flows";
/// GET with [`crate::CountedQuery`]: [`crate::CountedFlows`].
pub const FLOWS_COUNTED: &str = "/v1/flows/counted";
/// GET: [`crate::Counters`].
pub const COUNTERS: &str = "/v1/counters";
/// GET: [`crate::AppTrafficList`].
pub const TRAFFIC: &str = "/v1/traffic";
/// POST, perhaps with `?allow_empty=true` or `allow_missing=true`: [`crate::PolicyReload`].
pub const POLICY_RELOAD: &str = "/v1/policy/reload";
/// POST [`crate::PolicyText`]: [`crate::PolicyPlan`].
pub const POLICY_PLAN: &str = "/v1/policy/plan";
/// POST [`crate::PolicyApply`]: [`crate::PolicyApplied`].
pub const POLICY_APPLY: &str = "/v1/policy/apply";
/// POST: [`crate::PolicyApplied`]; what waits for its confirmation stays.
pub const POLICY_CONFIRM: &str = "/v1/policy/confirm";
/// POST: [`crate::PolicyApplied`]; the policy before is in force again.
pub const POLICY_ROLLBACK: &str = "/v1/policy/rollback";
/// GET: [`crate::NameList`].
pub const POLICY_NAMES: &str = "/v1/policy/names";

/// Of flows that policy wants scrubbed. GET: [`crate::ScrubbedStatus`]. Their rules, connections and packets have the paths of a scrubber
/// in line, below, on the daemon's socket.
pub const SCRUBBED: &str = "/v1/scrubbed";

/// Of a scrubber in line, on its own socket. GET: [`crate::InlineStatus`].
pub const INLINE_STATUS: &str = "/v1/inline/status";
/// GET: [`crate::InlineRules`].
pub const INLINE_RULES: &str = "/v1/inline/rules";
/// GET: [`crate::InlineFlows`].
pub const INLINE_FLOWS: &str = "/v1/inline/flows";
/// GET with [`crate::InlineQuery`]: [`crate::InlineEvents`].
pub const INLINE_EVENTS: &str = "/v1/inline/events";
