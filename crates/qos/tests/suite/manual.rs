//! The manual of the language: each of its examples is sound, and it leaves out no key, component, field or code.
#![allow(clippy::disallowed_methods, reason = "a test reads its own data files")]

use std::fs;
use std::path::Path;

use qos::graph::description::{Directions, Dispatch, HookPoint};
use qos::graph::kinds::{Kind, Part, USERS};
use qos::graph::rules::{DSCP, Field, HEADERS};
use qos::graph::{Code, House, PRESETS, check_compiled};

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
}

/// The examples in TOML that are graphs, each with its line.
fn graphs(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in page.lines().enumerate() {
        match &mut open {
            None if line == "```toml" => open = Some((index + 2, String::new())),
            None => {}
            Some(_) if line == "```" => found.extend(open.take()),
            Some((_, text)) => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    assert!(open.is_none(), "an example does not end");
    // The tables of ravelin.toml and the files of costs are read by the room `config`, which tests them.
    found.retain(|(_, text)| !text.starts_with("[qos]") && !text.starts_with("[[cost]]"));
    found
}

#[test]
fn every_example_is_a_graph_without_fault() {
    for (name, most) in [("man/ravelin-qos.5.md", 4), ("qos.md", 4)] {
        let graphs = graphs(&page(name));
        assert!(graphs.len() >= most, "{name}: {} examples", graphs.len());
        for (line, text) in graphs {
            if let Err(faults) = check_compiled(&text, &House::default()) {
                let shown: String = faults.iter().map(|fault| fault.show(name, &text)).collect();
                panic!("the example at {name}:{line} has faults\n{shown}\n{text}");
            }
        }
    }
}

#[test]
fn every_code_has_a_row() {
    let page = page("man/ravelin-qos.5.md");
    for code in Code::EVERY {
        assert!(page.contains(&format!("\n| {code} | ")), "{code} is missing");
    }
    let rows = page.lines().filter(|line| line.starts_with("| RVL-Q")).count();
    assert_eq!(rows, Code::EVERY.len(), "a row is of no code");
}

#[test]
fn every_component_has_a_row_with_its_part_and_settings() {
    let page = page("man/ravelin-qos.5.md");
    for (word, kind) in Kind::WORDS {
        let part = match kind.part() {
            Part::Behaviour => "behaviour",
            Part::Enqueue => "enqueue",
            Part::Store => "store",
            Part::Dequeue => "dequeue",
            Part::Discipline => "discipline",
        };
        let start = format!("| `{word}` | {part} | ");
        let row = page.lines().find(|line| line.starts_with(&start));
        let row = row.unwrap_or_else(|| panic!("`{word}` has no row as {part}"));
        let settings: Vec<String> = kind
            .settings()
            .iter()
            .map(|row| if row.required { format!("`{}`", row.name) } else { format!("[`{}`]", row.name) })
            .collect();
        let listed: Vec<&str> = row[start.len()..].split(" | ").next().unwrap().split(", ").collect();
        let listed: Vec<&str> = listed.into_iter().map(|one| one.trim_end_matches([' ', '|'])).collect();
        let listed: Vec<&str> = listed.into_iter().filter(|one| !one.is_empty()).collect();
        if settings.is_empty() {
            assert!(row[start.len()..].starts_with("| "), "{row}");
        } else {
            assert_eq!(listed, settings, "{row}");
        }
    }
}

#[test]
fn every_field_word_and_key_is_named() {
    let page = page("man/ravelin-qos.5.md");
    for (word, _) in Field::WORDS {
        assert!(page.contains(&format!("\n| `{word}` | ")), "the field `{word}` has no row");
    }
    let words = HEADERS.iter().map(|(word, _)| *word).chain(USERS.iter().copied());
    let words = words.chain(Directions::WORDS.iter().map(|(word, _)| *word));
    let words = words.chain(Dispatch::WORDS.iter().map(|(word, _)| *word));
    for word in words.chain(["inline", "sliced", "batch", "worker", "async", "auto", "rest", "named", "drop"])
    {
        assert!(page.contains(&format!("\"{word}\"")), "the word \"{word}\" is missing");
    }
    for (point, _) in HookPoint::WORDS {
        assert!(page.contains(&format!("`{point}`")), "the point `{point}` is missing");
    }
    for (name, _) in PRESETS {
        assert!(page.contains(&format!("\n| `{name}` | ")), "the preset `{name}` has no row");
    }
    for (name, _) in DSCP {
        let in_a_range = name.starts_with("CS") || name.starts_with("AF");
        assert!(in_a_range || page.contains(&format!("`{name}`")), "the DSCP `{name}` is missing");
    }
}
