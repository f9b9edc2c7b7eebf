//! The wide unit beside another one: batches of packets, octet for octet.
//!
//! The octets say suite, key, sequence numbers and a few packets: how long, of what, where they lie, what is wrong with them. Every width
//! of this processor seals them as another unit does. Then they are changed, and every width opens those that the other one opens,
//! to the same octets, and leaves nothing of the rest. Nothing around a packet is written to.
#![no_main]

#[path = "../../crates/crypto-std/tests/suite/packet.rs"]
mod packet;

use crypto::{OpenOp, Provider, SealOp, Secret, SuiteId, Transform};
use crypto_mb::Wide;
use crypto_std::{Ring, RustCrypto};
use libfuzzer_sys::fuzz_target;
use packet::Packet;
use std::iter::repeat_n;
use std::sync::LazyLock;

/// Every width that there is here. Without any, that is said, and every input is nothing.
static WIDTHS: LazyLock<Vec<Wide>> = LazyLock::new(|| {
    let widths = Wide::detect_all();
    if widths.is_empty() {
        eprintln!("skipped: this processor has no VAES and VPCLMULQDQ");
    }
    widths
});

/// Packets of one batch, and octets of one packet.
const MOST: usize = 16;
const LONGEST: usize = 6000;
/// What stands around packets.
const AROUND: u8 = 0xa5;

fuzz_target!(|bytes: &[u8]| {
    if WIDTHS.is_empty() {
        return;
    }
    let Some((&[suite, flags, a, b, c, d, e, f, key @ ..], rest)) = bytes.split_first_chunk::<16>() else {
        return;
    };
    let suites: Vec<SuiteId> =
        SuiteId::all().filter(|suite| WIDTHS.iter().any(|wide| wide.offers(*suite))).collect();
    let suite = suites[usize::from(suite) % suites.len()];
    let extended = flags & 1 != 0;
    let together = flags & 2 != 0;
    let keymat = Secret::new(key.iter().cycle().take(suite.keymat_len()).copied().collect());
    let first = u64::from_be_bytes([a, b, c, d, e, f, 0xff, 0xf8]);
    let other = if flags & 4 == 0 && Ring.offers(suite) {
        Ring.transform(suite, &keymat, extended)
    } else {
        RustCrypto.transform(suite, &keymat, extended)
    };
    let other = other.expect("a key of its length");
    let cases = cases(suite, first, rest, other.as_ref());
    for wide in WIDTHS.iter().filter(|wide| wide.offers(suite)) {
        let key = wide.transform(suite, &keymat, extended).expect("a key of its length");
        let sealed = seal(key.as_ref(), &cases, together);
        open(key.as_ref(), other.as_ref(), &cases, sealed, together);
    }
});

/// A packet before it is sealed, and what happens to it.
struct Case {
    fresh: Packet,
    /// The packet as the other unit seals it.
    sealed: Packet,
    /// Octets in front of the packet and behind it.
    around: (usize, usize),
    change: [u8; 3],
}

/// Each packet takes eight octets: two of length, two of content, one of its place, three of what is wrong with it.
fn cases(suite: SuiteId, first: u64, bytes: &[u8], other: &dyn Transform) -> Vec<Case> {
    let records = bytes.as_chunks::<8>().0.iter().take(MOST).enumerate();
    let case = |(at, &[high, low, kind, fill, place, a, b, c]): (usize, &[u8; 8])| {
        let len = usize::from(u16::from_be_bytes([high, low])) % LONGEST;
        let octets = (0..len).map(|i| if kind & 1 != 0 { (i as u8).wrapping_mul(fill | 1) } else { fill });
        let mut fresh = Packet::new(suite, first.wrapping_add(at as u64), octets.collect());
        fresh.header = [fill, high, low, a, b, c, kind, place];
        if kind & 2 != 0 {
            // These are the octets that travel: a fuzzer cannot find those that become all ones.
            let stream = Packet { data: vec![0; len], ..fresh.clone() }.sealed(other).data;
            fresh.data.iter_mut().zip(stream).for_each(|(octet, key)| *octet ^= key);
        }
        let sealed = fresh.clone().sealed(other);
        let around = (usize::from(place & 63), if place & 64 != 0 { 80 } else { 0 });
        Case { fresh, sealed, around, change: [a, b, c] }
    };
    records.map(case).collect()
}

/// A packet whose data lies among other octets. Without any behind it, the sanitizer sees who reads on.
struct Placed {
    packet: Packet,
    area: Vec<u8>,
    around: (usize, usize),
}

impl Placed {
    fn new(mut packet: Packet, around: (usize, usize)) -> Placed {
        let data = std::mem::take(&mut packet.data);
        let mut area = Vec::with_capacity(around.0 + data.len() + around.1);
        area.extend(repeat_n(AROUND, around.0));
        area.extend(data);
        area.extend(repeat_n(AROUND, around.1));
        Placed { packet, area, around }
    }

