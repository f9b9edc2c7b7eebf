//! Two daemons with a NAT between them: keepalives, a peer that gets another port and another address, dummy packets.

use lab::rig::{Pair, Rig, RigOptions};
use lab::{CaptureOptions, Program, Running, Side, Transport};
use serde_json::Value;
use tests::{PATIENCE, binary, counted, monitor, program, programs, protect, router, wait_until};

const UDP: u16 = 7050;
/// A second address of the NAT.
const OTHER: &str = "198.51.100.253";

/// Sends one datagram after the other to an echo server (address, port) until one comes back.
const ECHO: &str = r#"
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.3)
for attempt in range(40):
    s.sendto(b"hello", (sys.argv[1], int(sys.argv[2])))
    try:
        if s.recv(100) == b"hello":
            print("echoed")
            break
    except TimeoutError:
        pass
"#;

fn build(name: &str) -> Rig {
    let options = RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    router::build(&rig.lab).unwrap();
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        rig.set_policy(side, &protect(&program("python3"), peer)).unwrap();
    }
    rig.start_both().unwrap();
    rig
}

/// Alice's ESP leaves the NAT with this source from now on, what it remembers included.
fn translate(rig: &Rig, source: &str) {
    let rules = format!(
        "table ip nat\ndelete table ip nat\ntable ip nat {{ chain out {{ type nat hook postrouting priority 100; \
         oifname \"bob\" udp sport 4500 {source}; }}; }}\n"
    );
    router::run(&rig.lab, "nft", &["-f", "-"], &rules).unwrap();
    // The kernel forgets the mappings of an address that goes.
    let address = format!("{}/32", router::V4);
    for verb in ["del", "add"] {
        router::run(&rig.lab, "ip", &["addr", verb, &address, "dev", "bob"], "").unwrap();
    }
    // The routes went with it.
    router::narrow(&rig.lab, 1500).unwrap();
}

/// Associations both ways in tunnel mode, where Bob knows of Alice only the NAT's address. Both follow.
fn associate(rig: &Rig) {
    let (alice, bob) = (Side::Alice.v4().to_string(), Side::Bob.v4().to_string());
    let add = |side: Side, key: &str, args: &[&str]| -> String {
        let all =
            [&["sa", "add", "--json", "--mode", "tunnel", "--suite", "aes128gcm", "--follow-peer"], args];
        let text = rig.ravelin(side, &all.concat(), key).unwrap();
        let added: Value = serde_json::from_str(&text).unwrap();
        added["sa"]["spi"].as_str().unwrap().to_owned()
    };
    let (there, back) = ("31".repeat(20), "32".repeat(20));
    let bobs = ["--local", &bob, "--remote", router::V4, "--selector-remote", &alice];
    let alices = ["--local", &alice, "--remote", &bob];
    let spi = add(
        Side::Bob,
        &there,
        &[&["--direction", "in", "--spi", "auto", "--remote-port", "0"], &bobs[..]].concat(),
    );
    add(
        Side::Alice,
        &there,
        &[&["--direction", "out", "--spi", &spi, "--keepalive", "1"], &alices[..]].concat(),
    );
    let spi = add(Side::Alice, &back, &[&["--direction", "in", "--spi", "auto"], &alices[..]].concat());
    add(Side::Bob, &back, &[&["--direction", "out", "--spi", &spi], &bobs[..]].concat());
}

fn sa(rig: &Rig, side: Side, direction: &str) -> Value {
    let list = rig.json(side, &["sa", "list"]).unwrap();
    list["sas"].as_array().unwrap().iter().find(|sa| sa["direction"] == direction).unwrap().clone()
}

fn echo(rig: &Rig) {
    let client =
        Program::new(program("python3")).args(["-c", ECHO, &Side::Bob.v4().to_string(), &UDP.to_string()]);
    let done = rig.lab.alice().run_program(client, PATIENCE).unwrap();
    if done.out().trim() != "echoed" {
        let state = Side::BOTH.map(|side| {
            let list = rig.ravelin(side, &["sa", "list"], "").unwrap();
            let counters = rig.ravelin(side, &["counters"], "").unwrap();
            format!("{}\n{list}\n{counters}", side.name())
        });
        panic!("{}\n{}\n{}", done.err(), state[0], state[1]);
    }
}

fn serve(rig: &Rig) -> Running {
    let server = Program::new(program("python3")).args(["-c", programs::UDP_ECHO, &UDP.to_string()]);
    let mut server = rig.lab.bob().spawn(server).unwrap();
    rig.lab.bob().wait_for_listener(Transport::Udp, UDP, &mut server, PATIENCE).unwrap();
    server
}

