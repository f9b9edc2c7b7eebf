//! The page about hardening says what the checks are, and the tests that it names exist.

use std::collections::BTreeSet;
use std::path::Path;

use crate::host::Small;

const PAGE: &str = include_str!("../../../../docs/hardening.md");

/// The part of a row between its vertical bars, by number.
fn cell(row: &str, number: usize) -> &str {
    row.split('|').nth(number).unwrap_or_default().trim()
}

/// The rows of the table below a heading, without its head.
fn rows(heading: &str) -> impl Iterator<Item = &'static str> {
    let (_, below) = PAGE.split_once(heading).unwrap();
    let below = below.split("\n## ").next().unwrap();
    below.lines().filter(|line| line.starts_with('|')).skip(2)
}

#[test]
fn every_check_has_a_row() {
    let listed: Vec<&str> = rows("\n## The checks\n").map(|row| cell(row, 2).trim_matches('`')).collect();
    let unique: BTreeSet<String> = listed.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(unique.len(), listed.len());
    assert_eq!(unique, Small::good().checks().into_keys().collect());
    assert!(rows("\n## The checks\n").all(|row| !cell(row, 3).is_empty() && !cell(row, 4).is_empty()));
}

#[test]
fn every_attack_has_a_guard_and_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let known: BTreeSet<String> = Small::good().checks().into_keys().collect();
    let mut attacks = 0;
    for row in rows("\n## The attacks\n") {
        attacks += 1;
        assert!(!cell(row, 1).is_empty() && !cell(row, 2).is_empty(), "{row}");
        let mut source = String::new();
        let mut paths = 0;
        for name in cell(row, 3).split('`').skip(1).step_by(2) {
            if name.contains('/') {
                source = std::fs::read_to_string(root.join(name))
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
                paths += 1;
            } else if !known.contains(name) {
                assert!(
                    source.contains(&format!("fn {name}(")),
                    "{name} is not in the file before it: {row}"
                );
            }
        }
        assert!(paths > 0, "{row}");
    }
    assert!(attacks >= 9, "{attacks}");
}
