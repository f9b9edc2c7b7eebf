//! The wide crypto unit, [`Wide`]: AES-GCM in ESP, two or four blocks an instruction, for processors with VAES and VPCLMULQDQ; and
//! ChaCha20-Poly1305 where they have AVX-512 with IFMA.
//!
//! What enters: keying material and the name of a suite. What leaves: a key ready for use that seals and opens packets where they lie,
//! without an allocation. Short packets are what it is for: everything about a packet of a few blocks is computed at once and reduced once, where
//! a library's way in costs more than the cipher. docs/design/0026-the-wide-unit.md has the reasons and figures.
//!
//! Unsafe code is the calls of instructions that not every processor has ([`lanes`]), and of functions compiled for them; every way there begins
//! with a [`Wide`], which exists only where the processor was asked.

#[cfg(target_arch = "x86_64")]
mod aes;
#[cfg(target_arch = "x86_64")]
mod chacha;
#[cfg(target_arch = "x86_64")]
mod chacha20_poly1305;
#[cfg(target_arch = "x86_64")]
mod gcm;
#[cfg(target_arch = "x86_64")]
mod ghash;
#[cfg(target_arch = "x86_64")]
mod lanes;
#[cfg(target_arch = "x86_64")]
mod poly1305;
#[cfg(all(test, target_arch = "x86_64"))]
#[path = "../../crypto-std/src/published.rs"]
mod published;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
#[cfg(target_arch = "x86_64")]
mod transform;
#[cfg(all(test, target_arch = "x86_64"))]
mod under_test;
mod wide;

pub use wide::Wide;

use crypto::{Cipher, CryptoError, Provider, Secret, SuiteId, Transform};

#[cfg(target_arch = "x86_64")]
use crate::{
    chacha20_poly1305::ChaCha20Poly1305,
    gcm::Gcm,
    transform::{Aead, Key, SALT_LEN},
};

/// The length of the ICV in octets, for the ciphers that the unit offers; `None` for others.
fn icv_len(suite: SuiteId) -> Option<usize> {
    use Cipher as C;
    match suite.cipher() {
        C::Aes128Gcm16 | C::Aes192Gcm16 | C::Aes256Gcm16 => Some(16),
        C::Aes128Gcm12 | C::Aes192Gcm12 | C::Aes256Gcm12 => Some(12),
        C::Aes128Gcm8 | C::Aes192Gcm8 | C::Aes256Gcm8 => Some(8),
        C::ChaCha20Poly1305 => Some(16),
        _ => None,
    }
}

impl Provider for Wide {
    fn name(&self) -> &'static str {
        "wide"
    }

    fn offers(&self, suite: SuiteId) -> bool {
        icv_len(suite).is_some() && (self.has_ifma() || suite.cipher() != Cipher::ChaCha20Poly1305)
    }

    #[cfg(target_arch = "x86_64")]
    fn transform(
        &self,
        suite: SuiteId,
        keymat: &Secret,
        extended: bool,
    ) -> Result<Box<dyn Transform>, CryptoError> {
        let icv_len = icv_len(suite).filter(|_| self.offers(suite)).ok_or(CryptoError::NoProvider(suite))?;
        let wrong = CryptoError::KeyLength { suite, want: suite.keymat_len(), got: keymat.len() };
        if keymat.len() != suite.keymat_len() {
            return Err(wrong);
        }
        let Some((key, salt)) = keymat.expose().split_last_chunk::<SALT_LEN>() else {
            return Err(wrong);
        };
        let boxed = match suite.cipher() {
            Cipher::ChaCha20Poly1305 => boxed::<ChaCha20Poly1305>,
            _ if self.takes_four() => boxed::<Gcm<true>>,
            _ => boxed::<Gcm<false>>,
        };
        boxed(*self, icv_len, extended, key, salt).ok_or(wrong)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn transform(&self, suite: SuiteId, _: &Secret, _: bool) -> Result<Box<dyn Transform>, CryptoError> {
        Err(CryptoError::NoProvider(suite))
    }
}

#[cfg(target_arch = "x86_64")]
fn boxed<A: Aead + 'static>(
    wide: Wide,
    icv_len: usize,
    extended: bool,
    key: &[u8],
    salt: &[u8; SALT_LEN],
) -> Option<Box<dyn Transform>> {
    Some(match (icv_len, extended) {
        (16, false) => Box::new(Key::<A, 16, false>::new(wide, key, salt)?),
        (16, true) => Box::new(Key::<A, 16, true>::new(wide, key, salt)?),
        (12, false) => Box::new(Key::<A, 12, false>::new(wide, key, salt)?),
        (12, true) => Box::new(Key::<A, 12, true>::new(wide, key, salt)?),
        (_, false) => Box::new(Key::<A, 8, false>::new(wide, key, salt)?),
        (_, true) => Box::new(Key::<A, 8, true>::new(wide, key, salt)?),
    })
}
