//! Packets by their parts, and what a scrubber makes of them.
#![allow(dead_code, reason = "each test program uses a part of it")]

use scrub::{Arrival, Config, Emitted, Outcome, Profile, Rule, Scrubber, Side};
use std::time::Duration;
use wire::ip::Headers;
use wire::{Buf, Gso, Time, checksum};

pub const OUT4: [u8; 4] = [192, 0, 2, 1];
pub const IN4: [u8; 4] = [198, 51, 100, 2];
pub const OUT6: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
pub const IN6: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

/// An IPv4 packet to build, from outside.
#[derive(Clone, Debug)]
pub struct V4 {
    pub src: [u8; 4],
    pub dst: [u8; 4],
    pub protocol: u8,
    pub id: u16,
    /// The reserved flag, DF, MF and the offset.
    pub flags: u16,
    pub ttl: u8,
    pub tos: u8,
    pub options: Vec<u8>,
    pub data: Vec<u8>,
}

pub const DF: u16 = 0x4000;
pub const MF: u16 = 0x2000;

pub fn v4(protocol: u8, data: &[u8]) -> V4 {
    let (options, data) = (Vec::new(), data.to_vec());
    V4 { src: OUT4, dst: IN4, protocol, id: 0x1234, flags: 0, ttl: 60, tos: 0, options, data }
}

impl V4 {
    pub fn with(mut self, edit: impl FnOnce(&mut V4)) -> V4 {
        edit(&mut self);
        self
    }

    pub fn back(self) -> V4 {
        V4 { src: self.dst, dst: self.src, ..self }
    }

    /// The packet with the checksum of its transport.
    pub fn summed(self) -> V4 {
        let data = summed(self.bytes())[20 + self.options.len()..].to_vec();
        V4 { data, ..self }
    }

    /// The octets `from..to` of the data as a fragment.
    pub fn piece(&self, from: usize, to: usize) -> Vec<u8> {
        let more = if to < self.data.len() { MF } else { 0 };
        let data = self.data[from..to].to_vec();
        V4 { flags: (from / 8) as u16 | more, data, ..self.clone() }.bytes()
    }

    pub fn bytes(&self) -> Vec<u8> {
        let header = 20 + self.options.len();
        let mut bytes = vec![0x40 | (header / 4) as u8, self.tos];
        bytes.extend(((header + self.data.len()) as u16).to_be_bytes());
        bytes.extend(self.id.to_be_bytes());
        bytes.extend(self.flags.to_be_bytes());
        bytes.extend([self.ttl, self.protocol, 0, 0]);
        bytes.extend(self.src);
        bytes.extend(self.dst);
        bytes.extend(&self.options);
        let check = checksum::ip_checksum(&bytes);
        bytes[10..12].copy_from_slice(&check.to_be_bytes());
        bytes.extend(&self.data);
        bytes
    }
}

/// An IPv6 packet to build, from outside. Extension headers are given as (number, body of a multiple of eight octets
/// less two).
#[derive(Clone, Debug)]
pub struct V6 {
    pub src: [u8; 16],
    pub dst: [u8; 16],
    pub chain: Vec<(u8, Vec<u8>)>,
    pub protocol: u8,
    pub hops: u8,
    pub label: u32,
    pub data: Vec<u8>,
}

pub fn v6(protocol: u8, data: &[u8]) -> V6 {
    let (chain, data) = (Vec::new(), data.to_vec());
    V6 { src: OUT6, dst: IN6, chain, protocol, hops: 60, label: 0, data }
}

/// The body of a fragment header.
pub fn fragment_body(offset: usize, more: bool, id: u32) -> Vec<u8> {
    let mut body = (offset as u16 | u16::from(more)).to_be_bytes().to_vec();
    body.extend(id.to_be_bytes());
    body
}

impl V6 {
    pub fn with(mut self, edit: impl FnOnce(&mut V6)) -> V6 {
        edit(&mut self);
        self
    }

    pub fn back(self) -> V6 {
        V6 { src: self.dst, dst: self.src, ..self }
    }

    pub fn header(mut self, number: u8, body: &[u8]) -> V6 {
        self.chain.push((number, body.to_vec()));
        self
    }

    pub fn piece(&self, id: u32, from: usize, to: usize) -> Vec<u8> {
        let body = fragment_body(from, to < self.data.len(), id);
        self.clone().with(|p| p.data = self.data[from..to].to_vec()).header(44, &body).bytes()
    }

