//! The book of every key that was ever used (docs/design/0003 item 3).
//!
//! Two associations under one key would count from one under the same nonces, also when one of them is long deleted.
//! The book holds keyed fingerprints, not keys: who reads it can neither recover a key nor test a guess.

use std::collections::BTreeSet;
use std::fmt;

use crypto::Fingerprint;

use crate::{SaConfig, SadError};

/// The keys used since the start, as fingerprints.
pub struct KeyBook {
    fingerprint: Box<dyn Fingerprint>,
    seen: BTreeSet<[u8; 32]>,
}

/// The entry that [`KeyBook::admit`] made.
#[derive(Debug)]
#[must_use = "keep it until the association is in its database, to withdraw it if it never gets there"]
pub struct Admission(Option<[u8; 32]>);

impl KeyBook {
    /// The most keys that are remembered; beyond it every key is refused.
    pub const CAPACITY: usize = 1 << 20;

    /// An empty book that uses this fingerprint.
    pub fn new(fingerprint: impl Fingerprint + 'static) -> KeyBook {
        KeyBook { fingerprint: Box::new(fingerprint), seen: BTreeSet::new() }
    }

    /// A book with the entries of another daemon's book; `fingerprint` must have the same key as there.
    pub fn import(fingerprint: impl Fingerprint + 'static, entries: &[[u8; 32]]) -> KeyBook {
        KeyBook { fingerprint: Box::new(fingerprint), seen: entries.iter().copied().collect() }
    }

    /// Every entry, in order.
    pub fn export(&self) -> Vec<[u8; 32]> {
        self.seen.iter().copied().collect()
    }

    /// Enter the key of an association that is about to be made. Only the cipher key counts, or the integrity key where
    /// there is no cipher. The same key with another salt, suite or direction is refused as well. An association
    /// without a key enters nothing.
    ///
    /// # Errors
    /// [`SadError::KeyReused`], [`SadError::KeyBookFull`], [`SadError::KeymatLength`].
    pub fn admit(&mut self, config: &SaConfig) -> Result<Admission, SadError> {
        let (want, got) = (config.keymat_len(), config.keymat.len());
        let wrong = SadError::KeymatLength { suite: config.suite, want, got };
        if got != want {
            return Err(wrong);
        }
        if !config.options.protocol.is_keyed() {
            return Ok(Admission(None));
        }
        let cipher = config.suite.cipher().key_len();
        let key_len = if cipher > 0 { cipher } else { config.suite.integrity().key_len() };
        let key = config.keymat.expose().get(..key_len).ok_or(wrong)?;
        let entry = self.fingerprint.of(key);
        if self.seen.contains(&entry) {
            return Err(SadError::KeyReused);
        }
        if self.seen.len() >= Self::CAPACITY {
            return Err(SadError::KeyBookFull(Self::CAPACITY));
        }
        self.seen.insert(entry);
        Ok(Admission(Some(entry)))
    }

    /// Strike an entry out again. This is only for an association that never was in a database and so never used its
    /// key.
    pub fn withdraw(&mut self, admission: Admission) {
        if let Some(entry) = admission.0 {
            self.seen.remove(&entry);
        }
    }

    /// The number of keys in the book.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Whether the book is empty.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }
}

impl fmt::Debug for KeyBook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyBook({} keys)", self.seen.len())
    }
}
