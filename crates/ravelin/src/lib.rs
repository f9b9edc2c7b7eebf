//! The parts of the command that tests use as well: two hosts of a lab with a daemon each.
#![forbid(unsafe_code)]

pub mod rig;