#[test]
fn a_peer_behind_a_nat_is_followed_to_another_port_and_address() {
    let mut rig = build("rvl-nat");
    translate(&rig, "masquerade to :20001");
    associate(&rig);
    let _echo = serve(&rig);
    let monitor = monitor(&rig, Side::Bob);
    let place = |rig: &Rig, direction| {
        let sa = sa(rig, Side::Bob, direction);
        (sa["remote"].as_str().unwrap().to_owned(), sa["remote_port"].as_u64().unwrap())
    };
    assert_eq!(place(&rig, "out"), (router::V4.to_owned(), 4500));

    // The first packet shows where Alice is.
    echo(&rig);
    assert_eq!(place(&rig, "out"), (router::V4.to_owned(), 20_001));
    monitor.wait_for_output(r#""new_port":20001,"followed":1"#, PATIENCE).unwrap();

    // In silence the mapping is kept; Bob drops the keepalives and counts them.
    let (sent, dropped) = (sa(&rig, Side::Alice, "out"), counted(&rig, Side::Bob, "inbound", "keepalive"));
    wait_until("keepalives leave", PATIENCE, || {
        sa(&rig, Side::Alice, "out")["counters"]["keepalives"].as_u64() >= Some(2)
    });
    wait_until("and arrive", PATIENCE, || counted(&rig, Side::Bob, "inbound", "keepalive") >= dropped + 2);
    assert_eq!(sa(&rig, Side::Alice, "out")["sequence"], sent["sequence"], "nothing else did");

    // Another port, another address.
    translate(&rig, "masquerade to :20002");
    echo(&rig);
    assert_eq!(place(&rig, "out"), (router::V4.to_owned(), 20_002));
    router::run(&rig.lab, "ip", &["addr", "add", &format!("{OTHER}/32"), "dev", "bob"], "").unwrap();
    translate(&rig, &format!("snat to {OTHER}:20003"));
    echo(&rig);
    for direction in ["in", "out"] {
        assert_eq!(place(&rig, direction), (OTHER.to_owned(), 20_003));
    }
    let moved =
        format!(r#""old":"{}","old_port":20002,"new":"{OTHER}","new_port":20003,"followed":1"#, router::V4);
    monitor.wait_for_output(&moved, PATIENCE).unwrap();

    // Who only knows the SPI moves nobody.
    let spi = sa(&rig, Side::Bob, "in")["spi"].as_str().unwrap().to_owned();
    let forged = "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((sys.argv[1], 666)); \
                  s.sendto(int(sys.argv[3], 0).to_bytes(4, \"big\") + (9999).to_bytes(4, \"big\") + bytes(96), (sys.argv[2], 4500))";
    let bob = Side::Bob.v4().to_string();
    router::run(&rig.lab, "python3", &["-c", forged, router::V4, &bob, &spi], "").unwrap();
    wait_until("it is refused", PATIENCE, || counted(&rig, Side::Bob, "inbound", "auth_failed") == 1);
    assert_eq!(place(&rig, "out"), (OTHER.to_owned(), 20_003));

    // A successor knows where the peer is.
    let before = rig.release(Side::Bob).unwrap();
    rig.start_with(Side::Bob, &["--take-over"]).unwrap();
    before.finish(PATIENCE).unwrap();
    assert_eq!(place(&rig, "out"), (OTHER.to_owned(), 20_003));
    echo(&rig);
}

#[test]
fn dummies_leave_in_silence_and_are_dropped() {
    let options =
        RigOptions { name: "rvl-dummy".to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        rig.set_policy(side, &protect(&program("python3"), peer)).unwrap();
    }
    rig.start_both().unwrap();
    let capture = rig.lab.capture(CaptureOptions { keep: 1 << 20, watch: Vec::new() }).unwrap();
    rig.associate(&Pair { mode: "tunnel", ..Pair::default() }).unwrap();
    // Beside it, to the same peer: the one that hides its silence.
    let key = "51".repeat(20);
    let (alice, bob) = (Side::Alice.v4().to_string(), Side::Bob.v4().to_string());
    let common = ["--mode", "tunnel", "--suite", "aes128gcm", "--spi", "0x7000"];
    let inward =
        [&["sa", "add", "--direction", "in", "--local", &bob, "--remote", &alice], &common[..]].concat();
    rig.ravelin(Side::Bob, &inward, &key).unwrap();
    let outward =
        [&["sa", "add", "--direction", "out", "--local", &alice, "--remote", &bob], &common[..]].concat();
    rig.ravelin(Side::Alice, &[&outward[..], &["--dummy", "50"]].concat(), &key).unwrap();
    wait_until("dummies arrive", PATIENCE, || counted(&rig, Side::Bob, "inbound", "esp_dummy") >= 50);
    let list = rig.json(Side::Alice, &["sa", "list"]).unwrap();
    let hiding = list["sas"].as_array().unwrap().iter().find(|sa| sa["spi"] == "0x00007000").unwrap();
    assert_eq!(hiding["dummy"], 50);
    let dummies = hiding["counters"]["dummies"].as_u64().unwrap();
    assert_eq!(hiding["counters"]["packets"].as_u64().unwrap(), dummies);
    // Delivered to nobody, and no different on the wire from what they imitate.
    assert_eq!(rig.json(Side::Bob, &["status"]).unwrap()["inbound"]["protected"], 0);
    let wire = capture.finish().unwrap();
    assert!(wire.esp >= 50, "{}", wire.esp);
    let lengths: std::collections::BTreeSet<usize> =
        wire.esp_packets().iter().map(|seen| seen.packet().len()).collect();
    assert!(lengths.len() > 20 && lengths.iter().all(|len| *len <= 1500), "{lengths:?}");
}
