//! What is in the file, that it stays small, and that a disk that takes nothing stops nobody.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use wire::{DropReason, Flow};

use super::*;
use crate::json_log::tests::{Folder, lines, settled};

fn config(folder: &Folder, size: u64) -> AuditConfig {
    AuditConfig { file: folder.file(), size, per_second: 32, remote: None }
}

fn ended(reason: DropReason) -> Dropped {
    Dropped {
        at: Time::from_secs(90),
        reason,
        app: wire::AppId::NONE,
        rule: 0,
        spi: 0x1001,
        sequence: 7,
        cookie: 0,
        mark: 0,
        len: 120,
        flow: None,
        outer: Some(([192, 0, 2, 1].into(), [192, 0, 2, 2].into())),
        flow_label: 0,
        scrub: None,
    }
}

/// Wait until the thread has dealt with so many.
fn settle(auditor: &Auditor, entries: u64) {
    settled(&auditor.log, entries);
}

#[test]
fn an_entry_has_what_the_standards_want() {
    let folder = Folder::new("fields");
    let config = config(&folder, 1 << 20);
    let auditor = Auditor::start(Some(&config)).unwrap();
    let now = Time::from_secs(100);
    auditor.packet("in", now, &Audited::Packet(ended(DropReason::AuthFailed)));
    let flow = Flow {
        opaque: false,
        local: "2001:db8::1".parse().unwrap(),
        remote: "2001:db8::2".parse().unwrap(),
        protocol: 17,
        local_port: 53,
        remote_port: 4000,
    };
    let inside =
        Dropped { flow: Some(flow), outer: None, flow_label: 0x12345, ..ended(DropReason::SelectorMismatch) };
    auditor.packet("in", now, &Audited::Packet(inside));
    auditor.packet("out", now, &Audited::Packet(Dropped { spi: 0, ..inside }));
    auditor.packet("in", now, &Audited::LeftOut(DropReason::UnknownSpi, 12));
    auditor.action("keys_exported", 1000, Some(77), "keys of 0x00001001 for Wireshark");
    settle(&auditor, 5);
    let all = lines(&config.file);
    assert_eq!(all.len(), 5);
    let first = &all[0];
    assert_eq!(
        (
            &first["event"],
            &first["spi"],
            &first["sequence"],
            &first["src"],
            &first["dst"],
            &first["direction"]
        ),
        (
            &json!("auth_failed"),
            &json!("0x00001001"),
            &json!(7),
            &json!("192.0.2.1"),
            &json!("192.0.2.2"),
            &json!("in")
        )
    );
    // It ended ten seconds before it was told.
    let said = first["time"].as_str().unwrap().to_owned();
    let (before, after) = (
        json_log::utc(clock::wall() - Duration::from_secs(70)),
        json_log::utc(clock::wall() - Duration::from_secs(9)),
    );
    assert!(before < said && said < after, "{before} {said} {after}");
    let second = &all[1];
    assert_eq!((&second["src"], &second["dst"]), (&json!("2001:db8::2"), &json!("2001:db8::1")));
    assert_eq!((&second["inner"]["src_port"], &second["flow_label"]), (&json!(4000), &json!("0x12345")));
    assert_eq!((&all[2]["src"], all[2].get("spi")), (&json!("2001:db8::1"), None));
    assert_eq!(
        (&all[3]["event"], &all[3]["of"], &all[3]["count"]),
        (&json!("left_out"), &json!("unknown_spi"), &json!(12))
    );
    assert_eq!(
        (&all[4]["event"], &all[4]["uid"], &all[4]["pid"]),
        (&json!("keys_exported"), &json!(1000), &json!(77))
    );
    assert_eq!(fs::metadata(&config.file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(config.file.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_full_file_is_rotated_once() {
    let folder = Folder::new("rotated");
    let config = config(&folder, 2000);
    // One that others could read is theirs no more.
    fs::create_dir_all(config.file.parent().unwrap()).unwrap();
    fs::write(&config.file, "{}\n").unwrap();
    fs::set_permissions(&config.file, fs::Permissions::from_mode(0o644)).unwrap();
    let auditor = Auditor::start(Some(&config)).unwrap();
    for n in 0..100_u32 {
        auditor.action("capture_started", n, None, "of everything");
        settle(&auditor, u64::from(n) + 1);
    }
    let old = config.file.with_file_name("audit.jsonl.1");
    let (new, before) = (lines(&config.file), lines(&old));
    assert_eq!(new.last().unwrap()["uid"], 99);
    assert_eq!(before.last().unwrap()["uid"].as_u64().unwrap() + 1, new[0]["uid"].as_u64().unwrap());
    for file in [&config.file, &old] {
        let about = fs::metadata(file).unwrap();
        assert!(about.len() <= 2000, "{}", about.len());
        assert_eq!(about.permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(fs::read_dir(config.file.parent().unwrap()).unwrap().count(), 2);
}

#[test]
fn a_link_or_a_pipe_is_no_log() {
    let folder = Folder::new("link");
    let config = config(&folder, 1 << 20);
    fs::create_dir_all(config.file.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(folder.0.join("elsewhere"), &config.file).unwrap();
    assert!(Auditor::start(Some(&config)).is_err());
    let device = AuditConfig { file: "/dev/null".into(), ..config };
    assert!(Auditor::start(Some(&device)).is_err());
    assert!(!Auditor::start(None).unwrap().is_on());
}
