//! The rules of files: owners, modes, links, kinds, lengths, digests.

use std::fs::{self, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use cipher_loader::{FileFault, LoadError, Request, Trust, examine, load};

use crate::lab::{Folder, sha256};

fn fault(manifest: &Path, trust: Trust) -> (String, FileFault) {
    let digest = fs::read(manifest).map(|text| sha256(&text).parse().unwrap()).ok();
    match examine(manifest, digest.or(Some(cipher_manifest::Digest([0; 32]))), trust) {
        Err(LoadError::File { path, why }) => (path.to_str().unwrap().to_owned(), why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_link_anywhere_in_the_path_is_refused() {
    let folder = Folder::with(&[]);
    let above = Folder::new();
    symlink(&folder.0, above.path("link")).unwrap();
    let (path, why) = fault(&above.path("link/manifest.json"), Trust::Caller);
    assert!(matches!(why, FileFault::Link) && path.ends_with("/link"), "{path}: {why}");
    symlink(folder.path("manifest.json"), above.path("manifest.json")).unwrap();
    assert!(matches!(fault(&above.path("manifest.json"), Trust::Caller).1, FileFault::Link));
    for file in ["toy.so", "vectors.json"] {
        let folder = Folder::with(&[]);
        fs::rename(folder.path(file), folder.path("moved")).unwrap();
        symlink("moved", folder.path(file)).unwrap();
        let (path, why) = fault(&folder.path("manifest.json"), Trust::Caller);
        assert!(matches!(why, FileFault::Link) && path.ends_with(file), "{path}: {why}");
    }
}

#[test]
fn a_caller_may_go_back_by_dots_and_a_daemon_may_not() {
    let folder = Folder::with(&[]);
    let name = folder.0.file_name().unwrap();
    let path = folder.0.join("..").join(name).join("manifest.json");
    assert!(examine(&path, None, Trust::Caller).is_ok());
    assert!(matches!(fault(&path, Trust::Root).1, FileFault::Path));
}

#[test]
fn pipes_folders_and_what_is_too_long_are_refused() {
    let folder = Folder::with(&[]);
    fs::remove_file(folder.path("toy.so")).unwrap();
    assert!(Command::new("mkfifo").arg(folder.path("toy.so")).status().unwrap().success());
    assert!(matches!(fault(&folder.path("manifest.json"), Trust::Caller).1, FileFault::Kind));
    fs::remove_file(folder.path("toy.so")).unwrap();
    fs::create_dir(folder.path("toy.so")).unwrap();
    assert!(matches!(fault(&folder.path("manifest.json"), Trust::Caller).1, FileFault::Kind));
    fs::remove_dir(folder.path("toy.so")).unwrap();
    assert!(matches!(fault(&folder.path("manifest.json"), Trust::Caller).1, FileFault::System(_)));
    let long = fs::File::create(folder.path("toy.so")).unwrap();
    long.set_len(64 * 1024 * 1024 + 1).unwrap();
    assert!(matches!(fault(&folder.path("manifest.json"), Trust::Caller).1, FileFault::Length(67_108_864)));
    fs::write(folder.path("manifest.json"), " ".repeat(65537)).unwrap();
    assert!(matches!(fault(&folder.path("manifest.json"), Trust::Caller).1, FileFault::Length(65536)));
}

#[test]
fn a_digest_that_differs_is_named_with_where_it_stands() {
    let folder = Folder::with(&[]);
    let mut request = folder.request();
    request.sha256 = Some(cipher_manifest::Digest([0; 32]));
    let error = load(&request).unwrap_err().to_string();
    assert!(
        error.contains("manifest.json: its SHA-256 is ") && error.contains("the configuration says 0000"),
        "{error}"
    );
    for file in ["toy.so", "vectors.json"] {
        let folder = Folder::with(&[]);
        let mut octets = fs::read(folder.path(file)).unwrap();
        octets.push(b' ');
        fs::write(folder.path(file), octets).unwrap();
        let error = folder.refused();
        assert!(
            error.contains(&format!("{file}: its SHA-256 is ")) && error.contains("the manifest says"),
            "{error}"
        );
    }
    let folder = Folder::with(&[]);
    folder.manifest(&[("\"kind\"", "\"colour\"")]);
    assert!(folder.refused().contains("manifest.json: manifest, line 1, "));
}

/// A folder below /run, which root alone writes: what is above it passes the rule. It goes with the value.
struct Trusted(std::path::PathBuf);

impl Trusted {
    fn with(folder: &Folder) -> Trusted {
        let user = fs::metadata(&folder.0).unwrap().uid();
        assert_eq!(user, 0, "the tests of what a daemon trusts run as root");
        let path = Path::new("/run").join(folder.0.file_name().unwrap());
        fs::DirBuilder::new().mode(0o755).create(&path).unwrap();
        for name in ["manifest.json", "toy.so", "vectors.json"] {
            fs::copy(folder.path(name), path.join(name)).unwrap();
            fs::set_permissions(path.join(name), Permissions::from_mode(0o644)).unwrap();
        }
        Trusted(path)
    }
}

impl Drop for Trusted {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_daemon_trusts_what_root_alone_can_change() {
    let folder = Folder::with(&[]);
    let trusted = Trusted::with(&folder);
    let manifest = trusted.0.join("manifest.json");
    let request = Request { manifest: manifest.clone(), trust: Trust::Root, ..folder.request() };
    assert_eq!(load(&request).unwrap().counts.total(), 140);
    let unpinned = load(&Request { sha256: None, ..request.clone() }).unwrap_err();
    assert!(unpinned.to_string().ends_with("manifest.json: no SHA-256 of it is configured"), "{unpinned}");
    let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    for name in ["", "manifest.json", "toy.so", "vectors.json"] {
        let path = if name.is_empty() { trusted.0.clone() } else { trusted.0.join(name) };
        let mode = fs::metadata(&path).unwrap().mode();
        for more in [0o020, 0o002] {
            set(&path, mode | more);
            let (named, why) = fault(&manifest, Trust::Root);
            assert!(
                matches!(why, FileFault::Writable(_)) && Path::new(&named) == path,
                "{name}: {named}: {why}"
            );
        }
        set(&path, mode);
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        let (named, why) = fault(&manifest, Trust::Root);
        assert!(
            matches!(why, FileFault::Owner(65534)) && Path::new(&named) == path,
            "{name}: {named}: {why}"
        );
        // The command line takes it all the same.
        assert!(examine(&manifest, None, Trust::Caller).is_ok());
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
    }
    assert!(load(&request).is_ok());
}
