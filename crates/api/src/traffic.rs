//! The traffic of each application, as the kernel half counts it, without the data path.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A count of packets, and of their octets from the IP header on. Pieces of a super-packet are counted one by one, as
/// on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Amount {
    /// Number of packets counted.
    pub packets: u64,
    /// Number of octets counted.
    pub bytes: u64,
}

impl Amount {
    /// Whether both counts are zero.
    pub fn is_none(&self) -> bool {
        *self == Amount::default()
    }
}

/// The answer to GET `/v1/traffic`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppTrafficList {
    /// Every application that had traffic, by name.
    pub applications: Vec<AppTraffic>,
    /// Packets that are missing from it because the table was full.
    pub lost: u64,
    /// Refusals whose particulars are lost. They are counted all the same.
    #[serde(default)]
    pub events_lost: u64,
    /// Packets that the kernel half handed to the data path, compared with those that the data path received.
    pub handed_over: HandedOver,
}

/// The traffic of an application since the kernel half was attached (a restart of the daemon counts on).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppTraffic {
    /// The name of the application. It is empty for programs without a policy whose sockets asked for protection, or
    /// that were refused something.
    pub application: String,
    /// The number of the application.
    pub id: u16,
    /// The traffic that it sent.
    pub outbound: SentTraffic,
    /// The part of it that left protected since the daemon's start, as the engine counts it.
    #[serde(default)]
    pub left: LeftTraffic,
    /// The traffic that arrived for it.
    pub inbound: Arrived,
    /// Number of refusals by the word of the reason's counter. They are counted where they happened, whether or not
    /// anybody was told.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused_because: BTreeMap<String, u64>,
    /// Number of calls to networks that are only watched, by the reason that would have refused them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub would_be_refused_because: BTreeMap<String, u64>,
}

/// The traffic that left in associations. It is less than what was asked for ([`Sent::encrypted`]) where there was no
/// association, or a packet was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftTraffic {
    /// Traffic in associations that only authenticate.
    pub authenticated: Amount,
    /// Traffic in associations that encrypt.
    pub encrypted: Amount,
}

/// The traffic that an application sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SentTraffic {
    /// Traffic that left in clear, all in all.
    pub clear: Amount,
    /// The part of `clear` that the data path was given and sent in clear: `never`, or `optional` without an
    /// association.
    pub returned: Amount,
    /// Traffic handed to the data path under a demand for authentication, whatever became of it.
    pub authenticated: Amount,
    /// Traffic handed to the data path under a demand for encryption, whatever became of it.
    pub encrypted: Amount,
    /// Traffic refused by the kernel half. A call that was refused is a packet without octets.
    pub refused: Amount,
    /// The part of `clear` to networks that are only watched (`observe`) that would have been refused.
    #[serde(default, skip_serializing_if = "Amount::is_none")]
    pub would_refuse: Amount,
    /// The part of `clear` to networks that are only watched that would have been authenticated.
    #[serde(default, skip_serializing_if = "Amount::is_none")]
    pub would_authenticate: Amount,
    /// The part of `clear` to networks that are only watched that would have been encrypted.
    #[serde(default, skip_serializing_if = "Amount::is_none")]
    pub would_encrypt: Amount,
}

/// The traffic that arrived for an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Arrived {
    /// Traffic that arrived in clear and was accepted so.
    pub clear: Amount,
    /// Traffic that came out of associations that authenticate.
    pub authenticated: Amount,
    /// Traffic that came out of associations that encrypt.
    pub encrypted: Amount,
    /// Traffic that was refused.
    pub refused: Amount,
    /// The part of `clear` from networks that are only watched that would have been refused.
    #[serde(default, skip_serializing_if = "Amount::is_none")]
    pub would_refuse: Amount,
}

/// Two independent counts of the packets handed to the data path, since the daemon's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HandedOver {
    /// Packets that the kernel half put into the TUN.
    pub kernel: u64,
    /// Packets that the data path took out of the TUN.
    pub engine: u64,
    /// Packets that found the TUN's queue full.
    pub dropped: u64,
    /// Whether the counts agree, as far as packets on their way allow to tell.
    pub agree: bool,
}
