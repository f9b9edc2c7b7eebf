//! The state of a daemon.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CustomSuite, FlowTable, NamesState, PolicyState, Problem, QosInForce, TranslationState};

/// The overall state of a daemon, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StatusState {
    /// Everything that the policy needs is in place.
    Ok,
    /// Something is not as it should be; `problems` says what.
    Degraded,
}

/// What becomes of an application's traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AppState {
    /// Protection is mandatory, and traffic does not get through.
    Blocked,
    /// The traffic is not protected.
    Clear,
    /// Associations are missing; traffic that must be protected is refused.
    Waiting,
    /// Every network that its policy names is untrusted.
    Refused,
    /// Associations serve both directions.
    Protected,
}

impl std::fmt::Display for AppState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            AppState::Blocked => "BLOCKED",
            AppState::Clear => "in clear",
            AppState::Waiting => "waiting",
            AppState::Refused => "refused",
            AppState::Protected => "protected",
        })
    }
}

/// The protection of one application of the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppHealth {
    /// The name of the application.
    pub application: String,
    /// The state of its traffic in one word.
    pub state: AppState,
    /// The reason for the state.
    pub why: String,
}

/// The crypto unit that serves a suite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CryptoUnit {
    /// The word of the suite.
    pub suite: String,
    /// The name of the unit.
    pub unit: String,
    /// Why it serves: `only`, `first`, `fastest` (in the measurement at start) or `preferred` (by the configuration).
    pub why: String,
    /// What both ends must agree on, if the suite is one of a cipher of one's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<CustomSuite>,
    /// The results of the measurement at start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<CryptoMeasured>,
}

/// A cipher of one's own that the configuration names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CipherState {
    /// The name of the cipher.
    pub name: String,
    /// The place where its code runs: `compiled in`, `worker` for a library in a process of its own, or `in process` for one
    /// in the daemon.
    pub isolation: String,
    /// Whether suites may be used that rest on the cipher alone, also for integrity.
    pub alone: bool,
    /// The fingerprint of what the cipher computes, 64 hexadecimal digits; absent if it is not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// The state of its worker, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The counts of its worker, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<WorkerCounts>,
}

/// The counts of the worker process of a cipher of one's own, since the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerCounts {
    /// Workers that were started behind the first one.
    pub restarts: u64,
    /// Packets whose key stream was there before they came.
    pub ahead: u64,
    /// Packets for which a data thread waited.
    pub called: u64,
    /// Times at which the worker was late, caught up and was not restarted. The packets were dropped (`unit_failed`).
    pub late: u64,
    /// Batches of packets that failed.
    pub failed: u64,
}

/// The collector of audit lines, which `[audit.remote]` names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemoteAuditState {
    /// The address and port of the collector.
    pub server: SocketAddr,
    /// Whether there is a connection with a collector that has proved who it is.
    pub connected: bool,
    /// When the collector was last known to have read everything until then (RFC 3339, UTC); absent if it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<String>,
    /// Seconds since then, or since the start.
    pub silent_seconds: u64,
    /// Octets of the spool that are not known to be read.
    pub spooled: u64,
    /// Lines that were left out since the start.
    pub lost: u64,
    /// The number of the last message in the chain.
    pub sequence: u64,
    /// The SHA-256 of the last message, 64 hexadecimal digits: what the collector's file must end with.
    pub hash: String,
    /// What is wrong now, or was wrong last; absent after a confirmation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The figures of one unit in the measurement at start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CryptoMeasured {
    /// The name of the unit.
    pub unit: String,
    /// Nanoseconds for a packet of 64 octets.
    pub short_ns: u64,
    /// Nanoseconds for a packet of 1400 octets.
    pub long_ns: u64,
}

/// The answer to GET `/v1/health`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// The overall state in one word.
    pub state: StatusState,
    /// The problems of the daemon.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

/// The answer to GET `/v1/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The overall state in one word.
    pub state: StatusState,
    /// The problems of the daemon.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
    /// The applications and whether they are protected, those that are not first; at most 256.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protection: Vec<AppHealth>,
    /// The name of the instance.
    pub instance: String,
    /// The version of the daemon.
    pub version: String,
    /// The process ID of the daemon.
    pub pid: u32,
    /// Seconds since the daemon started.
    pub uptime_seconds: u64,
    /// The path of its configuration file.
    pub config: String,
    /// The crypto unit that serves each cipher suite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crypto: Vec<CryptoUnit>,
    /// The ciphers of one's own that the configuration names and that are known by their manifests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ciphers: Vec<CipherState>,
    /// The state of the TUN device.
    pub tun: TunState,
    /// The uplinks, each with whether it is guarded.
    pub uplinks: Vec<UplinkState>,
    /// Gateway mode and the networks behind this host; absent if it is no gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayState>,
    /// The UDP port for ESP (RFC 3948).
    pub esp_port: u16,
    /// A summary of the host names in the policy; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<NamesState>,
    /// The policy in force.
    pub policy: PolicyState,
    /// The graph of classes that is in force; absent if packets have no classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<QosInForce>,
    /// The translation of the policy into entries, socket by socket; absent where the policy is compiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub translation: Option<TranslationState>,
    /// Number of inbound associations.
    pub sas_in: usize,
    /// Number of outbound associations.
    pub sas_out: usize,
    /// Number of rules in the SPD.
    #[serde(default)]
    pub spd_rules: usize,
    /// The counts of outbound packets.
    pub outbound: Traffic,
    /// The counts of inbound packets.
    pub inbound: Traffic,
    /// Number of packets and calls that the kernel half refused or dropped, for all reasons together.
    pub kernel_refused: u64,
    /// Refusals whose particulars are lost. They are counted by application and reason all the same.
    #[serde(default)]
    pub kernel_untold: u64,
    /// The state of the flow table; absent if flows are not counted one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<FlowTable>,
    /// The collector of audit lines; absent if the configuration names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_remote: Option<RemoteAuditState>,
}

/// The state of the TUN device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TunState {
    /// The name of the device.
    pub name: String,
    /// The interface index of the device.
    pub ifindex: u32,
    /// Packets that found its queue full, or no reader.
    pub queue_drops: u64,
}

/// The state of an uplink or inside interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UplinkState {
    /// The name of the interface.
    pub name: String,
    /// The index of the interface.
    pub ifindex: u32,
    /// Whether our BPF programs are attached where they should be.
    pub guarded: bool,
}

/// The state of gateway mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GatewayState {
    /// Interfaces of the networks behind this host.
    pub inside: Vec<UplinkState>,
    /// What happens to packets that no rule matches: `discard` or `bypass`.
    pub default: String,
    /// Number of peer prefixes whose packets the kernel half treats differently from those around them, without the
    /// engine.
    pub spans: usize,
}

/// The packet counts of one direction of the data path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Traffic {
    /// Packets read from the device or socket.
    pub received: u64,
    /// Packets that went on under protection.
    pub protected: u64,
    /// Packets that went on in clear, as the policy says.
    pub clear: u64,
    /// Packets that were dropped.
    pub dropped: u64,
}
