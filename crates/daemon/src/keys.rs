//! The keys' side of the control plane: who may be a key, and the suites to use it with (docs/design/0003 items 1 to 3).

use crypto::{CryptoError, Registry, Secret};
use crypto_std::KeyedFingerprint;
use sadb::{Admission, KeyBook, SaConfig, SadError};

/// The registry of suites and the book of used keys.
pub struct Keys {
    /// Makes keys ready for use.
    pub registry: Registry,
    book: KeyBook,
    fingerprint_key: Secret,
}

/// Why there can be no keys at all.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// This machine computes wrong answers.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    /// The kernel gives no random octets.
    #[error("the kernel gives no random octets: {0}")]
    Random(#[from] std::io::Error),
}

impl Keys {
    /// No key was used yet; the suites are those of `registry`.
    ///
    /// # Errors
    /// [`KeysError`].
    pub fn new(registry: Registry) -> Result<Keys, KeysError> {
        let mut octets = vec![0; KeyedFingerprint::KEY_LEN];
        netio::random::fill(&mut octets)?;
        Keys::import(registry, Secret::new(octets), &[])
    }

    /// With the keys that another daemon used.
    ///
    /// # Errors
    /// [`KeysError`].
    pub fn import(registry: Registry, fingerprint_key: Secret, used: &[[u8; 32]]) -> Result<Keys, KeysError> {
        let fingerprint = KeyedFingerprint::new(&fingerprint_key)?;
        Ok(Keys { registry, book: KeyBook::import(fingerprint, used), fingerprint_key })
    }

    /// What another daemon needs to refuse the same keys.
    pub fn export(&self) -> (Secret, Vec<[u8; 32]>) {
        (self.fingerprint_key.clone(), self.book.export())
    }

    /// Enter the key of an association that is about to be made.
    ///
    /// # Errors
    /// If it was used before.
    pub fn admit(&mut self, config: &SaConfig) -> Result<Admission, SadError> {
        self.book.admit(config)
    }

    /// Strike it out again, since the association was never made.
    pub fn withdraw(&mut self, admission: Admission) {
        self.book.withdraw(admission);
    }

    /// How many keys were used.
    pub fn used(&self) -> usize {
        self.book.len()
    }
}
