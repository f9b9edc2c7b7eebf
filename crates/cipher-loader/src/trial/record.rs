//! The lines that the child of a trial writes.

use cipher_manifest::vectors::Counts;
use serde::{Deserialize, Serialize};

use crate::trial_error::Place;

/// The variable that names the child's descriptors.
pub(super) const VARIABLE: &str = "RAVELIN_CIPHER_TRIAL";
/// The variable that says what the child does in place of the trial: name, seconds of processor time, and `free` where
/// no filter is to be in force.
pub(super) const TASK: &str = "RAVELIN_CIPHER_TASK";
/// The variable that names the descriptors of a child with a library that is no cipher.
pub(super) const LIBRARY_VARIABLE: &str = "RAVELIN_LIBRARY_TRIAL";
/// The variable that says what that child does: seconds of processor time, and an order for another room's task.
pub(super) const LIBRARY_ORDER: &str = "RAVELIN_LIBRARY_ORDER";
/// Characters of what a task says.
pub(super) const LONGEST_TEXT: usize = 1024;
/// The number of octets that the parent reads of the child.
pub(super) const MOST: usize = 64 * 1024;

/// One line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Record {
    /// What is done next.
    Stage(String),
    /// The cipher passed everything.
    Passed(Counts),
    /// A task was done, with what it found in words for people.
    Done(String),
    /// The child could not limit itself or read what it was handed.
    System(String),
    /// Loading or the description failed.
    Description(String),
    /// The cipher failed a vector.
    Vector {
        /// The number of the test.
        tc_id: Option<u64>,
        /// What was wrong, in words for the author.
        why: String,
    },
    /// The cipher failed a check.
    Check {
        /// The name of the check.
        check: String,
        /// What was wrong, in words for the author.
        why: String,
    },
    /// A system call that the filter refuses; written by a signal handler.
    Refused(i64),
    /// A signal; written by its handler.
    Fault {
        /// The number of the signal.
        signal: i32,
        /// What the library touched then.
        place: Place,
    },
}
