//! What is known of host names in the policy.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Position;

/// GET `/v1/policy/names`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameList {
    /// By name.
    pub names: Vec<NameState>,
}

/// One name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameState {
    /// The name.
    pub name: String,
    /// The `network` lines that have it, once for each application.
    pub settings: Vec<Position>,
    /// Its addresses.
    pub addresses: Vec<NameAddress>,
    /// When the resolver last gave addresses, seconds ago; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_seconds_ago: Option<u64>,
    /// Questions since then that came to nothing.
    pub failures: u32,
    /// What the last question came to, if not to an answer for both families.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Addresses that were not taken: too many, or none that a host can have.
    pub refused_addresses: u64,
}

/// An address of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameAddress {
    /// The address.
    pub address: IpAddr,
    /// `resolver`, `kept` (the resolver's, of longer ago than its answer and the grace) or `observed` (an application received it).
    pub source: String,
    /// It is in the resolver's last answer.
    pub listed: bool,
    /// When it was last said, seconds ago.
    pub said_seconds_ago: u64,
    /// For how many seconds more the answer is good.
    pub ttl_seconds: u64,
    /// Applications with this name in their policy that have sockets connected to it.
    pub applications_with_flows: usize,
}

/// Names in a few numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamesState {
    /// Names in the policy.
    pub names: usize,
    /// Without any address.
    pub unresolved: usize,
    /// Whose last question came to nothing.
    pub failing: usize,
    /// Addresses known.
    pub addresses: usize,
    /// Of these, those that only applications received.
    pub observed: usize,
    /// Addresses refused since settings that do not compare speak of them.
    pub contested: usize,
    /// Addresses not used, for something would have become less strict.
    pub withheld: usize,
    /// Addresses for which the tables had no room.
    pub left_out: usize,
    /// Addresses that answers had and that were not taken.
    pub refused_addresses: u64,
    /// Answers of applications that were looked at.
    pub answers_seen: u64,
    /// Of these, those that said something new.
    pub answers_used: u64,
}
