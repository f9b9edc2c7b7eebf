//! Rules I.1 to I.4 and 6.12 have their tests here.

use crate::packet;

use packet::{Bench, DF, datagram4, datagram6, icmp, summed, v4, v6};
use scrub::Profile;
use std::time::Duration;
use wire::ip::Headers;

fn echo4(kind: u8, code: u8, id: u16) -> packet::V4 {
    let bytes = summed(v4(1, &icmp(kind, code, u32::from(id) << 16 | 1, b"ping")).bytes());
    v4(1, &bytes[20..])
}

fn error4(kind: u8, code: u8, rest: u32, quoted: &[u8]) -> Vec<u8> {
    summed(v4(1, &icmp(kind, code, rest, quoted)).bytes())
}

#[test]
fn echo_and_its_answer() {
    let mut bench = Bench::standard();
    bench.pass(&echo4(0, 0, 7).bytes()).dropped_by("I.1");
    bench.reply(&echo4(8, 0, 7).back().bytes()).passed_with(&[]);
    bench.pass(&echo4(0, 0, 7).bytes()).passed_with(&[]);
    bench.pass(&echo4(0, 0, 8).bytes()).dropped_by("I.1");
    // Who was asked may not answer what the other did not ask.
    bench.reply(&echo4(0, 0, 7).back().bytes()).dropped_by("I.1");
    bench.wait(Duration::from_secs(31));
    bench.pass(&echo4(0, 0, 7).bytes()).dropped_by("I.1");
    // A probe's time to live is its own.
    bench.pass(&echo4(8, 0, 9).bytes()).passed_with(&[]);
    bench.pass(&echo4(8, 0, 9).with(|p| p.ttl = 1).bytes()).passed_with(&[]);
}

#[test]
fn echo_codes_checksums_and_many_hosts() {
    let out = Bench::standard().pass(&echo4(8, 9, 7).bytes());
    assert_eq!(out.passed_with(&["I.1"]).bytes, echo4(8, 0, 7).bytes());
    Bench::standard().pass(&echo4(8, 0, 7).with(|p| p.data[2] ^= 1).bytes()).dropped_by("I.1");
    Bench::standard().pass(&v4(1, &[8, 0, 0xf7, 0xff]).bytes()).dropped_by("I.1");
    Bench::standard().pass(&echo4(8, 0, 7).with(|p| p.dst = [224, 0, 0, 1]).bytes()).dropped_by("I.1");
}

#[test]
fn errors_are_about_packets_that_went() {
    let sent = datagram4(600).back().with(|p| p.flags = DF).bytes();
    let mut bench = Bench::standard();
    bench.pass(&error4(3, 3, 0, &sent[..28])).dropped_by("I.2");
    bench.reply(&sent).passed_with(&[]);
    bench.pass(&error4(3, 3, 0, &sent[..28])).passed_with(&[]);
    bench.pass(&error4(11, 0, 0, &sent[..28])).passed_with(&[]);
    // Another port; a later fragment; not even a header; to somebody else.
    let mut other = sent.clone();
    other[21] ^= 1;
    bench.pass(&error4(3, 3, 0, &other[..28])).dropped_by("I.2");
    let mut later = sent.clone();
    later[7] = 1;
    bench.pass(&error4(3, 3, 0, &later[..28])).dropped_by("I.2");
    bench.pass(&error4(3, 3, 0, &sent[..19])).dropped_by("I.2");
    let elsewhere = v4(1, &icmp(3, 3, 0, &sent[..28])).with(|p| p.dst = [198, 51, 100, 3]).bytes();
    bench.pass(&summed(elsewhere)).dropped_by("I.2");
    // A connection that nobody has.
    let mut tcp = sent.clone();
    tcp[9] = 6;
    bench.pass(&error4(3, 3, 0, &tcp[..40])).dropped_by("I.2");
    // An echo that went.
    let echo = echo4(8, 0, 7).back().bytes();
    bench.pass(&error4(3, 1, 0, &echo)).dropped_by("I.2");
    bench.reply(&echo).passed_with(&[]);
    bench.pass(&error4(3, 1, 0, &echo)).passed_with(&[]);
}

#[test]
fn quotations_are_cut() {
    let sent = datagram4(700).back().bytes();
    let mut bench = Bench::standard();
    bench.reply(&sent).passed_with(&[]);
    let out = bench.pass(&error4(3, 3, 0, &sent));
    assert_eq!(out.passed_with(&["I.2"]).bytes, error4(3, 3, 0, &sent[..548]));
    assert_eq!(out.bytes.len(), 576);
    // What is unused is cleared; extensions (RFC 4884) go, and what lies behind the quoted packet.
    let cleared = bench.pass(&error4(3, 3, 0xdead_0000, &sent[..28]));
    assert_eq!(cleared.passed_with(&["I.2"]).bytes, error4(3, 3, 0, &sent[..28]));
    let extended = [&sent[..128], &[0x20, 0, 1, 2, 3, 4]].concat();
    let out = bench.pass(&error4(11, 0, 32 << 16, &extended));
    assert_eq!(out.passed_with(&["I.2"]).bytes, error4(11, 0, 0, &sent[..128]));
    let short = datagram4(4).back().bytes();
    bench.reply(&short).passed_with(&[]);
    let out = bench.pass(&error4(3, 3, 0, &[short.as_slice(), b"covert"].concat()));
    assert_eq!(out.passed_with(&["I.2"]).bytes, error4(3, 3, 0, &short));
}

