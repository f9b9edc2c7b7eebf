//! mAES-512 against its vectors, a second form in Rust, a form in Python, and its own toy of eight bits.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test asks another program")]
#![allow(clippy::disallowed_macros, reason = "a test that does not run says so")]

mod portable;

use std::path::Path;
use std::process::Command;

use crypto::UnitFailed;
use crypto::custom::{BlockKey, CtrOp, CustomCipher, CustomKey, SetKeyError};
use crypto_maes::Maes512;
use proptest::prelude::*;
use sha2::{Digest, Sha256};

fn key(octets: &[u8]) -> Box<dyn BlockKey> {
    match Maes512::new().set_key(octets) {
        Ok(CustomKey::Block(key)) => key,
        Ok(_) => panic!("a key of another primitive"),
        Err(error) => panic!("{error}"),
    }
}

fn counted() -> Vec<u8> {
    (0..64).collect()
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

#[test]
fn the_vectors_of_the_definition() {
    let key = key(&counted());
    let mut block: Vec<u8> = (0..16).map(|i| i * 0x11).collect();
    key.encrypt_blocks(&mut block).unwrap();
    assert_eq!(hex(&block), "1b5ab3c7353951a68330d7db8de9190b");
    for _ in 1..1000 {
        key.encrypt_blocks(&mut block).unwrap();
    }
    assert_eq!(hex(&block), "676265a50eba2bce0ceb97a134adf4de");
    for _ in 0..1000 {
        key.decrypt_blocks(&mut block).unwrap();
    }
    assert_eq!(hex(&block), "00112233445566778899aabbccddeeff");
}

#[test]
fn keys_of_other_lengths_and_alike_halves_are_refused() {
    for len in [0, 16, 32, 63, 65, 128] {
        let refused = Maes512::new().set_key(&vec![1; len]).err();
        assert_eq!(refused, Some(SetKeyError::Length), "{len}");
    }
    let mut alike = [3; 64];
    assert_eq!(Maes512::new().set_key(&alike).err(), Some(SetKeyError::Weak));
    alike[63] ^= 1;
    key(&alike);
}

#[test]
fn a_million_blocks_are_those_of_python_and_of_the_second_form() {
    let secret: Vec<u8> = (0..64).map(|i| (i * 37 + 11) as u8).collect();
    let mut blocks = Vec::with_capacity(16_000_000);
    for number in 0u64..500_000 {
        blocks.extend_from_slice(&Sha256::digest(number.to_be_bytes()));
    }
    let plain = blocks.clone();
    let key = key(&secret);
    // Calls of every length, so that what is left over in the wide paths is there, too.
    let (mut rest, mut run) = (&mut blocks[..], 1);
    while !rest.is_empty() {
        let (now, later) = rest.split_at_mut((run * 16).min(rest.len()));
        key.encrypt_blocks(now).unwrap();
        (rest, run) = (later, run % 257 + 1);
    }
    let second = portable::Maes::new(secret.as_slice().try_into().unwrap());
    for (plain, cipher) in plain.chunks(16).zip(blocks.chunks(16)) {
        assert_eq!(second.encrypt(plain.try_into().unwrap()), cipher);
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = Command::new("python3").arg(here.join("tests/maes.py")).arg(hex(&secret)).output().unwrap();
    if String::from_utf8_lossy(&out.stderr).contains("No module named 'cryptography'") {
        assert!(std::env::var_os("CI").is_none(), "python3 with the package `cryptography` is not installed");
        eprintln!("skipped: python3 with the package `cryptography` is not installed");
        return;
    }
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), hex(&Sha256::digest(&blocks)));
}

/// FIPS 197 appendix C.3, by the second form's own AES: the anchor of both cores.
#[test]
fn the_second_form_stands_on_fips_197() {
    let key: [u8; 32] = std::array::from_fn(|i| i as u8);
    let block: [u8; 16] = std::array::from_fn(|i| i as u8 * 0x11);
    assert_eq!(hex(&portable::Aes256::new(&key).encrypt(block)), "8ea2b7ca516745bfeafc49904b496089");
}

/// E and its inverse over eight bits, as docs/maes.md composes them, of cores and a permutation that are tables.
struct Toy {
    w: [u8; 3],
    a: [u8; 256],
    b: [u8; 256],
    p: [u8; 256],
}

impl Toy {
    fn encrypt(&self, x: u8) -> u8 {
        let [w0, w1, w2] = self.w;
        let at = |table: &[u8; 256], x: u8| table[usize::from(x)];
        w2 ^ at(&self.b, w1 ^ at(&self.p, at(&self.a, x ^ w0)))
    }

    fn decrypt(&self, y: u8) -> u8 {
        let [w0, w1, w2] = self.w;
        let back = |table: &[u8; 256], y: u8| table.iter().position(|x| *x == y).map_or(0, |x| x as u8);
        w0 ^ back(&self.a, back(&self.p, w1 ^ back(&self.b, y ^ w2)))
    }

    fn is_bijection(&self) -> bool {
        let mut seen = [false; 256];
        (0..=255).for_each(|x| seen[usize::from(self.encrypt(x))] = true);
        seen.iter().all(|seen| *seen)
    }
}

/// A permutation for each key: a key addition, an odd factor, a rotation.
fn toy_core(key: u8) -> [u8; 256] {
    std::array::from_fn(|x| (x as u8 ^ key).wrapping_mul(key | 1).rotate_left(3) ^ 0x63)
}

