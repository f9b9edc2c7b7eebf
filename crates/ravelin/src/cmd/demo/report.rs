//! The checks as they are printed, and as JSON.

use std::time::Instant;

use api::{DemoCheck, DemoReport};

/// The checks that were made so far, printed as they come or as JSON at the end.
pub struct Report {
    checks: Vec<DemoCheck>,
    json: bool,
    started: Instant,
}

impl Report {
    pub fn new(json: bool) -> Report {
        Report { checks: Vec::new(), json, started: Instant::now() }
    }

    /// Head of a part.
    pub fn part(&self, text: &str) {
        if !self.json {
            println!("\n{text}");
        }
    }

    /// Something to read, such as a policy.
    pub fn show(&self, text: &str) {
        if !self.json {
            for line in text.lines() {
                println!("      {line}");
            }
        }
    }

    /// A check: what was expected, what was seen, whether they agree.
    pub fn check(
        &mut self,
        name: &'static str,
        expected: impl Into<String>,
        seen: impl Into<String>,
        ok: bool,
    ) {
        let check = DemoCheck { name: name.to_owned(), expected: expected.into(), seen: seen.into(), ok };
        if !self.json {
            println!("  {} {name}", if ok { "ok  " } else { "FAIL" });
            println!("       expected: {}", check.expected);
            println!("       seen:     {}", check.seen);
        }
        self.checks.push(check);
    }

    /// Print the end; how many failed.
    pub fn finish(self) -> anyhow::Result<usize> {
        let failed = self.checks.iter().filter(|check| !check.ok).count();
        let passed = self.checks.len() - failed;
        let seconds = self.started.elapsed().as_secs_f64();
        if self.json {
            let document = DemoReport { checks: self.checks, passed, failed, seconds };
            crate::output::json(&document)?;
        } else {
            println!("\n{passed} checks as expected, {failed} not, in {seconds:.1} s");
        }
        Ok(failed)
    }
}
