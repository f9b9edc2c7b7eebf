//! The default crypto provider: the suites of RFC 8221 that need no key beside the cipher's, by `ring`.
//!
//! What enters: a [`crypto::Secret`] and the name of a suite. What leaves: a key ready for use, in place and without an
//! allocation per packet. [`registry`] is the one that the daemon uses: it exists only if every known answer is right.
//! Standards: RFC 4106 (AES-GCM in ESP), RFC 7634 (ChaCha20-Poly1305 in ESP), RFC 2104 (HMAC).
#![forbid(unsafe_code)]

mod fingerprint;
mod ring;

pub use self::ring::Ring;
pub use fingerprint::KeyedFingerprint;

use crypto::{CryptoError, Registry};

/// The registry of a daemon: [`Ring`], after its known-answer test.
///
/// # Errors
/// [`CryptoError::SelfTest`] if this machine computes a wrong answer; nothing must then be encrypted on it.
pub fn registry() -> Result<Registry, CryptoError> {
    Registry::new().with_tested(Ring)
}
