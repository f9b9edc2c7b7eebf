//! mAES-512 beside AES-256, cipher alone, in counter mode, in turns: nanoseconds a packet and the ratio.
//! `cargo run --release -p crypto-maes --example ratio`
#![allow(clippy::disallowed_methods, reason = "an example may look at the clock")]

use std::time::Instant;

use aes::Aes256Enc;
use cipher::{Array, BlockCipherEncrypt, InnerIvInit, KeyInit, StreamCipherCore};
use crypto::UnitFailed;
use crypto::custom::{BlockKey, CtrOp, CustomCipher, CustomKey};
use ctr::{CtrCore, flavors::Ctr32BE};

/// AES-256 in the counter mode of the suite `aes256ctr`.
struct Plain(Aes256Enc);

impl BlockKey for Plain {
    fn encrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        let (blocks, _) = blocks.as_chunks_mut::<16>();
        self.0.encrypt_blocks(Array::cast_slice_from_core_mut(blocks));
        Ok(())
    }
    fn decrypt_blocks(&self, _: &mut [u8]) -> Result<(), UnitFailed> {
        Err(UnitFailed)
    }
    fn ctr_xor_batch(&self, ops: &mut [CtrOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            let first = Array(op.counter);
            CtrCore::<&Aes256Enc, Ctr32BE>::inner_iv_init(&self.0, &first)
                .apply_keystream_partial(op.data.into());
        }
        Ok(())
    }
}

fn main() {
    let secret: Vec<u8> = (0..64).collect();
    let Ok(CustomKey::Block(maes)) = crypto_maes::Maes512::new().set_key(&secret) else { return };
    let Ok(aes) = Aes256Enc::new_from_slice(&[7; 32]) else { return };
    let aes = Plain(aes);
    println!("{:>6} {:>10} {:>10} {:>6}", "octets", "AES-256", "mAES-512", "ratio");
    for len in [64, 256, 1400, 8192] {
        let mut data = vec![0; len];
        let mut time = |key: &dyn BlockKey| {
            let rounds = 20_000_000 / (len + 200);
            let start = Instant::now();
            for _ in 0..rounds {
                let mut ops = [CtrOp { counter: [1; 16], data: &mut data }];
                key.ctr_xor_batch(&mut ops).unwrap_or_default();
            }
            start.elapsed().as_nanos() as f64 / rounds as f64
        };
        let mut turns: Vec<(f64, f64)> = (0..9).map(|_| (time(&aes), time(maes.as_ref()))).collect();
        turns.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
        let (one, two) = turns[turns.len() / 2];
        println!("{len:>6} {one:>10.1} {two:>10.1} {:>6.2}", two / one);
    }
}
