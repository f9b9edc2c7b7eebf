//! Bundles and Debian packages: always alike, taken apart with suspicion, installed as a whole.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use cipher_kit::pack::{PackError, Packed, bundle, debian, install};
use cipher_loader::{Trust, examine};
use cipher_manifest::Digest;

use crate::lab::Folder;
use crate::run::{toy, trial};

fn digest(path: &Path) -> Digest {
    Digest::of(&fs::read(path).unwrap())
}

#[test]
fn equal_files_give_equal_packages() {
    let folder = toy(&[]);
    let manifest = folder.path("manifest.json");
    let elsewhere = Folder::new();
    for file in fs::read_dir(&folder.0).unwrap().flatten() {
        fs::copy(file.path(), elsewhere.0.join(file.file_name())).unwrap();
    }
    for pack in [bundle, debian] {
        let first = pack(&manifest).unwrap();
        assert_eq!(first, pack(&elsewhere.path("manifest.json")).unwrap());
        assert!(first.file.contains("toy"), "{}", first.file);
    }
    // A file that is not what the manifest says is not packed.
    let mut vectors = fs::read(elsewhere.path("vectors.json")).unwrap();
    vectors.push(b' ');
    fs::write(elsewhere.path("vectors.json"), vectors).unwrap();
    assert!(matches!(bundle(&elsewhere.path("manifest.json")), Err(PackError::Load(_))));
}

#[test]
fn debian_reads_its_package() {
    let folder = toy(&[]);
    let Packed { file, content } = debian(&folder.path("manifest.json")).unwrap();
    let path = folder.path(&file);
    fs::write(&path, content).unwrap();
    let ask = |option: &str| {
        let output = Command::new("dpkg-deb").arg(option).arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let control = ask("--field");
    for line in [
        "Package: ravelin-cipher-toycipher",
        "Architecture: ",
        " [[cipher]]",
        "/usr/lib/ravelin/ciphers/toycipher/",
    ] {
        assert!(control.contains(line), "{control}");
    }
    let contents = ask("--contents");
    assert_eq!(
        contents.lines().filter(|line| line.starts_with("-rw-r--r-- root/root")).count(),
        3,
        "{contents}"
    );
    assert!(contents.lines().all(|line| line.starts_with('-') || line.starts_with("drwxr-xr-x root/root")));
}

#[test]
fn a_bundle_is_installed_as_a_whole_with_modes_that_a_daemon_takes() {
    let folder = toy(&[]);
    let Packed { content, .. } = bundle(&folder.path("manifest.json")).unwrap();
    let host = Folder::new();
    let place = host.path("ciphers");
    let done = install(&content, &place, false, &trial()).unwrap();
    assert_eq!(done.manifest, place.join("toycipher/manifest.json"));
    let line = format!("sha256 = \"{}\"", digest(&folder.path("manifest.json")));
    assert!(done.configuration.starts_with("[[cipher]]\nmanifest = ") && done.configuration.contains(&line));
    let examined = examine(&done.manifest, Some(digest(&done.manifest)), Trust::Caller).unwrap();
    assert_eq!(examined.manifest.description.name, "toycipher");
    for file in fs::read_dir(place.join("toycipher")).unwrap().flatten() {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o644, "{:?}", file.path());
    }
    assert_eq!(fs::metadata(place.join("toycipher")).unwrap().permissions().mode() & 0o777, 0o755);
    let here = || fs::read_dir(&place).unwrap().flatten().map(|entry| entry.file_name()).collect::<Vec<_>>();
    assert_eq!(here(), ["toycipher"]);

    // Again is the same; others under the name are refused, unless they are meant to take its place.
    install(&content, &place, false, &trial()).unwrap();
    let other = toy(&["-DFLAGS=3", "-DCTR=12"]);
    let Packed { content: others, .. } = bundle(&other.path("manifest.json")).unwrap();
    assert_ne!(content, others);
    let refused = install(&others, &place, false, &trial()).unwrap_err();
    assert!(matches!(refused, PackError::There(_)), "{refused}");
    assert_eq!(digest(&done.manifest), digest(&folder.path("manifest.json")));
    install(&others, &place, true, &trial()).unwrap();
    assert_eq!(digest(&done.manifest), digest(&other.path("manifest.json")));
    assert_eq!(here(), ["toycipher"]);
}

#[test]
fn a_bundle_that_was_changed_or_that_fails_its_trial_leaves_nothing() {
    let folder = toy(&[]);
    let Packed { content, .. } = bundle(&folder.path("manifest.json")).unwrap();
    let host = Folder::new();
    let place = host.path("ciphers");
    // An octet in each file, and a cut.
    let starts: Vec<usize> =
        content.windows(6).enumerate().filter(|(_, w)| *w == b"ustar\0").map(|(at, _)| at).collect();
    assert_eq!(starts.len(), 4);
    for at in starts.iter().skip(1).map(|at| at - 257 + 512 + 40) {
        let mut changed = content.clone();
        changed[at] ^= 1;
        assert!(install(&changed, &place, false, &trial()).is_err(), "{at}");
    }
    assert!(install(&content[..content.len() / 2], &place, false, &trial()).is_err());
    // One decryption is wrong: packed, and refused by its trial.
    let wrong = toy(&["-DDECRYPT_RARE"]);
    let Packed { content, .. } = bundle(&wrong.path("manifest.json")).unwrap();
    let refused = install(&content, &place, false, &trial()).unwrap_err().to_string();
    assert!(refused.contains("is decrypted wrongly"), "{refused}");
    let left = fs::read_dir(&place).map(|entries| entries.count()).unwrap_or(0);
    assert_eq!(left, 0);
}
