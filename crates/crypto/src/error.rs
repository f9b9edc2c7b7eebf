//! What can go wrong with keys and suites.

use crate::{Integrity, SuiteId};

/// Why a key or a suite cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CryptoError {
    /// The keying material has the wrong length for its suite.
    #[error("keying material for {suite} is {want} octets, this is {got}")]
    KeyLength {
        /// The suite.
        suite: SuiteId,
        /// Octets it needs.
        want: usize,
        /// Octets it got.
        got: usize,
    },
    /// No registered provider has the suite.
    #[error("no crypto provider offers {0}")]
    NoProvider(SuiteId),
    /// The key has the wrong length for its integrity algorithm.
    #[error("keying material for {} is {want} octets, this is {got}", integrity.name())]
    AuthenticatorKeyLength {
        /// The algorithm.
        integrity: Integrity,
        /// Octets it needs.
        want: usize,
        /// Octets it got.
        got: usize,
    },
    /// No registered provider has the integrity algorithm.
    #[error("no crypto provider offers {} for AH", .0.name())]
    NoAuthenticator(Integrity),
    /// A provider failed its known-answer test and is not used.
    #[error("provider {provider} failed its known-answer test for {suite}; it is not used")]
    SelfTest {
        /// The provider.
        provider: &'static str,
        /// The suite.
        suite: SuiteId,
    },
    /// The key of a fingerprint has the wrong length.
    #[error("a fingerprint is keyed with {want} octets, this is {got}")]
    FingerprintKeyLength {
        /// Octets it needs.
        want: usize,
        /// Octets it got.
        got: usize,
    },
}
