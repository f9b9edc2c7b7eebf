//! Paper 000 section 3.4. Level 1: whatever is done to one application's block, every other application's table stays
//! byte for byte what it was. Level 2: changing one item changes the verdict only of flows whose first match it was
//! or becomes.

use crate::common;

use std::collections::BTreeMap;

use common::{PROTOCOLS, Parts, blocks, flow_of, item, join, parse, parts, peers, ports_of};
use policy::{AppTable, Compiled, compile};
use proptest::prelude::*;

/// Each application's table as bytes, by name.
fn tables(compiled: &Compiled) -> BTreeMap<String, String> {
    let policy = |app: &policy::Application| format!("{:?}", compiled.spd.get(app.id).unwrap());
    compiled.applications.iter().map(|a| (a.name.clone(), format!("{:?} {}", a.id, policy(a)))).collect()
}

/// Tokens to damage a block with.
const SOUP: [&str; 35] = [
    "{",
    "}",
    ";",
    ",",
    "=",
    "#",
    "/*",
    "\"",
    "application",
    "network",
    "protection",
    "trusted",
    "protected",
    "localport",
    "any",
    "10.0.0.1-",
    "/",
    "-",
    "$",
    "zzz",
    "\"zzz\"",
    "::/0",
    "protocol",
    "tcp",
    "never",
    "prefer",
    "suite",
    "while-negotiating",
    "scrub",
    "from",
    "uid",
    "unit",
    "anonymous",
    "\ndefault {",
    "\ntest t {",
];

