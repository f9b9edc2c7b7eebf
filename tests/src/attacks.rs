//! The transport cases of docs/scrub.md's catalogue as an attacker plays them against real stacks and readers at once.
//!
//! One [`Case`] is a script of packets from outside. It is played four times: against Linux (a namespace with real sockets) and
//! against smoltcp (in memory), each time with nothing in between and with a [`scrub::Scrubber`]. The scripts answer what the stack
//! says: its initial sequence number, its timestamps. What lies on the wire in front of Linux is a capture, which libnids, tcpflow,
//! tshark and scapy then read. Every one of them says what it understood: the octets of each connection, and each datagram.
//!
//! Offline, rule by rule, the same cases are in crates/scrub/tests/suite/catalogue_ip.rs and catalogue_tcp.rs; the builders of packets are
//! theirs (crates/scrub/tests/kit).

mod cases;
mod data;
pub mod document;
mod fragments;
mod headers;
mod insertion;
mod linux;
mod matrix;
pub mod probes;
mod readers;
mod reading;
mod small;
mod stage;
mod state;

#[path = "../../crates/scrub/tests/suite/kit/segment.rs"]
mod kit;
#[path = "../../crates/scrub/tests/suite/kit/packet.rs"]
mod packet;

pub use cases::{Case, Want, all};
pub use linux::Linux;
pub use matrix::{Line, Table, play};
pub use readers::{READERS, Reader};
pub use reading::{Accord, Reading};
pub use small::Small;
pub use stage::{Inside, Stage};

/// The port of every service inside.
pub const PORT: u16 = 7777;
/// Ports and addresses outside that belong to one case.
pub const PORTS: u16 = 64;
/// The first of them.
pub const FIRST_PORT: u16 = 20_000;
