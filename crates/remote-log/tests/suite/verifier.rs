//! The verifier of `examples/`, which reads a collector's file and shares no code with the sender.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::Folder;

/// Run the verifier over a file, with more arguments; what it says, and whether it is content.
pub fn verify(file: &Path, arguments: &[&str]) -> (bool, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/verify_audit.py");
    let Output { status, stdout, stderr } =
        Command::new("python3").arg(script).args(arguments).arg(file).output().expect("python3");
    let said = String::from_utf8(stdout).unwrap();
    assert!(stderr.is_empty(), "{}", String::from_utf8_lossy(&stderr));
    (status.success(), said)
}

/// The verifier is content with these lines; what it says.
pub fn assert_whole(lines: &[String]) -> String {
    let (is_whole, said) = verified(lines, &[]);
    assert!(is_whole, "{said}");
    said
}

fn verified(lines: &[String], arguments: &[&str]) -> (bool, String) {
    let folder = Folder::new();
    let file = folder.path().join("audit.log");
    std::fs::write(&file, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    verify(&file, arguments)
}

/// Each way to tamper with a collector's file is found: `lines` is a whole one with ten at least.
pub fn assert_tampering_shows(lines: &[String]) {
    let report = assert_whole(lines);
    let last =
        report.lines().find_map(|line| line.split_once(" last ")).expect("the last message").1.to_owned();
    let [number, hash] = last.split(' ').collect::<Vec<_>>()[..] else { panic!("{last}") };
    let end = ["--last", number, hash];
    assert!(verified(lines, &end).0);

    let without = |at: usize| [&lines[..at], &lines[at + 1..]].concat();
    let found = |what: &str, lines: &[String], arguments: &[&str], expected: &str| {
        let (is_whole, said) = verified(lines, arguments);
        assert!(!is_whole && said.contains(expected), "{what}: {said}");
    };
    found("a removed line", &without(5), &[], "missing");
    found("a removed first line", &without(0), &["--from-start"], "missing");
    found("a removed last line", &without(lines.len() - 1), &end, "missing");
    let mut changed = lines.to_vec();
    changed[5] = changed[5].replace("test", "tset");
    assert_ne!(changed[5], lines[5]);
    found("a changed line", &changed, &[], "changed");
    let mut exchanged = lines.to_vec();
    exchanged.insert(6, changed[5].clone());
    found("a second line with one number", &exchanged, &[], "differs");
    let mut foreign = lines.to_vec();
    foreign.insert(6, "<13>1 - - - - - - hello".to_owned());
    found("a line of somebody else", &foreign, &[], "not a message");
    let mut twice = lines.to_vec();
    twice.extend_from_slice(&lines[3..]);
    assert!(verified(&twice, &end).0, "what came twice is no fault");
    found("silence", lines, &["--silence", "0"], "silence");
}
