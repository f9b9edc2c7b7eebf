//! Frames that packet sockets take and leave alone, and those they lose. Needs root.

mod common;

use common::{RIGHT, namespaces};
use netio::clock;
use netio::link::Links;
use netio::netns::Netns;
use netio::packet::{FrameDevice, FrameReceiver, Frames};
use netio::poll;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::Duration;
use wire::{Pool, eth};

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
            FrameReceiver::open(&FrameDevice::of(index).unwrap(), PORT).unwrap()
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

#[test]
fn frames_for_groups_are_taken_and_those_of_vlans_are_not() {
    let (left, right) = namespaces("rvl-pkt-who", 1500);
    sh(
        &left,
        "ip link add link eth0 name eth0.7 type vlan id 7; ip link set eth0.7 up
               ip addr add 192.0.7.1/24 dev eth0.7; ip route add 239.0.0.0/8 dev eth0",
    );
    let mac = sh(&right, "ip -o link show eth0");
    let station = mac.split("link/ether ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    sh(&left, &format!("ip neigh add 192.0.7.2 lladdr {station} dev eth0.7 nud permanent"));
    let mut receiver = receiver(&right);
    send(&left, "192.0.7.2:4500", b"of a vlan", 1);
    send(&left, GROUP, b"for a group", 1);
    send(&left, &format!("{}:4500", RIGHT.0), b"for us", 1);
    send(&left, &format!("{}:4501", RIGHT.0), b"another port", 1);
    let got = heard(&mut receiver, Duration::from_millis(500));
    assert_eq!(got, [b"for a group".to_vec(), b"for us".to_vec()]);
    assert_eq!(receiver.lost(), 0);
}

#[test]
fn frames_without_room_are_counted_once() {
    let (left, right) = namespaces("rvl-pkt-lost", 1500);
    let mut receiver = receiver(&right);
    assert_eq!(receiver.lost(), 0);
    const SENT: usize = 30_000;
    send(&left, &format!("{}:4500", RIGHT.0), &[7; 1400], SENT);
    let got = heard(&mut receiver, Duration::from_millis(500)).len();
    let lost = receiver.lost();
    assert!(lost > 0 && got as u64 + lost <= SENT as u64, "{got} came, {lost} were lost");
    assert_eq!(receiver.lost(), lost);
}