#[test]
fn path_mtus() {
    let sent = datagram4(1400).back().with(|p| p.flags = DF).bytes();
    let mut bench = Bench::standard();
    bench.reply(&sent).passed_with(&[]);
    bench.pass(&error4(3, 4, 1300, &sent[..28])).passed_with(&[]);
    for mtu in [0, 68, 551] {
        let out = bench.pass(&error4(3, 4, mtu, &sent[..28]));
        assert_eq!(out.passed_with(&["I.3"]).bytes, error4(3, 4, 552, &sent[..28]));
    }
    for mtu in [1428, 9000] {
        bench.pass(&error4(3, 4, mtu, &sent[..28])).dropped_by("I.3");
    }
    let sent = datagram6(1400).back().bytes();
    bench.reply(&sent).passed_with(&[]);
    let error = |mtu| summed(v6(58, &icmp(2, 0, mtu, &sent[..100])).bytes());
    bench.pass(&error(1280)).passed_with(&[]);
    bench.pass(&error(1279)).dropped_by("I.3");
    bench.pass(&error(1448)).dropped_by("I.3");
}

#[test]
fn what_no_host_needs() {
    for kind in [4, 5, 9, 10, 13, 14, 15, 16, 17, 18] {
        Bench::profile(Profile::Minimal).pass(&error4(kind, 0, 0, &[0; 40])).dropped_by("I.3");
    }
    for kind in [1, 2, 6, 19, 30, 255] {
        Bench::standard().pass(&error4(kind, 0, 0, &[0; 40])).dropped_by("I.4");
        Bench::profile(Profile::Minimal).pass(&error4(kind, 0, 0, &[0; 40])).passed_with(&[]);
    }
    Bench::standard().pass(&error4(3, 16, 0, &[0; 40])).dropped_by("I.4");
    for (kind, rule) in [(137, "I.3"), (0, "I.4"), (100, "I.4"), (139, "I.4"), (255, "I.4")] {
        Bench::standard().pass(&summed(v6(58, &icmp(kind, 0, 0, &[0; 40])).bytes())).dropped_by(rule);
    }
}

#[test]
fn neighbours_are_on_the_link() {
    let message = |kind, hops| summed(v6(58, &icmp(kind, 0, 0, &[0; 16])).with(|p| p.hops = hops).bytes());
    for kind in [133, 135, 136] {
        Bench::standard().pass(&message(kind, 254)).dropped_by("6.12");
        Bench::standard().pass(&message(kind, 255)).passed_with(&[]);
    }
    Bench::standard().pass(&message(134, 255)).dropped_by("6.12");
    let advertised = message(134, 255);
    assert_eq!(Headers::parse(&advertised).expect("a packet").ttl, 255);
    Bench::standard().reply(&advertised).passed_with(&[]);
    for kind in [130, 131, 132, 143] {
        Bench::standard().pass(&message(kind, 2)).dropped_by("6.12");
        Bench::standard().pass(&message(kind, 1)).passed_with(&[]);
    }
}

/// The length of a quotation, and whether answers may be fragmented, tell which stack it is (rule 4.4, profile strict).
#[test]
fn errors_and_answers_of_stacks_look_alike() {
    let long = |df: u16, id: u16| {
        let mut asked = datagram4(100);
        asked.id = id;
        let mut error = v4(1, &icmp(3, 3, 0, &asked.bytes())).back();
        error.flags = df;
        error.summed().bytes()
    };
    let one = |error: &[u8]| {
        let mut bench = Bench::profile(Profile::Strict);
        bench.pass(&datagram4(100).bytes());
        let out = bench.reply(error);
        assert_eq!(out.outcome, scrub::Outcome::Forward, "{out:?}");
        out.bytes
    };
    let (free, fixed) = (one(&long(0, 0x1042)), one(&long(DF, 0)));
    assert_eq!(free, fixed);
    assert_eq!(free.len(), 20 + 8 + 20 + 8);
    let quoted = &free[28..48];
    assert_eq!((&quoted[4..6], wire::checksum::ip_checksum(quoted)), (&[0, 0][..], 0));
    let mut bench = Bench::profile(Profile::Strict);
    bench.pass(&datagram4(100).bytes());
    assert_eq!(bench.reply(&free).bytes[28..], free[28..], "scrubbing again changes nothing");
}
