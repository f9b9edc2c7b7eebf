//! The keys' side of the control plane: who may be a key, and the suites to use it with (docs/design/0003 items 1 to 3).
//!
//! The book of used keys is on disk before an association is made: a key that is given again after a crash would count from
//! one under the same nonces. If the book cannot be read or written, no key is taken.

mod file;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use crypto::{CryptoError, Registry, Secret};
use crypto_std::KeyedFingerprint;
use sadb::{Admission, KeyBook, SaConfig};

use documents::api_error::{ApiError, Blame};

/// The registry of suites and the book of used keys.
pub struct Keys {
    /// Makes keys ready for use.
    pub registry: Registry,
    book: KeyBook,
    fingerprint_key: Secret,
    on_disk: OnDisk,
}

/// The book's other copy.
enum OnDisk {
    /// There is none: keys that serve no traffic (a replay), tests.
    Nowhere,
    /// The other copy is in this file.
    At(PathBuf),
    /// It is lost, so nobody knows which keys were used.
    Lost { path: PathBuf, why: String },
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
    /// The book in `run_dir`. If nothing is there, no key was used yet, unless the instance had a daemon before (`known`).
    ///
    /// # Errors
    /// [`KeysError`]. A book that is lost is none: [`Keys::admit`] then refuses every key.
    pub fn open(registry: Registry, run_dir: &Path, known: bool) -> Result<Keys, KeysError> {
        let path = file::path(run_dir);
        let found = file::read(&path);
        match found {
            Ok(Some((key, used))) => Keys::with(registry, key, &used, OnDisk::At(path)),
            Ok(None) if !known => {
                let mut keys = Keys::with(registry, random_key()?, &[], OnDisk::At(path.clone()))?;
                if let Err(error) = keys.write() {
                    keys.lose(path, error.to_string());
                }
                Ok(keys)
            }
            Ok(None) => Keys::lost(registry, path, "it is gone".to_owned()),
            Err(error) => Keys::lost(registry, path, error.to_string()),
        }
    }

    /// The book in `run_dir`, and what the daemon that hands over says of it.
    ///
    /// # Errors
    /// As [`Keys::open`].
    pub fn take_over(
        registry: Registry,
        run_dir: &Path,
        fingerprint_key: Secret,
        used: &[[u8; 32]],
    ) -> Result<Keys, KeysError> {
        let path = file::path(run_dir);
        match file::read(&path) {
            Ok(Some((key, on_disk))) if key == fingerprint_key => {
                let both = [used, &on_disk].concat();
                Keys::with(registry, key, &both, OnDisk::At(path))
            }
            Ok(Some(_)) => Keys::lost(registry, path, "it is not the book of the running daemon".to_owned()),
            Ok(None) => Keys::lost(registry, path, "it is gone".to_owned()),
            Err(error) => Keys::lost(registry, path, error.to_string()),
        }
    }

    /// A book in memory only, with these keys: nothing that is protected with them may reach a wire.
    ///
    /// # Errors
    /// [`KeysError`].
    #[cfg(test)]
    pub fn import(registry: Registry, fingerprint_key: Secret, used: &[[u8; 32]]) -> Result<Keys, KeysError> {
        Keys::with(registry, fingerprint_key, used, OnDisk::Nowhere)
    }

    fn with(registry: Registry, key: Secret, used: &[[u8; 32]], on_disk: OnDisk) -> Result<Keys, KeysError> {
        let fingerprint = KeyedFingerprint::new(&key)?;
        Ok(Keys { registry, book: KeyBook::import(fingerprint, used), fingerprint_key: key, on_disk })
    }

    fn lost(registry: Registry, path: PathBuf, why: String) -> Result<Keys, KeysError> {
        let mut keys = Keys::with(registry, random_key()?, &[], OnDisk::Nowhere)?;
        keys.lose(path, why);
        Ok(keys)
    }

    fn lose(&mut self, path: PathBuf, why: String) {
        self.on_disk = OnDisk::Lost { path, why };
        if let Some(refused) = self.fault() {
            tracing::error!("{refused}; {}", refused.remedy.as_deref().unwrap_or_default());
        }
    }

    /// Why no key is taken, if that is so.
    pub fn fault(&self) -> Option<ApiError> {
        let OnDisk::Lost { path, why } = &self.on_disk else { return None };
        let text = format!(
            "the book of used keys, {}, is lost ({why}): whether a key was used before cannot be told, so none is taken",
            path.display()
        );
        let remedy =
            "stop the daemon, run `ravelin detach`, start it again, and give only keys that were never used";
        Some(ApiError::new(Blame::Failed, text).remedy(remedy))
    }

    fn write(&self) -> std::io::Result<()> {
        match &self.on_disk {
            OnDisk::At(path) => file::write(path, &self.fingerprint_key, &self.book.export()),
            OnDisk::Nowhere | OnDisk::Lost { .. } => Ok(()),
        }
    }

    /// What another daemon needs to refuse the same keys.
    pub fn export(&self) -> (Secret, Vec<[u8; 32]>) {
        (self.fingerprint_key.clone(), self.book.export())
    }

    /// Enter the key of an association that is about to be made. When this returns, the entry outlives a crash.
    ///
    /// # Errors
    /// If it was used before, or the book is lost or cannot be written.
    pub fn admit(&mut self, config: &SaConfig) -> Result<Admission, ApiError> {
        if let Some(refused) = self.fault() {
            return Err(refused);
        }
        let admission = self.book.admit(config)?;
        if let Err(error) = self.write() {
            self.book.withdraw(admission);
            let text =
                format!("the key was not taken, since the book of used keys cannot be written: {error}");
            let remedy =
                "make room in the instance's folder under /run/ravelin-state and add the association again";
            return Err(ApiError::new(Blame::Failed, text).remedy(remedy));
        }
        Ok(admission)
    }

    /// Strike it out again, since the association was never made.
    pub fn withdraw(&mut self, admission: Admission) {
        self.book.withdraw(admission);
        if let Err(error) = self.write() {
            tracing::warn!(%error, "a key that was not used stays in the book; after a restart it is refused");
        }
    }

    /// How many keys were used.
    pub fn used(&self) -> usize {
        self.book.len()
    }
}

fn random_key() -> Result<Secret, KeysError> {
    let mut octets = vec![0; KeyedFingerprint::KEY_LEN];
    netio::random::fill(&mut octets)?;
    Ok(Secret::new(octets))
}
