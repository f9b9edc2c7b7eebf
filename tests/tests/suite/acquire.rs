//! Acquire and hold (RFC 4301 section 4.4.1): no association exists, a key manager answers over the control API, and the very
//! first packet of each flow arrives.

use std::path::{Path, PathBuf};

use lab::rig::{Rig, RigOptions};
use lab::{CaptureOptions, Program, Running, Side, Transport};
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
    key_manager_with(rig, side, &[("", "secret")])
}

/// Start the key manager of a host with these secrets: the peer's address, or nothing for all peers, and the name of
/// the secret's file.
fn key_manager_with(rig: &Rig, side: Side, secrets: &[(&str, &str)]) -> Running {
    let mut manager = Program::new(program("python3"))
        .arg(example("keymanager.py"))
        .arg("--control")
        .arg(format!("/run/ravelin/{}/control.sock", rig.instance(side)))
        .args(["--listen", &side.v4().to_string()]);
    for (peer, name) in secrets {
        let file = rig.folder().join(name).display().to_string();
        let secret = if peer.is_empty() { file } else { format!("{peer}={file}") };
        manager = manager.args(["--psk-file", &secret]);
    }
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

/// Answers every offer under the secret in the file of its first argument, whatever the offer says.
const IMPOSTOR: &str = r#"
import hashlib, hmac, json, socket, sys
psk = hashlib.sha256(open(sys.argv[1], "rb").read()).digest()
s = socket.create_server((sys.argv[2], 4599))
print("ready", flush=True)
while True:
    c, _ = s.accept()
    offer = json.loads(json.loads(c.makefile("rb").readline())["text"])
    text = json.dumps({"kind": "answer", "offer": offer["nonce"], "spi": "0x4242", "nonce": "00" * 32})
    mac = hmac.new(psk, text.encode(), hashlib.sha256).hexdigest()
    c.sendall(json.dumps({"text": text, "mac": mac}).encode() + b"\n")
    c.close()
"#;

/// Paper 000 section 3.3.1: a protected network's packets pass "only after the peer's identity is approved". Who approves is the key
/// manager; a peer that does not prove to have *its* secret gets no association, and then not one packet.
#[test]
fn only_a_peer_that_proves_its_identity_gets_a_packet() {
    let (rig, app) = build("rvl-approve");
    for name in ["for-bob", "for-carol", "wrong"] {
        std::fs::write(rig.folder().join(name), format!("the secret {name}")).unwrap();
    }
    let (alice, bob) = (Side::Alice.v4().to_string(), Side::Bob.v4().to_string());
    let echo = Program::new(&app).args(["-c", programs::UDP_ECHO, &UDP.to_string()]);
    let mut echo = rig.lab.bob().spawn(echo).unwrap();
    rig.lab.bob().wait_for_listener(Transport::Udp, UDP, &mut echo, PATIENCE).unwrap();
    let manager = key_manager_with(&rig, Side::Alice, &[(&bob, "for-bob"), ("198.51.100.77", "for-carol")]);
    let capture = rig.lab.capture(CaptureOptions { keep: 1 << 20, watch: Vec::new() }).unwrap();
    let client = || {
        let client = Program::new(&app).args(["-c", ONE_DATAGRAM, &bob, &UDP.to_string()]);
        rig.lab.alice().spawn(client).unwrap()
    };
    let impostor = || {
        let secret = rig.folder().join("for-carol").display().to_string();
        let impostor = Program::new(program("python3")).args(["-c", IMPOSTOR, &secret, &bob]);
        let impostor = rig.lab.bob().spawn(impostor).unwrap();
        impostor.wait_for_output("ready", PATIENCE).unwrap();
        impostor
    };
    let managed = |secret: &str| key_manager_with(&rig, Side::Bob, &[(&alice, secret)]);
    type Peer<'a> = (&'a str, Box<dyn Fn() -> Running + 'a>);
    let peers: [Peer<'_>; 3] = [
        ("a manager with a wrong secret", Box::new(|| managed("wrong"))),
        ("a manager with the secret of another peer", Box::new(|| managed("for-carol"))),
        ("one that answers under the secret of another peer", Box::new(impostor)),
    ];
    for (name, peer) in peers {
        let before = counted(&rig, Side::Alice, "outbound", "acquire_refused");
        let peer = peer();
        let waiting = client();
        wait_for(name, PATIENCE, || {
            let ended = counted(&rig, Side::Alice, "outbound", "acquire_refused") > before;
            if ended { Ok(()) } else { Err(format!("{} {}", manager.output(), peer.output())) }
        });
        waiting.kill().unwrap();
        peer.kill().unwrap();
        for side in Side::BOTH {
            let list = rig.json(side, &["sa", "list"]).unwrap();
            assert_eq!(list["sas"].as_array().unwrap().len(), 0, "{name}: {list}");
        }
        let (clear, esp) = capture
            .look(|wire| {
                let ours = |flow: &wire::Flow| [flow.local_port, flow.remote_port].contains(&UDP);
                (wire.clear_packets(ours).len(), wire.esp)
            })
            .unwrap();
        assert_eq!((clear, esp), (0, 0), "{name}: neither in clear nor under keys of a stranger");
    }
    // The control: the same peer with the secret that is its own.
    let approved = managed("for-bob");
    let client = Program::new(&app).args(["-c", ONE_DATAGRAM, &bob, &UDP.to_string()]);
    let answered = rig.lab.alice().run_program(client, PATIENCE).unwrap();
    let said = || format!("{} {} {}", answered.err(), manager.output(), approved.output());
    assert_eq!(answered.out().trim(), "first and only", "{}", said());
    let wire = capture.finish().unwrap();
    assert!(wire.esp >= 2, "{}", wire.esp);
    assert!(wire.clear_packets(|flow| [flow.local_port, flow.remote_port].contains(&UDP)).is_empty());
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
