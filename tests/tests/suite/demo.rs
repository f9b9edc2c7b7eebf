//! The demonstration shows what it says, twice in a row, and leaves nothing behind.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// What could be left: namespaces, pins, cgroups, sockets and folders of the daemon, processes.
fn traces() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![
        "/run/netns".into(),
        "/sys/fs/bpf/ravelin".into(),
        "/run/ravelin".into(),
        "/run/ravelin-state".into(),
    ];
    folders.extend(netio::cgroup::unified_root());
    for folder in folders {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("rvl-demo") || name.contains("lab-rvl-demo") {
                found.insert(entry.path().display().to_string());
            }
        }
    }
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if command.contains("lab-rvl-demo") {
            found.insert(command);
        }
    }
    found
}

fn demo(binary: &Path) -> serde_json::Value {
    let output = Command::new(binary).args(["demo", "--json"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let document: serde_json::Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    let failed: Vec<_> = document["checks"].as_array().unwrap().iter().filter(|c| c["ok"] != true).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(output.status.success());
    document
}

#[test]
fn the_demonstration_works_twice_and_leaves_nothing() {
    let binary = tests::binary();
    for _ in 0..2 {
        let document = demo(&binary);
        assert!(document["checks"].as_array().unwrap().len() >= 12, "{document}");
        assert_eq!(traces(), BTreeSet::new());
    }
}
