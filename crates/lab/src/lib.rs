//! Two hosts and an eavesdropped wire in namespaces of this machine, which `ravelin demo` and the tests stand on.
//!
//! What enters: a name, programs to run, a question about the wire. What leaves: their output and what the wire showed,
//! or a panic that says what was seen. A [`Rig`](rig::Rig) has a daemon on each host as well.
//!
//! | module | is |
//! |---|---|
//! | `two_hosts` | the two hosts and the wire: [`Lab`] |
//! | `host`, `program` | one host, and unmodified programs on it |
//! | `capture`, `evidence` | what the wire showed, and what each frame is |
//! | `eavesdropper` | judgements that fail a test |
//! | `captures` | captures that other people made |
//! | [`rig`] | a daemon on each host, started and asked as an operator does it |

mod capture;
mod captures;
mod claim;
mod eavesdropper;
mod evidence;
mod host;
mod program;
pub mod rig;
mod side;
mod two_hosts;

pub use capture::{Capture, CaptureOptions};
pub use captures::{Corpus, shared};
pub use eavesdropper::Eavesdropper;
pub use evidence::{Class, Evidence, Observation};
pub use host::{Host, Transport, wait_for_carrier};
pub use program::{Finished, Program, Running};
pub use side::Side;
pub use two_hosts::{Lab, LabOptions};

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
