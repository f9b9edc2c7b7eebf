//! Names that a stranger has to learn first: types named by pronouns, participles and question words, and `mod.rs`.
//!
//! What enters: the paths and texts of the Rust files that Git tracks, and the list `xtask/names.toml`. What leaves: a
//! sentence for each name that the list does not have, and for each entry that nothing needs any more. The list may
//! only shrink.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The file, below the root of the workspace.
pub const FILE: &str = "xtask/names.toml";

/// Words that name no type: they say nothing about what the type is.
const BANNED: &[&str] = &[
    "All", "Another", "Any", "Asked", "Beat", "Been", "Begun", "Both", "Desk", "Done", "Each", "Fares",
    "Found", "Given", "Gone", "Had", "Heard", "Held", "Here", "How", "Hub", "It", "Kept", "Known", "Left",
    "Lost", "Made", "Meant", "Met", "Murmur", "Odd", "Other", "Own", "Said", "Seen", "Sent", "Taken",
    "Teller", "That", "There", "These", "This", "Those", "Told", "Was", "Way", "Ways", "What", "When",
    "Where", "Which", "Who", "Whom", "Whose", "Why",
];

/// The words before the name of a type.
const KEYWORDS: &[&str] = &["enum", "struct", "trait", "type", "union"];

/// The names in the tracked files that are not as they should be.
#[derive(Debug, Default)]
pub struct Names {
    /// The places of each banned name: paths with lines.
    types: BTreeMap<String, Vec<String>>,
    /// The paths of files that are called `mod.rs`, below a folder `src`.
    modules: BTreeSet<String>,
}

/// The names that `xtask/names.toml` lets pass.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    /// The paths of files called `mod.rs`.
    modules: BTreeSet<String>,
    /// The number of types that have each banned name.
    types: BTreeMap<String, usize>,
}

impl Names {
    /// Add the names in one Rust file.
    pub fn add(&mut self, path: &str, text: &str) {
        if path.contains("/src/") && path.ends_with("/mod.rs") {
            self.modules.insert(path.to_string());
        }
        for (index, line) in text.lines().enumerate() {
            if let Some(name) = defined(line).filter(|name| BANNED.contains(name)) {
                self.types.entry(name.to_string()).or_default().push(format!("{path}:{}", index + 1));
            }
        }
    }
}

/// The name of the type that a line of code defines.
fn defined(line: &str) -> Option<&str> {
    let code = line.split("//").next()?;
    let words = code.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '(' | ')' | ':')));
    let mut words = words.filter(|word| !word.is_empty()).skip_while(|word| is_before(word));
    words.next().filter(|word| KEYWORDS.contains(word))?;
    // What stands directly behind the name, such as the fields of a tuple, is no part of it.
    words.next()?.split(['(', ':']).next()
}

/// Whether a word may stand before the keyword: a visibility, `unsafe`.
fn is_before(word: &str) -> bool {
    word == "unsafe" || word == "pub" || word.starts_with("pub(") || word.ends_with(')')
}

impl Allowed {
    /// Read the list from its text.
    pub fn parse(text: &str) -> Result<Allowed> {
        toml::from_str(text).with_context(|| format!("cannot read {FILE}"))
    }

    /// A sentence for each name beyond the list, and for each entry beyond the names.
    pub fn refusals(&self, names: &Names) -> Vec<String> {
        let beyond = names.modules.difference(&self.modules);
        let mut refusals: Vec<String> = beyond
            .map(|path| {
                let folder = path.trim_end_matches("/mod.rs");
                format!(
                    "{path}: a module with parts is `{folder}.rs` beside the folder `{folder}`: rename it"
                )
            })
            .collect();
        let stale = self.modules.difference(&names.modules);
        refusals.extend(stale.map(|path| format!("{FILE} lists {path}, which is not there: take it out")));
        for (name, places) in &names.types {
            let most = self.types.get(name).copied().unwrap_or_default();
            if places.len() > most {
                refusals.push(format!(
                    "{} types are named `{name}`, {most} allowed: name the thing itself, by a noun; they stand at {}",
                    places.len(),
                    places.join(", ")
                ));
            }
        }
        for (name, most) in &self.types {
            match names.types.get(name).map_or(0, Vec::len) {
                0 => refusals.push(format!("{FILE} lists `{name}`, which names no type: take it out")),
                count if count < *most => {
                    refusals.push(format!("{FILE} allows {most} types named `{name}`: write {count}"));
                }
                _ => {}
            }
        }
        refusals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_type_is_found_behind_its_keyword() {
        let table = [
            ("struct What;", Some("What")),
            ("    pub(crate) enum Way<'a> {", Some("Way")),
            ("pub(in crate::plane) struct Said(u16);", Some("Said")),
            ("type Odd = (&'static str, u8);", Some("Odd")),
            ("pub trait Who: Sized {", Some("Who")),
            ("pub unsafe trait Told {}", Some("Told")),
            ("// struct What;", None),
            ("let what = What { struct_field: 1 };", None),
            ("fn f(what: What) {", None),
            ("    type_of: What,", None),
            ("/// The enum `Way` has two arms.", None),
        ];
        for (line, want) in table {
            assert_eq!(defined(line), want, "{line}");
        }
    }

    fn check(list: &str, files: &[(&str, &str)]) -> Vec<String> {
        let mut names = Names::default();
        files.iter().for_each(|(path, text)| names.add(path, text));
        Allowed::parse(list).expect("a list that parses").refusals(&names)
    }

    #[test]
    fn a_banned_name_is_refused_with_its_places_and_the_list_only_shrinks() {
        let files =
            [("crates/a/src/b.rs", "struct Way;\nstruct Path;\n"), ("c/tests/d.rs", "\nenum Way {}\n")];
        let refused = check("modules = []\n[types]\nWay = 1\n", &files);
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert!(
            refused[0].starts_with("2 types are named `Way`, 1 allowed")
                && refused[0].ends_with("crates/a/src/b.rs:1, c/tests/d.rs:2"),
            "{refused:?}"
        );
        assert_eq!(check("modules = []\n[types]\nWay = 2\n", &files), [""; 0]);
        assert!(check("modules = []\n[types]\nWay = 3\n", &files)[0].ends_with("`Way`: write 2"));
        assert!(check("modules = []\n[types]\nHub = 1\nWay = 2\n", &files)[0].contains("lists `Hub`"));
    }

    #[test]
    fn a_module_in_the_old_style_is_refused_and_the_list_only_shrinks() {
        let files = [("crates/a/src/b/mod.rs", ""), ("crates/a/tests/suite/kit/mod.rs", "")];
        let refused = check("modules = []\n[types]\n", &files);
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert!(refused[0].contains("is `crates/a/src/b.rs` beside"), "{refused:?}");
        assert_eq!(check("modules = [\"crates/a/src/b/mod.rs\"]\n[types]\n", &files), [""; 0]);
        assert!(check("modules = [\"crates/a/src/b/mod.rs\"]\n[types]\n", &[])[0].ends_with("take it out"));
    }
}
