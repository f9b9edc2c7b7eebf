//! Live captures of inner packets.

use serde::{Deserialize, Serialize};

use crate::Spi;

/// What a capture is written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CaptureForm {
    /// A pcapng file.
    #[default]
    Pcapng,
    /// A line for each packet.
    Text,
}

/// POST `/v1/capture`. Without a filter: every packet that goes into or comes out of protection, and every one that ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CaptureRequest {
    /// Only this application's packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Only packets of associations with this SPI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sa: Option<Spi>,
    /// Only packets that end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
    /// End after so many packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// End after so many seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Octets that are kept of each packet; all of them if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snaplen: Option<u32>,
    /// Its form.
    pub form: CaptureForm,
}

/// GET `/v1/capture`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureList {
    /// Those that run, and the last that ended.
    pub captures: Vec<CaptureInfo>,
}

/// One capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureInfo {
    /// Its number.
    pub id: u64,
    /// Who asked for it.
    pub uid: u32,
    /// The process that did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Whether it goes on.
    pub running: bool,
    /// Packets written.
    pub packets: u64,
    /// Packets that found no room since the reader was too slow.
    pub lost: u64,
    /// What it looks for.
    pub request: CaptureRequest,
}

/// The answer to DELETE `/v1/capture/{id}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureStopped {
    /// Always true.
    pub stopped: bool,
}
