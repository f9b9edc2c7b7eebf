//! The crypto providers that come with the house: [`Ring`] for the three suites that it is fast at, [`RustCrypto`] for all.
//!
//! What enters: a [`crypto::Secret`] and the name of a suite. What leaves: a key ready for use, in place and without an
//! allocation per packet. [`registry`] is the one that the daemon uses: it exists only if every known answer is right.
//! Standards and the oracle of each suite: docs/design/0006-transforms.md.
#![forbid(unsafe_code)]

mod custom;
mod fingerprint;
#[cfg(test)]
mod published;
mod ring;
mod rustcrypto;
#[cfg(test)]
mod under_test;

pub use self::ring::Ring;
pub use self::rustcrypto::RustCrypto;
pub use custom::{Behaviour, CustomError, CustomProvider};
pub use fingerprint::KeyedFingerprint;

use crypto::{CryptoError, Registry};

/// The registry of a daemon: [`Ring`], then [`RustCrypto`], after their known-answer tests. Legacy suites are refused until
/// [`Registry::allow_legacy`].
///
/// # Errors
/// [`CryptoError::SelfTest`] or [`CryptoError::AuthenticatorSelfTest`] if this machine computes a wrong answer; nothing must then be encrypted on it.
pub fn registry() -> Result<Registry, CryptoError> {
    Registry::new().with_tested(Ring)?.with_tested(RustCrypto)
}
