//! The `[audit]` section of the configuration: a file for what must leave a trace.

use std::path::PathBuf;

use super::read::{Reader, Value};

const AUDIT: [&str; 3] = ["file", "size", "per_second"];

/// The size in MiB beyond which the file is rotated, unless told otherwise.
const SIZE: u64 = 16;
/// The packets of each kind that are told in full in a second, unless told otherwise.
const PER_SECOND: u32 = 32;

/// The settings of the audit log, from `[audit]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    /// The path of the audit log.
    pub file: PathBuf,
    /// The size in octets beyond which the audit log is rotated.
    pub size: u64,
    /// The packets of each kind that are told in full in a second; the others are counted.
    pub per_second: u32,
}

impl Reader<'_> {
    pub(super) fn audit(&mut self, value: Option<&Value<'_>>) -> Option<AuditConfig> {
        let table = self.table(value, "audit", &AUDIT)?;
        let why = "MiB of the file; there is one more of before, so twice that is the most on the disk";
        let size = table.get("size").and_then(|v| self.integer(v, "size", 1..=4096, why));
        let why = "packets of each kind that are told in full in a second; the others are counted";
        let per_second = table.get("per_second").and_then(|v| self.integer(v, "per_second", 0..=10_000, why));
        let Some(file) = table.get("file") else {
            let at = value.map_or(0..0, |value| value.span());
            self.fault(at, "[audit] names no file", "add: file = \"/var/log/ravelin/audit.jsonl\"");
            return None;
        };
        Some(AuditConfig {
            file: self.path(file, "file")?,
            size: size.and_then(|n| u64::try_from(n).ok()).unwrap_or(SIZE) << 20,
            per_second: per_second.and_then(|n| u32::try_from(n).ok()).unwrap_or(PER_SECOND),
        })
    }
}
