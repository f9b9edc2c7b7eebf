//! Outer packets as Ethernet frames: two daemons, and what their kernels' IP stacks saw of it.

use netio::lab::{CaptureOptions, Program, Side, Transport};
use netio::netns::Netns;
use ravelin::rig::{Pair, Rig, RigOptions};
use tests::sites::sh;
use tests::{PATIENCE, associate, binary, program, programs, protect};

const BULK: u16 = 7070;
const ECHO: u16 = 7071;

fn build(name: &str, outer: [&str; 2]) -> Rig {
    let options = RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        rig.set_policy(side, &protect(&program("python3"), peer)).unwrap();
        rig.configure(side, &format!("[io]\nouter = \"{}\"", outer[side as usize]));
        rig.start(side).unwrap();
    }
    rig
}

/// Datagrams that the host's IP stack sent: IPv4, IPv6.
fn udp_sent(netns: &Netns) -> u64 {
    let text = sh(
        netns,
        "grep '^Udp:' /proc/thread-self/net/snmp | tail -1 | cut -d' ' -f5; \
         grep '^Udp6OutDatagrams' /proc/thread-self/net/snmp6 | tr -s ' \\t' ' ' | cut -d' ' -f2",
    )
    .unwrap();
    text.split_whitespace().map(|number| number.parse::<u64>().unwrap()).sum()
}

/// Bulk TCP and datagrams of many sizes, both families.
fn talk(rig: &Rig) {
    let python = program("python3");
    let (alice, bob) = (rig.lab.alice(), rig.lab.bob());
    let bulk = Program::new(&python).args(["-u", "-c", programs::BULK_SERVER, &BULK.to_string(), "20000000"]);
    let mut bulk = bob.spawn(bulk).unwrap();
    bob.wait_for_listener(Transport::Tcp, BULK, &mut bulk, PATIENCE).unwrap();
    let before = udp_sent(bob.netns());
    for to in [Side::Bob.v4().to_string(), Side::Bob.v6().to_string()] {
        let client = Program::new(&python).args(["-c", programs::BULK_CLIENT, &to, &BULK.to_string()]);
        let got = alice.run_program(client, PATIENCE * 2).unwrap();
        let want = format!("{} 20000000", bulk.output().trim());
        assert_eq!(got.out().trim(), want, "{to}: {}", got.err());
    }
    let sent = udp_sent(bob.netns()) - before;
    println!("bob's IP stack sent {sent} datagrams");
    let echo = Program::new(&python).args(["-u", "-c", programs::UDP_ECHO, &ECHO.to_string()]);
    let mut echo = bob.spawn(echo).unwrap();
    bob.wait_for_listener(Transport::Udp, ECHO, &mut echo, PATIENCE).unwrap();
    for to in [Side::Bob.v4().to_string(), Side::Bob.v6().to_string()] {
        let client = Program::new(&python).args(["-c", programs::UDP_CLIENT, &to, &ECHO.to_string()]);
        let got = alice.run_program(client, PATIENCE * 2).unwrap();
        assert!(got.out().contains("echoed 18 of 18"), "{to}: {} {}", got.out(), got.err());
    }
}

fn count_of_bulk(rig: &Rig) -> u64 {
    let before = udp_sent(rig.lab.bob().netns());
    let python = program("python3");
    let server = Program::new(&python).args(["-u", "-c", programs::BULK_SERVER, "7079", "8000000"]);
    let mut server = rig.lab.bob().spawn(server).unwrap();
    rig.lab.bob().wait_for_listener(Transport::Tcp, 7079, &mut server, PATIENCE).unwrap();
    let to = Side::Bob.v4().to_string();
    let client = Program::new(&python).args(["-c", programs::BULK_CLIENT, &to, "7079"]);
    assert!(rig.lab.alice().run_program(client, PATIENCE * 2).unwrap().out().contains("8000000"));
    udp_sent(rig.lab.bob().netns()) - before
}

#[test]
fn frames_carry_esp_past_the_ip_stack() {
    let rig = build("rvl-frames", ["af_packet", "af_packet"]);
    associate(&rig).unwrap();
    let capture = rig.lab.capture(CaptureOptions::default()).unwrap();
    talk(&rig);
    let wire = capture.evidence().unwrap();
    assert_eq!(wire.clear, 0, "{:?}", wire.all_clear());
    assert!(wire.esp > 100, "{}", wire.esp);
    // The neighbour is known by now: next to nothing leaves by the UDP socket, and nobody is told that a port is closed.
    let sent = count_of_bulk(&rig);
    assert!(sent < 30, "the IP stack sent {sent} datagrams");
    let errors = wire.frames.iter().filter(|seen| seen.flow.is_some_and(|flow| flow.protocol == 1)).count();
    assert_eq!(errors, 0);
}

#[test]
fn af_xdp_carries_esp_past_the_ip_stack() {
    let rig = build("rvl-xdp", ["af_xdp", "af_xdp"]);
    associate(&rig).unwrap();
    let capture = rig.lab.capture(CaptureOptions::default()).unwrap();
    talk(&rig);
    let wire = capture.evidence().unwrap();
    assert_eq!(wire.clear, 0, "{:?}", wire.all_clear());
    // No super-packets here: a frame for each datagram.
    assert!(wire.esp > 20_000, "{}", wire.esp);
    let sent = count_of_bulk(&rig);
    assert!(sent < 30, "the IP stack sent {sent} datagrams");
}

#[test]
fn frames_and_sockets_understand_each_other() {
    let rig = build("rvl-half", ["af_packet", "udp"]);
    associate(&rig).unwrap();
    talk(&rig);
    // The control: what the other test counts is there where sockets send.
    let sent = count_of_bulk(&rig);
    assert!(sent > 100, "the IP stack sent {sent} datagrams");
}

#[test]
fn bare_esp_travels_in_frames_too() {
    let rig = build("rvl-barefr", ["af_packet", "af_packet"]);
    let args: Vec<String> = ["--encapsulation", "none"].map(str::to_owned).to_vec();
    for v6 in [false, true] {
        let pair = Pair { v6, mode: "tunnel", suite: "aes128gcm", alice: args.clone(), bob: args.clone() };
        rig.associate(&pair).unwrap();
    }
    talk(&rig);
}
