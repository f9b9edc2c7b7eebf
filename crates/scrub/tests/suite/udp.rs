//! Rules U.1, U.2 and S.1 have their tests here.

use crate::packet;

use packet::{Bench, datagram4, datagram6, summed, udp, v4, v6};
use std::time::Duration;

fn from_outside(src: u16, dst: u16) -> Vec<u8> {
    summed(v4(17, &udp((src, dst), b"hello")).bytes())
}

fn from_inside(src: u16, dst: u16) -> Vec<u8> {
    summed(v4(17, &udp((src, dst), b"hello")).back().bytes())
}

#[test]
fn lengths() {
    let good = datagram4(16);
    for len in [0, 7, 25, 255] {
        Bench::standard().pass(&good.clone().with(|p| p.data[5] = len).bytes()).dropped_by("U.1");
    }
    Bench::standard().pass(&v4(17, &[0; 7]).bytes()).dropped_by("U.1");
    let out = Bench::standard().pass(&good.clone().with(|p| p.data.extend(b"behind")).bytes());
    assert_eq!(out.passed_with(&["U.1"]).bytes, good.bytes());
    let good = datagram6(16);
    let out = Bench::standard().pass(&good.clone().with(|p| p.data.extend(b"behind")).bytes());
    assert_eq!(out.passed_with(&["U.1"]).bytes, good.bytes());
}

#[test]
fn checksums() {
    Bench::standard().pass(&datagram4(16).with(|p| p.data[20] ^= 1).bytes()).dropped_by("U.1");
    Bench::standard().pass(&datagram6(16).with(|p| p.data[20] ^= 1).bytes()).dropped_by("U.1");
    let out = Bench::standard().pass(&datagram4(16).with(|p| p.data[6..8].fill(0)).bytes());
    assert_eq!(out.passed_with(&["U.1"]).bytes, datagram4(16).bytes());
    Bench::standard().pass(&datagram6(16).with(|p| p.data[6..8].fill(0)).bytes()).dropped_by("U.1");
}

#[test]
fn answers_that_nobody_asked_for() {
    let mut bench = Bench::standard();
    for port in [53, 123, 443, 1900, 11211] {
        bench.pass(&from_outside(port, 40000)).dropped_by("U.2");
    }
    bench.reply(&from_inside(40000, 53)).passed_with(&[]);
    bench.pass(&from_outside(53, 40000)).passed_with(&[]);
    bench.pass(&from_outside(123, 40000)).dropped_by("U.2");
    bench.wait(Duration::from_secs(181));
    bench.pass(&from_outside(53, 40000)).dropped_by("U.2");
    // Questions, servers among themselves, peers; and what comes from inside.
    for ports in [(40000, 53), (53, 53), (500, 500), (4500, 4500), (40000, 40001)] {
        bench.pass(&from_outside(ports.0, ports.1)).passed_with(&[]);
    }
    bench.reply(&from_inside(53, 50000)).passed_with(&[]);
    for ports in [(0, 53), (40000, 0)] {
        bench.pass(&from_outside(ports.0, ports.1)).dropped_by("U.2");
    }
}

#[test]
fn what_comes_back_from_where_it_went_is_a_loop() {
    let mut bench = Bench::standard();
    bench.pass(&from_outside(40000, 53)).passed_with(&[]);
    bench.reply(&from_outside(40000, 53)).dropped_by("U.2");
}

#[test]
fn sctp_chunks() {
    let with = |tag: u8, chunks: &[u8]| {
        let packet = [[0x30, 0x39, 0, 80, 0, 0, 0, tag, 0, 0, 0, 0].as_slice(), chunks].concat();
        Bench::standard().pass(&v6(132, &packet).bytes())
    };
    let init = [1, 0, 0, 20, 0, 0, 0, 9, 0, 1, 0, 0, 0, 10, 0, 10, 0, 0, 0, 1];
    with(0, &init).passed_with(&[]);
    with(7, &[10, 0, 0, 4, 11, 0, 0, 5, 1, 0, 0, 0]).passed_with(&[]);
    // A tag of an INIT, none of another; not alone; no tag, no window, no streams in it.
    with(7, &init).dropped_by("S.1");
    with(0, &[10, 0, 0, 4]).dropped_by("S.1");
    with(0, &[init.as_slice(), &[10, 0, 0, 4]].concat()).dropped_by("S.1");
    for at in [7, 9, 13, 15] {
        let mut wrong = init;
        wrong[at] = 0;
        with(0, &wrong).dropped_by("S.1");
    }
    for chunks in [[].as_slice(), &[10, 0, 0, 3], &[10, 0, 0, 8], &[10, 0, 0, 4, 0], &[11, 0, 0, 5, 1]] {
        with(7, chunks).dropped_by("S.1");
    }
    Bench::standard().pass(&v6(132, &[0; 11]).bytes()).dropped_by("S.1");
}
