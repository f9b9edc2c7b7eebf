//! The translation mode of the paper: policy entries that are made and deleted by what sockets do (paper 000 sections
//! 3.4, 3.4.1, 3.4.2; docs/design/0011).
//!
//! What enters: the policy of every application ([`crate::spd::Spd`]), and [`SocketEvent`]s in the order in which they
//! happened. What leaves: the entries that exist, and for a packet the [`crate::spd::Decision`] of the entry that
//! covers it, or none. The compiled mode asks [`crate::spd::AppPolicy::decide`] for each packet. This mode asks it when
//! a socket calls, and a packet without an entry has no answer. Where both modes answer, they answer the same (a
//! property in the tests).
//!
//! An entry belongs to one application and one socket. Everything is bounded ([`EntryLimits`]). An event that finds no
//! room is refused and counted, and its packets have no entry.

mod entry;
mod event;
mod owner;
mod space;
mod table;
mod translate;

pub use entry::{Entry, EntryDirection, EntrySelector};
pub use event::{Call, SocketEvent};
pub use table::{EntryLimits, EntryStats, PacketDirection, PerSocket};
