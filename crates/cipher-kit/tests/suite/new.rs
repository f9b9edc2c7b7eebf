//! A cipher that was begun by the kit, from its first files to a library that passes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cipher_kit::{CheckName, Kind, Language, Skeleton};

use crate::lab::Folder;
use crate::run::report;

/// Write the files of a new cipher, and return the path of its manifest-to-be.
fn begin(folder: &Folder, skeleton: &Skeleton) -> PathBuf {
    for file in skeleton.files().unwrap() {
        let path = folder.path(file.path.to_str().unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file.text).unwrap();
    }
    folder.path(&format!("{}.json", skeleton.name))
}

pub fn make(folder: &Folder) {
    let output = Command::new("make").arg("-C").arg(&folder.0).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "no warning: {}", String::from_utf8_lossy(&output.stderr));
}

/// Put the line that the comment at a marked place suggests in place of the one that is there.
fn follow(path: &Path, place: &str, there: &str) {
    let text = fs::read_to_string(path).unwrap();
    let (before, behind) = text.split_once(place).unwrap_or_else(|| panic!("{place}: {text}"));
    let suggested = behind.lines().find(|line| line.contains("<<") || line.contains("rotate_left")).unwrap();
    let suggested = suggested.trim_start_matches([' ', '*', '/']);
    assert_eq!(behind.matches(there).count(), 2, "named once in the comment, and once there: {behind}");
    let (comment, rest) = behind.split_once(there).unwrap();
    let (between, rest) = rest.split_once(there).unwrap();
    fs::write(path, format!("{before}{place}{comment}{there}{between}{suggested}{rest}")).unwrap();
}

/// A cipher with both places as their comments suggest, built.
pub fn finished(language: Language, kind: Kind) -> (Folder, Skeleton) {
    let folder = Folder::new();
    let skeleton = Skeleton { name: "mycipher".to_owned(), language, kind };
    begin(&folder, &skeleton);
    follow(&folder.path(&skeleton.place()), "PLACE 1 OF 2", "return 0;");
    follow(&folder.path("reference.py"), "PLACE 2 OF 2", "return k");
    make(&folder);
    (folder, skeleton)
}

/// From new to ok.
fn goes_from_new_to_ok(language: Language, kind: Kind) {
    let folder = Folder::new();
    let skeleton = Skeleton { name: "mycipher".to_owned(), language, kind };
    let manifest = begin(&folder, &skeleton);
    make(&folder);
    let before = report(&manifest, &[CheckName::Memory]);
    let ok = |name: &str| before.checks.iter().any(|check| check.name == name && check.ok);
    assert!(!before.ok && ok("descriptor") && !ok("vectors") && !ok("agreement"), "{before:#?}");
    // The library alone is not enough.
    let there = if language == Language::Rust { "    0\n" } else { "return 0;" };
    if language == Language::Rust {
        let path = folder.path(&skeleton.place());
        let text = fs::read_to_string(&path).unwrap();
        let line = text.lines().find(|line| line.contains("rotate_left")).unwrap();
        let line = line.trim_start_matches(['/', ' ']);
        fs::write(&path, text.replacen(there, &format!("    {line}\n"), 1)).unwrap();
    } else {
        follow(&folder.path(&skeleton.place()), "PLACE 1 OF 2", there);
    }
    make(&folder);
    let half = report(&manifest, &[CheckName::Memory]);
    let failed = half.checks.iter().filter(|check| !check.ok && check.name != "memory");
    assert_eq!(failed.map(|check| &*check.name).collect::<Vec<_>>(), ["vectors", "agreement"], "{half:#?}");
    follow(&folder.path("reference.py"), "PLACE 2 OF 2", "return k");
    make(&folder);
    // Once is enough for the check that takes longest.
    let without: &[CheckName] = if language == Language::C { &[] } else { &[CheckName::Memory] };
    let after = report(&manifest, without);
    assert!(after.ok && after.checks.iter().filter(|check| !check.ok).count() == without.len(), "{after:#?}");
    let agreement = after.checks.iter().find(|check| check.name == "agreement").unwrap();
    assert!(agreement.detail.contains("new tests that reference.py made"), "{agreement:?}");
}

#[test]
fn a_new_block_cipher_in_c_goes_from_new_to_ok() {
    goes_from_new_to_ok(Language::C, Kind::Block);
}

#[test]
fn a_new_stream_cipher_in_cpp_goes_from_new_to_ok() {
    goes_from_new_to_ok(Language::Cpp, Kind::Stream);
}

#[test]
fn a_new_aead_in_rust_goes_from_new_to_ok() {
    goes_from_new_to_ok(Language::Rust, Kind::Aead);
}

#[test]
fn a_name_of_no_cipher_is_refused() {
    for name in ["aes256", "Mine", "a", "../x", "alone"] {
        let skeleton = Skeleton { name: name.to_owned(), language: Language::C, kind: Kind::Block };
        assert!(skeleton.files().is_err(), "{name}");
    }
}
