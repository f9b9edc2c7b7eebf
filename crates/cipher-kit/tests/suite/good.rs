//! Libraries without a fault.

use std::path::Path;
use std::process::Command;

use cipher_kit::CheckName;

use crate::lab::Folder;
use crate::run::{report, toy};

/// The examples that need no Cargo; the others are checked by `make ciphers`.
#[test]
fn the_examples_pass_every_check() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ciphers");
    let folder = Folder::new();
    let names = ["aes256c", "maes512c", "chacha20cpp"];
    let wanted = names.map(|name| folder.path(&format!("{name}.json")));
    let out = format!("OUT={}", folder.0.display());
    let output = Command::new("make").arg("-C").arg(here).arg(out).args(&wanted).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for manifest in wanted {
        let report = report(&manifest, &[]);
        assert!(report.ok && report.checks.iter().all(|check| check.ok), "{report:#?}");
    }
}

#[test]
fn a_good_library_passes_every_check() {
    for arguments in [&[][..], &["-DFLAGS=3", "-DCTR=12"]] {
        let folder = toy(arguments);
        let report = report(&folder.path("manifest.json"), &[]);
        assert!(report.ok && report.checks.iter().all(|check| check.ok), "{report:#?}");
        let names: Vec<&str> = report.checks.iter().map(|check| &*check.name).collect();
        assert_eq!(names, CheckName::ALL.map(CheckName::word));
    }
}
