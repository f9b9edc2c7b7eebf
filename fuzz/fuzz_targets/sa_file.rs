//! Files of associations and rules (`ravelin replay --sa`, `ravelin import`): requests with their lines, or an error with a line
//! that repeats no key. Written again as JSON lines, they say the same; and an engine takes them or says what is wrong.
//!
//! The first octet says for whom a setkey file speaks.
#![no_main]

use documents::import::{Ends, Entry, ImportItem, read};
use libfuzzer_sys::fuzz_target;
use offline::replay::{EngineOptions, Replay, ReplayError};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;

static REGISTRY: LazyLock<crypto::Registry> =
    LazyLock::new(|| crypto_std::registry().expect("the units pass their own tests"));
const OWN: [IpAddr; 1] = [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))];

fuzz_target!(|bytes: &[u8]| {
    let Some((&form, bytes)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (ends, local) = if form & 1 == 0 { (Ends::Both, &[][..]) } else { (Ends::Local(&OWN), &OWN[..]) };
    let lines = text.lines().count().max(1);
    let entries = match read(text, ends, &crypto::Suites::standard()) {
        Ok(entries) => entries,
        Err(error) => {
            assert!((1..=lines).contains(&error.line), "{error}");
            return no_key(text, &error.to_string());
        }
    };
    assert!(entries.iter().all(|entry| (1..=lines).contains(&entry.line)));

    let (again, wanted) = (json(&entries), requests(&entries));
    let read_again = read(&again, Ends::Both, &crypto::Suites::standard())
        .unwrap_or_else(|error| panic!("{error}\n{again}"));
    if !wanted.is_empty() {
        assert_eq!(requests(&read_again), wanted);
    }

    let options = EngineOptions { local: local.to_vec(), ..EngineOptions::default() };
    match Replay::new(None, &options, Some(("file", &mut text.as_bytes())), &REGISTRY) {
        Ok(_) => {}
        Err(ReplayError::BadInput(error)) => {
            assert!(error.starts_with("file:"), "{error}");
            no_key(text, &error);
        }
        Err(other) => panic!("{other}"),
    }
});

/// What is asked for; flushes have no line of their own in JSON.
fn requests(entries: &[Entry]) -> Vec<&ImportItem> {
    entries
        .iter()
        .map(|entry| &entry.what)
        .filter(|what| matches!(what, ImportItem::Sa(_) | ImportItem::Rule(_)))
        .collect()
}

fn json(entries: &[Entry]) -> String {
    let line = |entry: &Entry| match &entry.what {
        ImportItem::Sa(sa) => serde_json::to_string(sa).expect("a request"),
        ImportItem::Rule(rule) => format!("{{\"rule\":{}}}", serde_json::to_string(rule).expect("a request")),
        ImportItem::FlushSas | ImportItem::FlushRules => "# flush".to_owned(),
    };
    entries.iter().map(|entry| line(entry) + "\n").collect()
}

/// Long digits could be keys.
fn no_key(text: &str, error: &str) {
    let mut digits = String::new();
    for c in text.chars().chain([' ']) {
        if c.is_ascii_hexdigit() {
            digits.push(c);
            continue;
        }
        assert!(digits.len() < 20 || !error.contains(&digits), "{error}");
        digits.clear();
    }
}
