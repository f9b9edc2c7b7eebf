//! What the tests of the offline door share: packets, associations as both ends have them, and one frame at a time.
#![allow(dead_code, reason = "each test crate uses a part")]

use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::Duration;

use api::{ReplayDirection, ReplayLine, ReplayVerdict};
use crypto::Registry;
use netio::pcap::{Frame, LinkType};
use offline::replay::{EngineOptions, Replay, ReplayError};
use serde_json::{Value, json};
use wire::ip::Headers;
use wire::ipv4::{self, Ipv4Repr};
use wire::ipv6::{self, Ipv6Repr};
use wire::udp::{self, Udp, UdpRepr};
use wire::{Buf, fragment};

/// The units of every machine. Their known answers are checked once.
pub fn registry() -> &'static Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(|| crypto_std::registry().unwrap());
    &REGISTRY
}

/// The same, legacy suites allowed.
pub fn with_legacy() -> &'static Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
        let mut registry = crypto_std::registry().unwrap();
        registry.allow_legacy(true).unwrap();
        registry
    });
    &REGISTRY
}

pub fn replay(options: &EngineOptions, file: &str) -> Result<Replay, ReplayError> {
    Replay::new(None, options, Some(("file", &mut file.as_bytes())), registry())
}

/// The line of one packet, and the packets written for it.
pub fn step(replay: &mut Replay, bytes: &[u8]) -> (ReplayLine, Vec<Vec<u8>>) {
    step_at(replay, 1000, bytes)
}

/// The same, so many seconds into the capture.
pub fn step_at(replay: &mut Replay, seconds: u64, bytes: &[u8]) -> (ReplayLine, Vec<Vec<u8>>) {
    let frame = Frame {
        time: Duration::from_secs(seconds),
        link: LinkType::Raw,
        data: bytes.to_vec(),
        original_len: u32::try_from(bytes.len()).unwrap(),
    };
    let mut written = Vec::new();
    let line = replay.frame(1, &frame, &mut |packet| {
        written.push(packet.to_vec());
        Ok(())
    });
    let line = line.unwrap();
    assert_eq!(line.written as usize, written.len());
    (line, written)
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn hosts(v6: bool) -> (IpAddr, IpAddr) {
    if v6 { (ip("2001:db8::1"), ip("2001:db8::2")) } else { (ip("192.0.2.1"), ip("192.0.2.2")) }
}

pub fn inner_hosts(v6: bool) -> (IpAddr, IpAddr) {
    if v6 { (ip("2001:db8:a::1"), ip("2001:db8:b::2")) } else { (ip("10.1.0.1"), ip("10.2.0.2")) }
}

pub fn datagram((src, dst): (IpAddr, IpAddr), port: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; udp::HEADER_LEN];
    let repr = UdpRepr { src_port: 40000, dst_port: port, payload_len: payload.len() };
    udp::emit(&mut datagram, &repr).unwrap();
    datagram.extend(payload);
    Udp::new_checked(&mut datagram[..]).unwrap().fill_checksum(src, dst);
    let payload_len = datagram.len();
    let mut bytes = vec![0; if src.is_ipv4() { 20 } else { 40 }];
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let repr = Ipv4Repr { src, dst, protocol: 17, ttl: 63, tos: 0, id: 7, df: true, payload_len };
            ipv4::emit(&mut bytes, &repr).unwrap();
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let (next_header, hop_limit, traffic_class, flow_label) = (17, 63, 0, 0);
            let repr = Ipv6Repr { src, dst, next_header, hop_limit, traffic_class, flow_label, payload_len };
            ipv6::emit(&mut bytes, &repr).unwrap();
        }
        _ => panic!("mixed families"),
    }
    bytes.extend(datagram);
    bytes
}

/// A packet in fragments of at most `size` octets.
pub fn cut(packet: &[u8], id: u32, size: usize) -> Vec<Vec<u8>> {
    let headers = Headers::parse(packet).unwrap();
    let mut pieces = fragment::fragments(packet, &headers, id, size).unwrap();
    let mut all = Vec::new();
    loop {
        let mut buf = Buf::with_capacity(2000, 0);
        match pieces.next_into(&mut buf) {
            None => return all,
            Some(piece) => {
                piece.unwrap();
                all.push(buf.as_slice().to_vec());
            }
        }
    }
}

/// Everything but what transport mode makes anew in the header.
pub fn same(back: &[u8], sent: &[u8]) -> bool {
    let (ours, theirs) = (Headers::parse(back).unwrap(), Headers::parse(sent).unwrap());
    (ours.src, ours.dst, ours.protocol) == (theirs.src, theirs.dst, theirs.protocol)
        && ours.upper(back) == theirs.upper(sent)
}

/// An association as both ends have it.
#[derive(Clone)]
pub struct Line {
    pub ends: (IpAddr, IpAddr),
    pub fields: Value,
}

impl Line {
    pub fn new(v6: bool, mode: &str, suite: &str, keymat_len: usize) -> Line {
        let keymat: String = (0..keymat_len).map(|octet| format!("{:02x}", octet * 7 % 256)).collect();
        let fields = json!({ "spi": "0x1001", "mode": mode, "suite": suite, "keymat": keymat });
        Line { ends: hosts(v6), fields }
    }

    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Line {
        self.fields[field] = value.into();
        self
    }

    pub fn text(&self, direction: &str) -> String {
        let mut line = self.fields.clone();
        let (sender, receiver) = self.ends;
        let out = direction == "out";
        let (local, remote) = if out { (sender, receiver) } else { (receiver, sender) };
        line["direction"] = direction.into();
        line["local"] = local.to_string().into();
        line["remote"] = remote.to_string().into();
        if !out {
            let (ours, theirs) = (line["selector_local"].take(), line["selector_remote"].take());
            (line["selector_local"], line["selector_remote"]) = (theirs, ours);
        }
        line.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        format!("{line}\n")
    }
}

/// Out through one engine, in through the other; replayed and forged packets are refused. Legacy suites are allowed.
pub fn there_and_back(line: &Line, packet: &[u8], readable: bool) -> Result<Vec<u8>, String> {
    let options = EngineOptions::default();
    let open = |direction| {
        let file = line.text(direction);
        let replay = Replay::new(None, &options, Some(("file", &mut file.as_bytes())), with_legacy());
        replay.map_err(|error| error.to_string())
    };
    let (sealed, outer) = step(&mut open("out")?, packet);
    if (sealed.verdict, outer.len()) != (ReplayVerdict::Protect, 1) {
        return Err(format!("{sealed:?}"));
    }
    let tail = &packet[packet.len() - 24..];
    if outer[0].windows(24).any(|window| window == tail) != readable {
        return Err("the payload is not as readable as the suite says".to_owned());
    }
    let mut bob = open("in")?;
    let (opened, mut inner) = step(&mut bob, &outer[0]);
    if (opened.verdict, opened.direction, inner.len())
        != (ReplayVerdict::Deliver, ReplayDirection::Inbound, 1)
    {
        return Err(format!("{opened:?}"));
    }
    let (again, _) = step(&mut bob, &outer[0]);
    let mut forged = outer[0].clone();
    *forged.last_mut().unwrap() ^= 1;
    let (forged, _) = step(&mut open("in")?, &forged);
    if (again.reason.as_deref(), forged.reason.as_deref()) != (Some("replayed"), Some("auth_failed")) {
        return Err(format!("{again:?} {forged:?}"));
    }
    Ok(inner.remove(0))
}
