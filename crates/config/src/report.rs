//! What is wrong with a configuration file, and where.

use std::fmt;
use std::ops::Range;

/// A fault of a configuration file, with its place and a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The word for how bad it is: `error`, or `warning` for what refuses nothing.
    pub severity: &'static str,
    /// The number of the line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The code of the kind of fault, where it has one: `RVL-Q102`.
    pub code: Option<String>,
    /// The text that says what is wrong.
    pub message: String,
    /// The text that says what to do about it.
    pub remedy: String,
    /// The line of the file, with what looks like a key left out.
    excerpt: String,
    /// The number of characters to underline.
    width: usize,
}

/// Every fault of a file, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    file: String,
    findings: Vec<Finding>,
}

impl Report {
    pub(super) fn new(file: String) -> Report {
        Report { file, findings: Vec::new() }
    }

    /// Note a fault at `span` (octets) of `text`.
    pub(super) fn add(&mut self, text: &str, span: Range<usize>, message: String, remedy: String) {
        self.add_coded(text, span, "error", None, message, remedy);
    }

    /// Note a fault of a kind that has a code.
    pub(super) fn add_coded(
        &mut self,
        text: &str,
        span: Range<usize>,
        severity: &'static str,
        code: Option<String>,
        message: String,
        remedy: String,
    ) {
        // A span may end behind the text (unexpected end) or, in a broken file, inside a character.
        let start = (0..=span.start.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let before = text.get(..start).unwrap_or("");
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line_text = text.get(line_start..).unwrap_or("").lines().next().unwrap_or("");
        let column = before.get(line_start..).unwrap_or("").chars().count() + 1;
        let in_line = line_text.chars().count() + 1 - column.min(line_text.chars().count());
        let width = text.get(start..span.end.min(text.len())).map_or(1, |s| s.chars().count());
        self.findings.push(Finding {
            severity,
            line: before.matches('\n').count() + 1,
            column,
            code,
            message,
            remedy,
            excerpt: without_keys(line_text),
            width: width.clamp(1, in_line.max(1)),
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.findings.is_empty()
    }

    pub(super) fn sorted(mut self) -> Report {
        self.findings.sort_by_key(|f| (f.line, f.column));
        self
    }

    /// The faults that were found in the file.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The file as it was named.
    pub fn file(&self) -> &str {
        &self.file
    }
}

/// The line with every run of 16 or more hexadecimal digits replaced by as many dots: a report may end in a log.
pub fn without_keys(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut run = String::new();
    let flush = |run: &mut String, out: &mut String| {
        if run.len() >= 16 {
            out.extend(std::iter::repeat_n('.', run.len()));
        } else {
            out.push_str(run);
        }
        run.clear();
    };
    for c in line.chars() {
        if c.is_ascii_hexdigit() {
            run.push(c);
        } else {
            flush(&mut run, &mut out);
            out.push(c);
        }
    }
    flush(&mut run, &mut out);
    out
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, finding) in self.findings.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            let Finding { severity, line, column, code, message, remedy, excerpt, width } = finding;
            let code = code.as_ref().map(|code| format!("[{code}]")).unwrap_or_default();
            writeln!(f, "{}:{line}:{column}: {severity}{code}: {message}", self.file)?;
            let number = line.to_string();
            let pad = " ".repeat(number.len());
            let under: String = excerpt
                .chars()
                .take(column - 1)
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .chain(std::iter::repeat_n('^', *width))
                .collect();
            writeln!(f, " {number} | {excerpt}")?;
            writeln!(f, " {pad} | {under}")?;
            write!(f, " {pad} = help: {remedy}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_key_is_not_shown() {
        assert_eq!(without_keys("key = \"000102030405060708\""), "key = \"..................\"");
        assert_eq!(without_keys("a = \"feed\""), "a = \"feed\"");
    }

    #[test]
    fn spans_behind_the_text_and_inside_characters_do_not_panic() {
        let text = "ä = \"ö\"";
        for start in 0..text.len() + 3 {
            for end in start..text.len() + 4 {
                let mut report = Report::new("f".into());
                report.add(text, start..end, "m".into(), "r".into());
                assert!(report.to_string().starts_with("f:1:"));
            }
        }
    }
}
