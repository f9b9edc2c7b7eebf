//! Reassembly beside a model of it.
//!
//! Five octets make a fragment: whose it is (identification, context, family), where it starts, how long it is, which of two
//! contents and which ECN it carries, and how many seconds pass before it. The first octet of all picks the limits. What comes out
//! whole is what its fragments said; sets without a contradiction come out with their last piece; the caps hold always.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::HashMap;
use std::time::Duration;
use wire::ip::Headers;
use wire::ipv4::Ipv4;
use wire::reassembly::Limits;
use wire::{Pool, Reassembled, Reassembler, Time};

const PROTOCOL: u8 = 253;
const TIMEOUT: Duration = Duration::from_secs(15);

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, ops)) = bytes.split_first() else { return };
    // The model knows nothing of room: it is asked only where there is enough.
    let roomy = which & 1 == 0;
    let limits = if roomy {
        Limits { datagrams: 64, memory: 2 << 20, timeout: TIMEOUT }
    } else {
        Limits { datagrams: usize::from(which >> 1) % 4, memory: usize::from(which) * 40, timeout: TIMEOUT }
    };
    let mut table = Reassembler::new(limits);
    let mut pool = Pool::new(4096, 64, 4);
    let mut model: HashMap<u8, Model> = HashMap::new();
    let mut now = Time::from_secs(100);
    for op in ops.as_chunks().0.iter().map(Op::read) {
        now = now + Duration::from_secs(op.wait);
        model.retain(|_, set| now.since(set.since) < TIMEOUT);
        let packet = op.packet();
        let headers = Headers::parse(&packet).expect("it was built as a packet");
        let became = table.push(now, op.context(), &packet, &headers, &mut pool);
        if let Reassembled::Complete(buf) = &became {
            op.check_whole(buf.as_slice());
        }
        if roomy && !op.is_atomic() {
            let set = model.entry(op.key()).or_insert_with(|| Model::new(now));
            match set.add(&op) {
                Expected::Wait => assert!(matches!(became, Reassembled::Incomplete), "{op:?} {became:?}"),
                Expected::Whole(data) => {
                    let Reassembled::Complete(buf) = &became else { panic!("{op:?} {became:?}") };
                    let whole = Headers::parse(buf.as_slice()).expect("a whole packet");
                    assert!(whole.fragment.is_none());
                    assert_eq!(whole.upper(buf.as_slice()), data);
                    model.remove(&op.key());
                }
                Expected::Nothing => assert!(matches!(became, Reassembled::Rejected(_)), "{op:?} {became:?}"),
                Expected::Over => {
                    assert!(matches!(became, Reassembled::Rejected(_)), "{op:?} {became:?}");
                    model.remove(&op.key());
                }
            }
        }
        if let Reassembled::Complete(buf) = became {
            pool.put(buf);
        }
        assert!(table.len() <= limits.datagrams && table.memory() <= limits.memory);
    }
    table.expire(now + TIMEOUT);
    assert!(table.is_empty() && table.deadline().is_none());
});

#[derive(Debug)]
struct Op {
    who: u8,
    start: usize,
    more: bool,
    data: Vec<u8>,
    ecn: u8,
    wait: u64,
}

impl Op {
    fn read(&[who, start, len, how, time]: &[u8; 5]) -> Op {
        let (start, more) = (usize::from(start) * 8, how & 2 != 0);
        let len = if more { (usize::from(len) % 32 + 1) * 8 } else { usize::from(len) + 1 };
        let data = (start..start + len).map(|at| content(who & 7, at, how & 1)).collect();
        let wait = if time & 0xf0 == 0xf0 { u64::from(time & 15) } else { 0 };
        Op { who, start, more, data, ecn: how >> 2 & 3, wait }
    }

    fn key(&self) -> u8 {
        self.who & 7
    }

    fn context(&self) -> u32 {
        u32::from(self.who >> 1 & 1)
    }

