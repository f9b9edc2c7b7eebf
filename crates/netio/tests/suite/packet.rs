//! Frames that packet sockets take and leave alone, and those they lose. Needs root.

use crate::common;

use common::{LEFT, RIGHT, namespaces};
use netio::clock;
use netio::link::Links;
use netio::netns::Netns;
use netio::packet::{FrameDevice, FrameReceiver, Frames};
use netio::poll;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::Duration;
use wire::ipv4::{self, Ipv4Repr};
use wire::{Pool, eth, protocol};

const PORT: u16 = 4500;
const GROUP: &str = "239.1.2.3:4500";

fn sh(namespace: &Netns, commands: &str) -> String {
    let out = namespace.run(|| Command::new("sh").args(["-ec", commands]).output().unwrap()).unwrap();
    assert!(out.status.success(), "{commands}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn receiver(namespace: &Netns) -> FrameReceiver {
    namespace
        .run(|| {
            let index = Links::open().unwrap().index("eth0").unwrap();
            FrameReceiver::open(&FrameDevice::of(index).unwrap(), PORT, 1).unwrap()
        })
        .unwrap()
}

fn send(namespace: &Netns, to: &str, payload: &[u8], times: usize) {
    namespace
        .run(|| {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            (0..times).for_each(|_| {
                socket.send_to(payload, to).unwrap();
            });
        })
        .unwrap();
}

/// Payloads of the datagrams that come within the time.
fn heard(receiver: &mut FrameReceiver, limit: Duration) -> Vec<Vec<u8>> {
    let mut pool = Pool::new(70_000 + eth::HEADER_LEN, 0, 16);
    let mut frames = Frames::default();
    while poll::readable([receiver.as_fd()], Some(limit)).unwrap()[0] {
        receiver
            .recv(clock::monotonic(), &mut pool, &mut frames, &mut |reason| panic!("{reason:?}"))
            .unwrap();
    }
    frames.bursts.iter().flat_map(|burst| burst.datagrams().map(<[u8]>::to_vec).collect::<Vec<_>>()).collect()
}

/// A frame from left to right with a tag (IEEE 802.1Q) of this VLAN, and a datagram to our port.
fn tagged(station: &str, vlan: u16, payload: &[u8]) -> String {
    let repr = Ipv4Repr {
        src: LEFT.0.parse().unwrap(),
        dst: RIGHT.0.parse().unwrap(),
        protocol: protocol::UDP,
        ttl: 64,
        tos: 0,
        id: 1,
        df: true,
        payload_len: 8 + payload.len(),
    };
    let mut ip = [0; 20];
    ipv4::emit(&mut ip, &repr).unwrap();
    let mut hex = station.replace(':', "") + "020000000001" + "8100";
    let datagram = [PORT, PORT, 8 + payload.len() as u16, 0].map(u16::to_be_bytes).concat();
    for part in [&vlan.to_be_bytes()[..], &eth::IPV4.to_be_bytes(), &ip, &datagram, payload] {
        part.iter().for_each(|octet| hex += &format!("{octet:02x}"));
    }
    hex
}

#[test]
fn frames_for_groups_are_taken_and_those_of_vlans_are_not() {
    let (left, right) = namespaces("rvl-pkt-who", 1500);
    sh(&left, "ip route add 239.0.0.0/8 dev eth0");
    let line = sh(&right, "ip -o link show eth0");
    let station = line.split("link/ether ").nth(1).unwrap().split(' ').next().unwrap();
    let mut receiver = receiver(&right);
    // A tag without a VLAN is for the device itself.
    for (vlan, payload) in [(7, "of a vlan"), (0, "of no vlan")] {
        let frame = tagged(station, vlan, payload.as_bytes());
        let send = "s = socket.socket(17, 3); s.bind((\"eth0\", 0)); s.send(bytes.fromhex(sys.argv[1]))";
        sh(&left, &format!("python3 -c 'import socket, sys; {send}' {frame}"));
    }
    send(&left, GROUP, b"for a group", 1);
    send(&left, &format!("{}:4500", RIGHT.0), b"for us", 1);
    send(&left, &format!("{}:4501", RIGHT.0), b"another port", 1);
    let got = heard(&mut receiver, Duration::from_millis(500));
    assert_eq!(got, ["of no vlan", "for a group", "for us"].map(|text| text.as_bytes().to_vec()));
    assert_eq!(receiver.lost(), 0);
}

#[test]
fn frames_without_room_are_counted_once() {
    let (left, right) = namespaces("rvl-pkt-lost", 1500);
    let mut receiver = receiver(&right);
    assert_eq!(receiver.lost(), 0);
    // A fresh link drops what is sent before its carrier is noticed, which takes its time on a busy machine.
    let end = clock::monotonic() + Duration::from_secs(20);
    loop {
        send(&left, &format!("{}:4500", RIGHT.0), b"is it there", 1);
        if !heard(&mut receiver, Duration::from_millis(200)).is_empty() {
            break;
        }
        assert!(clock::monotonic() < end, "the link carries nothing");
    }
    const SENT: usize = 30_000;
    send(&left, &format!("{}:4500", RIGHT.0), &[7; 1400], SENT);
    let got = heard(&mut receiver, Duration::from_millis(500)).len();
    let lost = receiver.lost();
    assert!(lost > 0 && got as u64 + lost <= SENT as u64, "{got} came, {lost} were lost");
    assert_eq!(receiver.lost(), lost);
}
