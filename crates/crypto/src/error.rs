//! The errors of keys and suites.

use crate::custom::SetKeyError;
use crate::{Integrity, SuiteId};

/// The reason why a key or a suite cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CryptoError {
    /// The keying material has the wrong length for its suite.
    #[error("keying material for {suite} is {want} octets, this is {got}")]
    KeyLength {
        /// The suite that the keying material is for.
        suite: SuiteId,
        /// Octets that the suite needs.
        want: usize,
        /// Octets that were given.
        got: usize,
    },
    /// No registered provider has the suite.
    #[error("no crypto provider offers {0}")]
    NoProvider(SuiteId),
    /// The key has the wrong length for its integrity algorithm.
    #[error("keying material for {} is {want} octets, this is {got}", integrity.name())]
    AuthenticatorKeyLength {
        /// The integrity algorithm that the key is for.
        integrity: Integrity,
        /// Octets that the algorithm needs.
        want: usize,
        /// Octets that were given.
        got: usize,
    },
    /// No registered provider has the integrity algorithm.
    #[error("no crypto provider offers {} for AH", .0.name())]
    NoAuthenticator(Integrity),
    /// A cipher of one's own did not take the key.
    #[error("{suite}: {why}")]
    CustomKey {
        /// The suite that the keying material is for.
        suite: SuiteId,
        /// The reason of the cipher.
        why: SetKeyError,
    },
    /// A cipher of one's own could not be loaded and is not used.
    #[error("the cipher {name} is not used: {why}")]
    CipherLeftOut {
        /// The name of the cipher, or the path of its manifest where that could not be read.
        name: String,
        /// The reason, with a remedy.
        why: String,
    },
    /// A cipher of one's own does not answer any more as it did, and is not used.
    #[error("the cipher {name} gives other answers than at the start; it is not used any more")]
    CipherChanged {
        /// The name of the cipher.
        name: &'static str,
    },
    /// A provider failed its known-answer test and is not used.
    #[error("provider {provider} failed its known-answer test for {suite}; it is not used")]
    SelfTest {
        /// The name of the provider that failed.
        provider: &'static str,
        /// The first suite that failed, or that has no known answer.
        suite: SuiteId,
    },
    /// A provider failed its known-answer test of an integrity algorithm for AH and is not used.
    #[error("provider {provider} failed its known-answer test for {} in AH; it is not used", integrity.name())]
    AuthenticatorSelfTest {
        /// The name of the provider that failed.
        provider: &'static str,
        /// The first integrity algorithm that failed, or that has no known answer.
        integrity: Integrity,
    },
    /// The suite is obsolete, and the registry was not told to allow obsolete suites.
    #[error(
        "{suite} is refused: {status} (RFC 8221)",
        status = suite.legacy_status().unwrap_or("obsolete")
    )]
    Legacy {
        /// The obsolete suite that was asked for.
        suite: SuiteId,
    },
    /// The integrity algorithm is obsolete, and the registry was not told to allow obsolete algorithms.
    #[error(
        "{} is refused for AH: {status} (RFC 8221)",
        integrity.name(),
        status = integrity.legacy_status().unwrap_or("obsolete")
    )]
    LegacyAuthenticator {
        /// The obsolete integrity algorithm that was asked for.
        integrity: Integrity,
    },
    /// No registered provider has the name that was asked for.
    #[error("no crypto provider is called {name:?}; registered: {known}")]
    UnknownProvider {
        /// The name that was asked for.
        name: String,
        /// The names of the registered providers, with commas.
        known: String,
    },
    /// The provider that was asked for does not offer the suite.
    #[error("crypto provider {name} does not offer {suite}; those that do: {offered}")]
    NotOffered {
        /// The name of the provider that was asked for.
        name: String,
        /// The suite that the provider does not have.
        suite: SuiteId,
        /// The names of the providers that offer the suite, with commas.
        offered: String,
    },
    /// The key of a fingerprint has the wrong length.
    #[error("a fingerprint is keyed with {want} octets, this is {got}")]
    FingerprintKeyLength {
        /// Octets that a fingerprint's key has.
        want: usize,
        /// Octets that were given.
        got: usize,
    },
}

impl CryptoError {
    /// What to do next, as the end of a sentence. `None` where the text of the fault says all.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            CryptoError::Legacy { .. } => Some(
                "use aes128gcm or aes128cbc-sha256 instead, or set `legacy = true` in the configuration to repeat old \
                 measurements with it",
            ),
            CryptoError::LegacyAuthenticator { .. } => Some(
                "use sha256 instead, or set `legacy = true` in the configuration to repeat old measurements with it",
            ),
            CryptoError::NoProvider(suite) if suite.custom().is_some() => {
                Some("`ravelin status` and `ravelin doctor` say why the cipher is not used")
            }
            CryptoError::CipherLeftOut { .. } => Some(
                "what needs its suites is refused until then; `ravelin cipher check` looks at a cipher and names what is wrong",
            ),
            CryptoError::CipherChanged { .. } => Some(
                "its packets are dropped (unit_failed); test this machine's memory and processor, and check the cipher \
                 (`ravelin cipher check`); a new start uses it again",
            ),
            _ => None,
        }
    }
}
