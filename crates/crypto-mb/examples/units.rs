//! Nanoseconds a packet of every suite and provider, sealed and opened in batches of 16 and alone.
//!
//! `cargo run --release -p crypto-mb --example units [WORD]`: only suites whose name has the word in it. The best of several
//! rounds in turns; a loaded machine shows in `max/min`, the worst round by the best.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a measurement reads the clock")]
#![allow(clippy::disallowed_macros, reason = "a table for people")]

use std::time::Instant;

use crypto::{OpenOp, Provider, SealOp, Secret, SuiteId, Transform};
use crypto_mb::Wide;
use crypto_std::{Ring, RustCrypto};

const SIZES: [usize; 3] = [64, 1400, 8192];
const BATCH: usize = 16;
const ROUNDS: usize = 15;

struct Packet {
    sequence: u64,
    iv: Vec<u8>,
    data: Vec<u8>,
    icv: Vec<u8>,
}

const HEADER: [u8; 8] = [1, 2, 3, 4, 0, 0, 0, 9];

fn seal_op(packet: &mut Packet) -> SealOp<'_> {
    packet.sequence += 1;
    let Packet { sequence, iv, data, icv } = packet;
    SealOp { sequence: *sequence, header: &HEADER, iv, data, icv }
}

fn open_op(packet: &mut Packet) -> OpenOp<'_> {
    let Packet { sequence, iv, data, icv } = packet;
    OpenOp { sequence: *sequence, header: &HEADER, iv, data, icv, ok: false }
}

/// Best and worst nanoseconds a packet of seal and open, alone and in a batch.
fn measure(key: &dyn Transform, suite: SuiteId, octets: usize) -> [(f64, f64); 4] {
    let octets = octets.next_multiple_of(suite.block_len());
    let mut packets: Vec<_> = (0..BATCH)
        .map(|n| Packet {
            sequence: (n as u64) << 32,
            iv: vec![0; suite.iv_len()],
            data: vec![0; octets],
            icv: vec![0; suite.icv_len()],
        })
        .collect();
    let mut out = [(f64::MAX, 0.0f64); 4];
    let mut note = |at: usize, start: Instant| {
        let ns = start.elapsed().as_nanos() as f64 / BATCH as f64;
        out[at] = (out[at].0.min(ns), out[at].1.max(ns));
    };
    for _ in 0..ROUNDS {
        let start = Instant::now();
        packets.iter_mut().for_each(|p| key.seal(seal_op(p)).expect("the lengths fit"));
        note(0, start);
        let start = Instant::now();
        assert!(packets.iter_mut().all(|p| key.open(open_op(p)) == Ok(true)));
        note(1, start);
        let mut ops: Vec<_> = packets.iter_mut().map(seal_op).collect();
        let start = Instant::now();
        key.seal_batch(&mut ops).expect("the lengths fit");
        note(2, start);
        drop(ops);
        let mut ops: Vec<_> = packets.iter_mut().map(open_op).collect();
        let start = Instant::now();
        key.open_batch(&mut ops).expect("the lengths fit");
        note(3, start);
        assert!(ops.iter().all(|op| op.ok));
    }
    out
}

fn main() {
    let word = std::env::args().nth(1).unwrap_or_default();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load {}", load.trim());
    print!("{:<20} {:<10}", "suite", "unit");
    for size in SIZES {
        print!(" | {size:>5}: {:>6} {:>6} {:>6} {:>6}", "seal", "open", "seal16", "open16");
    }
    println!(" | max/min");
    let widths = Wide::detect_all();
    let mut providers: Vec<&dyn Provider> = vec![&Ring, &RustCrypto];
    providers.extend(widths.iter().map(|wide| wide as &dyn Provider));
    for suite in SuiteId::all().filter(|suite| suite.to_string().contains(&word)) {
        for provider in providers.iter().filter(|provider| provider.offers(suite)) {
            let keymat = Secret::new((0..suite.keymat_len()).map(|i| i as u8).collect());
            let Ok(key) = provider.transform(suite, &keymat, true) else { continue };
            print!("{:<20} {:<10}", suite.to_string(), provider.name());
            let mut spread = 1.0f64;
            for size in SIZES {
                let all = measure(key.as_ref(), suite, size);
                let [a, b, c, d] = all.map(|(best, _)| best);
                print!(" |        {a:>6.0} {b:>6.0} {c:>6.0} {d:>6.0}");
                spread = all.iter().map(|(best, worst)| worst / best).fold(spread, f64::max);
            }
            println!(" | {spread:.1}");
        }
    }
}
