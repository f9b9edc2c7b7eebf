//! `engine.{seal,open}.SUITE.SIZE.ratio`: bare `ring` against the whole engine with whatever unit it chose, on the same buffers, in turns
//! (`.added_ns`: the difference). This is what the daemon runs: packets that follow one another leave in bursts, and bursts are opened
//! in place. `engine.{seal,open}.one.*` is the same packet by packet; `engine.seal.super.*` cuts TCP super-packets of 64 KiB, checksums
//! included, into packets of that size.
//!
//! The bare side encrypts (decrypts) the inner packet, or its ciphertext, and no more. The engine's side does all that the
//! daemon does between two devices: headers, policy and association lookup, sequence number or replay window, outer
//! headers, trailer, tag, counters. What fills the buffers before and takes them back after is outside the clock for both.
//!
//! A batch is one burst, and its buffer is the one of the batch before, as in the daemon: it reads a packet, hands it over and
//! reads the next into the same buffer, and sends a burst before it begins another. Longer batches walk through a burst buffer
//! of 64 KiB for each packet read, which measures the memory behind the caches and not the engine.

use super::FigureFilter;
use crate::figure::{Figure, Report, Target};
use crate::fixture;
use crate::interleave::{Cost, Duel, Plan, timed};
use crypto::{Registry, SuiteId};
use engine::{Delivery, Inbound, InboundOutcome, Outbound, Outcome};
use ring::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use std::hint::black_box;
use wire::burst::{MAX_DATAGRAMS, MAX_LEN_V4};
use wire::ip::Headers;
use wire::{Buf, Burst, Meta, Packet, Pool, Time, esp, udp};

const SIZES: [usize; 4] = [64, 576, 1400, 8192];
const PLAN: Plan = Plan { rounds: 7, batches: 160 };
/// Nanoseconds that the engine may add to the bare cipher at 64 octets.
const MOST_ADDED: f64 = 60.0;
/// Octets of IV between ESP header and ciphertext.
const IV: usize = 8;

/// Measure the figures `engine.*` of sealing and opening that `filter` asks for.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let registry = fixture::registry()?;
    let mut figures = FigureFilter { filter, report };
    for suite in [SuiteId::AES_128_GCM, SuiteId::AES_256_GCM, SuiteId::CHACHA20_POLY1305] {
        for size in SIZES {
            for (verb, measure) in WAYS {
                let [ratio, added] =
                    ["ratio", "added_ns"].map(|what| format!("engine.{verb}.{suite}.{size}.{what}"));
                let adds = matches!((*verb, suite, size), ("seal" | "open", SuiteId::AES_128_GCM, 64));
                let wanted = figures.wants(&ratio) || adds && figures.wants(&added);
                if !wanted || *verb == "seal.super" && size < 576 {
                    continue;
                }
                let duel = measure(suite, size, &registry);
                let (bare, whole) = duel.medians();
                let anchor = format!("ring {bare:.0} ns, engine {whole:.0} ns, {:+.0} ns", whole - bare);
                let target = target(verb, suite, size);
                figures.push(Figure::new(ratio, "ratio", &duel.ratios(), anchor.as_str(), target));
                if adds {
                    let differences: Vec<_> = duel.rounds.iter().map(|(bare, whole)| whole - bare).collect();
                    figures.push(Figure::new(added, "ns", &differences, anchor, Target::AtMost(MOST_ADDED)));
                }
            }
        }
    }
    Ok(())
}

type Measure = fn(SuiteId, usize, &Registry) -> Duel;

const WAYS: &[(&str, Measure)] = &[
    ("seal", |suite, size, registry| seal(suite, size, registry, true)),
    ("open", open),
    ("seal.one", |suite, size, registry| seal(suite, size, registry, false)),
    ("open.one", open_singly),
    ("seal.super", seal_super),
];

fn target(verb: &str, suite: SuiteId, size: usize) -> Target {
    match (verb, suite, size) {
        ("seal" | "open", SuiteId::AES_128_GCM, 1400) => Target::AtLeast(0.8),
        ("seal" | "open", SuiteId::AES_128_GCM, 8192) => Target::AtLeast(0.92),
        ("seal" | "open", SuiteId::CHACHA20_POLY1305, 1400) => Target::AtLeast(0.9),
        _ => Target::Recorded,
    }
}

/// The fewest packets a batch: what is not in the caches when it begins must not be most of its cost.
const FEWEST: usize = 32;

/// Packets a batch: a full burst, or [`FEWEST`] of those that are too long to be copied into one.
fn batch(size: usize) -> usize {
    (MAX_LEN_V4 / (size + 2 * esp::HEADER_LEN + 32)).clamp(FEWEST, MAX_DATAGRAMS)
}

