//! Security associations: the operator's configuration ([`SaConfig`]) and the objects that the data path uses
//! ([`InboundSa`], [`OutboundSa`]).
//!
//! A configuration is checked once, when an association is made of it. From then on only what the network teaches
//! changes: the path MTU and, where it may move, the peer's endpoint. Standards: RFC 4301 section 4.4.2.1 (data items
//! of the SAD), RFC 4303 section 2.1 (SPI).

pub(crate) mod config;
mod counters;
pub(crate) mod identification;
mod inbound;
mod key;
mod key_limit;
mod name;
mod nat;
mod options;
mod outbound;
mod path_mtu;

pub use config::{DEFAULT_PATH_MTU, DEFAULT_REPLAY_WINDOW, Endpoints, SaConfig, Selectors};
pub use counters::Counters;
pub use inbound::{InboundSa, InboundState};
pub use key::{Key, Shape};
pub use name::{Direction, SaName, Spi};
pub use nat::NatChecksum;
pub use options::{
    DontFragment, Dscp, Encapsulation, Fragmentation, HeaderPolicy, HopLimit, KeyClass, Life, LifeState,
    Lifetime, Limits, MAX_DUMMY, Mode, Padding, SaOptions, SaProtocol, Tfc,
};
pub use outbound::{OutboundSa, OutboundState};
pub use path_mtu::{MIN_PATH_MTU_V4, MIN_PATH_MTU_V6, PathMtu, PathMtuLimits, PathMtuUpdate};
