//! The tables in `docs/rfc`, `docs/papers` and ARCHITECTURE.md that map clauses to files and tests: everything they name must exist.
//!
//! In backticks, `sadb/src/replay.rs` is a file, by any part of its path that ends it; `src/{a,b}.rs` are two;
//! `sadb/tests/` and `sadb/src/` are folders; `tests/suite/replay.rs::sizes` is a function in a file. In the columns
//! "test" and "enforced by" a bare name of several words, like `a_short_story`, is a function somewhere.

use crate::house::House;
use anyhow::{Context, Result};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of the texts with tables.
const TABLES: &[&str] = &["docs/rfc", "docs/papers"];

/// Folders of the files and functions that tables name.
const SOURCES: &[&str] = &["crates", "tests", "bench", "drill", "fuzz/fuzz_targets", "xtask"];

/// Check all tables; whether everything they name exists.
pub fn run() -> Result<bool> {
    let root = House::survey()?.root;
    let mut sources = Vec::new();
    for folder in SOURCES {
        for path in files(&root.join(folder), "rs")? {
            sources.push(Source::new(
                &path.strip_prefix(&root).unwrap_or(&path).display().to_string(),
                &read(&path)?,
            ));
        }
    }
    let (mut rows, mut missing) = (0, Vec::new());
    let mut texts = vec![root.join("ARCHITECTURE.md")];
    for folder in TABLES {
        texts.extend(files(&root.join(folder), "md")?);
    }
    for path in texts {
        let shown = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
        let text = read(&path)?;
        rows += text.lines().filter(|line| line.starts_with('|')).count();
        let absent = missing_in(&text, &sources);
        missing.extend(absent.into_iter().map(|(line, name)| format!("{shown}:{line}: no `{name}`")));
    }
    missing.iter().for_each(|name| eprintln!("error: {name}"));
    if missing.is_empty() {
        println!("{rows} lines of tables: every file and test they name is there");
    }
    Ok(missing.is_empty())
}

/// A source file, and the functions in it.
struct Source {
    /// The path of the file behind a slash, so that whole names are compared.
    path: String,
    functions: HashSet<String>,
}

impl Source {
    fn new(path: &str, text: &str) -> Source {
        let functions = text.lines().filter_map(|line| {
            let (_, rest) = line.split_once("fn ").filter(|(before, _)| !before.contains("//"))?;
            Some(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
        });
        Source { path: format!("/{path}"), functions: functions.collect() }
    }
}

/// What the tables of a text name and is not there, with its line, counted from 1.
fn missing_in(text: &str, sources: &[Source]) -> Vec<(usize, String)> {
    let mut missing = Vec::new();
    let mut tests = None;
    for (index, line) in text.lines().enumerate() {
        let Some(row) = line.strip_prefix('|') else {
            tests = None;
            continue;
        };
        for (column, cell) in row.split('|').enumerate() {
            if ["test", "enforced by"].contains(&cell.trim()) {
                tests = Some(column);
            }
            let names = cell.split('`').skip(1).step_by(2).flat_map(expand);
            let absent = names.filter(|name| !exists(name, tests == Some(column), sources));
            missing.extend(absent.map(|name| (index + 1, name)));
        }
    }
    missing
}

/// `a/{b,c}.rs` is `a/b.rs` and `a/c.rs`.
fn expand(name: &str) -> Vec<String> {
    match name.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
        Some((before, (list, after))) => {
            list.split(',').map(|part| [before, part.trim(), after].concat()).collect()
        }
        None => vec![name.to_string()],
    }
}

/// Whether there is what the name names. What is no file, folder or test is not our business.
fn exists(name: &str, in_tests: bool, sources: &[Source]) -> bool {
    let (file, function) = name.split_once("::").map_or((name, None), |(file, f)| (file, Some(f)));
    let suffix = format!("/{file}");
    if file.ends_with(".rs") {
        let mut found = sources.iter().filter(|source| source.path.ends_with(&suffix));
        found.any(|source| function.is_none_or(|function| source.functions.contains(function)))
    } else if file.ends_with("/tests/") || file.ends_with("/src/") {
        sources.iter().any(|source| source.path.contains(&suffix))
    } else {
        !in_tests || !is_sentence(name) || sources.iter().any(|source| source.functions.contains(name))
    }
}

/// A name of three words or more, as tests have.
fn is_sentence(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && name.matches('_').count() > 1
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Every file with this extension below `folder`, sorted.
fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path, extension)?);
        } else if path.extension() == Some(OsStr::new(extension)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_table_names_must_exist() {
        let sources = [
            Source::new("crates/a/src/b.rs", "#[test]\n    fn works() {\n// fn not_this()"),
            Source::new("crates/a/tests/c.rs", "fn one_two_three() {}"),
        ];
        let table = [
            ("a/src/b.rs", "a/src/b.rs::works", ""),
            ("b.rs", "c.rs", ""),
            ("a/src/b.rs::Type", "a/tests/", "a/src/b.rs::Type"),
            ("Type::verb", "one_two_three", ""),
            ("some_long_word", "too_big", ""),
            ("a/{src/b,tests/c}.rs", "a/src/{b,d}.rs", "a/src/d.rs"),
            ("a/src/c.rs", "", "a/src/c.rs"),
            ("rc/b.rs", "", "rc/b.rs"),
            ("d/src/", "a/src/b.rs::not_this", "d/src/ a/src/b.rs::not_this"),
            ("bpf/", "", ""),
            ("d.rs", "one_two_four", "d.rs one_two_four"),
        ];
        for (place, test, want) in table {
            let text = format!(
                "| clause | where | test |\n|---|---|---|\n| `some_long_word` | `{place}` | `{test}` |"
            );
            let missing = missing_in(&text, &sources);
            let names: Vec<_> = missing.iter().map(|(_, name)| name.as_str()).collect();
            assert_eq!(names.join(" "), want, "{text}");
            assert!(missing.iter().all(|(line, _)| *line == 3));
        }
    }
}
