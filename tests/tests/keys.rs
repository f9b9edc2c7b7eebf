//! The life of keys and sequence numbers (docs/design/0003), seen from outside.

use netio::lab::{CaptureOptions, Finished, Program, Side, Transport};
use ravelin::rig::Rig;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tests::{PATIENCE, program, programs, protected_rig};

const KEY: &str = "00112233445566778899aabbccddeeff00112233";
const OTHER_KEY: &str = "102132435465768798a9bacbdcedfe0f10213243";
const THIRD_KEY: &str = "2031425364758697a8b9cadbecfd0e1f20314253";
const PORT: u16 = 7010;
const SIZE: u64 = 2 << 30;

fn sas(document: &Value) -> &Vec<Value> {
    document["sas"].as_array().expect("a list of associations")
}

fn add_one(rig: &Rig, direction: &str, spi: &str, key: &str) -> Finished {
    let (local, remote) = (Side::Alice.v4().to_string(), Side::Bob.v4().to_string());
    let args = ["sa", "add", "--direction", direction, "--spi", spi, "--local", &local, "--remote", &remote];
    let args: Vec<&str> = args.into_iter().chain(["--mode", "tunnel", "--suite", "aes128gcm"]).collect();
    rig.command(Side::Alice, &args, key).unwrap()
}

#[test]
fn a_key_serves_one_association_once_and_shows_nowhere() {
    let python = program("python3");
    let mut rig = protected_rig("rvl-keys", true, &[&python]).unwrap();
    let (local, remote) = (Side::Alice.v4().to_string(), Side::Bob.v4().to_string());
    let add = |direction: &str, spi: &str, key: &str| add_one(&rig, direction, spi, key);
    let first = add("in", "0x1001", KEY);
    assert!(first.status.success(), "{}", first.err());
    for (direction, spi) in [("in", "0x1002"), ("out", "0x1003")] {
        let again = add(direction, spi, KEY);
        assert_eq!(again.status.code(), Some(1), "the same key for {direction} {spi}: {}", again.out());
        assert!(again.err().contains("key") && !again.err().contains(KEY), "{}", again.err());
    }
    rig.ravelin(Side::Alice, &["sa", "del", "0x1001", "--direction", "in"], "").unwrap();
    assert_eq!(add("in", "0x1004", KEY).status.code(), Some(1), "a key that was used before");

    // Too short, not hexadecimal, in the arguments: refused, and not repeated.
    assert_eq!(add("in", "0x1005", &KEY[2..]).status.code(), Some(2));
    assert_eq!(add("in", "0x1006", "not a key").status.code(), Some(2));
    let args =
        ["sa", "add", "--direction", "in", "--spi", "auto", "--local", &local, "--remote", &remote, "--mode"];
    let args: Vec<&str> = args.into_iter().chain(["tunnel", "--suite", "aes128gcm", KEY]).collect();
    let refused = rig.command(Side::Alice, &args, "").unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(!refused.err().contains(KEY), "{}", refused.err());

    let list = rig.ravelin(Side::Alice, &["sa", "list", "--json"], "").unwrap();
    assert!(!list.contains(KEY) && !list.to_lowercase().contains("keymat"), "{list}");
    let socket = format!("/run/ravelin/{}/control.sock", rig.instance(Side::Alice));
    let mode = std::fs::metadata(socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    // A crash ends every association, and nothing brings one back.
    let printed = rig.kill(Side::Alice).unwrap();
    assert!(!format!("{}{}", printed.out(), printed.err()).contains(KEY));
    rig.start(Side::Alice).unwrap();
    assert!(sas(&rig.json(Side::Alice, &["sa", "list"]).unwrap()).is_empty());

    // Nor does it make a key new: its counter would start again under the nonces of the first time.
    let book = format!("/run/ravelin/{}/used-keys", rig.instance(Side::Alice));
    assert_eq!(std::fs::metadata(&book).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(
        add_one(&rig, "in", "0x1007", KEY).status.code(),
        Some(1),
        "a key that was used before the crash"
    );
    assert!(add_one(&rig, "in", "0x1008", OTHER_KEY).status.success(), "a new key");

    // A book that cannot be read takes no key, not even a new one, and says what to do.
    rig.kill(Side::Alice).unwrap();
    let octets = std::fs::read(&book).unwrap();
    std::fs::write(&book, &octets[..octets.len() - 32]).unwrap();
    rig.start(Side::Alice).unwrap();
    let refused = add_one(&rig, "in", "0x1009", THIRD_KEY);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        refused.err().contains("used-keys") && refused.err().contains("ravelin detach"),
        "{}",
        refused.err()
    );
    let health = rig.command(Side::Alice, &["status"], "").unwrap();
    assert!(health.status.code() == Some(1) && health.out().contains("used-keys"), "{}", health.out());

    // Taking the instance off the host forgets the book.
    rig.stop(Side::Alice).unwrap();
    rig.ravelin(Side::Alice, &["detach"], "").unwrap();
    assert!(!std::path::Path::new(&book).exists());
    rig.start(Side::Alice).unwrap();
    assert!(add_one(&rig, "in", "0x100a", THIRD_KEY).status.success());
}

#[test]
fn a_hand_over_keeps_keys_numbers_and_connections() {
    let python = program("python3");
    let mut rig = protected_rig("rvl-over", true, &[&python]).unwrap();
    let address = Side::Bob.v4().to_string();
    let script = ["-c", programs::BULK_SERVER, &PORT.to_string(), &SIZE.to_string()];
    let mut server = rig.lab.bob().spawn(Program::new(&python).args(script)).unwrap();
    rig.lab.bob().wait_for_listener(Transport::Tcp, PORT, &mut server, PATIENCE).unwrap();
    let capture = rig.lab.capture(CaptureOptions { keep: 1 << 20, watch: Vec::new() }).unwrap();
    let client = Program::new(&python).args(["-c", programs::BULK_CLIENT, &address, &PORT.to_string()]);
    let client = rig.lab.alice().spawn(client).unwrap();
    for side in [Side::Bob, Side::Alice] {
        let esp = capture.look(|wire| wire.esp).unwrap();
        capture.wait_for(PATIENCE, |wire| (wire.esp > esp + 100).then_some(())).unwrap().expect("traffic");
        let before = rig.json(side, &["sa", "list"]).unwrap();
        let old = rig.release(side).unwrap();
        let new = rig.launch(side, &["--take-over"]).unwrap();
        let ended = old.finish(PATIENCE).unwrap();
        assert!(ended.status.success(), "{}", ended.err());
        rig.adopt(side, new).unwrap();
        let after = rig.json(side, &["sa", "list"]).unwrap();
        assert_eq!(sas(&before).len(), sas(&after).len());
        for (old, new) in sas(&before).iter().zip(sas(&after)) {
            assert_eq!((&old["spi"], &old["direction"]), (&new["spi"], &new["direction"]));
            assert!(new["sequence"].as_u64() >= old["sequence"].as_u64(), "{old} {new}");
        }
    }
    let done = client.finish(Duration::from_secs(120)).unwrap();
    assert_eq!(done.out().trim(), format!("{} {SIZE}", server.output().trim()), "{}", done.err());
    let wire = capture.finish().unwrap();
    assert_eq!(wire.clear, 0);
    // Had a number been used twice, the other end would have dropped it.
    for side in Side::BOTH {
        for sa in sas(&rig.json(side, &["sa", "list"]).unwrap()) {
            assert_eq!(sa["counters"]["replayed"].as_u64(), Some(0), "{sa}");
        }
    }
}
