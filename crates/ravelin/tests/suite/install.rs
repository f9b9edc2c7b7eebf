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
        ("include/ravelin-qos.h", "a header"),
        ("doc/LICENSE-MIT", "a licence"),
        ("doc/examples/main.policy", "a policy"),
        ("doc/design/0001-packet.md", "a record"),
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
            "include/ravelin-qos.h",
            "share/bash-completion/completions/ravelin",
            "share/doc/ravelin/LICENSE-MIT",
            "share/doc/ravelin/design/0001-packet.md",
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

        // What an older version had, what was enabled since, and what others have there.
        let write = |name: &str| {
            let path = destination.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "old").unwrap();
        };
        write(&format!("{prefix}/share/man/man1/ravelin-gone.1"));
        write(&format!("{prefix}/share/doc/ravelin/gone.md"));
        write(&format!("{prefix}/share/man/man1/other.1"));
        let wants = destination.join("etc/systemd/system/multi-user.target.wants");
        std::fs::create_dir_all(&wants).unwrap();
        let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, wants.join(name)).unwrap();
        link(&format!("/{units}/ravelin.service"), "ravelin.service");
        link("/elsewhere/ravelin-boot.service", "ravelin-boot.service");

        let done = install(&tree, &[&options[..], &["--uninstall"]].concat());
        let left = [
            "etc/systemd/system/multi-user.target.wants/ravelin-boot.service".to_owned(),
            format!("{prefix}/share/man/man1/other.1"),
        ];
        assert_eq!(files(&destination), left, "{}", err(&done));
        std::fs::remove_file(destination.join(&left[0])).unwrap();
        std::fs::remove_file(destination.join(&left[1])).unwrap();
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

#[test]
fn another_copy_of_the_program_is_named() {
    let folder = Folder::new("install-shadow");
    let tree = tree(&folder);
    let copy = |name: &str| {
        let place = folder.0.join(name);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::copy(tree.join("bin/ravelin"), place.join("ravelin")).unwrap();
        std::fs::set_permissions(place.join("ravelin"), std::fs::Permissions::from_mode(0o755)).unwrap();
        place.display().to_string()
    };
    let (first, last) = (copy("old/sbin"), copy("old/bin"));
    let prefix = folder.0.join("new").display().to_string();
    let path = format!("{first}:{prefix}/bin:{last}:/usr/bin:/bin");
    let install = || {
        let script = tree.join("install.sh");
        Command::new("sh").arg(script).args(["--prefix", &prefix]).env("PATH", &path).output().unwrap()
    };
    let done = install();
    let said = err(&done);
    assert!(done.status.success(), "{said}");
    assert!(said.contains(&format!("{first}/ravelin is another copy and comes first in PATH")), "{said}");
    assert!(said.contains(&format!("{last}/ravelin is another copy, behind this one")), "{said}");
    assert!(!said.contains(&format!("{prefix}/bin/ravelin is")), "{said}");
    std::fs::remove_dir_all(folder.0.join("old")).unwrap();
    assert!(!err(&install()).contains(&folder.0.join("old").display().to_string()));
}

/// What the Debian package's postrm does when the package is purged, after it was removed: what it leaves of the files
/// below `folder`. Its system is that folder; `chroot` is the status of ischroot.
fn purge_package(folder: &Folder, chroot: u8) -> Vec<String> {
    let script = std::fs::read_to_string(format!("{REPOSITORY}/packaging/debian/postrm")).unwrap();
    let root = folder.0.join("system");
    let mut script =
        script.replace("$root/etc/", "/etc/").replace("$root/var/", "/var/").replace("$root$", "$");
    for path in [
        "/etc/ravelin",
        "/var/log/ravelin",
        "/run/ravelin",
        "/usr/local/",
        "/opt/",
        "/sys/fs/bpf/",
        "/proc/net/unix",
    ] {
        assert!(script.contains(path), "{path}");
        script = script.replace(path, &format!("{}{path}", root.display()));
    }
    for action in ["remove", "purge"] {
        let with_tools = format!("ischroot() {{ return {chroot}; }}\n{script}");
        let done = Command::new("sh").args(["-c", &with_tools, "postrm", action]).output().unwrap();
        assert!(done.status.success(), "{}", err(&done));
        if action == "remove" {
            // As dpkg does before it runs the script again.
            let _ = std::fs::remove_file(root.join("etc/ravelin/ravelin.toml"));
        }
    }
    files(&root)
}

