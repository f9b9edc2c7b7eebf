//! Documents for programs, tables for people.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use api::Versioned;
use api::schema::Document;
use comfy_table::ContentArrangement;

/// Whether standard output holds what no further document may follow.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Note that what goes to standard output is whole by itself: a document, the last one of a stream, or a capture.
pub fn take() {
    TAKEN.store(true, Ordering::Relaxed);
}

/// Whether a document would spoil what standard output holds.
pub fn is_taken() -> bool {
    TAKEN.load(Ordering::Relaxed)
}

/// Print a document with its version, as `--json` promises.
pub fn json<T: Document>(body: &T) -> anyhow::Result<()> {
    take();
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &Versioned::new(body)).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Print a document on a line, for streams of them.
pub fn line<T: Document>(body: &T) -> anyhow::Result<()> {
    Ok(line_to(&mut std::io::stdout().lock(), body)?)
}

/// Write a document on a line of a stream that somebody else holds.
pub fn line_to<T: Document>(mut out: impl Write, body: &T) -> std::io::Result<()> {
    serde_json::to_writer(&mut out, &Versioned::new(body))?;
    writeln!(out)
}

/// Text for a terminal: what would steer the terminal is written as `\u{1b}`. Names of files and threads come from any user of
/// the host. Lines, tabs and the colours of styled text pass.
pub fn printable(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let colour = colour(rest);
        if let Some(colour) = colour {
            out.push_str(colour);
        } else if steers(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
        rest = &rest[colour.map_or(c.len_utf8(), str::len)..];
    }
    Cow::Owned(out)
}

/// The sequence at the start of the text that sets a colour or another rendition (ECMA-48, SGR), which moves nothing.
fn colour(text: &str) -> Option<&str> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    parameters[end..].starts_with('m').then(|| &text[..end + 3])
}

/// Print text: to a terminal without what would steer it, elsewhere as it is.
pub fn text(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let shown = if out.is_terminal() { printable(text) } else { Cow::Borrowed(text) };
    out.write_all(shown.as_bytes())?;
    Ok(())
}

/// Print text with styles ([`crate::color`]), which are taken away where there is to be no colour.
pub fn styled(text: &str) -> anyhow::Result<()> {
    let out = std::io::stdout().lock();
    let shown = if out.is_terminal() { printable(text) } else { Cow::Borrowed(text) };
    anstream::AutoStream::auto(out).write_all(shown.as_bytes())?;
    Ok(())
}

/// A table whose columns are as wide as they must be. On a terminal that is too narrow, long cells go on in the next
/// line; elsewhere every row is one line.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = std::io::stdout().is_terminal().then(|| terminal_size::terminal_size_of(std::io::stdout()));
    table_within(width.flatten().map(|(width, _)| width.0), head, rows)
}

/// A table that is no wider than so many columns, where that is asked for.
fn table_within(width: Option<u16>, head: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(head).add_rows(rows);
    match width {
        Some(width) => table.set_width(width).set_content_arrangement(ContentArrangement::Dynamic),
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut out = String::new();
    for line in table.lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// A number of octets with a unit that keeps it short.
pub fn octets(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (n as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// Seconds as people say them.
pub fn duration(seconds: u64) -> String {
    match seconds {
        s if s < 60 => format!("{s} s"),
        s if s < 3600 => format!("{} min {} s", s / 60, s % 60),
        s if s < 86_400 => format!("{} h {} min", s / 3600, s % 3600 / 60),
        s => format!("{} d {} h", s / 86_400, s % 86_400 / 3600),
    }
}

/// The suite of an association, with the place where the code of a cipher of one's own runs.
pub fn suite(sa: &api::SaInfo) -> String {
    match &sa.isolation {
        Some(isolation) => format!("{} ({isolation})", sa.suite),
        None if sa.suite.is_empty() => "-".to_owned(),
        None => sa.suite.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_a_terminal_but_colours() {
        let name = "\u{1b}[2J\u{1b}]0;t\u{7}\r\u{9b}2J/tmp/x";
        assert_eq!(printable(name), r"\u{1b}[2J\u{1b}]0;t\u{7}\r\u{9b}2J/tmp/x");
        let styled = "\u{1b}[1;31mdrop\u{1b}[0m\tä\n";
        assert!(matches!(printable(styled), Cow::Borrowed(_)) || printable(styled) == styled);
        assert_eq!(printable("\u{1b}[31"), r"\u{1b}[31");
    }

    #[test]
    fn tables_line_up() {
        let rows = [vec!["a".into(), "b".into()], vec!["long".into(), "c".into()]];
        assert_eq!(table(&["X", "YY"], &rows), "X     YY\na     b\nlong  c\n");
    }

    #[test]
    fn a_narrow_terminal_breaks_cells_and_loses_nothing() {
        let rows =
            [vec!["/usr/lib/postgresql/15/bin/psql".into(), "one two three four five".into(), "7".into()]];
        let head = ["APPLICATION", "WHY", "N"];
        let wide = table_within(None, &head, &rows);
        assert_eq!(wide.lines().count(), 2, "{wide}");
        let narrow = table_within(Some(30), &head, &rows);
        assert!(narrow.lines().all(|line| line.chars().count() <= 30), "{narrow}");
        for part in ["one", "five", "7"] {
            assert!(narrow.contains(part), "{narrow}");
        }
        let without = |text: &str| text.matches(|c: char| !c.is_whitespace()).count();
        assert_eq!(without(&narrow), without(&wide), "{narrow}");
        assert_eq!(table_within(Some(200), &head, &rows), wide);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(octets(1023), "1023 B");
        assert_eq!(octets(1536), "1.5 KiB");
        assert_eq!(duration(61), "1 min 1 s");
        assert_eq!(duration(90_000), "1 d 1 h");
    }
}
