//! What tests stand on, and no product code uses: the lab of [`netio::lab`] with judgements that fail a test, and the way to
//! captures that other people made.
//!
//! What enters: a lab, a question about its wire. What leaves: nothing, or a panic that says what was seen.
#![forbid(unsafe_code)]

mod captures;
mod eavesdropper;

pub use captures::{Corpus, shared};
pub use eavesdropper::Eavesdropper;
pub use netio::lab::{
    Capture, CaptureOptions, Class, Evidence, Finished, Host, Lab, LabOptions, Program, Running, Seen, Side,
    Transport,
};

use std::time::Duration;

/// How long a test waits for an event that must come: long enough for a loaded machine, so that only a failure takes it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A lab called `name`; what a crashed run of the same test left is removed first.
///
/// # Panics
/// If it runs without root: these tests do not skip.
pub fn lab(name: &str) -> Lab {
    lab_with(name, true)
}

/// A lab called `name`, like that of [`lab`]; `segmentation` says whether the hosts' devices cut super-packets.
///
/// # Panics
/// If it runs without root.
pub fn lab_with(name: &str, segmentation: bool) -> Lab {
    match Lab::build(&LabOptions { name: name.to_owned(), segmentation }) {
        Ok(lab) => lab,
        Err(error) => {
            panic!("the lab {name} cannot be built: {error}. These tests need root, TUN and cgroup v2")
        }
    }
}
