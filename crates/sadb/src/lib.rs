//! The security databases: SPD (the protection that a flow must get) and SAD (the keys that give it).
//!
//! Manual keys, policy and the data path meet only here. The room is pure: no clock, no randomness, no I/O. Standards:
//! RFC 4301 sections 4.4.1 (SPD) and 4.4.2 (SAD), RFC 4303 section 3.4.3 and RFC 6479 (replay). Paper 000 section 3.3
//! (what a rule says), paper 001 section 2.1 (the databases).
//!
//! There are two policy databases. [`spd`] is keyed by application and serves the host's own programs (paper 000).
//! [`rules`] is ordered, has every selector of RFC 4301 ([`selector`]), and serves gateways and what an operator adds.
//! The first can also be translated socket by socket, as paper 000 does it: [`per_socket`].
//!
//! What enters: an [`SaConfig`] from the operator, packets' SPIs, sequence numbers and flows from the data path. What
//! leaves: `&mut` access to the one association that serves a packet, or a named reason why none does. Each database
//! and each association belongs to one thread; nothing here locks.
#![forbid(unsafe_code)]

mod custom_suite;
mod error;
mod flow_cache;
pub mod handover;
mod keybook;
mod keyed;
pub mod per_socket;
pub mod replay;
pub mod rules;
pub mod sa;
pub mod sad;
pub mod selector;
pub mod setkey;
pub mod spd;
pub mod wireshark;

pub use error::SadError;
pub use flow_cache::{CacheKey, FlowCache, FlowKey};
pub use keybook::{Admission, KeyBook};
pub use per_socket::{Entry, EntryLimits, EntryStats, PerSocket, SocketEvent};
pub use replay::{ReplayState, ReplayWindow};
pub use rules::{Rule, RuleTable, Snapshot};
pub use sa::{Counters, Direction, Endpoints, InboundSa, Mode, OutboundSa, SaConfig, SaName, Selectors, Spi};
pub use sad::{Chain, InboundSad, MAX_CHAIN, MAX_SAS, MAX_SCOPED, OutboundSad, SaIndex};
pub use selector::{PacketKey, TrafficSelector};
