//! mAES-512 beside AES-256, cipher alone, in counter mode, in turns: nanoseconds a packet and the ratio.
//!
//! AES-256 is there twice: as the suite `aes256ctr` has it (the crate `ctr`), and through the runs of this crate, which
//! is the same unit with the same instructions and one core less. Two cores without whitening and permutation between
//! them show what the permutation costs.
//! `cargo run --release -p crypto-maes --example ratio [PACKETS A CALL]`
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "an example may look at the clock")]
#![allow(clippy::disallowed_macros, reason = "what an example measured is its output")]

#[allow(dead_code, reason = "no decryption here")]
#[path = "../src/core.rs"]
mod core;
#[path = "../src/counter.rs"]
mod counter;
#[allow(dead_code, reason = "plain AES has no permutation")]
#[path = "../src/words.rs"]
mod words;

use std::time::Instant;

use aes::{Aes256, Aes256Enc};
use cipher::{Array, InnerIvInit, KeyInit, StreamCipherCore};
use crypto::custom::{CtrOp, CustomCipher, CustomKey};
use ctr::{CtrCore, flavors::Ctr32BE};

const LENGTHS: [usize; 6] = [64, 256, 512, 1400, 4096, 8192];
const TURNS: usize = 15;
/// Octets that one turn encrypts, about.
const OCTETS: usize = 40_000_000;

/// One of the two steps around a cipher.
enum Half<'a, A> {
    Before(&'a mut A),
    After(&'a mut A),
}

impl<A: core::Around> core::Around for Half<'_, A> {
    #[inline(always)]
    fn before(&mut self, run: &mut [words::Block]) {
        if let Half::Before(around) = self {
            around.before(run);
        }
    }
    #[inline(always)]
    fn after(&mut self, run: &mut [words::Block]) {
        if let Half::After(around) = self {
            around.after(run);
        }
    }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn main() {
    let packets: usize = std::env::args().nth(1).map_or(1, |word| word.parse().unwrap());
    let secret: Vec<u8> = (0..64).collect();
    let Ok(CustomKey::Block(maes)) = crypto_maes::Maes512::new().set_key(&secret) else { return };
    let suite = Aes256Enc::new_from_slice(&secret[..32]).unwrap();
    let [one, two] = [0, 32].map(|at| Aes256::new_from_slice(&secret[at..at + 32]).unwrap());

    let by_suite = |ops: &mut [CtrOp<'_>]| {
        for op in ops {
            let first = Array(op.counter);
            CtrCore::<&Aes256Enc, Ctr32BE>::inner_iv_init(&suite, &first)
                .apply_keystream_partial((&mut *op.data).into());
        }
    };
    let by_run = |ops: &mut [CtrOp<'_>]| {
        counter::xor_batch(ops, [&[0; 16]; 2], |run, packets| core::encrypt(&one, run, packets));
    };
    let by_two = |ops: &mut [CtrOp<'_>]| {
        counter::xor_batch(ops, [&[0; 16]; 2], |run, packets| {
            core::encrypt(&one, run, &mut Half::Before(&mut *packets));
            core::encrypt(&two, run, &mut Half::After(packets));
        });
    };
    let by_maes = |ops: &mut [CtrOp<'_>]| maes.ctr_xor_batch(ops).unwrap();

    println!("{packets} packets a call, {TURNS} turns, medians; ns a packet");
    println!(
        "{:>6} {:>10} {:>10} {:>10} {:>10} {:>9} {:>9}",
        "octets", "aes256ctr", "AES, runs", "two cores", "mAES-512", "to suite", "to runs"
    );
    for len in LENGTHS {
        let mut data = vec![vec![0; len]; packets];
        let mut time = |cipher: &dyn Fn(&mut [CtrOp<'_>])| {
            let rounds = OCTETS / (len + 200) / packets;
            let start = Instant::now();
            for _ in 0..rounds {
                let mut ops: Vec<_> = data.iter_mut().map(|data| CtrOp { counter: [1; 16], data }).collect();
                cipher(&mut ops);
            }
            start.elapsed().as_nanos() as f64 / (rounds * packets) as f64
        };
        let turns: Vec<[f64; 4]> =
            (0..TURNS).map(|_| [time(&by_suite), time(&by_run), time(&by_two), time(&by_maes)]).collect();
        let [suite, run, two, maes] =
            [0, 1, 2, 3].map(|i| median(turns.iter().map(|turn| turn[i]).collect()));
        let [to_suite, to_run] = [0, 1].map(|i| median(turns.iter().map(|turn| turn[3] / turn[i]).collect()));
        println!("{len:>6} {suite:>10.1} {run:>10.1} {two:>10.1} {maes:>10.1} {to_suite:>9.2} {to_run:>9.2}");
    }
}
