//! What `make install` and the tarball run: files arrive where they belong, and nothing of them stays behind.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::kit::{Folder, err, out};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A tree as packaging/tree.sh makes it, with little in it.
fn tree(folder: &Folder) -> PathBuf {
    let tree = folder.0.join("tree");
    for (name, text) in [
        ("bin/ravelin", "#!/bin/sh\n"),
        ("man/ravelin.1", "a page"),
        ("man/ravelin-policy.5", "a page"),
        ("man/ravelin-scrub.7", "a page"),
        ("completions/ravelin.bash", "a script"),
        ("completions/_ravelin", "a script"),
        ("completions/ravelin.fish", "a script"),
        ("schema/status.json", "a schema"),
        ("include/ravelin.h", "a header"),
        ("doc/LICENSE-MIT", "a licence"),
        ("doc/examples/main.policy", "a policy"),
    ] {
        let path = tree.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    std::fs::create_dir(tree.join("systemd")).unwrap();
    for name in ["ravelin.service", "ravelin-boot.service"] {
        let unit = format!("{REPOSITORY}/crates/ravelin/src/cmd/init/{name}");
        std::fs::copy(unit, tree.join("systemd").join(name)).unwrap();
    }
    std::fs::copy(format!("{REPOSITORY}/packaging/install.sh"), tree.join("install.sh")).unwrap();
    tree
}

fn install(tree: &Path, args: &[&str]) -> Output {
    Command::new("sh").arg(tree.join("install.sh")).args(args).output().unwrap()
}

/// Every file below a folder, relative to it.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(folder).unwrap().display().to_string());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn what_is_installed_is_where_it_belongs_and_goes_without_a_trace() {
    let folder = Folder::new("install");
    let tree = tree(&folder);
    let destination = folder.0.join("a b");
    let at = destination.display().to_string();
    for (options, prefix, units) in [
        (&[][..], "usr/local", "usr/local/lib/systemd/system"),
        (&["--prefix", "/usr", "--unitdir", "/lib/systemd/system"], "usr", "lib/systemd/system"),
    ] {
        let options = [&["--destdir", &at], options].concat();
        let done = install(&tree, &options);
        assert!(done.status.success() && out(&done).starts_with("installed"), "{}", err(&done));
        let mut expected: Vec<String> = [
            "bin/ravelin",
            "include/ravelin.h",
            "share/bash-completion/completions/ravelin",
            "share/doc/ravelin/LICENSE-MIT",
            "share/doc/ravelin/examples/main.policy",
            "share/fish/vendor_completions.d/ravelin.fish",
            "share/ravelin/schema/status.json",
            "share/man/man1/ravelin.1",
            "share/man/man5/ravelin-policy.5",
            "share/man/man7/ravelin-scrub.7",
            "share/zsh/site-functions/_ravelin",
        ]
        .iter()
        .map(|name| format!("{prefix}/{name}"))
        .collect();
        expected.extend(["ravelin-boot.service", "ravelin.service"].map(|name| format!("{units}/{name}")));
        expected.sort();
        assert_eq!(files(&destination), expected);
        let mode =
            |name: &str| std::fs::metadata(destination.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&format!("{prefix}/bin/ravelin")), 0o755);
        assert_eq!(mode(&format!("{prefix}/share/man/man1/ravelin.1")), 0o644);
        let unit = std::fs::read_to_string(destination.join(units).join("ravelin.service")).unwrap();
        let start = format!("ExecStart=/{prefix}/bin/ravelin run --config /etc/ravelin/ravelin.toml\n");
        assert!(unit.contains(&start) && !unit.contains("@PROGRAM@") && !unit.contains("@FOLDER@"), "{unit}");

        let done = install(&tree, &[&options[..], &["--uninstall"]].concat());
        assert!(done.status.success() && out(&done).starts_with("removed"), "{}", err(&done));
        assert_eq!(files(&destination), [] as [&str; 0]);
        assert!(!destination.join(prefix).join("share/doc/ravelin").exists());
    }
}

#[test]
fn wrong_arguments_change_nothing() {
    let folder = Folder::new("install-wrong");
    let tree = tree(&folder);
    for args in [&["--prefixx", "/usr"][..], &["--destdir"]] {
        let done = install(&tree, args);
        assert_eq!(done.status.code(), Some(2), "{args:?}");
        assert!(err(&done).starts_with("install.sh: "), "{}", err(&done));
    }
}

/// What the Debian package's prerm does at a removal: its exit status, and the commands that it gave to the program. The
/// program says that a process serves the instance `served`, and that none serves another.
fn remove_package(folder: &Folder, served: &str) -> (Option<i32>, String) {
    let calls = folder.0.join("calls");
    let program = folder.0.join("program");
    std::fs::write(
        &program,
        format!(
            "#!/bin/sh\necho \"$*\" >> {calls}\ncase \"$*\" in *status*{served}) exit 0 ;; *status*) exit 3 ;; esac\n",
            calls = calls.display()
        ),
    )
    .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = std::fs::read_to_string(format!("{REPOSITORY}/packaging/debian/prerm")).unwrap();
    assert!(script.contains("/usr/bin/ravelin") && script.contains("/sys/fs/bpf/"));
    let script = script
        .replace("/usr/bin/ravelin", &program.display().to_string())
        .replace("/sys/fs/bpf/", &format!("{}/", folder.0.join("bpf").display()));
    let done = Command::new("sh").args(["-c", &script, "prerm", "remove"]).output().unwrap();
    (done.status.code(), std::fs::read_to_string(&calls).unwrap_or_default())
}

#[test]
fn a_removal_opens_nothing_while_a_process_serves_anything() {
    let folder = Folder::new("prerm");
    for pins in ["ravelin/main", "ravelin/other", "ravelin-inline/line"] {
        std::fs::create_dir_all(folder.0.join("bpf").join(pins)).unwrap();
    }
    for served in ["other", "line"] {
        let (status, calls) = remove_package(&folder, served);
        assert_eq!(status, Some(1), "{calls}");
        assert!(calls.contains("status") && !calls.contains("detach"), "{calls}");
        std::fs::remove_file(folder.0.join("calls")).unwrap();
    }
    let (status, calls) = remove_package(&folder, "nobody");
    assert_eq!(status, Some(0), "{calls}");
    let opened: Vec<&str> = calls.lines().filter(|call| call.contains("detach")).collect();
    let expected =
        ["detach --yes --instance main", "detach --yes --instance other", "inline detach --instance line"];
    assert_eq!(opened, expected);
}
