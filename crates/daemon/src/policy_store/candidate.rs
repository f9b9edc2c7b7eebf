//! A policy that was read, and the executables that it names.

pub(super) mod follow;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use api::RefusedBlock;
use policy::{AppTable, Compiled};
use wire::AppId;

use super::renamed::Renamed;

/// A policy that was read, not yet in force.
pub struct Candidate {
    /// The tables that the policy was compiled to.
    pub compiled: Compiled,
    /// Applications whose last good version stands in for a broken block.
    pub kept: BTreeSet<AppId>,
    /// Blocks that did not compile.
    pub refused: Vec<RefusedBlock>,
    /// Errors, warnings and notes as people read them.
    pub diagnostics: String,
    /// Errors in the file.
    pub errors: usize,
    /// Warnings in the file.
    pub warnings: usize,
    /// Applications of before that have the policy of others; see [`Candidate::follow`].
    pub renamed: Renamed,
    /// The text that was read.
    pub text: Arc<[u8]>,
    pub(super) table: AppTable,
}

impl Candidate {
    /// No block is broken.
    pub fn is_sound(&self) -> bool {
        self.errors == 0 && self.refused.is_empty()
    }
}

/// An executable of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    /// The application whose subject names the executable; [`AppId::NONE`]: it is named behind `from`.
    pub app: AppId,
    /// The path of the executable.
    pub path: PathBuf,
    /// Device and inode when it was looked at.
    pub identity: (u64, u64),
}
