//! The socket monitor: who a socket belongs to, and what its packets may do in the kernel.
//!
//! What enters: the compiled policy ([`sadb::spd::Spd`]), the executables behind the applications, the devices.
//! What leaves: every socket of a policed program stamped before its first packet; protected packets in front of
//! the TUN with a record; refusals, counters, and answers to "whose socket is this". The programs are in `bpf/`
//! (C, compiled by `build.rs`, embedded); this room loads, attaches, pins and feeds them. Links and maps outlive
//! the process: a daemon that dies leaves the host closed, not open.
//!
//! Everything here must be called from a thread in the network namespace that is guarded. docs/design/0002 holds
//! the contract; paper 000 sections 3.1 (socket monitor) and 3.4 (exclusiveness).

#[doc(hidden)]
pub mod abi;
mod adopt;
mod ancestors;
mod detach;
mod digest;
mod error;
mod flows;
mod folders;
mod frames;
mod gateway;
mod groups;
mod identities;
mod inside_icmp;
mod limits;
pub mod line;
mod links;
mod lists;
mod live;
mod locals;
mod marks;
mod model;
mod monitor;
mod names;
mod pins;
mod places;
mod policy;
mod probe;
mod programs;
mod queue_counts;
mod rehearsal;
mod reserved;
mod security;
mod socket_events;
mod socket_queues;
mod spans;
mod sys;
mod tables;
mod traffic;
mod tun_queues;
mod users;
mod walk;

pub use ::policy::Subjects;
pub use detach::{Detached, detach, instances};
pub use error::SockmonError;
pub use flows::{CountedFlow, FlowId, FlowInitiator, Sender};
pub use frames::{FrameSteering, is_frame_steering};
pub use gateway::Span;
pub use inside_icmp::InsideIcmp;
pub use model::{
    Adopted, Attempt, Check, Event, Fault, FlowCounting, Identity, LoadWarning, Options, ProgramStats,
    SocketInfo, SocketState,
};
pub use monitor::{Sockmon, Statistics, check_pins, exempt, forget_tun};
pub use names::DnsAnswer;
pub use pins::{Finding, Suspect};
pub use probe::{cgroup_root, probe, probe_programs};
pub use queue_counts::{QueueCounts, QueueTable};
pub use rehearsal::Rehearsal;
pub use reserved::{ReservedClass, ReservedName};
pub use security::{OptionHook, option_hook};
pub use socket_events::SocketEvents;
pub use socket_queues::{QueuedSockets, SaName, SocketSplit};
pub use tables::LoadStats;
pub use traffic::{Amount, AppTraffic};
pub use tun_queues::{QueueShare, QueueSplit};

/// The application of a process that runs a file of which nobody knows that it is what policy says: every peer is untrusted.
pub const REFUSED: wire::AppId = wire::AppId(abi::APP_REFUSED);

/// The compiled programs, as embedded.
#[doc(hidden)]
pub fn object() -> &'static [u8] {
    programs::OBJECT
}
