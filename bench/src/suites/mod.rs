//! The suites by name.

mod engine;

use crate::Report;

/// A suite: fills the report with the figures whose name holds the filter (empty: all).
pub type Suite = fn(filter: &str, &mut Report);

/// Every suite there is.
pub const ALL: &[(&str, Suite)] = &[("engine", engine::run)];
