//! What is checked, and within which bounds.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cipher_loader::Trial;

use crate::name::CheckName;

/// Seconds of processor time that a check may take if nobody says another number.
pub const SECONDS: u64 = 60;

/// What is checked, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The path of the manifest; library and vectors are beside it.
    pub manifest: PathBuf,
    /// The program that [`crate::child_main`] runs in.
    pub trial: Trial,
    /// Seconds of processor time that a check may take; [`SECONDS`] are enough for slow ciphers.
    pub seconds: u64,
    /// Checks that are left out. The report says so, and none of them counts as passed.
    pub without: BTreeSet<CheckName>,
}
