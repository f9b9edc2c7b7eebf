//! Libraries without a fault.

use cipher_kit::CheckName;

use crate::run::{report, toy};

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
