//! Bulk: what arrives is what was sent, with and without segmentation offload, and no packet of it is readable.

use lab::{CaptureOptions, Program, Side, Transport};
use std::time::Duration;
use tests::{PATIENCE, program, programs, protected_rig};

/// Datagrams of a burst: each is cut in six, so that together they are more packets than a short queue holds.
const BURST: usize = 32;
const DATAGRAM: usize = 8192;

/// Receive a burst (port, datagrams, octets of each): how many came, and whether they are what was sent.
const BURST_SERVER: &str = r#"
import socket, sys
port, count, size = map(int, sys.argv[1:])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)
s.bind(("", port))
s.settimeout(20)
print("ready", flush=True)
got = set()
try:
    while len(got) < count:
        data = s.recv(65536)
        if data == bytes([data[0]]) * size:
            got.add(data[0])
except TimeoutError:
    pass
print("got", len(got), flush=True)
"#;

/// Send one (address, port, datagrams, octets of each) without a pause.
const BURST_CLIENT: &str = r#"
import socket, sys
address, port, count, size = sys.argv[1], *map(int, sys.argv[2:])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 32, 8 << 20)
s.connect((address, port))
for number in range(count):
    s.send(bytes([number]) * size)
"#;

/// Octets of the transfer: 1 GiB.
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

#[test]
fn a_burst_of_large_datagrams_waits_for_the_daemon_and_arrives() {
    let python = program("python3");
    let rig = protected_rig("rvl-bulk-burst", false, &[&python]).unwrap();
    let numbers = [BURST.to_string(), DATAGRAM.to_string()];
    let server = Program::new(&python).args(["-c", BURST_SERVER, &PORT.to_string()]).args(&numbers);
    let server = rig.lab.bob().spawn(server).unwrap();
    server.wait_for_output("ready", PATIENCE).unwrap();
    let address = [Side::Bob.v4().to_string(), PORT.to_string()];
    let client = Program::new(&python).args(["-c", BURST_CLIENT]).args(&address).args(&numbers);
    let sent = rig.lab.alice().run_program(client, PATIENCE).unwrap();
    assert!(sent.status.success(), "{}", sent.err());
    server.wait_for_output("got", PATIENCE).unwrap();
    assert!(server.output().contains(&format!("got {BURST}\n")), "{}", server.output());
}
