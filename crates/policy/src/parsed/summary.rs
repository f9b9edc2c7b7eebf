//! A summary of a policy in numbers and names: the answer of `ravelin policy check`.

use std::fmt;

use serde::Serialize;

use crate::ast::{NetworkKind, Protection, Span};
use crate::diagnostic::{Lines, Severity};
use crate::parsed::Parsed;
use crate::prefixes;

/// The summary of a network setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NetworkSummary {
    /// The range as the language writes it.
    pub range: String,
    /// The class: `trusted`, `untrusted` or `protected`.
    pub class: &'static str,
    /// The name of the protection that it refers to.
    pub protection: Option<String>,
    /// Whether it is only watched, and in clear.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub observed: bool,
    /// Number of its prefixes; zero for a host name.
    pub prefixes: usize,
    /// The line, counted from 1.
    pub line: usize,
}

/// The summary of a protection setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProtectionSummary {
    /// The name of the protection.
    pub name: String,
    /// The items, each on one line.
    pub items: Vec<String>,
    /// The line, counted from 1.
    pub line: usize,
}

/// The summary of a sound application block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApplicationSummary {
    /// The subjects that it is about: names, paths and other subjects of the list.
    pub names: Vec<String>,
    /// The line of `application`, counted from 1.
    pub line: usize,
    /// The summaries of its networks.
    pub networks: Vec<NetworkSummary>,
    /// The summaries of its protections.
    pub protections: Vec<ProtectionSummary>,
    /// The limits, each on one line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
}

/// The summary of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The file's name as the caller gave it.
    pub file: String,
    /// The summaries of sound blocks.
    pub applications: Vec<ApplicationSummary>,
    /// The summaries of protections for every block.
    pub protections: Vec<ProtectionSummary>,
    /// Names of subjects whose block is left out.
    pub left_out: Vec<String>,
    /// Number of expectations that came true.
    pub tests_passed: usize,
    /// Number of expectations that did not come true, or cannot be read.
    pub tests_failed: usize,
    /// Number of expectations about blocks that are left out.
    pub tests_skipped: usize,
    /// Number of errors found.
    pub errors: usize,
    /// Number of warnings found.
    pub warnings: usize,
    /// Number of notes made.
    pub notes: usize,
}

impl Parsed {
    /// Makes the summary of the policy.
    pub fn summary(&self) -> Summary {
        let lines = Lines::new(&self.text);
        let line = |span: Span| lines.position(&self.text, span.start as usize).line;
        let protection = |p: &Protection| ProtectionSummary {
            name: p.name.text.clone(),
            items: p.items.iter().map(|i| i.text()).collect(),
            line: line(p.span),
        };
        let applications = self.blocks.iter().map(|block| ApplicationSummary {
            names: block.names(),
            line: line(block.header),
            networks: block
                .networks
                .iter()
                .map(|n| NetworkSummary {
                    range: n.range.to_string(),
                    class: match n.kind {
                        NetworkKind::Trusted => "trusted",
                        NetworkKind::Untrusted => "untrusted",
                        NetworkKind::Protected(_) => "protected",
                    },
                    protection: match &n.kind {
                        NetworkKind::Protected(name) => Some(name.text.clone()),
                        _ => None,
                    },
                    observed: block.observed.is_some() || n.observed,
                    prefixes: prefixes::of(&n.range).len(),
                    line: line(n.span),
                })
                .collect(),
            protections: block.protections.iter().map(protection).collect(),
            limits: block.limits.iter().map(|limit| limit.text()).collect(),
        });
        let sound: std::collections::HashSet<String> =
            self.blocks.iter().flat_map(|block| block.names()).collect();
        let mut left_out: Vec<String> =
            self.broken.iter().flat_map(|b| &b.names).map(|n| n.text.clone()).collect();
        left_out.retain(|name| !sound.contains(name));
        left_out.sort();
        left_out.dedup();
        let count = |severity| self.diagnostics.iter().filter(|d| d.severity == severity).count();
        Summary {
            file: self.file.clone(),
            applications: applications.collect(),
            protections: self.protections.iter().map(protection).collect(),
            left_out,
            tests_passed: self.tested.passed,
            tests_failed: self.tested.failed,
            tests_skipped: self.tested.skipped,
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            notes: count(Severity::Note),
        }
    }
}

/// A count with its noun: `1 network`, `2 networks`.
pub fn counted(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for block in &self.applications {
            let items = block.protections.iter().map(|p| p.items.len()).sum();
            write!(
                f,
                "{}:{}: application {}: {}, {}, {}",
                self.file,
                block.line,
                block.names.join(", "),
                counted(block.networks.len(), "network"),
                counted(block.protections.len(), "protection"),
                counted(items, "item"),
            )?;
            match block.limits.len() {
                0 => writeln!(f)?,
                count => writeln!(f, ", {}", counted(count, "limit"))?,
            }
        }
        let names = self.applications.iter().map(|b| b.names.len()).sum();
        write!(f, "{}: {}", self.file, counted(names, "application"))?;
        if !self.left_out.is_empty() {
            write!(f, ", left out: {}", self.left_out.join(", "))?;
        }
        writeln!(
            f,
            "; {}, {}, {}",
            counted(self.errors, "error"),
            counted(self.warnings, "warning"),
            counted(self.notes, "note")
        )?;
        let all = self.tests_passed + self.tests_failed + self.tests_skipped;
        if all > 0 {
            write!(f, "{}: {} of {} came true", self.file, self.tests_passed, counted(all, "expectation"))?;
            if self.tests_skipped > 0 {
                write!(f, ", {} not asked (their block is left out)", self.tests_skipped)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
