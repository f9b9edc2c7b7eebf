//! Live captures of inner packets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Spi;

/// The format of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CaptureForm {
    /// The capture is a pcapng file.
    #[default]
    Pcapng,
    /// The capture has a line for each packet.
    Text,
}

/// The body of POST `/v1/capture`. Without a filter, the capture has every packet that goes into or comes out of
/// protection, and every one that is dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CaptureRequest {
    /// Restricts the capture to this application's packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Restricts the capture to packets of associations with this SPI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sa: Option<Spi>,
    /// Restricts the capture to packets that are dropped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
    /// Ends the capture after so many packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Ends the capture after so many seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Octets that are kept of each packet; all of them if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snaplen: Option<u32>,
    /// The format of the capture.
    pub form: CaptureForm,
}

/// The answer to GET `/v1/capture`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureList {
    /// The captures that run, and the last that ended.
    pub captures: Vec<CaptureInfo>,
}

/// The state of one capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureInfo {
    /// The number of the capture.
    pub id: u64,
    /// The user ID of the one who asked for it.
    pub uid: u32,
    /// The ID of the process that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Whether the capture still runs.
    pub running: bool,
    /// Number of packets that were written.
    pub packets: u64,
    /// Number of packets that were lost because the reader was too slow.
    pub lost: u64,
    /// The request that started the capture.
    pub request: CaptureRequest,
}

/// The answer to DELETE `/v1/capture/{id}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureStopped {
    /// The value is always true.
    pub stopped: bool,
}