    fn seal_op(&mut self) -> SealOp<'_> {
        let to = self.area.len() - self.around.1;
        SealOp { data: &mut self.area[self.around.0..to], ..self.packet.seal_op() }
    }

    fn open_op(&mut self, ok: bool) -> OpenOp<'_> {
        let to = self.area.len() - self.around.1;
        OpenOp { data: &mut self.area[self.around.0..to], ..self.packet.open_op(ok) }
    }

    fn back(mut self) -> Packet {
        let behind = self.area.split_off(self.area.len() - self.around.1);
        let data = self.area.split_off(self.around.0);
        assert!(self.area.iter().chain(&behind).all(|octet| *octet == AROUND), "written beside a packet");
        Packet { data, ..self.packet }
    }
}

/// Wrong lengths, in one packet of a batch.
fn misfit(packet: &mut Packet, which: u8) {
    match which % 4 {
        0 => packet.icv.truncate(packet.icv.len() - 1 - usize::from(which >> 2) % packet.icv.len()),
        1 => packet.icv.push(which),
        2 => packet.iv.truncate(usize::from(which >> 2) % packet.iv.len()),
        _ => packet.iv.push(which),
    }
}

fn is_misfit(case: &Case) -> bool {
    case.change[0] & 0xc0 == 0xc0
}

/// All of them sealed as the other unit does, those that have a wrong length wiped.
fn seal(key: &dyn Transform, cases: &[Case], together: bool) -> Vec<Packet> {
    let place = |case: &Case| {
        let mut packet = case.fresh.clone();
        if is_misfit(case) {
            misfit(&mut packet, case.change[1]);
        }
        Placed::new(packet, case.around)
    };
    let mut placed: Vec<_> = cases.iter().map(place).collect();
    if together {
        let all = key.seal_batch(&mut placed.iter_mut().map(Placed::seal_op).collect::<Vec<_>>());
        assert_eq!(all.is_err(), cases.iter().any(is_misfit));
    } else {
        for (packet, case) in placed.iter_mut().zip(cases) {
            assert_eq!(key.seal(packet.seal_op()).is_err(), is_misfit(case));
        }
    }
    let sealed: Vec<_> = placed.into_iter().map(Placed::back).collect();
    for (packet, case) in sealed.iter().zip(cases) {
        if is_misfit(case) {
            assert!(packet.data.iter().chain(&packet.icv).all(|octet| *octet == 0), "no plaintext leaves");
        } else {
            assert_eq!(packet, &case.sealed);
        }
    }
    sealed
}

/// What becomes of a packet on its way; whether its parts still have the lengths of the suite.
fn change(packet: &mut Packet, [what, a, b]: [u8; 3]) -> bool {
    let at = usize::from(u16::from_be_bytes([a, b]));
    let flip = |octets: &mut [u8]| {
        if let Some(octet) = (at >> 3).checked_rem(octets.len()).and_then(|at| octets.get_mut(at)) {
            *octet ^= 1 << (at & 7);
        }
    };
    match what & 0x0f {
        0 => flip(&mut packet.data),
        1 => flip(&mut packet.icv),
        2 => flip(&mut packet.iv),
        3 => flip(&mut packet.header),
        4 => packet.sequence ^= 1 << (at & 63),
        5 => packet.data.truncate(at % (packet.data.len() + 1)),
        6 => packet.data.extend(repeat_n(b, usize::from(a))),
        7 => {
            misfit(packet, a);
            return false;
        }
        8 => {
            let by = at % packet.icv.len();
            packet.icv.rotate_left(by);
        }
        9 => packet.data.fill(a),
        _ => {}
    }
    true
}

/// Opened where the other unit opens, to the same octets; of all others nothing is left but what came, or zeros.
fn open(key: &dyn Transform, other: &dyn Transform, cases: &[Case], sealed: Vec<Packet>, together: bool) {
    let mut sent = Vec::new();
    let mut fits = Vec::new();
    for (mut packet, case) in sealed.into_iter().zip(cases) {
        fits.push(!is_misfit(case) && change(&mut packet, case.change));
        sent.push(packet);
    }
    let placed = sent.iter().zip(cases).map(|(packet, case)| Placed::new(packet.clone(), case.around));
    let mut placed: Vec<_> = placed.collect();
    // Whatever `ok` was before.
    let ok: Vec<bool> = if together {
        let mut ops: Vec<_> = placed.iter_mut().enumerate().map(|(at, p)| p.open_op(at % 2 == 0)).collect();
        assert_eq!(key.open_batch(&mut ops), Ok(()));
        ops.iter().map(|op| op.ok).collect()
    } else {
        placed.iter_mut().map(|packet| key.open(packet.open_op(true)) == Ok(true)).collect()
    };
    let opened = placed.into_iter().map(Placed::back);
    for ((((packet, ok), sent), fits), case) in opened.zip(ok).zip(&sent).zip(fits).zip(cases) {
        let expected = sent.opened(other);
        assert_eq!(ok, expected.is_some(), "{} {:?}", packet.data.len(), case.change);
        let left = match expected {
            Some(data) => data,
            None if fits => vec![0; sent.data.len()],
            None => sent.data.clone(),
        };
        assert_eq!(packet, Packet { data: left, ..sent.clone() });
        if fits && case.sealed == *sent {
            assert!(ok && packet.data == case.fresh.data);
        }
    }
}