#[test]
fn a_purge_takes_what_is_the_packages_and_nothing_of_another_daemon() {
    let written = [
        "etc/ravelin/main.policy.last",
        "etc/ravelin/ravelin.toml",
        "run/ravelin/main/control.sock",
        "var/log/ravelin/audit.json",
    ];
    let system = |name: &str, more: &[&str]| {
        let folder = Folder::new(name);
        for file in written.iter().chain(more) {
            let path = folder.0.join("system").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, *file).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        folder
    };
    assert_eq!(purge_package(&system("purge-alone", &[]), 1), [""; 0]);
    // Beside another installation its configuration stays, the conf-files that dpkg deletes among it.
    let other = "usr/local/sbin/ravelin";
    let folder = system("purge-other", &[other]);
    let mut all: Vec<&str> = written.iter().copied().chain([other]).collect();
    all.sort_unstable();
    assert_eq!(purge_package(&folder, 1), all);
    let kept = std::fs::read_to_string(folder.0.join("system/etc/ravelin/ravelin.toml")).unwrap();
    assert_eq!(kept, "etc/ravelin/ravelin.toml");
    // A daemon from elsewhere is attached, or listens.
    let attached = "sys/fs/bpf/ravelin/main/link";
    let left = purge_package(&system("purge-attached", &[attached]), 1);
    assert!(left.contains(&written[2].to_owned()) && left.contains(&written[0].to_owned()), "{left:?}");
    let folder = system("purge-listens", &[]);
    let unix = folder.0.join("system/proc/net/unix");
    std::fs::create_dir_all(unix.parent().unwrap()).unwrap();
    let at = folder.0.join("system/run/ravelin/main/control.sock");
    std::fs::write(unix, format!("0000: 00000002 00000000 00010000 0001 01 12345 {}\n", at.display()))
        .unwrap();
    assert!(purge_package(&folder, 1).contains(&written[2].to_owned()));
    // In a chroot what runs is the host's: it does not keep the configuration, and /run is not touched.
    let left = purge_package(&system("purge-chroot", &[attached]), 0);
    assert_eq!(left, [written[2], attached]);
}

/// What the Debian package's prerm does at a removal: its exit status, and the commands that it gave to the program. The
/// program says that a process serves the instance `served`, and that none serves another.
fn remove_package(folder: &Folder, served: &str) -> (Option<i32>, String) {
    remove_package_in(folder, served, "", 1)
}

/// The same with a value of DPKG_ROOT and a status of ischroot.
fn remove_package_in(folder: &Folder, served: &str, root: &str, chroot: u8) -> (Option<i32>, String) {
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
    let script = format!("ischroot() {{ return {chroot}; }}\n{script}");
    let mut prerm = Command::new("sh");
    let done = prerm.args(["-c", &script, "prerm", "remove"]).env("DPKG_ROOT", root).output().unwrap();
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

#[test]
fn a_removal_in_a_chroot_opens_nothing_of_the_host() {
    let folder = Folder::new("prerm-chroot");
    std::fs::create_dir_all(folder.0.join("bpf/ravelin/main")).unwrap();
    for (root, chroot) in [("", 0), ("/target", 1)] {
        assert_eq!(remove_package_in(&folder, "nobody", root, chroot), (Some(0), String::new()));
    }
    let (status, calls) = remove_package_in(&folder, "nobody", "", 1);
    assert_eq!(status, Some(0));
    assert!(calls.contains("detach --yes --instance main"), "{calls}");
}

#[test]
fn a_program_that_names_a_folder_of_its_builder_is_refused() {
    let folder = Folder::new("paths");
    let check = |octets: &[u8]| {
        let file = folder.0.join("program");
        std::fs::write(&file, octets).unwrap();
        let mut paths = Command::new("bash");
        paths.arg(format!("{REPOSITORY}/packaging/paths.sh")).arg(&file);
        paths.args(["/build/here", "/home/builder/.cargo"]).output().unwrap()
    };
    let clean = check(b"\x7fELF\0/ravelin/src/main.rs\0/cargo/registry\0/build/hereabouts\0");
    assert!(clean.status.success(), "{}", err(&clean));
    for wrong in [&b"\0\xff/build/here/src/main.rs\0"[..], b"x\0/home/builder/.cargo/registry/a.rs"] {
        let done = check(wrong);
        assert_eq!(done.status.code(), Some(1));
        assert!(err(&done).contains("where it was built") && err(&done).contains(".rs"), "{}", err(&done));
    }
}