/// The buffers of both contenders.
struct Buffers {
    /// What packets are read into.
    device: Pool,
    /// The engine's own: bursts are built in its buffers.
    pool: Pool,
}

impl Buffers {
    fn new(count: usize) -> std::cell::RefCell<Buffers> {
        let buffers = Buffers { device: fixture::pool(count), pool: fixture::pool(count + 8) };
        std::cell::RefCell::new(buffers)
    }
}

/// The bare cipher with the key of the association.
pub(super) struct Bare {
    key: LessSafeKey,
    sequence: u64,
}

impl Bare {
    pub(super) fn new(suite: SuiteId) -> Bare {
        let algorithm: &'static Algorithm = match suite {
            SuiteId::AES_128_GCM => &AES_128_GCM,
            SuiteId::AES_256_GCM => &AES_256_GCM,
            _ => &CHACHA20_POLY1305,
        };
        let keymat = fixture::keymat(suite, 1);
        let key = &keymat.expose()[..suite.cipher().key_len()];
        Bare { key: LessSafeKey::new(UnboundKey::new(algorithm, key).expect("a key")), sequence: 0 }
    }

    pub(super) fn seal(&mut self, data: &mut [u8]) {
        self.sequence += 1;
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.sequence.to_be_bytes());
        let aad = self.sequence.to_be_bytes();
        let tag =
            self.key.seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), data);
        let _tag = black_box(tag.expect("a short packet"));
    }

    /// Open `esp`, an ESP packet that a peer with this key and this salt sealed.
    fn open(&self, salt: [u8; 4], packet: &mut [u8]) {
        let (aad, rest) = packet.split_first_chunk_mut::<{ esp::HEADER_LEN }>().expect("a header");
        let (iv, rest) = rest.split_first_chunk_mut::<IV>().expect("an IV");
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&salt);
        nonce[4..].copy_from_slice(iv);
        let plain = self.key.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(*aad), rest);
        black_box(plain.expect("the right tag").len());
    }
}

