//! Outer packets as Ethernet frames: two daemons, and what their kernels' IP stacks saw of it.

use lab::rig::{Pair, Rig, RigOptions};
use lab::{CaptureOptions, Program, Side, Transport};
use netio::netns::Netns;
use tests::sites::sh;
use tests::{PATIENCE, associate, binary, program, programs, protect, wait_for};

const BULK: u16 = 7070;
const ECHO: u16 = 7071;

fn build(name: &str, outer: [&str; 2]) -> Rig {
    let options = RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        rig.set_policy(side, &protect(&program("python3"), peer)).unwrap();
        rig.configure(side, &format!("[io]\nouter = \"{}\"", outer[side as usize]));
    }
    rig.start_both().unwrap();
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

/// Another daemon takes over from alice's.
fn take_over(rig: &mut Rig) {
    let old = rig.release(Side::Alice).unwrap();
    rig.start_with(Side::Alice, &["--take-over"]).unwrap();
    old.finish(PATIENCE).unwrap();
}

#[test]
fn frames_go_from_one_daemon_to_the_next() {
    for outer in ["af_packet", "af_xdp"] {
        let mut rig = build("rvl-frtake", [outer, outer]);
        associate(&rig).unwrap();
        let before = rig.json(Side::Alice, &["sa", "list"]).unwrap()["sas"].as_array().unwrap().len();
        for _ in 0..3 {
            take_over(&mut rig);
        }
        let after = rig.json(Side::Alice, &["sa", "list"]).unwrap()["sas"].as_array().unwrap().len();
        assert_eq!((before, after), (4, 4));
        let echo = Program::new(program("python3")).args(["-u", "-c", programs::UDP_ECHO, &ECHO.to_string()]);
        let mut echo = rig.lab.bob().spawn(echo).unwrap();
        rig.lab.bob().wait_for_listener(Transport::Udp, ECHO, &mut echo, PATIENCE).unwrap();
        let to = Side::Bob.v4().to_string();
        let client =
            Program::new(program("python3")).args(["-c", programs::UDP_CLIENT, &to, &ECHO.to_string()]);
        let got = rig.lab.alice().run_program(client, PATIENCE * 2).unwrap();
        assert!(got.out().contains("echoed 18 of 18"), "{outer}: {} {}", got.out(), got.err());
    }
}

#[test]
fn a_daemon_that_cannot_have_frames_takes_nothing_over() {
    let mut rig = build("rvl-frno", ["udp", "udp"]);
    associate(&rig).unwrap();
    let list = |rig: &Rig| {
        let list = rig.json(Side::Alice, &["sa", "list"]).unwrap();
        list["sas"].as_array().unwrap().iter().map(|sa| sa["spi"].to_string()).collect::<Vec<_>>()
    };
    let before = list(&rig);
    rig.configure(Side::Alice, "[io]\nouter = \"af_xdp\"");
    sh(rig.lab.alice().netns(), "ip link set eth0 mtu 9000").unwrap();
    let new = rig.launch(Side::Alice, &["--take-over"]).unwrap().finish(PATIENCE).unwrap();
    assert!(!new.status.success() && new.err().contains("has an MTU of 9000"), "{}", new.err());
    assert_eq!(list(&rig), before);
}

#[test]
fn an_uplink_that_came_after_the_start_is_a_problem_where_frames_are_taken() {
    let rig = build("rvl-frnew", ["af_packet", "af_packet"]);
    let status = || {
        let answer = rig.command(Side::Alice, &["status", "--json"], "").unwrap().out();
        serde_json::from_str::<serde_json::Value>(&answer).unwrap()["problems"].to_string()
    };
    assert!(!status().contains("came after the start"), "{}", status());
    let anew = "ip link set eth0 down; ip link set eth0 name gone0; ip link add eth0 type veth peer name gone1; ip link set eth0 up";
    sh(rig.lab.alice().netns(), anew).unwrap();
    wait_for("the problem", PATIENCE, || {
        let problems = status();
        if problems.contains("eth0 came after the start") { Ok(()) } else { Err(problems) }
    });
}
