//! Documents for programs, tables for people.

use std::io::Write;

use api::Versioned;
use serde::Serialize;

/// Print a document with its version, as `--json` promises.
pub fn json<T: Serialize>(body: &T) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &Versioned::new(body)).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Print a document on a line, for streams of them.
pub fn line<T: Serialize>(body: &T) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &Versioned::new(body)).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Print text as it is.
pub fn text(text: &str) -> anyhow::Result<()> {
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

/// A table whose columns are as wide as they must be; the last column is not padded.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|h| h.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    let head: Vec<String> = head.iter().map(ToString::to_string).collect();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up() {
        let rows = [vec!["a".into(), "b".into()], vec!["long".into(), "c".into()]];
        assert_eq!(table(&["X", "YY"], &rows), "X     YY\na     b\nlong  c\n");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(octets(1023), "1023 B");
        assert_eq!(octets(1536), "1.5 KiB");
        assert_eq!(duration(61), "1 min 1 s");
        assert_eq!(duration(90_000), "1 d 1 h");
    }
}
