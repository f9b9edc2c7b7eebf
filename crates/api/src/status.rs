//! The state of a daemon.

use serde::{Deserialize, Serialize};

use crate::{FlowTable, NamesState, PolicyState, Problem, TranslationState};

/// In one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatusState {
    /// Everything that the policy needs is in place.
    Ok,
    /// Something is not as it should be; `problems` says what.
    Degraded,
}

/// What becomes of an application's traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AppState {
    /// What must be protected does not get through.
    Blocked,
    /// It is not protected.
    Clear,
    /// Associations are missing; what must be protected is refused.
    Waiting,
    /// Every network of its policy is untrusted.
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

/// One application of the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppHealth {
    /// Its name.
    pub application: String,
    /// In one word.
    pub state: AppState,
    /// Why.
    pub why: String,
}

/// The unit that serves one suite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CryptoUnit {
    /// The suite's word.
    pub suite: String,
    /// The unit.
    pub unit: String,
    /// `only`, `first`, `fastest` (of the measurement at start) or `preferred` (by the configuration).
    pub why: String,
    /// What was measured at start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<CryptoMeasured>,
}

/// One unit's figures of the start-up measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CryptoMeasured {
    /// The unit.
    pub unit: String,
    /// Nanoseconds for a packet of 64 octets.
    pub short_ns: u64,
    /// Nanoseconds for a packet of 1400 octets.
    pub long_ns: u64,
}

/// GET `/v1/health`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// In one word.
    pub state: StatusState,
    /// What is not as it should be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

/// GET `/v1/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// In one word.
    pub state: StatusState,
    /// What is not as it should be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
    /// Which applications are protected and which not, those that are not first; at most 256.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protection: Vec<AppHealth>,
    /// The instance.
    pub instance: String,
    /// The daemon's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Since it started.
    pub uptime_seconds: u64,
    /// Its configuration file.
    pub config: String,
    /// Who serves each cipher suite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crypto: Vec<CryptoUnit>,
    /// The TUN.
    pub tun: TunState,
    /// Guarded uplinks.
    pub uplinks: Vec<UplinkState>,
    /// The networks behind this host; absent: it is no gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayState>,
    /// The UDP port for ESP.
    pub esp_port: u16,
    /// Host names in the policy; `None`: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<NamesState>,
    /// The policy in force.
    pub policy: PolicyState,
    /// How it becomes entries, where that is done socket by socket; absent: it is compiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub translation: Option<TranslationState>,
    /// Inbound associations.
    pub sas_in: usize,
    /// Outbound associations.
    pub sas_out: usize,
    /// Rules of the SPD.
    #[serde(default)]
    pub spd_rules: usize,
    /// What went out.
    pub outbound: Traffic,
    /// What came in.
    pub inbound: Traffic,
    /// What the kernel half refused or dropped, all reasons together.
    pub kernel_refused: u64,
    /// Refusals of which the particulars are lost; they are counted by application and reason all the same.
    #[serde(default)]
    pub kernel_untold: u64,
    /// Flows counted one by one; absent: they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<FlowTable>,
}

/// The TUN.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunState {
    /// Its name.
    pub name: String,
    /// Its index.
    pub ifindex: u32,
    /// Packets that found its queue full or nobody reading.
    pub queue_drops: u64,
}

/// An uplink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UplinkState {
    /// Its name.
    pub name: String,
    /// Its index.
    pub ifindex: u32,
    /// Our programs are attached where they should be.
    pub guarded: bool,
}

/// Gateway mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayState {
    /// Interfaces of the networks behind this host.
    pub inside: Vec<UplinkState>,
    /// What happens to packets that no rule matches: `discard` or `bypass`.
    pub default: String,
    /// Prefixes of peers whose packets the kernel half treats otherwise than those around them, without the engine.
    pub spans: usize,
}

/// One direction of the data path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Packets read from the device or socket.
    pub received: u64,
    /// Packets that went on under protection.
    pub protected: u64,
    /// Packets that went on in clear, as policy says.
    pub clear: u64,
    /// Packets that ended.
    pub dropped: u64,
}
