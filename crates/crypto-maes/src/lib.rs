//! mAES-512, the sample cipher of paper 004 section 7: an AES with changed functions and a longer key that takes about
//! twice the time. docs/maes.md has the definition, what it is good for, and what it is not.
//!
//! E(x) = W2 ^ B(W1 ^ P(A(x ^ W0))), where A and B are AES-256 under the two halves of the key, P permutes octets, and the
//! W are 16 octets each of HKDF-SHA-256 over the whole key.
#![forbid(unsafe_code)]

mod core;
mod permutation;

use aes::Aes256;
use cipher::KeyInit;
use crypto::UnitFailed;
use crypto::custom::{BlockKey, CustomCipher, CustomDescription, CustomKey, Primitive, SetKeyError};
use ring::hkdf;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use permutation::{permute, permute_back};

/// Octets of the key: those of two AES-256 keys.
pub const KEY_LEN: usize = 64;
/// Octets of a block.
const BLOCK: usize = 16;
/// Octets of each AES key.
const HALF: usize = KEY_LEN / 2;
/// The label of the whitening.
const LABEL: &[u8] = b"mAES-512 v1";
/// Octets of the stack that are wiped after a key was expanded: more than key setup uses.
const KEY_SETUP_STACK: usize = 8192;

/// The first of the private transform ids of the compiled-in mAES-512 (RFC 7296 section 3.3.2).
pub const TRANSFORM_ID: u16 = 61440;

/// The cipher mAES-512, compiled in.
#[derive(Clone, Debug)]
pub struct Maes512 {
    description: CustomDescription,
}

impl Maes512 {
    /// The name in suites and policy.
    pub const NAME: &'static str = "maes512";

    /// The cipher.
    pub fn new() -> Maes512 {
        Maes512 { description: description() }
    }
}

impl Default for Maes512 {
    fn default() -> Maes512 {
        Maes512::new()
    }
}

/// Name and lengths of mAES-512.
pub fn description() -> CustomDescription {
    CustomDescription {
        name: Maes512::NAME.to_owned(),
        version: "1".to_owned(),
        vendor: "Ravelin".to_owned(),
        primitive: Primitive::Block { block_len: BLOCK },
        key_len: KEY_LEN,
        max_octets: None,
    }
}

impl CustomCipher for Maes512 {
    fn description(&self) -> &CustomDescription {
        &self.description
    }

    fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError> {
        let key = <&[u8; KEY_LEN]>::try_from(key).map_err(|_| SetKeyError::Length)?;
        let made = Key::new(key)?;
        zeroize::zeroize_stack::<KEY_SETUP_STACK>();
        Ok(CustomKey::Block(made))
    }
}

/// A key, expanded. The AES schedules wipe themselves (feature `zeroize` of the crate), the whitening is wiped here.
struct Key {
    a: Aes256,
    b: Aes256,
    /// W0, W1, W2.
    whitening: [[u8; BLOCK]; 3],
}

impl Key {
    #[inline(never)]
    fn new(key: &[u8; KEY_LEN]) -> Result<Box<Key>, SetKeyError> {
        let (first, second) = key.split_at(HALF);
        if first.ct_eq(second).into() {
            return Err(SetKeyError::Weak);
        }
        let aes = |half: &[u8]| Aes256::new_from_slice(half).map_err(|_| SetKeyError::Length);
        let mut made = Box::new(Key { a: aes(first)?, b: aes(second)?, whitening: [[0; BLOCK]; 3] });
        whiten(key, made.whitening.as_flattened_mut())?;
        Ok(made)
    }
}

/// HKDF-SHA-256 with an empty salt (RFC 5869).
fn whiten(key: &[u8; KEY_LEN], out: &mut [u8]) -> Result<(), SetKeyError> {
    struct Len(usize);
    impl hkdf::KeyType for Len {
        fn len(&self) -> usize {
            self.0
        }
    }
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(key);
    let mut okm = Zeroizing::new([0; 3 * BLOCK]);
    let filled = prk.expand(&[LABEL], Len(out.len())).and_then(|expanded| expanded.fill(&mut *okm));
    filled.map_err(|_| SetKeyError::Length)?;
    out.copy_from_slice(&*okm);
    Ok(())
}

impl Drop for Key {
    fn drop(&mut self) {
        self.whitening.zeroize();
    }
}

/// Add (exclusive or) the same 16 octets to every block.
#[inline]
fn add(blocks: &mut [[u8; BLOCK]], w: &[u8; BLOCK]) {
    let w = u128::from_ne_bytes(*w);
    for block in blocks {
        *block = (u128::from_ne_bytes(*block) ^ w).to_ne_bytes();
    }
}

impl BlockKey for Key {
    fn encrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        let [w0, w1, w2] = &self.whitening;
        let (blocks, _) = blocks.as_chunks_mut::<BLOCK>();
        add(blocks, w0);
        core::encrypt(&self.a, blocks);
        permute(blocks, w1);
        core::encrypt(&self.b, blocks);
        add(blocks, w2);
        Ok(())
    }

    fn decrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        let [w0, w1, w2] = &self.whitening;
        let (blocks, _) = blocks.as_chunks_mut::<BLOCK>();
        add(blocks, w2);
        core::decrypt(&self.b, blocks);
        permute_back(blocks, w1);
        core::decrypt(&self.a, blocks);
        add(blocks, w0);
        Ok(())
    }
}
