//! `ravelin cipher`: from new files to fifteen verdicts, as an operator types it.

use std::process::Command;

use serde_json::Value;

use crate::kit::{Folder, err, out, run};

#[test]
fn a_new_cipher_is_begun_built_and_checked() {
    let folder = Folder::new("cipher");
    let path = folder.0.join("mycipher").display().to_string();
    let begun = run(&["cipher", "new", "mycipher", "--lang", "c", "--dir", &path]);
    assert_eq!(begun.status.code(), Some(0), "{}", err(&begun));
    for words in ["mycipher.c says PLACE 1 OF 2", "reference.py says PLACE 2 OF 2", "cipher check"] {
        assert!(out(&begun).contains(words), "{words}: {}", out(&begun));
    }
    // Nothing is written over.
    let again = run(&["cipher", "new", "mycipher", "--lang", "cpp", "--dir", &path]);
    assert_eq!(again.status.code(), Some(1));
    assert!(err(&again).contains("is there already"), "{}", err(&again));
    let taken = run(&["cipher", "new", "aes256", "--lang", "c", "--dir", &path]);
    assert_eq!(taken.status.code(), Some(2), "{}", err(&taken));
    assert!(Command::new("make").args(["-C", &path]).output().unwrap().status.success());
    let manifest = format!("{path}/mycipher.json");
    let checked = run(&["cipher", "check", &manifest, "--json", "--without", "memory"]);
    assert_eq!(checked.status.code(), Some(1));
    let document: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!((&document["api"], &document["ok"]), (&1.into(), &false.into()));
    assert_eq!((&document["cipher"], &document["left_out"][0]), (&"mycipher".into(), &"memory".into()));
    assert_eq!(document["checks"].as_array().unwrap().len(), 15);
    // For people.
    let table = run(&["cipher", "check", &manifest, "--without", "memory"]);
    assert_eq!(table.status.code(), Some(1));
    assert!(out(&table).contains("mycipher did NOT pass"), "{}", out(&table));
    assert!(
        out(&table).lines().any(|line| line.starts_with("vectors") && line.contains("FAILED")),
        "{}",
        out(&table)
    );
    assert!(
        out(&table).lines().any(|line| line.starts_with("memory") && line.contains("left out")),
        "{}",
        out(&table)
    );
    // A manifest that is none is bad input.
    let none = run(&["cipher", "check", &folder.file("none.json", "{}")]);
    assert_eq!(none.status.code(), Some(2), "{}", err(&none));
    assert!(err(&none).contains("none.json"), "{}", err(&none));
    let wrong = run(&["cipher", "check", &manifest, "--without", "strength"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(err(&wrong).contains("montecarlo"), "{}", err(&wrong));
}

#[test]
fn the_command_of_a_child_does_nothing_by_itself() {
    let child = run(&["cipher-trial"]);
    assert_eq!((child.status.code(), out(&child)), (Some(2), String::new()));
    assert!(!out(&run(&["help", "--all"])).contains("cipher-trial"));
}
