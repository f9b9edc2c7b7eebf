//! What came of it: a table, a line of JSON each, and counts.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

/// Programs, of whatever family, that must have passed for the drill to say something.
pub const AT_LEAST: usize = 30;

/// The verdict about a program in one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The program worked, and nothing was seen in clear.
    Passed,
    /// The program did not work, or something was seen in clear.
    Failed,
    /// The program was not run.
    Skipped,
}

/// A line of the report: one program in one family.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The name of the program's entry.
    pub program: String,
    /// What was run, in a few words.
    pub what: String,
    /// The address family: 4 or 6.
    pub family: u8,
    /// The verdict about this run.
    pub verdict: Verdict,
    /// Seconds that the run took.
    pub seconds: f64,
    /// Octets of encrypted frames that crossed the wire meanwhile.
    pub encrypted: u64,
    /// The event before the run; `None` if it was skipped.
    pub before: Option<String>,
    /// The event while it ran, or behind it if it was quick; `None` if it was skipped.
    pub meanwhile: Option<String>,
    /// Whether that event came while the client ran.
    pub in_flight: bool,
    /// What a reader should know about the run, such as the reason of a failure.
    pub note: String,
}

/// The lines of all runs.
#[derive(Debug, Default)]
pub struct Report(pub Vec<Line>);

impl Report {
    /// The table, and the counts as its last lines.
    pub fn table(&self) -> String {
        let mut text = format!("{:<22} {:<4} {:<8} {:>7}  NOTE\n", "PROGRAM", "IP", "VERDICT", "SECONDS");
        for line in &self.0 {
            let verdict = match line.verdict {
                Verdict::Passed => "passed",
                Verdict::Failed => "FAILED",
                Verdict::Skipped => "skipped",
            };
            let (program, family, seconds) = (&line.program, line.family, line.seconds);
            let _ = writeln!(text, "{program:<22} v{family:<3} {verdict:<8} {seconds:>7.1}  {}", line.note);
        }
        let in_flight = self.0.iter().filter(|line| line.in_flight).count();
        let _ = writeln!(
            text,
            "\n{} programs passed in every family that they have; {in_flight} events met one that was running",
            self.whole()
        );
        let [passed, failed, skipped] =
            [Verdict::Passed, Verdict::Failed, Verdict::Skipped].map(|v| self.count(v));
        let _ = writeln!(text, "{passed} passed, {failed} failed, {skipped} skipped");
        text
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.0.iter().filter(|line| line.verdict == verdict).count()
    }

    /// Programs that ran, and passed whenever they ran.
    pub fn whole(&self) -> usize {
        let mut names: Vec<&str> = self.0.iter().map(|line| line.program.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let passed = |name: &&str| {
            let mut of = self.0.iter().filter(|line| line.program == *name).peekable();
            of.peek().is_some() && of.all(|line| line.verdict == Verdict::Passed)
        };
        names.into_iter().filter(passed).count()
    }

    /// Whether nothing failed, and enough passed for the whole to mean something.
    pub fn ok(&self, at_least: usize) -> bool {
        self.count(Verdict::Failed) == 0 && self.whole() >= at_least
    }

    /// Write the lines as JSON.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_jsonl(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = String::new();
        for line in &self.0 {
            text.push_str(&serde_json::to_string(line).context("a line of the report")?);
            text.push('\n');
        }
        fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(program: &str, family: u8, verdict: Verdict) -> Line {
        Line {
            program: program.to_owned(),
            what: String::new(),
            family,
            verdict,
            seconds: 1.0,
            encrypted: 1,
            before: None,
            meanwhile: None,
            in_flight: false,
            note: String::new(),
        }
    }

    #[test]
    fn a_skipped_family_is_no_success() {
        let mut report = Report(vec![line("curl", 4, Verdict::Passed), line("curl", 6, Verdict::Passed)]);
        report.0.push(line("ssh", 4, Verdict::Passed));
        report.0.push(line("ssh", 6, Verdict::Skipped));
        assert_eq!(report.whole(), 1);
        assert!(report.ok(1) && !report.ok(2));
        assert!(report.table().ends_with("3 passed, 0 failed, 1 skipped\n"));
        report.0.push(line("dig", 4, Verdict::Failed));
        assert!(!report.ok(1));
    }
}
