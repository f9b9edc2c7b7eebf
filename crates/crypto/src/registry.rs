//! The transform table switch: which provider serves which suite.

use crate::{Authenticator, CryptoError, Integrity, Secret, SuiteId, Transform, known_answer};

/// Somebody who implements suites: a unit.
pub trait Provider: Send + Sync {
    /// Its name in `status`.
    fn name(&self) -> &'static str;

    /// Whether it has this suite.
    fn offers(&self, suite: SuiteId) -> bool;

    /// A key for packets. `keymat` has [`SuiteId::keymat_len`] octets; `extended`: the upper half of the sequence
    /// number is authenticated (RFC 4303 section 2.2.1).
    ///
    /// # Errors
    /// [`CryptoError::KeyLength`] if the keying material does not fit, [`CryptoError::NoProvider`] for a suite it has not.
    fn transform(
        &self,
        suite: SuiteId,
        keymat: &Secret,
        extended: bool,
    ) -> Result<Box<dyn Transform>, CryptoError>;

    /// A key for integrity alone; `keymat` has [`Integrity::keymat_len`] octets.
    ///
    /// # Errors
    /// [`CryptoError::AuthenticatorKeyLength`], [`CryptoError::NoAuthenticator`].
    fn authenticator(
        &self,
        integrity: Integrity,
        keymat: &Secret,
    ) -> Result<Box<dyn Authenticator>, CryptoError> {
        let _ = keymat;
        Err(CryptoError::NoAuthenticator(integrity))
    }
}

/// The providers, in order of preference.
#[derive(Default)]
pub struct Registry {
    providers: Vec<Box<dyn Provider>>,
}

impl Registry {
    /// A registry without providers.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Add a provider behind those already there, if it passes its known-answer test.
    ///
    /// # Errors
    /// [`CryptoError::SelfTest`]: the provider is not used, and neither is this registry.
    pub fn with_tested(self, provider: impl Provider + 'static) -> Result<Registry, CryptoError> {
        known_answer::check(&provider)?;
        Ok(self.with(provider))
    }

    /// Add a provider behind those already there, untested. Products use [`Registry::with_tested`].
    #[must_use]
    pub fn with(mut self, provider: impl Provider + 'static) -> Registry {
        self.providers.push(Box::new(provider));
        self
    }

    /// The provider that serves `suite`.
    pub fn provider(&self, suite: SuiteId) -> Option<&dyn Provider> {
        self.providers.iter().find(|p| p.offers(suite)).map(AsRef::as_ref)
    }

    /// A key for packets, from the provider that serves the suite.
    ///
    /// # Errors
    /// As [`Provider::transform`].
    pub fn transform(
        &self,
        suite: SuiteId,
        keymat: &Secret,
        extended: bool,
    ) -> Result<Box<dyn Transform>, CryptoError> {
        self.provider(suite).ok_or(CryptoError::NoProvider(suite))?.transform(suite, keymat, extended)
    }

    /// A key for integrity alone, from the first provider that has the algorithm.
    ///
    /// # Errors
    /// As [`Provider::authenticator`].
    pub fn authenticator(
        &self,
        integrity: Integrity,
        keymat: &Secret,
    ) -> Result<Box<dyn Authenticator>, CryptoError> {
        for provider in &self.providers {
            match provider.authenticator(integrity, keymat) {
                Err(CryptoError::NoAuthenticator(_)) => {}
                found => return found,
            }
        }
        Err(CryptoError::NoAuthenticator(integrity))
    }
}
