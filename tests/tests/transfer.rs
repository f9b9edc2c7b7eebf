//! Bulk: what arrives is what was sent, with and without segmentation offload, and no packet of it is readable.

use netio::lab::{CaptureOptions, Program, Side, Transport};
use std::time::Duration;
use tests::{PATIENCE, program, programs, protected_rig};

/// 1 GiB.
const SIZE: u64 = 1 << 30;
const PORT: u16 = 7000;

fn one_gib(name: &str, segmentation: bool, address: &str) {
    let python = program("python3");
    let rig = protected_rig(name, segmentation, &[&python]).unwrap();
    let (alice, bob) = (rig.lab.alice(), rig.lab.bob());
    let script = ["-c", programs::BULK_SERVER, &PORT.to_string(), &SIZE.to_string()];
    let mut server = bob.spawn(Program::new(&python).args(script)).unwrap();
    bob.wait_for_listener(Transport::Tcp, PORT, &mut server, PATIENCE).unwrap();
    let capture = rig.lab.capture(CaptureOptions { keep: 1 << 20, watch: Vec::new() }).unwrap();
    let client = Program::new(&python).args(["-c", programs::BULK_CLIENT, address, &PORT.to_string()]);
    let got = alice.run_program(client, Duration::from_secs(180)).unwrap();
    let wire = capture.finish().unwrap();
    assert!(got.status.success(), "{}", got.err());
    let sent = server.output();
    assert_eq!(got.out().trim(), format!("{} {SIZE}", sent.trim()));
    assert_eq!(wire.clear, 0, "{}", wire.all_clear().first().map(ToString::to_string).unwrap_or_default());
    assert!(wire.esp_octets > SIZE, "only {} octets of ESP", wire.esp_octets);
    drop(server);
    for side in [Side::Alice, Side::Bob] {
        let status = rig.json(side, &["sa", "list"]).unwrap();
        assert!(status["sas"].as_array().is_some_and(|sas| sas.len() == 4), "{status}");
    }
}

#[test]
fn one_gib_arrives_identical_with_segmentation_offload() {
    one_gib("rvl-bulk-tso", true, &Side::Bob.v4().to_string());
}

#[test]
fn one_gib_arrives_identical_without_segmentation_offload() {
    one_gib("rvl-bulk-plain", false, &Side::Bob.v4().to_string());
}
