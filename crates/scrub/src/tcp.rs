//! The rules for TCP: headers, options, and what a connection may still say (rules T, O, Q; paper 003 section III.B).

mod connection;
mod segment;
mod seq;
mod store;
mod table;

pub use connection::State;
pub use table::Connections;
pub(crate) use table::{BATCH, ConnectionRecord, FastPath};
