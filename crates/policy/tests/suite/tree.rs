//! The lossless tree: printing it gives any text back, its nodes nest, and the formatter loses nothing of a broken
//! text.
#![allow(clippy::disallowed_methods, reason = "a test reads its own data files")]

use crate::common;

use common::{blocks, join, parse};
use policy::format;
use policy::tree::{Element, NodeKind, Tree};
use proptest::prelude::*;

/// Every token is a leaf once and in order, children lie inside their parents, and what is broken is marked.
fn check(text: &str) -> Result<(), TestCaseError> {
    let parsed = parse("p", text);
    let tree = &parsed.tree;
    prop_assert_eq!(tree.print(text), text);
    let mut leaves = Vec::new();
    let mut open = vec![Element::Node(0)];
    while let Some(element) = open.pop() {
        match element {
            Element::Token(token) => leaves.push(token),
            Element::Node(node) => {
                let mut parts: Vec<Element> = tree.children(node).collect();
                prop_assert!(!parts.is_empty() || text.is_empty(), "{:?}", tree.nodes()[node]);
                for part in &parts {
                    if let Element::Node(inner) = part {
                        prop_assert_eq!(tree.nodes()[*inner].parent(), node);
                    }
                }
                parts.reverse();
                open.append(&mut parts);
            }
        }
    }
    prop_assert_eq!(leaves, tree.tokens().collect::<Vec<_>>());
    let is_grammar = |d: &policy::Diagnostic| d.is_error() && d.code < policy::Code::DuplicateApplication;
    let wrong = parsed.diagnostics.iter().any(is_grammar);
    let damaged = tree.nodes().iter().any(|node| node.damaged || node.kind == NodeKind::Junk);
    prop_assert!(!wrong || damaged, "{}", parsed.render(false));
    if !damaged {
        prop_assert_eq!(&shape(tree), &shape(&parse("p", &format(text)).tree));
    }
    nothing_is_lost(text)
}

fn shape(tree: &Tree) -> Vec<(NodeKind, bool)> {
    tree.nodes().iter().map(|node| (node.kind, node.damaged)).collect()
}

fn letters(text: &str) -> String {
    let mut all: Vec<char> = text.chars().filter(|c| !c.is_whitespace() && *c != '\u{feff}').collect();
    all.sort_unstable();
    all.into_iter().collect()
}

fn nothing_is_lost(text: &str) -> Result<(), TestCaseError> {
    let once = format(text);
    prop_assert_eq!(letters(&once), letters(text));
    prop_assert_eq!(&format(&once), &once, "not idempotent for\n{}", text);
    let codes = |text: &str| {
        // One about nothing in particular stands at the first octet, in front of others there.
        let mut codes: Vec<_> = parse("p", text).diagnostics.iter().map(|d| d.code).collect();
        codes.sort();
        codes
    };
    prop_assert_eq!(codes(&once), codes(text), "{}\nbecame\n{}", text, once);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_characters(text in any::<String>()) {
        check(&text)?;
    }

    #[test]
    fn soup(text in "[a-z{};=,\"#/* \n0-9.:-]{0,200}") {
        check(&text)?;
    }

    /// A sound policy with a few octets taken out, put in or doubled.
    #[test]
    fn edits(parts in blocks(1..4), edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, 0usize..3), 1..4)) {
        const PIECES: [&str; 12] = ["", "}", "{", ";", "\n", " network ", "\"", "/*", "#", "\u{1f512}", " application x", ","];
        let mut text = join(&parts);
        for (place, piece, cut) in edits {
            let mut at = place.index(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            let end = (at..=text.len()).filter(|end| text.is_char_boundary(*end)).nth(cut).unwrap_or(at);
            text.replace_range(at..end, PIECES[piece]);
        }
        check(&text)?;
    }
}

#[test]
fn the_broken_files_come_back_whole() {
    let folder = format!("{}/tests/data/broken", env!("CARGO_MANIFEST_DIR"));
    let (mut files, mut laid_out) = (0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        check(&text).unwrap();
        files += 1;
        laid_out += usize::from(format(&text) != text);
    }
    // A layout that gave every broken text back as it is would lose nothing either.
    assert!(files >= 200 && laid_out * 2 > files, "{laid_out} of {files} got another layout");
}

#[test]
fn a_broken_statement_stays_as_it_is_among_others() {
    let text = "application a{network 10.0.0.0/8 trusted;\n network   10.1.0.0/99  trusted; # why\n\
                network 10.2.0.0/16 protected P;protection P{localport = any remoteport=any\n  encryption   sometimes;\n\
                localport=any remoteport=1 encryption mandatory;}}\napplication b { network ::/0\n   trusted\n";
    let want = "application a\n{\n  network 10.0.0.0/8 trusted;\n  network   10.1.0.0/99  trusted; # why\n  \
                network 10.2.0.0/16 protected P;\n  protection P {\n    localport = any remoteport=any\n  encryption   sometimes;\n    \
                localport=any remoteport=1\n    encryption mandatory;\n  }\n}\n\napplication b { network ::/0\n   trusted\n";
    assert_eq!(format(text), want);
}

#[test]
fn places_find_their_statements() {
    let text = "application a {\n  network 10.0.0.0/8 protected P;\n  protection P { localport=any remoteport=1 encryption mandatory; }\n}\n";
    let tree = parse("p", text).tree;
    let kind = |needle: &str| tree.nodes()[tree.at(text.find(needle).unwrap())].kind;
    assert_eq!(kind("a {"), NodeKind::Subject);
    assert_eq!(kind("10.0"), NodeKind::Network);
    assert_eq!(kind("P;"), NodeKind::Reference);
    assert_eq!(kind("P {"), NodeKind::Definition);
    assert_eq!(kind("remoteport"), NodeKind::Item);
    let item = tree.at(text.find("encryption").unwrap());
    assert_eq!(tree.around(item, NodeKind::Block).map(|block| tree.nodes()[block].parent()), Some(0));
    assert_eq!(tree.around(item, NodeKind::Test), None);
}
