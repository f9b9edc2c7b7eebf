//! The ciphers of one's own that a configuration names, made ready for use: compiled in, or loaded from their libraries.
//!
//! What enters: the `[[cipher]]` tables. What leaves: providers for the registry of suites, and a reason for each cipher
//! that is not used. No cipher keeps a daemon from starting: what needs its suites is refused.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub use cipher_loader::trial::child_main as trial_main;
use cipher_loader::{Request, Trial, Trust, load};
use cipher_manifest::Digest;
use config::{CipherSource, CiphersConfig};
use crypto::custom::CustomCipher;
use crypto::{CryptoError, Integrity, Registry, SuiteId, Suites};
use crypto_maes::Maes512;
use crypto_std::CustomProvider;

/// The hidden command of this program that tries a library in a process apart: it calls [`trial_main`].
pub const TRIAL_COMMAND: &str = "cipher-trial";

/// Add what the configuration names to a registry. Libraries are tried in processes apart, which takes some ten
/// milliseconds each, and starts programs: this comes before a process forbids itself to do so.
#[must_use]
pub fn add(ciphers: &CiphersConfig, registry: Registry) -> Registry {
    let suites = ciphers.suites.clone();
    let mut registry = registry.with_suites(suites.clone());
    for refused in &ciphers.refused {
        let name = refused.manifest.display().to_string();
        let why = format!("{}; {}", refused.why, refused.remedy);
        registry.leave_out("", CryptoError::CipherLeftOut { name, why });
    }
    for table in &ciphers.tables {
        let (name, made) = match &table.source {
            CipherSource::BuiltIn { name } => (*name, built_in(name)),
            CipherSource::Library { manifest, sha256, name: Some(name) } => {
                (name.as_str(), library(manifest, *sha256))
            }
            CipherSource::Library { name: None, .. } => continue,
        };
        let provider =
            made.and_then(|cipher| CustomProvider::new(cipher, &suites).map_err(|error| error.to_string()));
        registry = match provider {
            Ok(provider) => registry.with(provider),
            Err(why) => {
                let known = name_in(&suites, name);
                registry.leave_out(known, CryptoError::CipherLeftOut { name: name.to_owned(), why });
                registry
            }
        };
    }
    registry
}

/// The name of a cipher as the catalogue has it.
fn name_in(suites: &Suites, name: &str) -> &'static str {
    suites.all_modes().map(|mode| mode.cipher()).find(|known| *known == name).unwrap_or_default()
}

fn built_in(name: &str) -> Result<Arc<dyn CustomCipher>, String> {
    match name {
        Maes512::NAME => Ok(Arc::new(Maes512::new())),
        other => Err(format!("{other} is not compiled in")),
    }
}

fn library(manifest: &Path, sha256: Digest) -> Result<Arc<dyn CustomCipher>, String> {
    let request = Request {
        manifest: manifest.to_owned(),
        sha256: Some(sha256),
        trust: Trust::Root,
        trial: Trial::own([TRIAL_COMMAND]),
    };
    let loaded = load(&request).map_err(|error| format!("{error}; {}", error.remedy()))?;
    Ok(loaded.cipher)
}

/// Ciphers of one's own by name, each with the fingerprint of what it computes in hexadecimal digits.
pub type Fingerprints = BTreeMap<String, String>;

/// The ciphers of one's own that a registry has.
pub fn fingerprints(registry: &Registry) -> Fingerprints {
    let of = registry.fingerprints();
    of.map(|(name, fingerprint)| (name.to_owned(), Digest(*fingerprint).to_string())).collect()
}

/// What key managers must agree on about a suite; `None` for a standard one.
pub fn agreement(suite: SuiteId, fingerprints: &Fingerprints) -> Option<api::CustomSuite> {
    let mode = suite.custom()?;
    let combined = suite.integrity() == Integrity::Combined;
    Some(api::CustomSuite {
        cipher: mode.cipher().to_owned(),
        transform_id: mode.transform_id(),
        key_bits: suite.cipher().key_len() * 8,
        integrity: (!combined).then(|| suite.integrity().name().to_owned()),
        keymat_octets: suite.keymat_len(),
        fingerprint: fingerprints.get(mode.cipher()).cloned(),
    })
}
