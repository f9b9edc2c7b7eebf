//! HMAC-SHA256 as the fingerprint of keys.

use crypto::{CryptoError, Fingerprint, Secret};
use ring::hmac;

/// HMAC-SHA256 under a random key, which the caller keeps for as long as fingerprints must compare.
pub struct KeyedFingerprint {
    mac: hmac::Key,
}

impl KeyedFingerprint {
    /// Octets of the key: those of the digest (RFC 2104 section 3).
    pub const KEY_LEN: usize = 32;

    /// A fingerprint under this key.
    ///
    /// # Errors
    /// [`CryptoError::FingerprintKeyLength`] unless the key has [`Self::KEY_LEN`] octets.
    pub fn new(key: &Secret) -> Result<KeyedFingerprint, CryptoError> {
        if key.len() != Self::KEY_LEN {
            return Err(CryptoError::FingerprintKeyLength { want: Self::KEY_LEN, got: key.len() });
        }
        Ok(KeyedFingerprint { mac: hmac::Key::new(hmac::HMAC_SHA256, key.expose()) })
    }
}

impl Fingerprint for KeyedFingerprint {
    fn of(&self, octets: &[u8]) -> [u8; 32] {
        let tag = hmac::sign(&self.mac, octets);
        let mut out = [0; 32];
        for (to, from) in out.iter_mut().zip(tag.as_ref()) {
            *to = *from;
        }
        out
    }
}

impl std::fmt::Debug for KeyedFingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyedFingerprint")
    }
}
