//! The transform table switch: which provider serves which suite.

use crate::{Aead, CryptoError, Secret, SuiteId, known_answer};

/// Somebody who implements suites.
pub trait Provider: Send + Sync {
    /// Its name in `status`.
    fn name(&self) -> &'static str;

    /// The suites it has.
    fn suites(&self) -> &[SuiteId];

    /// A key for use. `key` is the cipher key alone, without salt.
    ///
    /// # Errors
    /// [`CryptoError::KeyLength`] if the key does not fit, [`CryptoError::NoProvider`] for a suite it has not.
    fn aead(&self, suite: SuiteId, key: &Secret) -> Result<Box<dyn Aead>, CryptoError>;
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
        self.providers.iter().find(|p| p.suites().contains(&suite)).map(AsRef::as_ref)
    }

    /// A key for use, from the first provider that has the suite.
    ///
    /// # Errors
    /// As [`Provider::aead`].
    pub fn aead(&self, suite: SuiteId, key: &Secret) -> Result<Box<dyn Aead>, CryptoError> {
        self.provider(suite).ok_or(CryptoError::NoProvider(suite))?.aead(suite, key)
    }
}
