//! The scrubber: it turns packets that could be read in two ways into packets that everybody reads alike (paper 003).
//!
//! What enters: an IP packet, the side it came from, the time. What leaves: the packet, changed in place where a rule
//! says so, or the rule that dropped it, and now and then a packet of the scrubber's own (a challenge, an answer "too
//! big"). There is no I/O, no clock and no randomness of its own: the same packets give the same packets. The room is
//! useful without IPsec.
//!
//! Every normalisation is a [`Rule`] with a number; `scrubber.rs` has their order. Standards: RFC 791, RFC 8200, RFC
//! 9293, RFC 5961, RFC 7323, RFC 2018, RFC 5722, RFC 6946, RFC 7112, RFC 5927. docs/design/0022 has the reasons,
//! docs/scrub.md the rules.
#![forbid(unsafe_code)]

mod config;
mod counters;
mod fragments;
mod icmp;
mod ip;
mod rule;
mod saved;
mod scrubber;
mod sctp;
mod security;
mod sessions;
mod tcp;
mod udp;
mod verdict;

pub use config::{
    Config, Feed, FlowLimits, Midstream, ModeError, Octets, Profile, Protect, SessionLimits, StoreLimits,
    Urgent,
};
pub use counters::{Counters, RuleCounters};
pub use rule::{Mode, Rule, Rules};
pub use saved::{Record, RestoreCounts, Saved, SavedError};
pub use scrubber::Scrubber;
pub use tcp::{Connections, State};
pub use verdict::{Arrival, Emitted, Outcome, RuleHits, Side, Verdict};
