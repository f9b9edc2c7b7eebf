//! Libraries without a fault.

use std::fs;
use std::path::Path;
use std::process::Command;

use cipher_kit::CheckName;

use crate::lab::{Folder, hex};
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

/// The cipher of `short.c`, written a second time.
fn short(key: [u8; 16], block: &mut [u8; 8]) {
    let words: Vec<u32> = key.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let both = u64::from_le_bytes(*block);
    let (mut l, mut r) = (both as u32, (both >> 32) as u32);
    for i in 0..32u32 {
        let k = words[i as usize % 4].wrapping_add(i * 0x0101_0101);
        (l, r) = (r, l ^ r.wrapping_mul(0x9e37_79b1).wrapping_add(k) ^ r.rotate_left(11));
    }
    *block = (u64::from(l) << 32 | u64::from(r)).to_le_bytes();
}

#[test]
fn blocks_of_8_octets_are_checked_as_far_as_they_go() {
    let folder = Folder::new();
    folder.compile_source("../../../cipher-kit/tests/suite/short.c", &[]);
    let tests: Vec<String> = (1..=100u8)
        .map(|number| {
            let (key, mut block) = ([number.wrapping_mul(91); 16], [number; 8]);
            short(key, &mut block);
            format!(
                "{{\"tcId\":{number},\"mode\":\"block\",\"key\":\"{}\",\"msg\":\"{}\",\"ct\":\"{}\",\"result\":\"valid\"}}",
                hex(&key),
                hex(&[number; 8]),
                hex(&block)
            )
        })
        .collect();
    let text = format!("{{\"cipher\":\"shortcipher\",\"tests\":[{}]}}", tests.join(","));
    fs::write(folder.path("vectors.json"), text).unwrap();
    folder.manifest(&[("toycipher", "shortcipher"), ("\"block\":16,\"key\":32", "\"block\":8,\"key\":16")]);
    let report = report(&folder.path("manifest.json"), &[]);
    assert!(report.ok && report.checks.iter().all(|check| check.ok), "{report:#?}");
    // CBC under each integrity that is not out of date, and nothing else.
    assert!(report.checks[11].detail.contains(" packets of 6 suites"), "{report:#?}");
}
