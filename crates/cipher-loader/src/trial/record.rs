//! The lines that the child of a trial writes.

use cipher_manifest::vectors::Counts;
use serde::{Deserialize, Serialize};

use super::Place;

/// One line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Record {
    /// What is done next.
    Stage(String),
    /// Everything was passed.
    Passed(Counts),
    /// The child could not limit itself or read what it was handed.
    System(String),
    /// Loading or the description failed.
    Description(String),
    /// A vector failed.
    Vector {
        /// The number of the test.
        tc_id: Option<u64>,
        /// What was wrong.
        why: String,
    },
    /// A check failed.
    Check {
        /// The name of the check.
        check: String,
        /// What was wrong.
        why: String,
    },
    /// A system call that the filter refuses; written by a signal handler.
    Refused(i64),
    /// A signal; written by its handler.
    Fault {
        /// The number of the signal.
        signal: i32,
        /// What was touched.
        place: Place,
    },
}
