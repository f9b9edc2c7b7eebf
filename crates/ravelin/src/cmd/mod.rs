//! One file per command.

pub mod counters;
pub mod demo;
pub mod detach;
pub mod doctor;
pub mod explain;
pub mod import;
pub mod policy;
pub mod replay;
pub mod run;
pub mod sa;
mod sa_peer;
pub mod spd;
pub mod status;
