//! Help, version and manual pages.

use std::process::Command;

use serde_json::Value;

use crate::kit::{Folder, err, out, run};

#[test]
fn the_first_screen_shows_eight_commands_and_where_the_others_are() {
    let screens = [run(&["help"]), run(&["--help"]), run(&["-h"]), run(&[])];
    let [help, long, short, nothing] = &screens;
    assert_eq!((help.status.code(), long.status.code(), short.status.code()), (Some(0), Some(0), Some(0)));
    // A script that lost its command must not go on.
    assert_eq!((nothing.status.code(), out(nothing)), (Some(2), String::new()));
    let text = out(help);
    assert!(text == out(long) && text == out(short) && err(nothing) == text, "{screens:?}");
    let (_, list) = text.split_once("\nCommands:\n").unwrap();
    let (list, rest) = list.split_once("\n\n").unwrap();
    let names: Vec<&str> = list.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(names, ["demo", "doctor", "init", "run", "policy", "sa", "status", "explain"]);
    let (_, examples) = rest.split_once("Examples:\n").unwrap();
    assert_eq!(examples.split("\n\n").next().unwrap().lines().count(), 3, "{text}");
    for part in ["ravelin help --all", "ravelin(1)", "3 no daemon answers", "5 not allowed"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().count() <= 25 && text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

#[test]
fn every_command_is_listed_and_has_help() {
    let all = run(&["help", "--all"]);
    let text = out(&all);
    let (_, list) = text.split_once("\nCommands:\n").unwrap();
    let list = list.split("\n\n").next().unwrap();
    let commands: Vec<Vec<&str>> =
        list.lines().map(|line| line.trim().split("  ").next().unwrap().split(' ').collect()).collect();
    assert!(commands.len() >= 50, "{text}");
    for words in &commands {
        let asked = run(&[&["help"], &words[..]].concat());
        let with_option = run(&[&words[..], &["--help"]].concat());
        assert_eq!((asked.status.code(), with_option.status.code()), (Some(0), Some(0)), "{words:?}");
        assert!(out(&asked).contains(&format!("Usage: ravelin {}", words.join(" "))), "{}", out(&asked));
        assert_eq!(out(&asked), out(&with_option));
        assert!(!out(&asked).contains("docs/"), "an installed host has no docs/: {}", out(&asked));
    }
    assert!(commands.contains(&vec!["policy", "check"]) && commands.contains(&vec!["completions"]), "{text}");
    assert!(!text.contains("man-pages"), "{text}");
    let wrong = run(&["help", "policy", "chekc"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        err(&wrong).contains("ravelin policy chekc") && err(&wrong).contains("help --all"),
        "{}",
        err(&wrong)
    );
}

#[test]
fn commands_about_graphs_say_what_they_read_of_the_configuration_and_where_it_is() {
    for verb in ["check", "show", "plan", "apply", "simulate"] {
        let help = out(&run(&["qos", verb, "--help"]));
        let (_, option) = help.split_once("--config <FILE>").unwrap();
        let words: Vec<&str> = option.split_whitespace().collect();
        let text = words.join(" ");
        for part in
            ["`kernel_queues`", "[[qos.component]]", "not the graph", "[default: /etc/ravelin/ravelin.toml"]
        {
            assert!(text.contains(part), "{verb}: {part}: {help}");
        }
    }
}

#[test]
fn every_command_is_in_the_synopsis_of_the_manual() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/man/ravelin.1.md")).unwrap();
    let (_, synopsis) = page.split_once("## SYNOPSIS").unwrap();
    let (synopsis, _) = synopsis.split_once("## EXIT STATUS").unwrap();
    let text = out(&run(&["help", "--all"]));
    let (_, list) = text.split_once("\nCommands:\n").unwrap();
    for line in list.split("\n\n").next().unwrap().lines() {
        let words: Vec<&str> = line.trim().split("  ").next().unwrap().split(' ').collect();
        let (last, before) = words.split_last().unwrap();
        let start = [&["ravelin"], before, &[""]].concat().join(" ");
        let is_named = synopsis
            .lines()
            .filter(|line| line.starts_with(&start))
            .any(|line| line.split([' ', '|']).any(|word| word == *last));
        assert!(is_named, "docs/man/ravelin.1.md, SYNOPSIS, lacks {words:?}");
    }
}

#[test]
fn the_version_is_a_line_or_a_document() {
    let version = env!("CARGO_PKG_VERSION");
    for args in [&["version"][..], &["--version"], &["-V"]] {
        assert_eq!(out(&run(args)), format!("ravelin {version}\n"), "{args:?}");
    }
    let document: Value = serde_json::from_slice(&run(&["version", "--json"]).stdout).unwrap();
    assert_eq!((&document["api"], &document["name"]), (&1.into(), &"ravelin".into()));
    assert_eq!(
        (&document["version"], &document["architecture"]),
        (&version.into(), &std::env::consts::ARCH.into())
    );
}

#[test]
fn each_command_has_a_manual_page_that_mandoc_accepts() {
    let folder = Folder::new("pages");
    let path = folder.0.display().to_string();
    assert!(run(&["man-pages", &path, "--date", "2026-01-31"]).status.success());
    let mut pages: Vec<String> = std::fs::read_dir(&folder.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    for name in ["ravelin-status.1", "ravelin-policy.1", "ravelin-policy-check.1", "ravelin-sa-add.1"] {
        assert!(pages.iter().any(|page| page == name), "{name}: {pages:?}");
    }
    assert!(!pages.iter().any(|page| page.contains("man-pages")), "{pages:?}");
    let mut mandoc = Command::new("mandoc");
    mandoc.args(["-Tlint", "-W", "warning"]).args(&pages).current_dir(&folder.0);
    let linted = mandoc.output().expect("mandoc is not installed; `make deps` installs it");
    assert!(linted.status.success(), "{}{}", out(&linted), err(&linted));
    let check = Command::new("mandoc").arg("ravelin-policy-check.1").current_dir(&folder.0).output().unwrap();
    let text = plain(&out(&check));
    for part in ["ravelin policy check", "EXIT STATUS", "SEE ALSO", "ravelin(1)", "2026-01-31"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// A formatted page without overstrikes.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c == '\u{8}' {
            out.pop();
        } else {
            out.push(c);
        }
    }
    out
}
