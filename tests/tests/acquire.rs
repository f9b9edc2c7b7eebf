//! Acquire and hold (RFC 4301 section 4.4.1): no association exists, a key manager answers over the control API, and the very
//! first packet of each flow arrives.

use std::path::{Path, PathBuf};

use netio::lab::{CaptureOptions, Program, Running, Side, Transport};
use ravelin::rig::{Rig, RigOptions};
use tests::{PATIENCE, binary, counted, program, programs, protect, retransmitted, wait_for, wait_until};

const TCP: u16 = 7020;
const UDP: u16 = 7021;

/// Sends one datagram, once, and prints what comes back.
const ONE_DATAGRAM: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(8)
s.sendto(b"first and only", (sys.argv[1], int(sys.argv[2])))
print(s.recv(100).decode())
"#;

/// Connects once and prints what its first line comes back as.
const ONE_CONNECTION: &str = r#"
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 8)
s.sendall(b"hello\n")
print(s.makefile().readline().strip())
"#;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name)
}

/// A program of its own inode, so that it is not the key manager's.
fn application(rig: &Rig) -> PathBuf {
    let copy = rig.folder().join("app");
    std::fs::copy(program("python3"), &copy).unwrap();
    copy
}

fn build(name: &str) -> (Rig, PathBuf) {
    let options = RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    let app = application(&rig);
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        rig.set_policy(side, &protect(&app, peer)).unwrap();
    }
    rig.start_both().unwrap();
    std::fs::write(rig.folder().join("secret"), "a secret that both hosts share").unwrap();
    (rig, app)
}

fn key_manager(rig: &Rig, side: Side) -> Running {
    let manager = Program::new(program("python3"))
        .arg(example("keymanager.py"))
        .arg("--control")
        .arg(format!("/run/ravelin/{}/control.sock", rig.instance(side)))
        .arg("--psk-file")
        .arg(rig.folder().join("secret"))
        .args(["--listen", &side.v4().to_string()]);
    let manager = rig.lab.host(side).spawn(manager).unwrap();
    manager.wait_for_output("ready", PATIENCE).unwrap();
    manager
}

#[test]
fn the_held_first_syn_and_first_datagram_arrive() {
    let (rig, app) = build("rvl-acquire");
    let servers = [(programs::TCP_SERVER, TCP, Transport::Tcp), (programs::UDP_ECHO, UDP, Transport::Udp)];
    let mut running = Vec::new();
    for (script, port, transport) in servers {
        let server = Program::new(&app).args(["-c", script, &port.to_string()]);
        let mut server = rig.lab.bob().spawn(server).unwrap();
        rig.lab.bob().wait_for_listener(transport, port, &mut server, PATIENCE).unwrap();
        running.push(server);
    }
    let managers = [key_manager(&rig, Side::Alice), key_manager(&rig, Side::Bob)];
    let capture = rig.lab.capture(CaptureOptions { keep: 1 << 20, watch: Vec::new() }).unwrap();
    let before = retransmitted(&rig, Side::Alice);
    let address = Side::Bob.v4().to_string();
    let client = |script: &str, port: u16| {
        let client = Program::new(&app).args(["-c", script, &address, &port.to_string()]);
        rig.lab.alice().run_program(client, PATIENCE).unwrap()
    };

    let connected = client(ONE_CONNECTION, TCP);
    assert_eq!(connected.out().trim(), "hello", "{} {}", connected.err(), managers[0].output());
    assert_eq!(retransmitted(&rig, Side::Alice), before, "the first SYN itself arrived");
    let list = rig.json(Side::Alice, &["sa", "list"]).unwrap();
    assert_eq!(list["sas"].as_array().unwrap().len(), 2, "{list}");

    // The same for a datagram: the associations go, and nobody sends it twice.
    for side in Side::BOTH {
        rig.ravelin(side, &["sa", "flush"], "").unwrap();
    }
    let answered = client(ONE_DATAGRAM, UDP);
    assert_eq!(answered.out().trim(), "first and only", "{} {}", answered.err(), managers[0].output());

    let wire = capture.finish().unwrap();
    // The key managers talk in clear, which they may; nothing of the application did.
    let leaked = wire.clear_packets(|flow| {
        [flow.local_port, flow.remote_port].iter().any(|port| [TCP, UDP].contains(port))
    });
    assert!(leaked.is_empty(), "{leaked:?}");
    assert!(wire.esp > 8, "{}", wire.esp);
}

#[test]
fn without_a_key_manager_nothing_waits_and_a_refusal_ends_the_wait() {
    let (rig, app) = build("rvl-refuse");
    let address = Side::Bob.v4().to_string();
    let client = || {
        let client = Program::new(&app).args(["-c", ONE_DATAGRAM, &address, &UDP.to_string()]);
        rig.lab.alice().spawn(client).unwrap()
    };
    let alone = client();
    wait_until("it ends for want of an association", PATIENCE, || {
        counted(&rig, Side::Alice, "outbound", "no_sa") > 0
    });
    alone.kill().unwrap();
    // Alice's manager finds nobody at Bob's, and says so.
    let manager = key_manager(&rig, Side::Alice);
    let waiting = client();
    wait_for("the refusal ends the wait", PATIENCE, || {
        let ended = counted(&rig, Side::Alice, "outbound", "acquire_refused") > 0;
        if ended { Ok(()) } else { Err(manager.output()) }
    });
    waiting.kill().unwrap();
}

/// A daemon that takes over is another one, with streams of its own.
#[test]
fn a_key_manager_goes_on_with_the_daemon_that_takes_over() {
    let (mut rig, app) = build("rvl-goeson");
    let echo = Program::new(&app).args(["-c", programs::UDP_ECHO, &UDP.to_string()]);
    let mut echo = rig.lab.bob().spawn(echo).unwrap();
    rig.lab.bob().wait_for_listener(Transport::Udp, UDP, &mut echo, PATIENCE).unwrap();
    let managers = [key_manager(&rig, Side::Alice), key_manager(&rig, Side::Bob)];
    let before = rig.release(Side::Alice).unwrap();
    rig.start_with(Side::Alice, &["--take-over"]).unwrap();
    before.finish(PATIENCE).unwrap();
    wait_for("it listens to the next one", PATIENCE, || {
        let said = managers[0].output();
        if said.matches("ready").count() == 2 { Ok(()) } else { Err(said) }
    });
    let client = Program::new(&app).args(["-c", ONE_DATAGRAM, &Side::Bob.v4().to_string(), &UDP.to_string()]);
    let answered = rig.lab.alice().run_program(client, PATIENCE).unwrap();
    assert_eq!(answered.out().trim(), "first and only", "{} {}", answered.err(), managers[0].output());
}
