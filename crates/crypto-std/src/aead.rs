//! The three suites, by `ring`.

use std::hint::black_box;

use crypto::{Aead, CryptoError, OpenOp, Provider, SealOp, Secret, SuiteId, known_answer};
use ring::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};

/// More than `ring` uses of the stack while it expands a key.
const KEY_SETUP_STACK: usize = 8192;

/// The provider.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ring;

impl Ring {
    /// Whether this machine computes the known answers.
    ///
    /// # Errors
    /// [`CryptoError::SelfTest`] for the first suite that does not.
    pub fn self_test() -> Result<(), CryptoError> {
        known_answer::check(&Ring)
    }
}

impl Provider for Ring {
    fn name(&self) -> &'static str {
        "ring"
    }

    fn suites(&self) -> &[SuiteId] {
        &SuiteId::ALL
    }

    fn aead(&self, suite: SuiteId, key: &Secret) -> Result<Box<dyn Aead>, CryptoError> {
        let key = expand(suite, key);
        // What the expansion left below this frame.
        zeroize::zeroize_stack::<KEY_SETUP_STACK>();
        Ok(key?)
    }
}

/// A key, expanded. Wiped when dropped.
struct RingKey {
    key: LessSafeKey,
    algorithm: &'static Algorithm,
}

#[inline(never)]
fn expand(suite: SuiteId, key: &Secret) -> Result<Box<RingKey>, CryptoError> {
    let algorithm = match suite {
        SuiteId::Aes128Gcm => &AES_128_GCM,
        SuiteId::Aes256Gcm => &AES_256_GCM,
        SuiteId::ChaCha20Poly1305 => &CHACHA20_POLY1305,
    };
    let unbound = UnboundKey::new(algorithm, key.expose()).map_err(|_| CryptoError::KeyLength {
        suite,
        want: algorithm.key_len(),
        got: key.len(),
    })?;
    Ok(Box::new(RingKey { key: LessSafeKey::new(unbound), algorithm }))
}

impl RingKey {
    /// Put the schedule of the all-zero key where this one's is. `ring` wipes nothing itself.
    fn wipe(&mut self) {
        const ZEROS: [u8; 32] = [0; 32];
        if let Some(zeros) = ZEROS.get(..self.algorithm.key_len())
            && let Ok(unbound) = UnboundKey::new(self.algorithm, zeros)
        {
            self.key = LessSafeKey::new(unbound);
        }
        // The memory is given back next; without this the stores would be dead ones.
        black_box(&mut self.key);
    }
}

impl Drop for RingKey {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl Aead for RingKey {
    fn seal_batch(&self, ops: &mut [SealOp<'_>]) {
        for op in ops {
            let SealOp { nonce, aad, data, tag } = op;
            seal(&self.key, *nonce, aad, data, tag);
        }
    }

    fn open_batch(&self, ops: &mut [OpenOp<'_>]) {
        for op in ops {
            op.ok = open(&self.key, op.nonce, op.aad, op.data, op.tag);
        }
    }

    fn seal(&self, op: SealOp<'_>) {
        seal(&self.key, op.nonce, op.aad, op.data, op.tag);
    }

    fn open(&self, op: OpenOp<'_>) -> bool {
        open(&self.key, op.nonce, op.aad, op.data, op.tag)
    }
}

#[inline]
fn seal(key: &LessSafeKey, nonce: [u8; 12], aad: &[u8], data: &mut [u8], tag: &mut [u8; 16]) {
    match key.seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), data) {
        Ok(made) => tag.copy_from_slice(made.as_ref()),
        // Only for more than 2^36 octets at once. Whatever the caller does next, no plaintext may leave.
        Err(_) => {
            data.fill(0);
            tag.fill(0);
        }
    }
}

#[inline]
fn open(key: &LessSafeKey, nonce: [u8; 12], aad: &[u8], data: &mut [u8], tag: [u8; 16]) -> bool {
    key.open_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), tag.into(), data, 0..)
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a key makes of a fixed message.
    fn sealed(key: &LessSafeKey) -> ([u8; 24], [u8; 16]) {
        let (mut data, mut tag) = ([7; 24], [0; 16]);
        seal(key, [1; 12], b"aad", &mut data, &mut tag);
        (data, tag)
    }

    #[test]
    fn a_wiped_key_is_the_zero_key() {
        for suite in SuiteId::ALL {
            let len = suite.suite().key_len;
            let mut key = expand(suite, &Secret::new(vec![0x5a; len])).unwrap();
            let zero = expand(suite, &Secret::new(vec![0; len])).unwrap();
            assert_ne!(sealed(&key.key), sealed(&zero.key), "{suite}");
            key.wipe();
            assert_eq!(sealed(&key.key), sealed(&zero.key), "{suite}");
        }
    }

    #[test]
    fn a_forged_packet_leaves_no_plaintext_behind() {
        for suite in SuiteId::ALL {
            let key = expand(suite, &Secret::new(vec![3; suite.suite().key_len])).unwrap();
            let (mut data, mut tag) = ([7; 24], [0; 16]);
            seal(&key.key, [1; 12], b"aad", &mut data, &mut tag);
            tag[0] ^= 1;
            assert!(!open(&key.key, [1; 12], b"aad", &mut data, tag));
            assert_ne!(data, [7; 24], "{suite}");
        }
    }
}