/// Buffers of the pool, filled.
fn fill(pool: &mut Pool, from: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<Buf> {
    let mut bufs = Vec::new();
    for bytes in from {
        let mut buf = pool.take();
        let bytes = bytes.as_ref();
        buf.push_back(bytes.len()).expect("room for a packet").copy_from_slice(bytes);
        bufs.push(buf);
    }
    bufs
}

fn seal(suite: SuiteId, size: usize, registry: &Registry, gather: bool) -> Duel {
    let count = batch(size);
    let packets: Vec<_> = (0..count).map(|i| fixture::packet(size, i as u16)).collect();
    let buffers = Buffers::new(count);
    let mut bare = Bare::new(suite);
    let alice = fixture::outbound(suite, registry);
    let mut alice = if gather { alice.gathering() } else { alice };
    let mut out = Vec::with_capacity(count);
    let first = || bare_batch(&mut bare, &mut buffers.borrow_mut(), &packets);
    let second =
        || seal_batch(&mut alice, &mut buffers.borrow_mut(), &packets, fixture::meta(), count, &mut out);
    Duel::run(PLAN, first, second)
}

fn bare_batch(bare: &mut Bare, buffers: &mut Buffers, packets: &[Vec<u8>]) -> Cost {
    let mut bufs = fill(&mut buffers.device, packets);
    let ((), cost) = timed(packets.len(), || {
        for buf in &mut bufs {
            bare.seal(buf.as_mut_slice());
        }
    });
    bufs.into_iter().for_each(|buf| buffers.device.put(buf));
    cost
}

/// Seal what becomes `count` packets.
fn seal_batch(
    alice: &mut Outbound,
    buffers: &mut Buffers,
    packets: &[Vec<u8>],
    meta: Meta,
    count: usize,
    out: &mut Vec<Outcome>,
) -> Cost {
    let bufs = fill(&mut buffers.device, packets);
    let pool = &mut buffers.pool;
    let ((), cost) = timed(count, || {
        for buf in bufs {
            alice.handle(Time(1), Packet::from_host(buf, meta), pool, out);
        }
        alice.flush(pool, out);
    });
    assert_eq!(sent(out, buffers, packets.len()), count);
    cost
}

/// Give the buffers back, `read` of which the device had filled; how many packets were sealed.
fn sent(out: &mut Vec<Outcome>, buffers: &mut Buffers, read: usize) -> usize {
    let Buffers { device, pool } = buffers;
    let (mut count, mut left) = (0, read);
    let mut bursts = Vec::new();
    for outcome in out.drain(..) {
        match outcome {
            Outcome::Send(packet) => {
                count += 1;
                left -= 1;
                device.put(packet.into_buf());
            }
            Outcome::Burst(burst) => {
                count += burst.count();
                bursts.push(burst.into_buf());
            }
            outcome => panic!("not sealed: {outcome:?}"),
        }
    }
    // The engine has put them there one after the other.
    (0..left).for_each(|_| device.put(pool.take()));
    bursts.into_iter().for_each(|buf| pool.put(buf));
    count
}

/// Super-packets, against the bare cipher on buffers of their pieces' size.
fn seal_super(suite: SuiteId, size: usize, registry: &Registry) -> Duel {
    let count = 64_000 / size;
    let (whole, gso) = fixture::super_packet(size, count);
    let whole = [whole];
    let meta = Meta { gso, ..fixture::meta() };
    let packets: Vec<_> = (0..count).map(|i| fixture::packet(size, i as u16)).collect();
    let buffers = Buffers::new(count);
    let mut bare = Bare::new(suite);
    let mut alice = fixture::outbound(suite, registry).gathering();
    let mut out = Vec::with_capacity(count);
    let first = || bare_batch(&mut bare, &mut buffers.borrow_mut(), &packets);
    let second = || seal_batch(&mut alice, &mut buffers.borrow_mut(), &whole, meta, count, &mut out);
    Duel::run(PLAN, first, second)
}

/// Bursts, as a socket receives them.
fn open(suite: SuiteId, size: usize, registry: &Registry) -> Duel {
    let count = batch(size);
    let packets: Vec<_> = (0..count).map(|i| fixture::packet(size, i as u16)).collect();
    let pool = std::cell::RefCell::new(fixture::pool(count + 8));
    let alice =
        std::cell::RefCell::new((fixture::outbound(suite, registry), fixture::pool(count + 8), Vec::new()));
    let mut bob = fixture::inbound(suite, registry);
    let bare = Bare::new(suite);
    let keymat = fixture::keymat(suite, 1);
    let salt: [u8; 4] = *keymat.expose().last_chunk().expect("a salt");
    let mut delivery = Delivery::new();

    let sealed = || -> (Vec<Vec<u8>>, usize) {
        let (alice, pool, out) = &mut *alice.borrow_mut();
        let sealed = seal_all(alice, pool, &packets, out);
        let at = Headers::parse(&sealed[0]).expect("a packet").header_len + udp::HEADER_LEN;
        let stride = sealed[0].len() - at;
        let most = (MAX_LEN_V4 / stride).min(MAX_DATAGRAMS);
        let bursts =
            sealed.chunks(most).map(|burst| burst.iter().flat_map(|one| &one[at..]).copied().collect());
        (bursts.collect(), stride)
    };
    let first = || -> Cost {
        let (sealed, stride) = sealed();
        let mut pool = pool.borrow_mut();
        let mut bufs = fill(&mut pool, &sealed);
        let ((), cost) = timed(count, || {
            for datagram in bufs.iter_mut().flat_map(|buf| buf.as_mut_slice().chunks_mut(stride)) {
                bare.open(salt, datagram);
            }
        });
        bufs.into_iter().for_each(|buf| pool.put(buf));
        cost
    };
    let second = || {
        let (sealed, stride) = sealed();
        open_bursts(&mut bob, &mut pool.borrow_mut(), &sealed, stride, count, &mut delivery)
    };
    Duel::run(PLAN, first, second)
}

/// Open bursts of `count` packets in all.
fn open_bursts(
    bob: &mut Inbound,
    pool: &mut Pool,
    sealed: &[Vec<u8>],
    stride: usize,
    count: usize,
    delivery: &mut Delivery,
) -> Cost {
    let bufs = fill(pool, sealed);
    let ((), cost) = timed(count, || {
        for buf in bufs {
            let burst = Burst::raw(buf, fixture::wire_header(), stride, Time(1)).expect("a burst");
            bob.handle_burst(Time(1), burst, pool, delivery);
        }
    });
    assert_eq!(delivery.len(), count);
    delivery.clear(pool);
    cost
}

/// The engine with one registry against the engine with another, in turns, under AES-128-GCM: `seal` or `open`.
pub(super) fn two_registries(verb: &str, size: usize, first: &Registry, second: &Registry) -> Duel {
    let suite = SuiteId::AES_128_GCM;
    let count = batch(size);
    let packets: Vec<_> = (0..count).map(|i| fixture::packet(size, i as u16)).collect();
    let mut out = Vec::with_capacity(count);
    if verb == "seal" {
        let buffers = Buffers::new(count);
        let out = std::cell::RefCell::new(out);
        let [mut one, mut other] =
            [first, second].map(|registry| fixture::outbound(suite, registry).gathering());
        let run = |alice: &mut Outbound| {
            let (buffers, out) = (&mut buffers.borrow_mut(), &mut out.borrow_mut());
            seal_batch(alice, buffers, &packets, fixture::meta(), count, out)
        };
        return Duel::run(PLAN, || run(&mut one), || run(&mut other));
    }
    // Each end opens what its own peer sealed.
    let mut ends = [first, second].map(|registry| {
        (fixture::outbound(suite, registry), fixture::inbound(suite, registry), fixture::pool(2 * count + 16))
    });
    let [one, other] = &mut ends;
    let mut run = |(alice, bob, pool): &mut (Outbound, Inbound, Pool), delivery: &mut Delivery| {
        let sealed = seal_all(alice, pool, &packets, &mut out);
        let at = Headers::parse(&sealed[0]).expect("a packet").header_len + udp::HEADER_LEN;
        let stride = sealed[0].len() - at;
        let most = (MAX_LEN_V4 / stride).min(MAX_DATAGRAMS);
        let bursts: Vec<Vec<u8>> = sealed
            .chunks(most)
            .map(|burst| burst.iter().flat_map(|one| &one[at..]).copied().collect())
            .collect();
        open_bursts(bob, pool, &bursts, stride, count, delivery)
    };
    let run = std::cell::RefCell::new(&mut run);
    let (mut one_delivery, mut other_delivery) = (Delivery::new(), Delivery::new());
    Duel::run(
        PLAN,
        || (run.borrow_mut())(one, &mut one_delivery),
        || (run.borrow_mut())(other, &mut other_delivery),
    )
}

/// Whole packets, one by one.
fn open_singly(suite: SuiteId, size: usize, registry: &Registry) -> Duel {
    let count = batch(size);
    let packets: Vec<_> = (0..count).map(|i| fixture::packet(size, i as u16)).collect();
    let pool = std::cell::RefCell::new(fixture::pool(count + 8));
    let alice =
        std::cell::RefCell::new((fixture::outbound(suite, registry), fixture::pool(count + 8), Vec::new()));
    let mut bob = fixture::inbound(suite, registry);
    let bare = Bare::new(suite);
    let keymat = fixture::keymat(suite, 1);
    let salt: [u8; 4] = *keymat.expose().last_chunk().expect("a salt");
    let mut out = Vec::with_capacity(count);

    // Every packet is opened once: its number is then spent.
    let sealed = || -> Vec<Vec<u8>> {
        let (alice, pool, out) = &mut *alice.borrow_mut();
        seal_all(alice, pool, &packets, out)
    };
    let first = || -> Cost {
        let sealed = sealed();
        let mut pool = pool.borrow_mut();
        let mut bufs = fill(&mut pool, &sealed);
        let at = Headers::parse(&sealed[0]).expect("a packet").header_len + udp::HEADER_LEN;
        let ((), cost) = timed(count, || {
            for buf in &mut bufs {
                bare.open(salt, &mut buf.as_mut_slice()[at..]);
            }
        });
        bufs.into_iter().for_each(|buf| pool.put(buf));
        cost
    };
    let second = || open_batch(&mut bob, &mut pool.borrow_mut(), &sealed(), &mut out);
    Duel::run(PLAN, first, second)
}

/// The packets as they look on the wire.
fn seal_all(
    alice: &mut Outbound,
    pool: &mut Pool,
    packets: &[Vec<u8>],
    out: &mut Vec<Outcome>,
) -> Vec<Vec<u8>> {
    for buf in fill(pool, packets) {
        alice.handle(Time(1), Packet::from_host(buf, fixture::meta()), pool, out);
    }
    let mut sealed = Vec::with_capacity(packets.len());
    for outcome in out.drain(..) {
        let Outcome::Send(packet) = outcome else { panic!("not sealed: {outcome:?}") };
        sealed.push(packet.bytes().to_vec());
        pool.put(packet.into_buf());
    }
    sealed
}

fn open_batch(bob: &mut Inbound, pool: &mut Pool, sealed: &[Vec<u8>], out: &mut Vec<InboundOutcome>) -> Cost {
    let bufs = fill(pool, sealed);
    let ((), cost) = timed(sealed.len(), || {
        for buf in bufs {
            bob.handle(Time(1), Packet::raw(buf, Meta::default()), pool, out);
        }
    });
    for outcome in out.drain(..) {
        let InboundOutcome::Deliver(packet, _) = outcome else { panic!("not opened: {outcome:?}") };
        pool.put(packet.into_buf());
    }
    cost
}
