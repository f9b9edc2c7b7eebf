//! The rules for TCP: headers, options, and what a connection may still say (rules T, O, Q; paper 003 section III.B).

mod connection;
mod established;
mod fast_path;
mod segment;
mod seq;
mod store;
mod table;

pub use connection::State;
pub(crate) use fast_path::{BATCH, FastPath};
pub(crate) use table::ConnectionRecord;
pub use table::Connections;