/// The construction over permutations of eight bits is a bijection for every pair of keys, with whitening that
/// depends on both, and for all whitening with some pairs; the inverse in the order of the definition undoes it.
#[test]
fn the_construction_over_eight_bits_is_a_bijection() {
    let cores: Vec<[u8; 256]> = (0..=255).map(toy_core).collect();
    let p: [u8; 256] = std::array::from_fn(|x| (x as u8).rotate_left(5));
    let toy = |a: u8, b: u8, w| Toy { w, a: cores[usize::from(a)], b: cores[usize::from(b)], p };
    for a in 0..=255u8 {
        for b in 0..=255u8 {
            let toy = toy(a, b, [a ^ 0x5a, b.wrapping_mul(7), a.wrapping_add(b)]);
            assert!(toy.is_bijection(), "{a} {b}");
            let x = a.wrapping_mul(3) ^ b;
            assert_eq!(toy.decrypt(toy.encrypt(x)), x, "{a} {b}");
        }
    }
    for w in 0..1u32 << 16 {
        let [_, _, one, two] = w.to_be_bytes();
        for whitening in [[one, two, 0], [one, 0, two], [0, one, two]] {
            assert!(toy(one ^ 0x33, two, whitening).is_bijection(), "{whitening:?}");
        }
    }
    // The test sees a core that is no permutation.
    let mut broken = toy(1, 2, [3, 4, 5]);
    broken.p[7] = broken.p[8];
    assert!(!broken.is_bijection());
}

/// The key as its blocks alone have it, with the counter mode that the trait makes of them.
struct ByDefault<'a>(&'a dyn BlockKey);

impl BlockKey for ByDefault<'_> {
    fn encrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        self.0.encrypt_blocks(blocks)
    }
    fn decrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        self.0.decrypt_blocks(blocks)
    }
}

/// Every length of a packet around the runs, and every split of a run between two packets.
#[test]
fn counter_mode_of_every_length() {
    let key = key(&counted());
    let mut counter = [0xa5; 16];
    for len in 0..2 * 2048 + 70 {
        let low = 0u32.wrapping_sub(len as u32 % 300);
        counter[12..].copy_from_slice(&low.to_be_bytes());
        let lengths = [len, 4166 - len, 17];
        let [mut own, mut default] = [(); 2].map(|()| lengths.map(|len| vec![len as u8; len]));
        let mut own_ops: Vec<_> = own.iter_mut().map(|data| CtrOp { counter, data }).collect();
        key.ctr_xor_batch(&mut own_ops).unwrap();
        let mut default_ops: Vec<_> = default.iter_mut().map(|data| CtrOp { counter, data }).collect();
        ByDefault(key.as_ref()).ctr_xor_batch(&mut default_ops).unwrap();
        assert!(own == default, "{len}");
    }
}

proptest! {
    #[test]
    fn decryption_undoes_and_blocks_do_not_meet(
        secret in prop::collection::vec(any::<u8>(), 64),
        blocks in prop::collection::vec(any::<[u8; 16]>(), 1..40),
    ) {
        let key = key(&secret);
        let mut all = blocks.as_flattened().to_vec();
        key.encrypt_blocks(&mut all).unwrap();
        for (plain, cipher) in blocks.iter().zip(all.chunks(16)) {
            let mut alone = *plain;
            key.encrypt_blocks(&mut alone).unwrap();
            prop_assert_eq!(&alone, cipher);
        }
        key.decrypt_blocks(&mut all).unwrap();
        prop_assert_eq!(all, blocks.as_flattened());
    }

    /// Counter mode of a batch: the key's own and the trait's beside one block at a time.
    #[test]
    fn counter_mode_of_a_batch(
        packets in prop::collection::vec((any::<[u8; 12]>(), any::<u32>(), 0usize..2000), 0..9),
        wraps in any::<bool>(),
    ) {
        let key = key(&counted());
        let start = |(nonce, low, _): &([u8; 12], u32, usize)| {
            let low = if wraps { u32::MAX - low % 50 } else { *low };
            let mut counter = [0; 16];
            counter[..12].copy_from_slice(nonce);
            counter[12..].copy_from_slice(&low.to_be_bytes());
            counter
        };
        let mut data: Vec<Vec<u8>> = packets.iter().map(|(_, low, len)| vec![*low as u8; *len]).collect();
        let want: Vec<Vec<u8>> = packets.iter().zip(&data).map(|(packet, data)| {
            let mut counter = start(packet);
            let mut out = data.clone();
            for chunk in out.chunks_mut(16) {
                let mut block = counter;
                key.encrypt_blocks(&mut block).unwrap();
                chunk.iter_mut().zip(block).for_each(|(to, from)| *to ^= from);
                let low = u32::from_be_bytes(counter[12..].try_into().unwrap()).wrapping_add(1);
                counter[12..].copy_from_slice(&low.to_be_bytes());
            }
            out
        }).collect();
        let mut ops: Vec<CtrOp<'_>> =
            packets.iter().zip(&mut data).map(|(packet, data)| CtrOp { counter: start(packet), data }).collect();
        key.ctr_xor_batch(&mut ops).unwrap();
        let mut default: Vec<Vec<u8>> = packets.iter().map(|(_, low, len)| vec![*low as u8; *len]).collect();
        let mut ops: Vec<CtrOp<'_>> =
            packets.iter().zip(&mut default).map(|(packet, data)| CtrOp { counter: start(packet), data }).collect();
        ByDefault(key.as_ref()).ctr_xor_batch(&mut ops).unwrap();
        prop_assert_eq!(&default, &want);
        prop_assert_eq!(data, want);
    }
}
