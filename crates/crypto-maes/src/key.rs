//! A key of mAES-512: two AES-256 keys and the whitening, and how they are put together.

use aes::Aes256;
use cipher::KeyInit;
use crypto::UnitFailed;
use crypto::custom::{BlockKey, CtrOp, SetKeyError};
use hkdf::Hkdf;
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use crate::core::{self, Around, RUN};
use crate::counter;
use crate::words::{self, BLOCK, Block};

/// Octets of the key: those of two AES-256 keys.
pub const KEY_LEN: usize = 64;
/// Octets of each AES key.
const HALF: usize = KEY_LEN / 2;
/// The label of the whitening.
const LABEL: &[u8] = b"mAES-512 v1";

/// The expanded key of one association. The AES schedules wipe themselves (feature `zeroize` of the crate); the
/// whitening is wiped here.
pub(crate) struct Key {
    a: Aes256,
    b: Aes256,
    /// The three blocks W0, W1 and W2.
    whitening: [[u8; BLOCK]; 3],
}

impl Key {
    /// Expand a key on the heap. What it leaves on the stack is for the caller to wipe.
    ///
    /// # Errors
    /// [`SetKeyError::Weak`] if the halves are alike.
    #[inline(never)]
    pub(crate) fn new(key: &[u8; KEY_LEN]) -> Result<Box<Key>, SetKeyError> {
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
    // 48 octets are below the limit of 255 times 32, so this does not fail.
    Hkdf::<Sha256>::new(None, key).expand(LABEL, out).map_err(|_| SetKeyError::Length)
}

impl Drop for Key {
    fn drop(&mut self) {
        self.whitening.zeroize();
    }
}

impl Key {
    /// Encrypt a run of blocks, with the whitening W0 and W2 left to the steps around it.
    fn encrypt(&self, run: &mut [Block], around: &mut impl Around) {
        let [_, w1, _] = &self.whitening;
        core::encrypt(&self.a, run, &mut FirstCore { around: &mut *around, w: w1 });
        core::encrypt(&self.b, run, &mut LastCore(around));
    }
}

impl BlockKey for Key {
    fn encrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        let [w0, _, w2] = &self.whitening;
        let (blocks, _) = blocks.as_chunks_mut::<BLOCK>();
        for run in blocks.chunks_mut(RUN) {
            self.encrypt(run, &mut Whitening(w0, w2));
        }
        Ok(())
    }

    fn decrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        let [w0, w1, w2] = &self.whitening;
        let (blocks, _) = blocks.as_chunks_mut::<BLOCK>();
        for run in blocks.chunks_mut(RUN) {
            let mut around = Whitening(w2, w0);
            core::decrypt(&self.b, run, &mut FirstCoreBack { around: &mut around, w: w1 });
            core::decrypt(&self.a, run, &mut LastCore(&mut around));
        }
        Ok(())
    }

    fn ctr_xor_batch(&self, ops: &mut [CtrOp<'_>]) -> Result<(), UnitFailed> {
        let [w0, _, w2] = &self.whitening;
        counter::xor_batch(ops, [w0, w2], |run, packets| self.encrypt(run, packets));
        Ok(())
    }
}

/// Whitening before and after.
struct Whitening<'a>(&'a Block, &'a Block);

impl Around for Whitening<'_> {
    #[inline(always)]
    fn before(&mut self, run: &mut [Block]) {
        words::add(run, self.0);
    }
    #[inline(always)]
    fn after(&mut self, run: &mut [Block]) {
        words::add(run, self.1);
    }
}

/// What is around the first core on the way there: the permutation and W1 follow.
struct FirstCore<'a, A> {
    around: &'a mut A,
    w: &'a Block,
}

impl<A: Around> Around for FirstCore<'_, A> {
    #[inline(always)]
    fn before(&mut self, run: &mut [Block]) {
        self.around.before(run);
    }
    #[inline(always)]
    fn after(&mut self, run: &mut [Block]) {
        words::permute(run, self.w);
    }
}

/// What is around the second core on the way back: W1 and the inverse permutation follow.
struct FirstCoreBack<'a, A> {
    around: &'a mut A,
    w: &'a Block,
}

impl<A: Around> Around for FirstCoreBack<'_, A> {
    #[inline(always)]
    fn before(&mut self, run: &mut [Block]) {
        self.around.before(run);
    }
    #[inline(always)]
    fn after(&mut self, run: &mut [Block]) {
        words::permute_back(run, self.w);
    }
}

/// What is around the core that comes last, in both directions.
struct LastCore<'a, A>(&'a mut A);

impl<A: Around> Around for LastCore<'_, A> {
    #[inline(always)]
    fn before(&mut self, _: &mut [Block]) {}
    #[inline(always)]
    fn after(&mut self, run: &mut [Block]) {
        self.0.after(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whitening_is_that_of_the_definition() {
        let mut whitening = [0; 3 * BLOCK];
        whiten(&std::array::from_fn(|i| i as u8), &mut whitening).unwrap();
        assert_eq!(
            whitening.first_chunk(),
            Some(&0x5bae_e367_7e3d_4501_3907_44a6_3bf0_0e5e_u128.to_be_bytes())
        );
    }
}
