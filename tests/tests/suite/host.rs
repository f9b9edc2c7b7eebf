//! What a daemon leaves on the host when its start fails or its files are damaged.

use std::fs;
use std::path::PathBuf;

use lab::rig::{Rig, RigOptions};
use lab::{Program, Side};
use tests::{PATIENCE, binary, program, protect, protected_rig};

fn pins(rig: &Rig) -> PathBuf {
    PathBuf::from(format!("/sys/fs/bpf/ravelin/{}", rig.instance(Side::Alice)))
}

fn run_dir(rig: &Rig) -> PathBuf {
    PathBuf::from(format!("/run/ravelin-state/{}", rig.instance(Side::Alice)))
}

/// The devices of alice's host.
fn devices(rig: &Rig) -> String {
    let ip = program("ip");
    rig.lab.alice().run_program(Program::new(&ip).args(["-o", "link"]), PATIENCE).unwrap().out()
}

#[test]
fn a_first_start_that_fails_leaves_nothing_behind_and_a_later_one_leaves_all_closed() {
    let options =
        RigOptions { name: "rvl-first".to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    rig.set_policy(Side::Alice, &protect(&program("python3"), Side::Bob)).unwrap();
    let before = devices(&rig);
    // The applications' numbers are written after the kernel half is attached; here they cannot be.
    let in_the_way = run_dir(&rig).join("applications.new");
    fs::create_dir_all(&in_the_way).unwrap();
    let failed = rig.launch(Side::Alice, &[]).unwrap().finish(PATIENCE).unwrap();
    assert_eq!(failed.status.code(), Some(1), "{}", failed.err());
    assert!(failed.err().contains("applications.json"), "not where it was to fail: {}", failed.err());
    assert!(!pins(&rig).exists() && !run_dir(&rig).exists(), "{}", failed.err());
    assert_eq!(devices(&rig), before);
    rig.start(Side::Alice).unwrap();

    // Where programs are guarded already, a start that fails opens nothing.
    rig.kill(Side::Alice).unwrap();
    fs::create_dir_all(&in_the_way).unwrap();
    rig.set_policy(Side::Alice, &protect(&program("sh"), Side::Bob)).unwrap();
    let failed = rig.launch(Side::Alice, &[]).unwrap().finish(PATIENCE).unwrap();
    assert_eq!(failed.status.code(), Some(1), "{}", failed.err());
    assert!(pins(&rig).join("links").read_dir().unwrap().next().is_some(), "{}", failed.err());
    assert_ne!(devices(&rig), before);
}

#[test]
fn a_damaged_record_does_not_keep_the_kernel_half_on_the_host() {
    let python = program("python3");
    let mut rig = protected_rig("rvl-record", true, &[&python]).unwrap();
    rig.kill(Side::Alice).unwrap();
    assert!(pins(&rig).exists());
    fs::write(run_dir(&rig).join("host.json"), "{").unwrap();
    let detached = rig.command(Side::Alice, &["detach", "--yes"], "").unwrap();
    assert_eq!(detached.status.code(), Some(1), "{}", detached.out());
    assert!(
        detached.err().contains("host.json") && detached.err().contains("ip link del"),
        "{}",
        detached.err()
    );
    assert!(detached.out().contains("links"), "{}", detached.out());
    assert!(!pins(&rig).exists() && !run_dir(&rig).exists());
    // The instance can start afresh.
    rig.start(Side::Alice).unwrap();
}
