//! AES-GCM and ChaCha20-Poly1305 with a full ICV, by `ring`.

use std::hint::black_box;

use crypto::{
    AssociatedData, Cipher, CryptoError, OpenOp, Provider, SealOp, Secret, SuiteId, Transform, UnitFailed,
    known_answer,
};
use ring::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, Tag, UnboundKey,
};

/// Octets of the stack that are wiped after a key was expanded: more than `ring` uses.
const KEY_SETUP_STACK: usize = 8192;
/// Octets of salt behind each of these keys.
const SALT_LEN: usize = 4;

/// The crypto provider over the crate `ring`.
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

fn algorithm(suite: SuiteId) -> Option<&'static Algorithm> {
    match suite.cipher() {
        Cipher::Aes128Gcm16 => Some(&AES_128_GCM),
        Cipher::Aes256Gcm16 => Some(&AES_256_GCM),
        Cipher::ChaCha20Poly1305 => Some(&CHACHA20_POLY1305),
        _ => None,
    }
}

impl Provider for Ring {
    fn name(&self) -> &'static str {
        "ring"
    }

    fn offers(&self, suite: SuiteId) -> bool {
        algorithm(suite).is_some()
    }

    fn transform(
        &self,
        suite: SuiteId,
        keymat: &Secret,
        extended: bool,
    ) -> Result<Box<dyn Transform>, CryptoError> {
        let algorithm = algorithm(suite).ok_or(CryptoError::NoProvider(suite))?;
        let wrong = CryptoError::KeyLength { suite, want: suite.keymat_len(), got: keymat.len() };
        let Some((key, salt)) = keymat.expose().split_last_chunk::<SALT_LEN>() else { return Err(wrong) };
        // The smaller keys do not fill the type: what is on the stack now would go with them.
        zeroize::zeroize_stack::<KEY_SETUP_STACK>();
        let key = expand(algorithm, key).ok_or(wrong)?;
        let salt = filled(*salt);
        Ok(if extended {
            Box::new(RingKey::<true> { key, salt, algorithm })
        } else {
            Box::new(RingKey::<false> { key, salt, algorithm })
        })
    }
}

/// A key, expanded, for sequence numbers of 32 bits or extended ones. Wiped when dropped.
struct RingKey<const EXTENDED: bool> {
    key: LessSafeKey,
    /// Zeros behind it: padding here would hold whatever was on the stack.
    salt: [u8; 8],
    algorithm: &'static Algorithm,
}

fn filled([a, b, c, d]: [u8; SALT_LEN]) -> [u8; 8] {
    [a, b, c, d, 0, 0, 0, 0]
}

#[inline(never)]
fn expand(algorithm: &'static Algorithm, key: &[u8]) -> Option<LessSafeKey> {
    UnboundKey::new(algorithm, key).ok().map(LessSafeKey::new)
}

impl<const EXTENDED: bool> RingKey<EXTENDED> {
    /// Put the schedule of the all-zero key where this one's is. `ring` wipes nothing itself.
    fn wipe(&mut self) {
        const ZEROS: [u8; 32] = [0; 32];
        zeroize::zeroize_stack::<KEY_SETUP_STACK>();
        if let Some(key) =
            ZEROS.get(..self.algorithm.key_len()).and_then(|zeros| expand(self.algorithm, zeros))
        {
            self.key = key;
        }
        self.salt = [0; 8];
        // The memory is given back next; without this the stores would be dead ones.
        black_box(self);
    }

    /// Salt, then IV (RFC 4106 section 4, RFC 7634 section 2).
    #[inline]
    fn nonce(&self, iv: [u8; 8]) -> Nonce {
        // Put together in registers: `ring` reads it at once, and a load that needs two stores has to wait for both.
        let nonce = u128::from(u64::from_le_bytes(self.salt)) | u128::from(u64::from_le_bytes(iv)) << 32;
        let octets = nonce.to_le_bytes();
        Nonce::assume_unique_for_key(octets.first_chunk().copied().unwrap_or_default())
    }

    #[inline]
    fn protect(&self, iv: [u8; 8], aad: &[u8], data: &mut [u8]) -> Option<Tag> {
        self.key.seal_in_place_separate_tag(self.nonce(iv), Aad::from(aad), data).ok()
    }

    #[inline]
    fn unprotect(&self, iv: [u8; 8], aad: &[u8], data: &mut [u8], icv: [u8; 16]) -> bool {
        self.key.open_in_place_separate_tag(self.nonce(iv), Aad::from(aad), icv.into(), data, 0..).is_ok()
    }

