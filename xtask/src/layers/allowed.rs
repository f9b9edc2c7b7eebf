//! The list of what `cargo xtask layers` finds inside rooms and lets pass: `xtask/layers.toml`.
//!
//! What enters: what was found, and the list. What leaves: a sentence for each finding that the list does not have, and
//! for each entry that nothing needs any more. An entry has a sentence that says why it stands there.

use super::findings::Findings;
use super::shape::MOST;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The file, below the root of the workspace.
pub const FILE: &str = "xtask/layers.toml";

/// The folder of the kernel half's headers, as a room in the list.
pub const HEADERS: &str = "bpf/include";

/// A reason with fewer words than this is none.
const FEWEST: usize = 4;

/// The exceptions that xtask/layers.toml allows.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    #[serde(default, rename = "circle")]
    circles: Vec<Circle>,
    #[serde(default)]
    fields: Vec<Fields>,
    #[serde(default, rename = "impl")]
    impls: Vec<Impls>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Circle {
    room: String,
    modules: BTreeSet<String>,
    why: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    room: String,
    #[serde(rename = "struct")]
    name: String,
    fields: usize,
    why: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Impls {
    room: String,
    #[serde(rename = "type")]
    name: String,
    modules: BTreeSet<String>,
    why: String,
}

impl Allowed {
    /// Read the exceptions from xtask/layers.toml.
    pub fn parse(text: &str) -> Result<Allowed> {
        toml::from_str(text).with_context(|| format!("cannot read {FILE}"))
    }

    /// A sentence for each finding without an entry, and for each entry without a finding or a reason.
    pub fn violations(&self, found: &BTreeMap<String, Findings>) -> Vec<String> {
        let none = Findings::default();
        let of = |room: &str| found.get(room).unwrap_or(&none);
        let mut violations = Vec::new();
        for (room, findings) in found {
            violations.extend(self.beyond(room, findings));
        }
        for entry in &self.circles {
            violations.extend(entry.stale(of(&entry.room)));
            violations.extend(unreasoned("circle", &entry.room, &joined(&entry.modules), &entry.why));
        }
        for entry in &self.fields {
            violations.extend(entry.stale(of(&entry.room)));
            violations.extend(unreasoned("fields", &entry.room, &entry.name, &entry.why));
        }
        for entry in &self.impls {
            violations.extend(entry.stale(of(&entry.room)));
            violations.extend(unreasoned("impl", &entry.room, &entry.name, &entry.why));
        }
        violations
    }

    /// A sentence for each finding of a room that the list does not have.
    fn beyond(&self, room: &str, findings: &Findings) -> Vec<String> {
        let mut violations = Vec::new();
        for (circle, way) in &findings.circles {
            let listed = |entry: &&Circle| entry.room == room;
            if !self.circles.iter().filter(listed).any(|entry| entry.modules.is_superset(circle)) {
                violations.push(format!(
                    "{}: {} use each other in a circle: {way}; move what one of them needs to where both may use it",
                    place(room),
                    joined(circle)
                ));
            }
        }
        for (name, count) in &findings.fields {
            let entry = self.fields.iter().find(|entry| entry.room == room && entry.name == *name);
            if entry.is_none_or(|entry| entry.fields < *count) {
                let most = entry.map_or(MOST, |entry| entry.fields);
                violations.push(format!(
                    "{}: struct `{name}` has {count} fields that others reach, {most} allowed: find the types that \
                     own them",
                    place(room)
                ));
            }
        }
        for (name, modules) in &findings.impls {
            let entry = self.impls.iter().find(|entry| entry.room == room && entry.name == *name);
            let far: BTreeSet<String> = match entry {
                Some(entry) => modules.difference(&entry.modules).cloned().collect(),
                None => modules.clone(),
            };
            if !far.is_empty() {
                violations.push(format!(
                    "{}: `{name}` has `impl` blocks in {}: move them to the module that defines it, or below",
                    place(room),
                    joined(&far)
                ));
            }
        }
        violations
    }
}

impl Circle {
    /// The modules of this entry that are in no circle which it covers.
    fn stale(&self, findings: &Findings) -> Option<String> {
        let covered = findings.circles.iter().filter(|(circle, _)| self.modules.is_superset(circle));
        let needed: BTreeSet<String> = covered.flat_map(|(circle, _)| circle.clone()).collect();
        let stale: BTreeSet<String> = self.modules.difference(&needed).cloned().collect();
        // While one is too large for the entry, nobody knows which of its names are needed.
        let is_outgrown = findings
            .circles
            .iter()
            .any(|(circle, _)| !self.modules.is_superset(circle) && !self.modules.is_disjoint(circle));
        (!stale.is_empty() && !is_outgrown).then(|| {
            format!(
                "{FILE}: the circle of {} lists {}, which no circle has any more: take it out",
                place(&self.room),
                joined(&stale)
            )
        })
    }
}

impl Fields {
    fn stale(&self, findings: &Findings) -> Option<String> {
        let count = findings.fields.get(&self.name).copied().unwrap_or_default();
        let remedy = if count <= MOST { "take the entry out".to_string() } else { format!("write {count}") };
        (count < self.fields).then(|| {
            format!(
                "{FILE}: struct `{}` of {} has fewer fields that others reach than {}: {remedy}",
                self.name,
                place(&self.room),
                self.fields
            )
        })
    }
}

impl Impls {
    fn stale(&self, findings: &Findings) -> Option<String> {
        let needed = findings.impls.get(&self.name).cloned().unwrap_or_default();
        let stale: BTreeSet<String> = self.modules.difference(&needed).cloned().collect();
        (!stale.is_empty()).then(|| {
            format!(
                "{FILE}: `{}` of {} has no `impl` block any more in {}: take it out",
                self.name,
                place(&self.room),
                joined(&stale)
            )
        })
    }
}

/// The complaint about an entry whose reason is no sentence.
fn unreasoned(kind: &str, room: &str, name: &str, why: &str) -> Option<String> {
    let is_sentence = why.trim_end().ends_with('.') && why.split_whitespace().count() >= FEWEST;
    (!is_sentence).then(|| {
        format!(
            "{FILE}: [[{kind}]] of {}, {name}: `why` must be a sentence that gives the reason",
            place(room)
        )
    })
}

/// The words for a room, or for the folder of headers.
fn place(room: &str) -> String {
    if room == HEADERS { format!("folder `{room}`") } else { format!("room `{room}`") }
}

/// Names in backticks, with commas between.
fn joined(names: &BTreeSet<String>) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    /// What is found in a room `r`.
    fn found(
        circles: &[&[&str]],
        fields: &[(&str, usize)],
        impls: &[(&str, &[&str])],
    ) -> BTreeMap<String, Findings> {
        let findings = Findings {
            circles: circles.iter().map(|circle| (set(circle), "a -> b -> a".to_string())).collect(),
            fields: fields.iter().map(|(name, count)| (name.to_string(), *count)).collect(),
            impls: impls.iter().map(|(name, modules)| (name.to_string(), set(modules))).collect(),
        };
        [("r".to_string(), findings)].into()
    }

    fn circle(modules: &str) -> String {
        format!("[[circle]]\nroom = \"r\"\nmodules = [{modules}]\nwhy = \"The two halves of one type.\"\n")
    }

    fn check(list: &str, found: &BTreeMap<String, Findings>) -> Vec<String> {
        Allowed::parse(list).expect("a list that parses").violations(found)
    }

    #[test]
    fn what_is_found_needs_an_entry() {
        assert_eq!(check("", &found(&[], &[], &[])), [""; 0]);
        let all = check("", &found(&[&["a", "b"]], &[("a::S", 13)], &[("a::T", &["b", "c"])]));
        assert_eq!(all.len(), 3, "{all:?}");
        assert!(
            all[0].starts_with("room `r`: `a`, `b` use each other in a circle: a -> b -> a; move"),
            "{all:?}"
        );
        assert!(
            all[1].starts_with("room `r`: struct `a::S` has 13 fields that others reach, 12 allowed"),
            "{all:?}"
        );
        assert!(all[2].starts_with("room `r`: `a::T` has `impl` blocks in `b`, `c`: move them"), "{all:?}");
    }

    #[test]
    fn an_entry_lets_a_circle_pass_and_a_smaller_one_makes_it_stale() {
        let list = circle(r#""a", "b", "c""#);
        assert_eq!(check(&list, &found(&[&["a", "b", "c"]], &[], &[])), [""; 0]);
        let smaller = check(&list, &found(&[&["a", "b"]], &[], &[]));
        assert_eq!(smaller.len(), 1);
        assert!(smaller[0].contains("lists `c`, which no circle has any more: take it out"), "{smaller:?}");
        assert!(check(&list, &found(&[], &[], &[]))[0].contains("lists `a`, `b`, `c`"));
        let larger = check(&list, &found(&[&["a", "b", "c", "d"]], &[], &[]));
        assert_eq!(larger.len(), 1, "{larger:?}");
        assert!(larger[0].starts_with("room `r`: `a`, `b`, `c`, `d` use each other"), "{larger:?}");
        let elsewhere = list.replace("\"r\"", "\"s\"");
        assert_eq!(check(&elsewhere, &found(&[&["a", "b", "c"]], &[], &[])).len(), 2, "another room's entry");
    }

    #[test]
    fn a_circle_that_falls_apart_keeps_one_entry() {
        let list = circle(r#""a", "b", "c", "d""#);
        assert_eq!(check(&list, &found(&[&["a", "b"], &["c", "d"]], &[], &[])), [""; 0]);
    }

    #[test]
    fn a_number_of_fields_falls_and_does_not_rise() {
        let list = "[[fields]]\nroom = \"r\"\nstruct = \"a::S\"\nfields = 15\nwhy = \"It is one row of a document.\"\n";
        assert_eq!(check(list, &found(&[], &[("a::S", 15)], &[])), [""; 0]);
        assert!(
            check(list, &found(&[], &[("a::S", 16)], &[]))[0].contains("has 16 fields that others reach, 15")
        );
        assert!(check(list, &found(&[], &[("a::S", 14)], &[]))[0].ends_with("than 15: write 14"));
        assert!(check(list, &found(&[], &[], &[]))[0].ends_with("than 15: take the entry out"));
    }

    #[test]
    fn impls_are_allowed_by_module() {
        let list = "[[impl]]\nroom = \"r\"\ntype = \"a::T\"\nmodules = [\"b\"]\nwhy = \"It moves with its verbs next.\"\n";
        assert_eq!(check(list, &found(&[], &[], &[("a::T", &["b"])])), [""; 0]);
        let beyond = check(list, &found(&[], &[], &[("a::T", &["b", "c"])]));
        assert!(beyond[0].contains("`impl` blocks in `c`:") && beyond.len() == 1, "{beyond:?}");
        assert!(check(list, &found(&[], &[], &[]))[0].contains("no `impl` block any more in `b`"));
    }

    #[test]
    fn an_entry_gives_a_reason() {
        let found = found(&[&["a", "b"]], &[], &[]);
        let list = circle(r#""a", "b""#);
        for why in ["", "Later.", "no full stop at its end"] {
            let list = list.replace("The two halves of one type.", why);
            let violations = check(&list, &found);
            assert_eq!(violations.len(), 1, "{why}");
            assert!(violations[0].contains("`why` must be a sentence"), "{violations:?}");
        }
        assert!(Allowed::parse(&list.replace("why", "because")).is_err());
    }
}
