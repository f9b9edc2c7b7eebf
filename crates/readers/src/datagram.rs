//! Readers of fragments: IPv4 and IPv6 packets in, the datagrams that each reader puts together out (RFC 791 section
//! 3.2, RFC 8200 section 4.5, RFC 5722).

use crate::overlap::{Overlap, Span};
use std::net::IpAddr;
use wire::ip::{self, Headers};

/// The effect of a fragment that overlaps another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The fragment is taken; the overlap table says whose octets win.
    Resolve,
    /// The fragment is ignored.
    Ignore,
    /// All fragments of the packet are ignored, also later ones (RFC 5722).
    Discard,
}

/// The way in which one reader puts fragments together.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// The name that others gave it.
    pub name: &'static str,
    /// The table that says whose octets win.
    pub overlap: Overlap,
    /// The effect of a fragment that overlaps another one.
    pub conflict: Conflict,
    /// Whether the later of two last fragments says where the packet ends.
    pub last_end: bool,
}

const fn policy(name: &'static str, overlap: Overlap, conflict: Conflict, last_end: bool) -> Policy {
    Policy { name, overlap, conflict, last_end }
}

/// The seven policies by name, and those of hosts today.
pub const POLICIES: [Policy; 11] = [
    policy("first", Overlap::FIRST, Conflict::Resolve, false),
    policy("last", Overlap::LAST, Conflict::Resolve, true),
    policy("bsd", Overlap::LEFT, Conflict::Resolve, false),
    policy("bsd-right", Overlap::RIGHT, Conflict::Resolve, false),
    policy("linux", Overlap::LEFT_LAST, Conflict::Resolve, false),
    policy("windows", Overlap::BEYOND, Conflict::Resolve, false),
    policy("solaris", Overlap::COVER, Conflict::Resolve, false),
    policy("first, last end", Overlap::FIRST, Conflict::Resolve, true),
    policy("ignores overlaps", Overlap::FIRST, Conflict::Ignore, false),
    policy("discards at overlaps", Overlap::FIRST, Conflict::Discard, false),
    policy("discards at overlaps, last end", Overlap::FIRST, Conflict::Discard, true),
];

/// A packet that is not whole yet.
#[derive(Clone, Debug)]
struct Part {
    key: (IpAddr, IpAddr, u32),
    pieces: Vec<Span>,
    octets: Vec<Option<u8>>,
    end: Option<usize>,
    dead: bool,
}

/// The state of a reader, and the packets that it has delivered.
#[derive(Clone, Debug, Default)]
pub struct Reassembly {
    parts: Vec<Part>,
    /// The upper layers of the delivered packets, in order.
    pub delivered: Vec<Vec<u8>>,
}

impl Reassembly {
    /// Take one packet, whole or fragment.
    pub fn take(&mut self, policy: &Policy, packet: &[u8]) {
        let Ok(headers) = Headers::parse(packet) else { return };
        if !ip::checksum_ok(packet, &headers) {
            return;
        }
        let payload = headers.upper(packet);
        let Some(fragment) = headers.fragment.filter(|fragment| fragment.more || fragment.offset > 0) else {
            self.delivered.push(payload.to_vec());
            return;
        };
        let end = fragment.offset + payload.len();
        if end > usize::from(u16::MAX) || payload.is_empty() {
            return;
        }
        let key = (headers.src, headers.dst, fragment.id);
        let at = self.parts.iter().position(|part| part.key == key).unwrap_or_else(|| {
            self.parts.push(Part { key, pieces: Vec::new(), octets: Vec::new(), end: None, dead: false });
            self.parts.len() - 1
        });
        let part = &mut self.parts[at];
        part.add(policy, (fragment.offset as u16, end as u16), payload);
        if !fragment.more && !part.dead && (part.end.is_none() || policy.last_end) {
            part.end = Some(end);
        }
        if let Some(whole) = part.whole() {
            self.delivered.push(whole);
            self.parts.remove(at);
        }
    }
}

impl Part {
    fn add(&mut self, policy: &Policy, piece: Span, payload: &[u8]) {
        let exact = self.pieces.contains(&piece);
        let overlaps = self.pieces.iter().any(|old| old.0 < piece.1 && piece.0 < old.1);
        match policy.conflict {
            Conflict::Discard if overlaps && !exact => self.dead = true,
            Conflict::Discard | Conflict::Ignore if overlaps => return,
            _ => {}
        }
        if self.dead {
            return;
        }
        self.octets.resize(self.octets.len().max(usize::from(piece.1)), None);
        let octets = &mut self.octets;
        policy.overlap.lay(&self.pieces, piece, |at| {
            octets[usize::from(at)] = Some(payload[usize::from(at - piece.0)]);
        });
        self.pieces.push(piece);
    }

    fn whole(&self) -> Option<Vec<u8>> {
        let octets = self.octets.get(..self.end?)?;
        if self.dead { None } else { octets.iter().copied().collect() }
    }
}