    #[inline]
    fn seal_one(&self, op: &mut SealOp<'_>) -> Result<(), UnitFailed> {
        let SealOp { sequence, header, iv, data, icv } = op;
        let counter = sequence.to_be_bytes();
        let made = match <&mut [u8; 8]>::try_from(&mut **iv) {
            Ok(iv) => {
                *iv = counter;
                let aad = AssociatedData::new(header, *sequence, EXTENDED);
                self.protect(counter, aad.octets(), data)
            }
            Err(_) => None,
        };
        match made {
            Some(tag) if tag.as_ref().len() == icv.len() => {
                icv.copy_from_slice(tag.as_ref());
                Ok(())
            }
            // More than 2^36 octets, or lengths of another suite. Whatever the caller does next, no plaintext may leave.
            _ => {
                data.fill(0);
                icv.fill(0);
                Err(UnitFailed)
            }
        }
    }

    #[inline]
    fn open_one(&self, op: &mut OpenOp<'_>) -> bool {
        let (Ok(iv), Ok(tag)) = (<[u8; 8]>::try_from(op.iv), <[u8; 16]>::try_from(op.icv)) else {
            return false;
        };
        let aad = AssociatedData::new(op.header, op.sequence, EXTENDED);
        self.unprotect(iv, aad.octets(), op.data, tag)
    }
}

impl<const EXTENDED: bool> Drop for RingKey<EXTENDED> {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl<const EXTENDED: bool> Transform for RingKey<EXTENDED> {
    fn seal_batch(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        let mut all = Ok(());
        for op in ops {
            all = self.seal_one(op).and(all);
        }
        all
    }

    fn open_batch(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            op.ok = self.open_one(op);
        }
        Ok(())
    }

    fn seal(&self, mut op: SealOp<'_>) -> Result<(), UnitFailed> {
        self.seal_one(&mut op)
    }

    fn open(&self, mut op: OpenOp<'_>) -> Result<bool, UnitFailed> {
        Ok(self.open_one(&mut op))
    }
}

/// A key below the level of ESP.
#[cfg(test)]
pub(crate) fn raw(
    suite: SuiteId,
    key: &[u8],
    salt: [u8; SALT_LEN],
) -> Option<Box<dyn crate::published::Raw>> {
    struct Raw(RingKey<false>);
    impl crate::published::Raw for Raw {
        fn protect(&self, iv: &[u8; 8], aad: &[u8], data: &mut [u8]) -> [u8; 16] {
            self.0.protect(*iv, aad, data).unwrap().as_ref().try_into().unwrap()
        }
        fn unprotect(&self, iv: &[u8; 8], aad: &[u8], data: &mut [u8], icv: &[u8]) -> bool {
            self.0.unprotect(*iv, aad, data, icv.try_into().unwrap())
        }
    }
    let algorithm = algorithm(suite)?;
    Some(Box::new(Raw(RingKey { key: expand(algorithm, key)?, salt: filled(salt), algorithm })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(key: &RingKey<false>) -> ([u8; 24], [u8; 16]) {
        let (mut iv, mut data, mut icv) = ([0; 8], [7; 24], [0; 16]);
        let sealed = key.seal_one(&mut SealOp {
            sequence: 1,
            header: &[9; 8],
            iv: &mut iv,
            data: &mut data,
            icv: &mut icv,
        });
        assert_eq!(sealed, Ok(()));
        (data, icv)
    }

    fn key(algorithm: &'static Algorithm, octet: u8, salt: u8) -> RingKey<false> {
        let key = expand(algorithm, &[octet; 32][..algorithm.key_len()]).unwrap();
        RingKey { key, salt: filled([salt; SALT_LEN]), algorithm }
    }

    #[test]
    fn a_wiped_key_is_the_zero_key() {
        for algorithm in [&AES_128_GCM, &AES_256_GCM, &CHACHA20_POLY1305] {
            let (mut some, zero) = (key(algorithm, 0x5a, 0x77), key(algorithm, 0, 0));
            assert_ne!(sealed(&some), sealed(&zero));
            some.wipe();
            assert_eq!(sealed(&some), sealed(&zero));
        }
    }

    #[test]
    fn a_forged_packet_leaves_no_plaintext_behind() {
        for algorithm in [&AES_128_GCM, &AES_256_GCM, &CHACHA20_POLY1305] {
            let key = key(algorithm, 3, 4);
            let (mut data, mut icv) = sealed(&key);
            icv[0] ^= 1;
            let iv = 1u64.to_be_bytes();
            let op = OpenOp { sequence: 1, header: &[9; 8], iv: &iv, data: &mut data, icv: &icv, ok: true };
            assert_eq!(key.open(op), Ok(false));
            assert_ne!(data, [7; 24]);
        }
    }

    #[test]
    fn lengths_of_another_suite_let_nothing_through() {
        let key = key(&AES_128_GCM, 3, 4);
        let (mut iv, mut data, mut icv) = ([0; 16], [7; 24], [0; 12]);
        let op = SealOp { sequence: 1, header: &[9; 8], iv: &mut iv, data: &mut data, icv: &mut icv };
        assert_eq!(key.seal(op), Err(UnitFailed));
        assert_eq!((data, icv), ([0; 24], [0; 12]));
    }
}
