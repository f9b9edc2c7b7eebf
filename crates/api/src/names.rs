//! The state of the host names in the policy.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Position;

/// The answer to GET `/v1/policy/names`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NameList {
    /// The host names, in alphabetical order.
    pub names: Vec<NameState>,
}

/// A host name, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NameState {
    /// The host name itself.
    pub name: String,
    /// Positions of the `network` lines that have this name, once for each application.
    pub settings: Vec<Position>,
    /// The known addresses of the name.
    pub addresses: Vec<NameAddress>,
    /// Seconds since the resolver last gave addresses; absent if it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_seconds_ago: Option<u64>,
    /// Failed queries since then.
    pub failures: u32,
    /// The error of the last query, if it did not bring an answer for both address families.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Addresses that were not taken, because there were too many or because no host can have them.
    pub refused_addresses: u64,
}

/// An address of a host name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NameAddress {
    /// The IP address itself.
    pub address: IpAddr,
    /// The source of the address: `resolver`, `kept` (from the resolver, but older than the answer's TTL and the grace)
    /// or `observed` (an application received it).
    pub source: String,
    /// Whether the address is in the resolver's last answer.
    pub listed: bool,
    /// Seconds since the address was last reported.
    pub said_seconds_ago: u64,
    /// Seconds for which the answer is still valid.
    pub ttl_seconds: u64,
    /// Number of applications that have this name in their policy and sockets connected to this address.
    pub applications_with_flows: usize,
}

/// A summary of the host names in the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamesState {
    /// Number of names in the policy.
    pub names: usize,
    /// Number of names without any address.
    pub unresolved: usize,
    /// Number of names whose last query failed.
    pub failing: usize,
    /// Number of known addresses of all names.
    pub addresses: usize,
    /// Addresses among these that only applications received.
    pub observed: usize,
    /// Addresses that are refused because settings that do not compare name them.
    pub contested: usize,
    /// Observed addresses that are not used because something would have become less strict.
    pub withheld: usize,
    /// Addresses for which the tables had no room.
    pub left_out: usize,
    /// Addresses in answers that were not taken.
    pub refused_addresses: u64,
    /// DNS answers to applications that were examined.
    pub answers_seen: u64,
    /// Answers among these that brought something new.
    pub answers_used: u64,
}