#[derive(Clone, Debug)]
enum Damage {
    Delete,
    Insert(&'static str),
    Replace(&'static str),
    Swap,
    Cut,
}

fn damage() -> impl Strategy<Value = Vec<(prop::sample::Index, Damage)>> {
    let soup = || prop::sample::select(&SOUP[..]);
    let one = prop_oneof![
        Just(Damage::Delete),
        soup().prop_map(Damage::Insert),
        soup().prop_map(Damage::Replace),
        Just(Damage::Swap),
        Just(Damage::Cut),
    ];
    prop::collection::vec((any::<prop::sample::Index>(), one), 1..5)
}

/// The block's text with damage done to it. The word `application` that starts it stays: without it the text would be
/// another block's neighbour, not a block.
fn damaged(text: &str, damage: &[(prop::sample::Index, Damage)]) -> String {
    let spaced = text.replace('\n', " \n ").replace(';', " ; ").replace('=', " = ");
    let mut words: Vec<String> = spaced.split(' ').filter(|w| !w.is_empty()).map(String::from).collect();
    for (index, what) in damage {
        if words.len() < 3 {
            break;
        }
        let at = 1 + index.index(words.len() - 2);
        match what {
            Damage::Delete => drop(words.remove(at)),
            Damage::Insert(word) => words.insert(at, word.to_string()),
            Damage::Replace(word) => words[at] = word.to_string(),
            Damage::Swap => words.swap(at, at + 1),
            Damage::Cut => words.truncate(at),
        }
    }
    words.join(" ") + "\n"
}

/// Every second block is one of subjects that the paper does not have.
fn subjects(index: usize) -> [String; 2] {
    match index % 2 {
        0 => [format!("a{index}"), format!("b{index}")],
        _ => [format!("a uid {index}"), format!("from b unit u{index}.service")],
    }
}

fn texts(parts: &[Parts]) -> Vec<String> {
    parts.iter().enumerate().map(|(i, p)| p.text(&subjects(i).join(", "))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_broken_block_changes_no_other_table(
        parts in blocks(2..5), which in any::<prop::sample::Index>(), damage in damage()
    ) {
        let mut texts = texts(&parts);
        let mut table = AppTable::new();
        let before = tables(&compile(&parse("p", &texts.concat()), &mut table, 1));
        let which = which.index(texts.len());
        texts[which] = damaged(&texts[which], &damage);
        let text = texts.concat();
        let parsed = parse("p", &text);
        let after = tables(&compile(&parsed, &mut table, 1));
        let own = subjects(which);
        for (name, policy) in before.iter().filter(|(name, _)| !own.contains(name)) {
            prop_assert_eq!(after.get(name), Some(policy), "{}\n{}\n{}", name, text, parsed.render(false));
        }
    }

    #[test]
    fn another_body_changes_no_other_table(
        parts in blocks(2..5), which in any::<prop::sample::Index>(), other in parts()
    ) {
        let mut changed = parts.clone();
        let which = which.index(parts.len());
        changed[which] = other;
        let mut table = AppTable::new();
        let before = tables(&compile(&parse("p", &join(&parts)), &mut table, 1));
        let after = tables(&compile(&parse("p", &join(&changed)), &mut table, 1));
        for (name, policy) in before.iter().filter(|(name, _)| **name != format!("a{which}")) {
            prop_assert_eq!(after.get(name), Some(policy));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_item_changes_its_own_flows_only(
        parts in parts(), protection in any::<prop::sample::Index>(), place in any::<prop::sample::Index>(),
        item in item()
    ) {
        let mut changed = parts.clone();
        let items = &mut changed.protections[protection.index(parts.protections.len())];
        let place = place.index(items.len());
        items[place] = item;
        let mut table = AppTable::new();
        let before = compile(&parse("p", &parts.text("a")), &mut table, 1);
        let after = compile(&parse("p", &changed.text("a")), &mut table, 1);
        let Some(app) = before.find("a").map(|a| a.id) else {
            return Ok(());
        };
        // The item's number: networks come first, then the items of each protection in turn.
        let line = changed.text("a").lines().zip(parts.text("a").lines()).position(|(x, y)| x != y);
        let Some(line) = line else { return Ok(()) };
        let rule = before.rules.iter().find(|r| r.line == line + 1).unwrap().id;
        for (index, peer) in peers().into_iter().enumerate() {
            for protocol in PROTOCOLS.into_iter().filter(|p| (index + usize::from(*p)) % 3 == 0) {
                for &local in ports_of(protocol) {
                    for &remote in ports_of(protocol) {
                        let flow = flow_of(protocol, peer, local, remote);
                        let (x, y) = (before.spd.decide(app, &flow), after.spd.decide(app, &flow));
                        prop_assert!(x == y || x.item == rule || y.item == rule, "{flow}: {x:?} {y:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_block_that_breaks_off_anywhere_does_not_swallow_the_next() {
    let whole = "application a, b uid 7 { network 10.0.0.1-10.0.0.9 trusted; network 10.0.0.0 / 8, ::1 protected P; \
                 protection P { localport=1-5 remoteport=any encryption mandatory suite aes128gcm; protocol = tcp \
                 localport=any remoteport = 7,ssh authentication optional on-failure drop; } }";
    let tails = [
        "",
        "-",
        "/",
        ",",
        "=",
        "{",
        "\"",
        "/*",
        "#",
        "protected",
        "network",
        "protection",
        "application",
        "from",
        "uid",
        "test t",
        "suite",
        "class",
    ];
    for (name, next) in [
        ("c", "application c { network ::/0 untrusted; }\n"),
        ("default", "default { network ::/0 untrusted; }\n"),
    ] {
        let mut table = AppTable::new();
        let want = tables(&compile(&parse("p", next), &mut table, 1));
        let cuts = (0..=whole.len())
            .map(|at| &whole[..at])
            .filter(|cut| cut.split(' ').next() == Some("application"));
        for cut in cuts {
            for gap in ["\n", " \n", "\n\n# next\n"] {
                for tail in tails {
                    let text = format!("{cut}{tail}{gap}{next}");
                    let parsed = parse("p", &text);
                    let got = tables(&compile(&parsed, &mut table, 1));
                    assert_eq!(got.get(name), want.get(name), "{text}\n{}", parsed.render(false));
                }
            }
        }
    }
}

#[test]
fn what_is_left_of_a_subject_displaces_nobody() {
    for broken in
        ["a uid", "a uid 7 uid 8", "a unit x.service cgroup /y", "a from", "uid", "from", "a uid 9-8", "unit"]
    {
        for (name, sound) in
            [("a", "application a {}"), ("default", "default {}"), ("a uid 8", "application a uid 8 {}")]
        {
            let text = format!("application {broken} {{ network ::/0 trusted; }}\n{sound}\n");
            let parsed = parse("p", &text);
            let compiled = compile(&parsed, &mut AppTable::new(), 1);
            let named = compiled.applications.iter().any(|app| app.name == name);
            assert!(named, "{text}\n{}", parsed.render(false));
        }
    }
}

#[test]
fn the_properties_can_fail() {
    // The same comparison sees a change where there is one.
    let mut table = AppTable::new();
    let one = compile(&parse("p", "application a { network 10.0.0.0/8 trusted; }"), &mut table, 1);
    let two = compile(&parse("p", "application a { network 10.0.0.0/8 untrusted; }"), &mut table, 1);
    assert_ne!(tables(&one), tables(&two));
}
