//! The form of a finding.

use api::{Check, CheckState};

use crate::tree::ReadError;

/// The number of things of one kind that a finding names.
const MOST_NAMED: usize = 6;

/// The result of an examination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The host is as it should be.
    Good(String),
    /// The host is not as it should be.
    Bad(String),
    /// Nobody can say, for this reason.
    Unknown(String),
}

impl From<ReadError> for Outcome {
    fn from(error: ReadError) -> Outcome {
        Outcome::Unknown(error.to_string())
    }
}

/// Makes a check of its result; the remedy says what to type where the result is not good.
pub(crate) fn check(name: &str, found: Outcome, remedy: impl Into<String>) -> Check {
    let (state, found) = match found {
        Outcome::Good(found) => (CheckState::Ok, found),
        Outcome::Bad(found) => (CheckState::Fail, found),
        Outcome::Unknown(why) => (CheckState::Warn, format!("unknown: {why}")),
    };
    let remedy = (state != CheckState::Ok).then(|| printable(&remedy.into()));
    Check { name: name.to_owned(), state, found: printable(&found), remedy }
}

/// The result of a step that may fail to read something.
pub(crate) fn or_unknown(result: Result<Outcome, ReadError>) -> Outcome {
    result.unwrap_or_else(Outcome::from)
}

/// What several steps of one examination found. One that is bad makes the whole bad, and else one that is unknown makes
/// the whole unknown.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    bad: Vec<String>,
    unknown: Vec<String>,
}

impl Tally {
    /// Notes something that is bad.
    pub(crate) fn bad(&mut self, what: impl Into<String>) {
        self.bad.push(what.into());
    }

    /// Notes something that nobody can say.
    pub(crate) fn unknown(&mut self, why: impl ToString) {
        self.unknown.push(why.to_string());
    }

    /// The value of a step; an error is noted as unknown.
    pub(crate) fn read<T>(&mut self, step: Result<T, ReadError>) -> Option<T> {
        step.map_err(|error| self.unknown(error)).ok()
    }

    /// The result of the whole.
    pub(crate) fn outcome(self, good: impl Into<String>) -> Outcome {
        match (self.bad.is_empty(), self.unknown.is_empty()) {
            (false, _) => Outcome::Bad(listed(&self.bad)),
            (true, false) => Outcome::Unknown(listed(&self.unknown)),
            (true, true) => Outcome::Good(good.into()),
        }
    }
}

/// The first of these, and how many more there are.
pub(crate) fn listed(all: &[String]) -> String {
    let first: Vec<&str> = all.iter().take(MOST_NAMED).map(String::as_str).collect();
    let more = match all.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        n => format!("; and {n} more"),
    };
    format!("{}{more}", first.join("; "))
}

/// Text that moves no cursor and hides nothing: files of the host have parts in it.
fn printable(text: &str) -> String {
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

/// An age in words.
pub(crate) fn age(seconds: u64) -> String {
    match seconds {
        0..7200 => format!("{} minutes", seconds / 60),
        7200..172_800 => format!("{} hours", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_a_warning_and_what_is_bad_outweighs_it() {
        let mut tally = Tally::default();
        tally.unknown("no file");
        let warned = check("n", tally.outcome("good"), "do it");
        assert_eq!((warned.state, warned.found.as_str()), (CheckState::Warn, "unknown: no file"));
        assert_eq!(warned.remedy.as_deref(), Some("do it"));
        let mut tally = Tally::default();
        tally.unknown("no file");
        (1..=8).for_each(|n| tally.bad(format!("b{n}")));
        assert_eq!(tally.outcome("good"), Outcome::Bad("b1; b2; b3; b4; b5; b6; and 2 more".to_owned()));
        let good = check("n", Tally::default().outcome("good"), "do it");
        assert_eq!((good.state, good.remedy), (CheckState::Ok, None));
    }

    #[test]
    fn names_from_files_move_no_cursor() {
        let shown = check("n", Outcome::Bad("a\u{1b}[2J\u{202e}b".to_owned()), "");
        assert_eq!(shown.found, "a\\u{1b}[2J\\u{202e}b");
    }
}
