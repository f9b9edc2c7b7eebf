//! Probes by which scanners tell stacks apart: what two of them answer, without and with the scrubber (paper 003 section III.B.1).
//!
//! They are the kinds that nmap's second generation sends (its documentation, "TCP/IP Fingerprinting Methods"), written anew: openings with
//! odd options, combinations of flags that mean nothing, segments of no connection, odd echoes, a datagram to a closed port.

use super::PORT;
use super::kit::{ACK, RST, SYN, Seg, client};
use super::linux::Linux;
use super::packet::{DF, icmp, udp, v4};
use super::reading::address_of;
use super::small::Small;
use super::stage::{Inside, Setting, Stage};
use scrub::{Config, Profile};
use std::fmt::Write;
use wire::ip::Headers;
use wire::tcp::{Flags, Tcp, TcpOption};
use wire::{checksum, protocol};

/// A port at which nobody listens.
const CLOSED: u16 = PORT + 1;
/// Options of an opening: window scale 10, no-operation, MSS 265, timestamps, SACK-permitted.
const USUAL: [u8; 20] = [3, 3, 10, 1, 2, 4, 1, 9, 8, 10, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 4, 2];

/// One probe of a scanner.
pub struct Probe {
    /// The name of the probe in nmap's documentation.
    pub name: &'static str,
    /// What the probe sends, in words.
    pub text: &'static str,
    /// Whether the scrubber hides how a stack answers the probe.
    pub hidden: bool,
    script: fn(&mut Stage<'_>),
}

/// What stacks answer a probe.
#[derive(Debug)]
pub struct Answers {
    /// The name of the probe in nmap's documentation.
    pub name: &'static str,
    /// What the probe sends, in words.
    pub text: &'static str,
    /// Whether the scrubber hides how a stack answers the probe.
    pub hidden: bool,
    /// The answers of Linux and smoltcp, without the scrubber.
    pub before: [String; 2],
    /// The answers of Linux and smoltcp, with the scrubber.
    pub after: [String; 2],
}

fn closed(stage: &Stage<'_>, segment: Seg) -> Seg {
    let port = stage.port();
    segment.with(|s| s.ports = (port, CLOSED))
}

/// Each opening option by option, as the six of nmap's sequence test.
fn sequence(stage: &mut Stage<'_>) {
    let openings: [&[u8]; 6] = [
        &USUAL,
        &[2, 4, 5, 120, 3, 3, 0, 4, 2, 8, 10, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0],
        &[8, 10, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1, 1, 3, 3, 5, 1, 2, 4, 2, 128],
        &[4, 2, 8, 10, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 3, 3, 10, 0],
        &[2, 4, 2, 24, 4, 2, 8, 10, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 3, 3, 10, 0],
        &[2, 4, 1, 9, 4, 2, 8, 10, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
    ];
    for options in openings {
        stage.send(&client(-1, b"").flags(SYN).options(options).window(1));
        stage.send(&client(0, b"").flags(RST));
        stage.another();
    }
}

/// Send a segment with odd flags to the open port, or to the closed one.
fn odd(stage: &mut Stage<'_>, open: bool, flags: Flags, window: u16, df: bool) {
    let segment = client(-1, b"").flags(flags).options(&USUAL).window(window);
    let segment = if open { segment } else { closed(stage, segment) };
    let carried = stage.carried(&segment).with(|p| p.flags = if df { DF } else { 0 });
    stage.outside(&carried.bytes());
}

fn echo(stage: &mut Stage<'_>, case: usize, (code, number): (u8, u32), tos: u8, df: bool, len: usize) {
    let mut packet = v4(protocol::ICMP, &icmp(8, code, number, &vec![0; len]));
    packet.src[3] = address_of(case);
    (packet.tos, packet.flags) = (tos, if df { DF } else { 0 });
    stage.outside(&packet.summed().bytes());
}

const MEANINGLESS: Flags = Flags(Flags::SYN.0 | Flags::FIN.0 | Flags::URG.0 | Flags::PSH.0);
const XMAS: Flags = Flags(Flags::FIN.0 | Flags::PSH.0 | Flags::URG.0);

/// All probes that are sent.
pub fn all() -> Vec<Probe> {
    let probe = |name, text, hidden, script| Probe { name, text, hidden, script };
    vec![
        probe(
            "SEQ, OPS, WIN, T1",
            "six openings with different options",
            false,
            sequence as fn(&mut Stage<'_>),
        ),
        probe("ECN", "an opening with ECE, CWR, a reserved bit and an urgent pointer", false, |stage| {
            let flags = Flags(SYN.0 | Flags::ECE.0 | Flags::CWR.0 | 1 << 9);
            let segment = client(-1, b"").flags(flags).window(3).with(|s| s.urgent = 0xf7f5);
            stage.send(&segment.options(&[3, 3, 10, 1, 2, 4, 5, 180, 4, 2, 1, 1]));
            stage.send(&client(0, b"").flags(RST));
        }),
        probe("T2", "no flags, to an open port", true, |stage| odd(stage, true, Flags(0), 128, true)),
        probe("T3", "SYN, FIN, URG and PSH, to an open port", true, |stage| {
            odd(stage, true, MEANINGLESS, 256, false);
        }),
        probe("T4", "an acknowledgment of nothing, to an open port", true, |stage| {
            odd(stage, true, ACK, 1024, true);
        }),
        probe("T5", "an opening, to a closed port", false, |stage| odd(stage, false, SYN, 31337, false)),
        probe("T6", "an acknowledgment of nothing, to a closed port", true, |stage| {
            odd(stage, false, ACK, 32768, true);
        }),
        probe("T7", "FIN, PSH and URG, to a closed port", true, |stage| {
            odd(stage, false, XMAS, 65535, false);
        }),
        probe("IE 1", "an echo with a code that is none", true, |stage| {
            let case = stage.case();
            echo(stage, case, (9, 0x1234_0127), 0, true, 120);
        }),
        probe("IE 2", "an echo with a type of service", true, |stage| {
            let case = stage.case();
            echo(stage, case, (0, 0x1235_0128), 4, false, 150);
        }),
        probe("U1", "a datagram to a closed port", true, |stage| {
            let mut packet = v4(protocol::UDP, &udp((40000, CLOSED), &[b'C'; 300]));
            packet.src[3] = address_of(stage.case());
            packet.id = 0x1042;
            stage.outside(&packet.summed().bytes());
        }),
    ]
}

/// Send them all, to Linux and to smoltcp, without and with the profile `strict`.
///
/// # Errors
/// If the lab cannot be built.
pub fn send(name: &str) -> anyhow::Result<Vec<Answers>> {
    let mut out: Vec<Answers> = all()
        .iter()
        .map(|probe| Answers {
            name: probe.name,
            text: probe.text,
            hidden: probe.hidden,
            before: Default::default(),
            after: Default::default(),
        })
        .collect();
    for scrubbed in [false, true] {
        let mut linux = Linux::build(name)?;
        for (number, (probe, answers)) in all().iter().zip(&mut out).enumerate() {
            let hosts: [&mut dyn Inside; 2] = [&mut linux, &mut Small::build()];
            let into = if scrubbed { &mut answers.after } else { &mut answers.before };
            for (host, into) in hosts.into_iter().zip(into) {
                let config = scrubbed.then(|| Config::new(Profile::Strict));
                let mut stage = Stage::new(Setting { config, ..Setting::standard(false) }, host, number);
                (probe.script)(&mut stage);
                *into = told(&stage.heard);
                stage.finish();
            }
        }
    }
    Ok(out)
}

/// All that answers tell of a stack.
fn told(heard: &[Vec<u8>]) -> String {
    if heard.is_empty() {
        return "nothing".to_owned();
    }
    let mut told: Vec<_> = heard.iter().map(|packet| fingerprint(packet)).collect();
    told.dedup();
    told.join("; ")
}

fn fingerprint(packet: &[u8]) -> String {
    let Ok(headers) = Headers::parse(packet) else { return "unreadable".to_owned() };
    let upper = headers.upper(packet);
    let df = if packet[6] & 0x40 != 0 { " df" } else { "" };
    let id = if packet[4..6] == [0, 0] { "0" } else { "n" };
    let mut out = String::new();
    match headers.protocol {
        protocol::TCP => tcp(&mut out, upper),
        protocol::ICMP => {
            let (kind, code) = (upper[0], upper[1]);
            let _ = write!(out, "icmp {kind}/{code} length {}", packet.len());
            if kind == 3 {
                quote(&mut out, &upper[8..]);
            }
        }
        other => {
            let _ = write!(out, "protocol {other}");
        }
    }
    let _ = write!(out, " ttl {}{df} id {id} tos {:#04x}", headers.ttl, headers.tos);
    out
}

fn tcp(out: &mut String, upper: &[u8]) {
    let Ok(view) = Tcp::new_checked(upper) else { return out.push_str("unreadable") };
    let letters = [
        (SYN, 'S'),
        (ACK, 'A'),
        (RST, 'R'),
        (Flags::FIN, 'F'),
        (Flags::PSH, 'P'),
        (Flags::URG, 'U'),
        (Flags::ECE, 'E'),
        (Flags::CWR, 'C'),
    ];
    let flags: String =
        letters.iter().filter(|(flag, _)| view.flags().contains(*flag)).map(|(_, letter)| letter).collect();
    let options: String = view
        .options()
        .map_while(Result::ok)
        .map(|option| match option {
            TcpOption::Nop => "N".to_owned(),
            TcpOption::MaxSegment(size) => format!("M{size}"),
            TcpOption::WindowScale(scale) => format!("W{scale}"),
            TcpOption::SackPermitted => "S".to_owned(),
            TcpOption::Timestamps { .. } => "T".to_owned(),
            _ => "?".to_owned(),
        })
        .collect();
    let _ = write!(out, "tcp {flags} window {} options {options}", view.window());
}

/// What is left of the probe in the quotation of an error: fields that stacks change before they quote.
fn quote(out: &mut String, quoted: &[u8]) {
    let Ok(length) = quoted.get(2..4).ok_or(()).map(|two| u16::from_be_bytes([two[0], two[1]])) else {
        return;
    };
    let id = quoted.get(4..6).map_or(0, |two| u16::from_be_bytes([two[0], two[1]]));
    let sum = quoted.get(..20).is_some_and(|header| checksum::ip_checksum(header) == 0);
    let _ = write!(
        out,
        " quotes {} octets, length {length} id {id:#06x} ttl {} sum {}",
        quoted.len(),
        quoted.get(8).copied().unwrap_or(0),
        if sum { "right" } else { "wrong" }
    );
}

/// The table of docs/papers/003.md.
pub fn markdown(all: &[Answers]) -> String {
    let mut out = String::from(
        "| probe | | Linux | smoltcp | Linux, scrubbed | smoltcp, scrubbed | hidden |\n|---|---|---|---|---|---|---|\n",
    );
    for Answers { name, text, hidden, before, after } in all {
        let hidden = if *hidden { "yes" } else { "" };
        let [a, b] = before;
        let [c, d] = after;
        let _ = writeln!(out, "| {name} | {text} | {a} | {b} | {c} | {d} | {hidden} |");
    }
    out
}
