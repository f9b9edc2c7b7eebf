//! The tables in `docs/rfc` and `docs/papers` that map clauses to files and tests: everything they name must exist.
//!
//! In backticks, `sadb/src/replay.rs` is a file (below the workspace or `crates/`), `sadb/tests/` a folder, and
//! `sadb/tests/replay.rs::sizes` a function in a file; a bare `sa.rs` stands beside the file named before it. In a
//! table's test column a bare name of several words, like `a_short_story`, is a function somewhere.

use crate::house::House;
use anyhow::{Context, Result};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the tables are.
const TABLES: &[&str] = &["docs/rfc", "docs/papers"];

/// Where functions are.
const SOURCES: &[&str] = &["crates", "tests", "bench", "fuzz/fuzz_targets", "xtask"];

/// Check all tables; whether everything they name exists.
pub fn run() -> Result<bool> {
    let root = House::survey()?.root;
    let mut functions = HashSet::new();
    for folder in SOURCES {
        for path in files(&root.join(folder), "rs")? {
            functions.extend(functions_of(&read(&path)?));
        }
    }
    let (mut rows, mut missing) = (0, Vec::new());
    for folder in TABLES {
        for path in files(&root.join(folder), "md")? {
            let shown = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
            for (index, line) in read(&path)?.lines().enumerate().filter(|(_, line)| line.starts_with('|')) {
                rows += 1;
                let absent = missing_in(line, &|name| functions.contains(name), &|file| find(&root, file));
                missing.extend(absent.into_iter().map(|name| format!("{shown}:{}: no {name}", index + 1)));
            }
        }
    }
    missing.iter().for_each(|name| eprintln!("error: {name}"));
    if missing.is_empty() {
        println!("{rows} lines of tables: every file and test they name is there");
    }
    Ok(missing.is_empty())
}

/// The text of a file or the fact that a folder is there (empty); `None` for neither.
fn find(root: &Path, name: &str) -> Option<String> {
    [root.join("crates").join(name), root.join(name)].into_iter().find_map(|path| {
        if name.ends_with('/') { path.is_dir().then(String::new) } else { fs::read_to_string(path).ok() }
    })
}

/// What one line of a table names and is not there.
fn missing_in(
    line: &str,
    is_function: &dyn Fn(&str) -> bool,
    find: &dyn Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut missing = Vec::new();
    for (column, cell) in line.trim_matches('|').split('|').enumerate() {
        let mut folder = "";
        for name in cell.split('`').skip(1).step_by(2) {
            let (file, function) = name.split_once("::").map_or((name, None), |(file, f)| (file, Some(f)));
            let beside = [folder, file].concat();
            let file = match file.rfind('/') {
                Some(at) => {
                    folder = &file[..=at];
                    file
                }
                None => &beside,
            };
            let is_path = file.ends_with(".rs") || file.ends_with('/') && !file.starts_with('/');
            let there = match (is_path, function) {
                (true, None) => find(file).is_some(),
                (true, Some(f)) => find(file).is_some_and(|text| functions_of(&text).any(|name| name == f)),
                (false, _) => column != 3 || !is_sentence(name) || is_function(name),
            };
            if !there {
                missing.push(format!("`{name}`"));
            }
        }
    }
    missing
}

/// A name of three words or more, as tests have.
fn is_sentence(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && name.matches('_').count() > 1
}

/// The functions that a source text defines.
fn functions_of(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter_map(|line| {
        let (_, rest) = line.split_once("fn ").filter(|(before, _)| !before.contains("//"))?;
        Some(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
    })
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
        let find = |file: &str| match file {
            "a/src/b.rs" => Some("#[test]\n    fn works() {\n// fn not_this()".to_string()),
            "a/tests/" => Some(String::new()),
            _ => None,
        };
        let is_function = |name: &str| name == "one_two_three";
        let table = [
            (
                "| 1 | clause with `some_long_word` | `a/src/b.rs`: `Type::verb` | `a/src/b.rs::works`, `a/tests/` | done |",
                "",
            ),
            ("| 1 | | `a/src/a.rs`, `b.rs::works` | | done |", "`a/src/a.rs`"),
            ("| 1 | | `a/src/b.rs` | `b.rs` | done |", "`b.rs`"),
            ("| 1 | | `a/src/c.rs` | | done |", "`a/src/c.rs`"),
            ("| 1 | | | `a/src/b.rs::not_this` | done |", "`a/src/b.rs::not_this`"),
            ("| 1 | | | `a/src/d.rs::works` | done |", "`a/src/d.rs::works`"),
            ("| 1 | | `a/benches/` | | done |", "`a/benches/`"),
            ("| 1 | | | `one_two_three` | done |", ""),
            ("| 1 | | | `one_two_four`, `too_big` | done |", "`one_two_four`"),
        ];
        for (line, want) in table {
            assert_eq!(missing_in(line, &is_function, &find).join(" "), want, "{line}");
        }
    }
}
