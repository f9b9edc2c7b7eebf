//! The checks over small hosts in temporary folders.

mod cases;
mod foreign;
mod host;
mod page;
mod unknown;
