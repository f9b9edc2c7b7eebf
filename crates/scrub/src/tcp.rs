//! The rules for TCP: headers, options, and what a connection may still say (rules T, O, Q; paper 003 section III.B).

mod connection;
mod established;
mod express;
mod segment;
mod seq;
mod store;
mod table;

pub use connection::State;
pub(crate) use express::{BATCH, Express};
pub(crate) use table::ConnectionRecord;
pub use table::Connections;
