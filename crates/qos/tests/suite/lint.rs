//! Broken graphs, each with what is said of it: file, line, column, text and remedy.
#![allow(clippy::disallowed_methods, reason = "a test reads its own data files")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use qos::Direction;
use qos::behaviour::foreign::{Libraries, Library, LibraryState};
use qos::graph::description::Spanned;
use qos::graph::fault::Place;
use qos::graph::house::{Line, SuiteCost, Used};
use qos::graph::quantity;
use qos::graph::{Code, Fault, House, check, lint, preset, read};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// The broken graphs by name, in order.
fn broken() -> Vec<(String, String)> {
    let entries = fs::read_dir(data().join("broken")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    files.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

/// The gateway that the comments `#!` of a graph describe.
fn house(text: &str) -> House {
    let mut house = House::default();
    for line in text.lines().filter_map(|line| line.strip_prefix("#! ")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let used = || Used { name: words[1].to_owned(), by: words[3..].join(" ") };
        match words[0] {
            "known" => house.known_suites = words[1..].iter().map(|word| (*word).to_owned()).collect(),
            "suite" => house.suites.push(used()),
            "aggregate" => house.aggregates.push(used()),
            "uplink" => house.uplinks.push((words[1].to_owned(), quantity::rate(words[2]))),
            "kernel-queues" => house.kernel_queues = words[1].parse().ok(),
            "window" => house.window = words[1].parse().ok(),
            "library" => library(&mut house, words[1], &words[2..]),
            "cost" => {
                let direction = if words[2] == "out" { Direction::Outbound } else { Direction::Inbound };
                let line =
                    Line { base_ns: words[3].parse().unwrap(), ps_per_octet: words[4].parse().unwrap() };
                house.costs.push(SuiteCost { suite: words[1].to_owned(), direction, line });
            }
            other => panic!("no such word: {other}"),
        }
    }
    house
}

/// A library that the configuration names: without a reason it is one that this process has not loaded.
fn library(house: &mut House, name: &str, why: &[&str]) {
    let state = match why {
        [] => LibraryState::Named,
        why => LibraryState::Refused(why.join(" ")),
    };
    let library = Library { name: name.to_owned(), state };
    match &mut house.libraries {
        Libraries::Unknown => house.libraries = Libraries::Named(vec![library]),
        Libraries::Named(list) => list.push(library),
    }
}

fn faults(text: &str) -> Vec<Fault> {
    check(text, &house(text)).err().unwrap_or_default()
}

#[test]
fn more_prefixes_of_peers_than_have_numbers_are_refused() {
    // A prefix of one address begins an interval and ends one, unless its neighbour is named too.
    let graph = |prefixes: u32| {
        let prefix = |number: u32| format!("\"2001:db8::{:x}:{:x}\"", number >> 15, (number << 1) & 0xffff);
        let peers: Vec<String> = (0..prefixes).map(prefix).collect();
        let peers = peers.join(",");
        format!("[class.a]\nmatch = [{{ peer = [{peers}] }}]\n[class.rest]\nmatch = \"rest\"\n")
    };
    assert_eq!(faults(&graph(32_767)), []);
    let [fault] = &faults(&graph(32_768))[..] else { panic!("one fault") };
    assert_eq!((fault.code, &graph(32_768)[fault.span.clone()]), (Code::TooMany, "peer"));
    assert!(fault.message.contains("65536 addresses") && fault.remedy.contains("65535"), "{fault:?}");
}

#[test]
fn more_prefixes_of_users_than_have_numbers_are_refused() {
    let graph = |by: &str, prefixes: u32| {
        let prefix = |number: u32| format!("\"2001:db8::{:x}:{:x}\"", number >> 15, (number << 1) & 0xffff);
        let users: Vec<String> = (0..prefixes).map(prefix).collect();
        let users = users.join(",");
        format!(
            "[class.rest]\nmatch = \"rest\"\ndirection = \"out\"\nfair = \"{by}\"\n\
             profiles = [{{ name = \"a\", users = [{users}] }}]\n\
             [class.received]\nmatch = \"rest\"\ndirection = \"in\"\n"
        )
    };
    for by in ["peer", "source"] {
        assert_eq!(faults(&graph(by, 32_767)), []);
        let text = graph(by, 32_768);
        let [fault] = &faults(&text)[..] else { panic!("one fault") };
        assert_eq!((fault.code, &text[fault.span.clone()]), (Code::TooMany, format!("\"{by}\"").as_str()));
        assert!(fault.message.contains(&format!("`{by}` begin and end at 65536 addresses")), "{fault:?}");
    }
}

#[test]
fn every_broken_graph_is_refused_with_its_faults() {
    let files = broken();
    assert!(files.len() >= 100, "{} broken graphs", files.len());
    let mut shown = String::new();
    for (name, text) in &files {
        let faults = faults(text);
        assert!(!faults.is_empty(), "{name} is sound");
        shown.extend(faults.iter().map(|fault| fault.show(name, text)));
    }
    let expected = fs::read_to_string(data().join("broken.txt")).unwrap_or_default();
    if shown != expected {
        // The new text is left where it can be compared, read, and taken.
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("broken.txt");
        fs::write(&place, &shown).unwrap();
        let differs = shown.lines().zip(expected.lines()).find(|(new, old)| new != old);
        panic!("the faults differ from tests/data/broken.txt, first {differs:#?}; see {}", place.display());
    }
}

#[test]
fn every_fault_has_a_place_in_the_text_and_a_remedy() {
    for (name, text) in broken() {
        for fault in faults(&text) {
            assert!(
                fault.span.start <= fault.span.end && fault.span.end <= text.len() + 1,
                "{name}: {fault:?}"
            );
            assert!(!fault.remedy.is_empty() && !fault.message.is_empty(), "{name}: {fault:?}");
            // A fault of the whole stands at the beginning; every other one underlines something.
            assert!(
                fault.span == (0..0) || !fault.span.is_empty() || fault.code == Code::Syntax,
                "{name}: {fault:?}"
            );
        }
    }
}

#[test]
fn every_kind_of_fault_has_a_broken_graph() {
    let found: BTreeSet<Code> = broken().iter().flat_map(|(_, text)| faults(text)).map(|f| f.code).collect();
    // A library that refuses parameters is asked when a graph is compiled (foreign.rs). A warning refuses nothing
    // (preset.rs).
    let elsewhere = [Code::RefusedParameters, Code::LostPriority];
    let missing = Code::EVERY.iter().filter(|code| !found.contains(code) && !elsewhere.contains(code));
    let missing: Vec<&Code> = missing.collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn faults_come_in_the_order_of_the_text_and_none_twice() {
    for (name, text) in broken() {
        let faults = faults(&text);
        assert!(faults.is_sorted_by_key(|fault| fault.span.start), "{name}: {faults:#?}");
        for (index, fault) in faults.iter().enumerate() {
            assert!(!faults[..index].contains(fault), "{name}: {fault:?}");
        }
    }
}

#[test]
fn the_house_alone_can_break_a_sound_graph() {
    let voice = preset("voice").unwrap();
    assert_eq!(lint(&voice, &House::default()), []);
    let used = |name: &str| vec![Used { name: name.to_owned(), by: "item 1 of the policy".to_owned() }];
    let house = House { aggregates: used("ef"), suites: used("3des-md5"), ..House::default() };
    assert_eq!(lint(&voice, &house), []);
    let codes = |house: &House| lint(&voice, house).iter().map(|fault| fault.code).collect::<Vec<_>>();
    assert_eq!(codes(&House { aggregates: used("video"), ..House::default() }), [Code::ClassMissing]);
    assert_eq!(codes(&House { window: Some(32), ..House::default() }), [Code::WindowTooSmall]);
    let mut slow = voice.clone();
    slow.units[0].suites = Some(vec![Spanned::bare("aes128gcm16".to_owned())]);
    assert_eq!(lint(&slow, &house).iter().map(|fault| fault.code).collect::<Vec<_>>(), [Code::NoUnit]);
}

#[test]
fn faults_of_the_text_and_of_the_graph_come_together_but_for_those_that_follow_from_others() {
    let text = "[class.ef]\nmatch = [{ dscp = [\"EF\"] }]\npriority = true\n\
                [class.af]\nmatch = [{ dscp = [\"FE\"] }]\n\
                [class.rest]\nmatch = \"rest\"\n\
                [kernel.all]\nclasses = [\"ef\", \"af\", \"rets\"]\nlimit = { packets = 64 }\n";
    let faults = faults(text);
    let found: Vec<(Code, &str)> =
        faults.iter().map(|fault| (fault.code, &text[fault.span.clone()])).collect();
    let expected =
        [(Code::UnpolicedPriority, "ef"), (Code::UnknownName, "\"FE\""), (Code::UnknownName, "\"rets\"")];
    assert_eq!(found, expected, "{faults:#?}");
}

#[test]
fn an_exchange_that_would_remove_a_named_class_is_refused() {
    let house = House {
        aggregates: vec![Used { name: "video".to_owned(), by: "item 3 of the policy".to_owned() }],
        ..House::default()
    };
    let with = "[class.video]\nmatch = \"named\"\n[class.rest]\nmatch = \"rest\"\n";
    assert!(check(with, &house).is_ok());
    let without = "[class.rest]\nmatch = \"rest\"\n";
    let faults = check(without, &house).unwrap_err();
    assert_eq!(faults.len(), 1);
    assert_eq!(faults[0].message, "item 3 of the policy names the class `video`, which the graph lacks");
}

#[test]
fn a_place_is_counted_in_characters_and_never_panics() {
    let text = "ä = \"ö\"\nb = 1\n";
    assert_eq!(Place::of(text, 0), Place { line: 1, column: 1 });
    assert_eq!(Place::of(text, text.find('b').unwrap()), Place { line: 2, column: 1 });
    for at in 0..text.len() + 5 {
        let place = Place::of(text, at);
        assert!(place.line >= 1 && place.column >= 1);
    }
}

#[test]
fn whatever_a_text_is_cut_to_is_read_or_refused() {
    for (_, text) in broken().iter().step_by(7) {
        let house = house(text);
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            let _ = check(&text[..end], &house);
        }
    }
    assert!(read("class = 1\nhook = 2\nqueue = 3\nunit = [4]\n").is_err());
}
