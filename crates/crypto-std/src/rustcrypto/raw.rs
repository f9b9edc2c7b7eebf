//! Combined modes below the level of ESP, for published vectors.

use crypto::{Cipher, SuiteId};

use super::chacha::ChaCha;
use super::gcm::{Aes, Gcm};
use super::keyed;
use crate::published::Raw;

impl<A: Aes> Raw for Gcm<A> {
    fn protect(&self, iv: &[u8; 8], aad: &[u8], data: &mut [u8]) -> [u8; 16] {
        Gcm::protect(self, iv, aad, data)
    }

    fn unprotect(&self, iv: &[u8; 8], aad: &[u8], data: &mut [u8], icv: &[u8]) -> bool {
        Gcm::unprotect(self, iv, aad, data, icv)
    }
}

impl Raw for ChaCha {
    fn protect(&self, iv: &[u8; 8], aad: &[u8], data: &mut [u8]) -> [u8; 16] {
        ChaCha::protect(self, iv, aad, data).unwrap()
    }

    fn unprotect(&self, iv: &[u8; 8], aad: &[u8], data: &mut [u8], icv: &[u8]) -> bool {
        ChaCha::unprotect(self, iv, aad, data, icv.try_into().unwrap())
    }
}

/// A key of a suite, if it is GCM or ChaCha20-Poly1305.
pub(crate) fn raw(suite: SuiteId, key: &[u8], salt: [u8; 4]) -> Option<Box<dyn Raw>> {
    let icv_len = suite.icv_len();
    Some(match (suite.cipher(), key.len()) {
        (Cipher::ChaCha20Poly1305, _) => Box::new(ChaCha::new(key.try_into().ok()?, salt, false)),
        (_, 16) => Box::new(Gcm::new(keyed::<aes::Aes128Enc>(key)?, salt, icv_len, false)),
        (_, 24) => Box::new(Gcm::new(keyed::<aes::Aes192Enc>(key)?, salt, icv_len, false)),
        _ => Box::new(Gcm::new(keyed::<aes::Aes256Enc>(key)?, salt, icv_len, false)),
    })
}
