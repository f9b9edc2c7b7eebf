//! The audit log as a file: what a stranger sends to a daemon is in it, and what its operator does.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use lab::rig::{Rig, RigOptions};
use lab::{Program, Side};
use tests::{PATIENCE, Scratch, binary, json_lines, program, protect, wait_for};

/// Sends datagrams to the port of ESP (address, SPI in front of each, how many).
const STRANGER: &str = r#"
import socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(int(sys.argv[3])):
    s.sendto(struct.pack("!II", int(sys.argv[2], 0), n + 1) + bytes(40), (sys.argv[1], 4500))
"#;

#[test]
fn strangers_and_operators_leave_a_trace() {
    let scratch = Scratch::new("audit");
    let file = scratch.join("log/audit.jsonl");
    let options =
        RigOptions { name: "rvl-audit".to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    rig.configure(Side::Bob, &format!("[audit]\nfile = {:?}\nper_second = 5\n", file.to_str().unwrap()));
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        rig.set_policy(side, &protect(&program("sleep"), peer)).unwrap();
    }
    rig.start(Side::Bob).unwrap();
    let stranger = Program::new(program("python3"));
    let to = Side::Bob.v4().to_string();
    let stranger = stranger.args(["-c", STRANGER, &to, "0x2345", "200"]);
    assert!(rig.lab.alice().run_program(stranger, PATIENCE).unwrap().status.success());
    rig.ravelin(Side::Bob, &["debug", "debug", "--for", "1s"], "").unwrap();

    let entries = wait_for("the entries", PATIENCE, || {
        let entries = json_lines(&file);
        let has = |event: &str| entries.iter().any(|entry| entry["event"] == event);
        if has("left_out") && has("log_filter_changed") { Ok(entries) } else { Err(format!("{entries:?}")) }
    });
    let unknown: Vec<_> = entries.iter().filter(|entry| entry["event"] == "unknown_spi").collect();
    for entry in &unknown {
        assert_eq!((&entry["spi"], &entry["direction"]), (&"0x00002345".into(), &"in".into()), "{entry}");
        assert_eq!(entry["src"], Side::Alice.v4().to_string());
        assert_eq!(entry["dst"], Side::Bob.v4().to_string());
    }
    assert_eq!(unknown[0]["sequence"], 1);
    // Every one is in it or counted.
    let left_out: u64 = entries
        .iter()
        .filter(|entry| entry["event"] == "left_out")
        .map(|entry| entry["count"].as_u64().unwrap())
        .sum();
    assert_eq!(unknown.len() as u64 + left_out, 200);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}
