//! Files of this host that policy speaks of: users, units, programs and their digests, and a bound on the time that it
//! takes to look at files of others.
//!
//! What enters: names and paths. What leaves: what is there ([`HostFiles`] is a [`policy::Host`]), or nothing where no
//! answer came in time ([`foreign`]). Used by the daemon, by the socket monitor, and by whoever checks a policy without
//! either.
#![forbid(unsafe_code)]

mod digest;
pub mod foreign;
mod host;
mod pins;
mod programs;

pub use digest::{LARGEST, sha256};
pub use host::HostFiles;
pub use pins::{Pin, PinState, on_this_host, pinned_file};
pub use programs::{interpreter, is_executable};