    fn v6(&self) -> bool {
        self.who & 4 != 0
    }

    fn is_atomic(&self) -> bool {
        self.start == 0 && !self.more
    }

    fn packet(&self) -> Vec<u8> {
        let id = self.who & 1;
        if self.v6() {
            let mut packet = vec![0x60 | self.ecn >> 4, self.ecn << 4, 0, 0];
            packet.extend(((self.data.len() + 8) as u16).to_be_bytes());
            packet.extend([44, 64]);
            for last in [1, 2] {
                packet.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
            }
            packet.extend([PROTOCOL, 0]);
            packet.extend((self.start as u16 | u16::from(self.more)).to_be_bytes());
            packet.extend([0, 0, 0, id]);
            packet.extend(&self.data);
            return packet;
        }
        let mut packet = vec![0x45, self.ecn];
        packet.extend(((self.data.len() + 20) as u16).to_be_bytes());
        packet.extend([0, id]);
        packet.extend(((self.start / 8) as u16 | u16::from(self.more) << 13).to_be_bytes());
        packet.extend([64, PROTOCOL, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        packet.extend(&self.data);
        Ipv4::new_checked(&mut packet[..]).expect("a header").fill_checksum();
        packet
    }

    /// Every octet of a whole packet is one that some fragment may have carried there.
    fn check_whole(&self, bytes: &[u8]) {
        let headers = Headers::parse(bytes).expect("a whole packet");
        for (at, octet) in headers.upper(bytes).iter().enumerate() {
            let key = self.key();
            assert!(
                *octet == content(key, at, 0) || *octet == content(key, at, 1),
                "octet {at} is of nobody"
            );
        }
    }
}

/// What octet `at` of a packet of this key is, in one of two contents that differ in few places.
fn content(key: u8, at: usize, variant: u8) -> u8 {
    (at as u8).wrapping_mul(7) ^ key << 5 ^ if at % 64 == 9 { variant } else { 0 }
}

enum Expected {
    Wait,
    Whole(Vec<u8>),
    /// Refused, and so is all that follows until the time is over.
    Nothing,
    /// The last piece came, and the pieces do not make a packet.
    Over,
}

struct Model {
    since: Time,
    pieces: Vec<(usize, bool, Vec<u8>)>,
    ecn: [bool; 4],
    poisoned: bool,
}

impl Model {
    fn new(since: Time) -> Model {
        Model { since, pieces: Vec::new(), ecn: [false; 4], poisoned: false }
    }

    fn add(&mut self, op: &Op) -> Expected {
        let end = op.start + op.data.len();
        let ends = |piece: &(usize, bool, Vec<u8>)| piece.0 + piece.2.len();
        // A copy is one in all that places it; what says otherwise where the end is contradicts.
        let total = self.pieces.iter().find(|piece| !piece.1).map(ends);
        let beyond = match total {
            Some(total) if op.more => end >= total,
            Some(total) => end != total,
            None => !op.more && self.pieces.iter().any(|piece| ends(piece) >= end),
        };
        let copy = self.pieces.iter().any(|piece| piece.0 == op.start && piece.2 == op.data);
        let overlaps = self.pieces.iter().any(|piece| piece.0 < end && op.start < ends(piece));
        if self.poisoned || beyond || overlaps && !copy {
            self.poisoned = true;
            return Expected::Nothing;
        }
        if !copy {
            self.ecn[usize::from(op.ecn)] = true;
            self.pieces.push((op.start, op.more, op.data.clone()));
        }
        self.pieces.sort();
        let mut whole = Vec::new();
        for (start, _, data) in &self.pieces {
            if *start != whole.len() {
                return Expected::Wait;
            }
            whole.extend(data);
        }
        match self.pieces.last() {
            Some((_, false, _)) if self.ecn[3] && self.ecn[0] => Expected::Over,
            Some((_, false, _)) => Expected::Whole(whole),
            _ => Expected::Wait,
        }
    }
}
