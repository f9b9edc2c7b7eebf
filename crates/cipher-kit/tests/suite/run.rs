//! Checks of a library that the C compiler makes.

use std::path::Path;

use api::CipherChecked;
use cipher_kit::{CheckName, Options, SECONDS};
use cipher_loader::Trial;

use crate::lab::{Folder, vectors};

/// The toy cipher of the loader's tests.
pub const TOY: &str = "toy.c";

/// This test program, which runs the ignored test below.
pub fn trial() -> Trial {
    Trial {
        program: std::env::current_exe().unwrap(),
        arguments: ["--ignored", "--exact", "run::the_child_of_a_check"].map(Into::into).to_vec(),
    }
}

#[test]
#[ignore = "the tests of this program run it, in a process of its own"]
fn the_child_of_a_check() {
    cipher_kit::child_main();
}

/// A folder with the toy cipher, compiled with these arguments.
pub fn toy(arguments: &[&str]) -> Folder {
    let folder = Folder::new();
    folder.compile_source(TOY, arguments);
    std::fs::write(folder.path("vectors.json"), vectors()).unwrap();
    folder.manifest(&[]);
    folder
}

/// The report of a manifest.
pub fn report(manifest: &Path, without: &[CheckName]) -> CipherChecked {
    report_within(manifest, without, SECONDS)
}

/// The same with a bound of processor time.
pub fn report_within(manifest: &Path, without: &[CheckName], seconds: u64) -> CipherChecked {
    let without = without.iter().copied().collect();
    let options = Options { manifest: manifest.to_owned(), trial: trial(), seconds, without };
    cipher_kit::check(&options).unwrap_or_else(|error| panic!("{}: {error}", manifest.display()))
}

/// Whether this check alone fails, and its detail has these words. Only its own test runs `memory`, which takes seconds.
pub fn assert_fails(folder: &Folder, name: &str, words: &[&str]) {
    let without: &[CheckName] = if name == "memory" { &[] } else { &[CheckName::Memory] };
    let report = report(&folder.path("manifest.json"), without);
    let failed = report.checks.iter().filter(|check| !check.ok && !report.left_out.contains(&check.name));
    assert_eq!(failed.map(|check| &*check.name).collect::<Vec<_>>(), [name], "{report:#?}");
    let detail = &report.checks.iter().find(|check| check.name == name).unwrap().detail;
    for word in words {
        assert!(detail.contains(word), "{name} should say {word:?}: {detail}");
    }
    assert!(!report.ok);
}