    pub fn bytes(&self) -> Vec<u8> {
        let chain: usize = self.chain.iter().map(|(_, body)| body.len() + 2).sum();
        let mut bytes = (6 << 28 | self.label).to_be_bytes().to_vec();
        bytes.extend(((chain + self.data.len()) as u16).to_be_bytes());
        let numbers = self.chain.iter().map(|(number, _)| *number).chain([self.protocol]);
        let numbers: Vec<u8> = numbers.collect();
        bytes.extend([numbers[0], self.hops]);
        bytes.extend(self.src);
        bytes.extend(self.dst);
        for (index, (number, body)) in self.chain.iter().enumerate() {
            let len = if *number == 44 { 0 } else { ((body.len() + 2) / 8 - 1) as u8 };
            bytes.extend([numbers[index + 1], len]);
            bytes.extend(body);
        }
        bytes.extend(&self.data);
        bytes
    }
}

/// A whole packet with the checksum of its transport.
pub fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    let headers = Headers::parse(&bytes).expect("a packet");
    checksum::complete_transport(&mut bytes, &headers).expect("a transport with a checksum");
    bytes
}

pub fn udp(ports: (u16, u16), data: &[u8]) -> Vec<u8> {
    let mut bytes = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
    bytes.extend(((data.len() + 8) as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(data);
    bytes
}

/// A UDP datagram over IPv4, summed, whose octets count up.
pub fn datagram4(len: usize) -> V4 {
    let data: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    let packet = v4(17, &udp((40000, 5000), &data));
    let bytes = summed(packet.bytes());
    packet.with(|p| p.data = bytes[20..].to_vec())
}

pub fn datagram6(len: usize) -> V6 {
    let data: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    let packet = v6(17, &udp((40000, 5000), &data));
    let bytes = summed(packet.bytes());
    packet.with(|p| p.data = bytes[40..].to_vec())
}

pub fn icmp(kind: u8, code: u8, rest: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, code, 0, 0];
    bytes.extend(rest.to_be_bytes());
    bytes.extend(data);
    bytes
}

/// The result of passing one packet.
#[derive(Debug)]
pub struct Out {
    pub outcome: Outcome,
    pub acted: Vec<&'static str>,
    pub would: Vec<&'static str>,
    pub bytes: Vec<u8>,
}

impl Out {
    #[track_caller]
    pub fn dropped_by(&self, rule: &str) {
        assert_eq!(self.outcome, Outcome::Drop(Rule::find(rule).expect("a rule")), "acted: {:?}", self.acted);
    }

    #[track_caller]
    pub fn passed_with(&self, rules: &[&str]) -> &Out {
        assert_eq!((self.outcome, self.acted.as_slice()), (Outcome::Forward, rules));
        let headers = Headers::parse(&self.bytes).expect("what goes on is a packet");
        assert!(wire::ip::checksum_ok(&self.bytes, &headers));
        assert_ne!(checksum::verify_transport(&self.bytes, &headers), Some(false));
        assert_eq!(headers.total_len, self.bytes.len());
        self
    }

    #[track_caller]
    pub fn held(&self) {
        assert_eq!((self.outcome, self.acted.as_slice()), (Outcome::Hold, [].as_slice()));
    }
}

pub struct Bench {
    pub scrubber: Scrubber,
    pub now: Time,
    pub link: u32,
}

impl Bench {
    pub fn new(config: Config) -> Bench {
        Bench { scrubber: Scrubber::new(config, [7; 16]), now: Time::from_secs(1000), link: 0 }
    }

    pub fn profile(profile: Profile) -> Bench {
        Bench::new(Config::new(profile))
    }

    pub fn standard() -> Bench {
        Bench::profile(Profile::Standard)
    }

    /// A bench with the standard configuration and these changes.
    pub fn with(edit: impl FnOnce(&mut Config)) -> Bench {
        let mut config = Config::new(Profile::Standard);
        edit(&mut config);
        Bench::new(config)
    }

    pub fn pass_from(&mut self, from: Side, bytes: &[u8]) -> Out {
        let mut buf = Buf::from_slice(bytes, 64, 64);
        let arrival = Arrival { from, link: self.link, realm: 0 };
        let verdict = self.scrubber.process(self.now, arrival, &mut buf, &mut Gso::default());
        Out {
            outcome: verdict.outcome,
            acted: verdict.met.acted.iter().map(Rule::id).collect(),
            would: verdict.met.would.iter().map(Rule::id).collect(),
            bytes: buf.as_slice().to_vec(),
        }
    }

    /// Pass a packet from outside.
    pub fn pass(&mut self, bytes: &[u8]) -> Out {
        self.pass_from(Side::Outside, bytes)
    }

    /// Pass a packet from inside.
    pub fn reply(&mut self, bytes: &[u8]) -> Out {
        self.pass_from(Side::Inside, bytes)
    }

    pub fn own(&mut self) -> Vec<(Side, &'static str, Vec<u8>)> {
        let mut all = Vec::new();
        while let Some(Emitted { to, buf, why, .. }) = self.scrubber.poll_emitted() {
            all.push((to, why.id(), buf.as_slice().to_vec()));
        }
        all
    }

    pub fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.scrubber.expire(self.now);
    }
}
