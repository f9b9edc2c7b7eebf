//! Without UDP: ESP and AH under IP protocol numbers of their own, between two daemons, carry unmodified programs.

use netio::lab::{CaptureOptions, Program, Side, Transport};
use ravelin::rig::{Pair, Rig, RigOptions};
use tests::{PATIENCE, binary, program, programs};

const TCP: u16 = 7030;
const UDP: u16 = 7031;

fn policy(app: &std::path::Path, peer: Side, service: &str) -> String {
    format!(
        "application \"{}\" {{\n  network {} protected P;\n  network {} protected P;\n  \
         protection P {{ localport=any remoteport=any {service} mandatory; }}\n}}\n",
        app.display(),
        peer.v4(),
        peer.v6(),
    )
}

/// Two hosts whose Python talks under this service and these associations.
fn build(name: &str, service: &str, pair: &Pair) -> Rig {
    let options = RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        rig.set_policy(side, &policy(&program("python3"), peer, service)).unwrap();
    }
    rig.start_both().unwrap();
    for v6 in [false, true] {
        rig.associate(&Pair { v6, ..pair.clone() }).unwrap();
    }
    rig
}

/// Datagrams of up to 9000 octets, connections that end in every way.
fn talk(rig: &Rig) {
    let python = program("python3");
    let servers = [(programs::TCP_SERVER, TCP, Transport::Tcp), (programs::UDP_ECHO, UDP, Transport::Udp)];
    let mut running = Vec::new();
    for (script, port, transport) in servers {
        let server = Program::new(&python).args(["-c", script, &port.to_string()]);
        let mut server = rig.lab.bob().spawn(server).unwrap();
        rig.lab.bob().wait_for_listener(transport, port, &mut server, PATIENCE).unwrap();
        running.push(server);
    }
    for address in [Side::Bob.v4().to_string(), Side::Bob.v6().to_string()] {
        for (script, port, want) in
            [(programs::UDP_CLIENT, UDP, "echoed 18 of 18"), (programs::TCP_CLIENT, TCP, "done")]
        {
            let client = Program::new(&python).args(["-c", script, &address, &port.to_string()]);
            let done = rig.lab.alice().run_program(client, PATIENCE * 2).unwrap();
            assert!(done.out().contains(want), "{address}: {} {}", done.out(), done.err());
        }
    }
    for side in Side::BOTH {
        let list = rig.json(side, &["sa", "list"]).unwrap();
        for sa in list["sas"].as_array().unwrap() {
            assert!(sa["counters"]["packets"].as_u64() > Some(10), "{sa}");
            assert_eq!(sa["encapsulation"], "none", "{sa}");
        }
    }
}

fn extra(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

#[test]
fn bare_esp_carries_programs_and_shows_nothing() {
    let args = extra(&["--encapsulation", "none", "--esn"]);
    for (name, mode, suite) in
        [("rvl-bare", "transport", "aes128cbc-sha256"), ("rvl-bare-t", "tunnel", "chacha20poly1305")]
    {
        let pair = Pair { v6: false, mode, suite, alice: args.clone(), bob: args.clone() };
        let rig = build(name, "encryption", &pair);
        let capture = rig.lab.capture(CaptureOptions { keep: 1 << 20, watch: Vec::new() }).unwrap();
        talk(&rig);
        let wire = capture.finish().unwrap();
        assert_eq!(wire.clear, 0, "{:?}", wire.all_clear());
        assert!(wire.esp > 100, "{}", wire.esp);
    }
}

#[test]
fn ah_carries_programs() {
    let args = extra(&["--type", "ah"]);
    let pair = Pair { v6: false, mode: "transport", suite: "sha256", alice: args.clone(), bob: args };
    talk(&build("rvl-ah", "authentication", &pair));
}
