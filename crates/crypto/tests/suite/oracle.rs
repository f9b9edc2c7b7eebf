//! The known answers in the source are what the oracle prints.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test asks another program")]
#![allow(clippy::disallowed_macros, reason = "a test that does not run says so")]

use std::path::Path;
use std::process::Command;

#[test]
fn the_answers_are_the_oracles() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ready = Command::new("python3").args(["-c", "import cryptography"]).output();
    if !ready.is_ok_and(|out| out.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "python3 with the package `cryptography` is not installed");
        eprintln!("skipped: python3 with the package `cryptography` is not installed");
        return;
    }
    let out = Command::new("python3").arg(here.join("tests/oracle.py")).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let source = std::fs::read_to_string(here.join("src/known_answer/answers.rs")).unwrap();
    assert!(String::from_utf8_lossy(&out.stdout) == source, "run tests/oracle.py again");
}
