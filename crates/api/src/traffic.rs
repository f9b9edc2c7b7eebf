//! What each application's packets came to, as the kernel half counted it, without the data path.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Packets, and octets of them from the IP header on. Pieces of a super-packet are counted one by one, as on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Packets.
    pub packets: u64,
    /// Octets.
    pub bytes: u64,
}

impl Amount {
    /// Whether there was nothing.
    pub fn is_none(&self) -> bool {
        *self == Amount::default()
    }
}

/// GET `/v1/traffic`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppTrafficList {
    /// Every application that had traffic, by name.
    pub applications: Vec<AppTraffic>,
    /// Packets that are not among it: the table was full.
    pub lost: u64,
    /// Refusals of which the particulars are lost; they are counted all the same.
    #[serde(default)]
    pub events_lost: u64,
    /// What the kernel half handed to the data path, beside what that says it was given.
    pub handed_over: HandedOver,
}

/// One application, since the kernel half was attached (a restart of the daemon counts on).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppTraffic {
    /// Its name; empty: programs without a policy whose sockets asked for protection, or that were refused something.
    pub application: String,
    /// Its number.
    pub id: u16,
    /// What it sent.
    pub outbound: Sent,
    /// What of it left protected, by the engine's count; since the daemon's start.
    #[serde(default)]
    pub left: Left,
    /// What arrived for it.
    pub inbound: Arrived,
    /// How often each reason refused it, by the word of its counter: counted where it happened, whether or not anybody was told.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused_because: BTreeMap<String, u64>,
    /// Calls to networks that are only watched, which would have been refused, likewise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub would_be_refused_because: BTreeMap<String, u64>,
}

/// What left in associations. It is less than what was asked for ([`Sent::encrypted`]) where there was none, or a packet ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// In associations that only authenticate.
    pub authenticated: Amount,
    /// In associations that encrypt.
    pub encrypted: Amount,
}

/// What an application sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Left in clear, all in all.
    pub clear: Amount,
    /// Of it, what the data path was given and sent in clear: `never`, `optional` without an association.
    pub returned: Amount,
    /// Asked for: handed to the data path under a demand for authentication, whatever became of it.
    pub authenticated: Amount,
    /// Asked for: handed to the data path under a demand for encryption, whatever became of it.
    pub encrypted: Amount,
    /// Refused by the kernel half; a call that was refused is a packet without octets.
    pub refused: Amount,
    /// Of what left in clear: to networks that are only watched (`observe`), where it would have been refused.
    #[serde(default, skip_serializing_if = "Amount::is_none")]
    pub would_refuse: Amount,
    /// Likewise: would have been authenticated.
    #[serde(default, skip_serializing_if = "Amount::is_none")]
    pub would_authenticate: Amount,
    /// Likewise: would have been encrypted.
    #[serde(default, skip_serializing_if = "Amount::is_none")]
    pub would_encrypt: Amount,
}

/// What arrived for an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrived {
    /// In clear, and accepted so.
    pub clear: Amount,
    /// Out of an association that authenticates.
    pub authenticated: Amount,
    /// Out of an association that encrypts.
    pub encrypted: Amount,
    /// Refused.
    pub refused: Amount,
    /// Of what arrived in clear: from networks that are only watched, where it would have been refused.
    #[serde(default, skip_serializing_if = "Amount::is_none")]
    pub would_refuse: Amount,
}

/// Two counts of one thing, by two who do not ask each other; since the daemon's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedOver {
    /// Packets that the kernel half put into the TUN.
    pub kernel: u64,
    /// Packets that the data path took out of it.
    pub engine: u64,
    /// Packets that found the TUN's queue full.
    pub dropped: u64,
    /// As far as what is on its way can tell.
    pub agree: bool,
}
