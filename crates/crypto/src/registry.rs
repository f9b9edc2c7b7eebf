//! The transform table switch: which provider serves which suite.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::benchmark::{self, Measurement};
use crate::provider::{Provider, WorkerState};
use crate::{Authenticator, CryptoError, Integrity, Secret, SuiteId, Suites, Transform, known_answer};

/// The providers, in order of preference, and who serves what.
#[derive(Default)]
pub struct Registry {
    /// The suites that there are, with those of ciphers of one's own.
    suites: Suites,
    providers: Vec<Arc<dyn Provider>>,
    /// Names of the providers whose answers are known.
    tested: Vec<&'static str>,
    /// Providers that failed and could be done without, each with what it failed.
    left_out: Vec<(&'static str, CryptoError)>,
    legacy: bool,
    /// Names asked for; `None` for every suite.
    preferred: BTreeMap<Option<SuiteId>, &'static str>,
    measured: BTreeMap<SuiteId, Vec<Measurement>>,
    /// The known answers that were put to ciphers of one's own since the start.
    checked: usize,
}

/// The reason why this provider serves a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChoiceReason {
    /// No other provider offers the suite.
    Only,
    /// The provider comes first among those that offer the suite; nothing was measured.
    First,
    /// The provider was the fastest in [`Registry::choose`].
    Fastest,
    /// The provider was asked for by [`Registry::prefer`].
    Preferred,
}

/// The provider that serves a suite, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit<'a> {
    /// The suite that is served.
    pub suite: SuiteId,
    /// The name of the provider that serves the suite.
    pub provider: &'static str,
    /// The reason why this provider serves the suite.
    pub why: ChoiceReason,
    /// The measurements of [`Registry::choose`]; empty if it was not called.
    pub measured: &'a [Measurement],
}

impl Registry {
    /// A registry without providers.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// The catalogue of suites, whether or not a provider serves them.
    pub fn suites(&self) -> &Suites {
        &self.suites
    }

    /// Take this catalogue, which has ciphers of one's own. Their providers are added beside it; a suite that nobody
    /// serves is refused where a key is made.
    #[must_use]
    pub fn with_suites(mut self, suites: Suites) -> Registry {
        self.suites = suites;
        self
    }

    /// Add a provider behind those already there, if it passes its known-answer test. The part of the test that is about
    /// legacy suites waits for [`Registry::allow_legacy`].
    ///
    /// # Errors
    /// [`CryptoError::SelfTest`], [`CryptoError::AuthenticatorSelfTest`]: the provider is not used, and neither is this
    /// registry.
    pub fn with_tested(self, provider: impl Provider + 'static) -> Result<Registry, CryptoError> {
        self.test(&provider)?;
        let name = provider.name();
        let mut registry = self.with(provider);
        registry.tested.push(name);
        Ok(registry)
    }

    fn test(&self, provider: &dyn Provider) -> Result<(), CryptoError> {
        known_answer::check_part(provider, false)?;
        if self.legacy { known_answer::check_part(provider, true) } else { Ok(()) }
    }

    /// Add a provider that can be done without, tested like that of [`Registry::with_tested`]. If it fails, the others
    /// go on, [`Registry::left_out`] says so, and [`Registry::prefer`] refuses it by this reason.
    #[must_use]
    pub fn with_optional(mut self, provider: impl Provider + 'static) -> Registry {
        let name = provider.name();
        if let Err(error) = self.test(&provider) {
            self.left_out.push((name, error));
            return self;
        }
        self.tested.push(name);
        self.with(provider)
    }

    /// Note that the cipher of one's own of this name is not used. [`Registry::left_out`] has the reason.
    pub fn leave_out(&mut self, name: &'static str, why: CryptoError) {
        self.left_out.push((name, why));
    }

    /// The errors of optional providers that are not used, because each failed a known-answer test or could not be loaded.
    pub fn left_out(&self) -> impl Iterator<Item = &CryptoError> {
        self.left_out.iter().map(|(_, error)| error)
    }

    /// Add a provider behind those already there, untested. Products use [`Registry::with_tested`].
    #[must_use]
    pub fn with(mut self, provider: impl Provider + 'static) -> Registry {
        self.providers.push(Arc::new(provider));
        self
    }

    /// Whether keys of legacy suites ([`SuiteId::is_legacy`]) are made. Without this call they are not. The providers that
    /// came through [`Registry::with_tested`] are put through the known answers of these suites first.
    ///
    /// # Errors
    /// As [`Registry::with_tested`]; legacy suites stay refused.
    pub fn allow_legacy(&mut self, allow: bool) -> Result<(), CryptoError> {
        self.legacy = false;
        let tested = self.providers.iter().filter(|p| self.tested.contains(&p.name()));
        for provider in tested.filter(|_| allow) {
            known_answer::check_part(provider.as_ref(), true)?;
        }
        self.legacy = allow;
        Ok(())
    }

    /// Measure every suite that several providers offer, so that the fastest serves it: a few milliseconds in all. `clock`
    /// gives nanoseconds from any start and must not go back. What [`Registry::prefer`] said stays in force.
    pub fn choose(&mut self, clock: &mut dyn FnMut() -> u64) {
        for suite in self.suites.all().collect::<Vec<_>>() {
            let offers: Vec<_> = self.offers(suite).collect();
            if offers.len() > 1 {
                let measured = benchmark::run(&offers, suite, clock);
                self.measured.insert(suite, measured);
            }
        }
    }

    /// Measure the provider that serves a suite; `None` if none does, or if it fails. It takes the time of some hundred
    /// packets. `clock` is that of [`Registry::choose`].
    pub fn measure(&self, suite: SuiteId, clock: &mut dyn FnMut() -> u64) -> Option<benchmark::Measurement> {
        if suite.is_legacy() && !self.legacy {
            return None;
        }
        let (provider, _) = self.serves(suite)?;
        benchmark::run(&[provider], suite, clock).pop()
    }

    /// Have the provider of this name serve `suite`, or with `None` every suite and AH algorithm that it offers. A later call for the
    /// same takes the place of an earlier one; one for a suite goes before one for all.
    ///
    /// # Errors
    /// [`CryptoError::UnknownProvider`], [`CryptoError::NotOffered`], or why it was [left out](Registry::left_out): nothing has
    /// changed.
    pub fn prefer(&mut self, suite: Option<SuiteId>, name: &str) -> Result<(), CryptoError> {
        if let Some((_, error)) = self.left_out.iter().find(|(left_out, _)| *left_out == name) {
            return Err(error.clone());
        }
        let Some(provider) = self.providers.iter().find(|p| p.name() == name) else {
            let known = names(self.providers.iter().map(AsRef::as_ref));
            return Err(CryptoError::UnknownProvider { name: name.to_owned(), known });
        };
        if let Some(suite) = suite
            && !provider.offers(suite)
        {
            let offered = names(self.offers(suite));
            return Err(CryptoError::NotOffered { name: name.to_owned(), suite, offered });
        }
        self.preferred.insert(suite, provider.name());
        Ok(())
    }

    /// The provider of each suite that any offers, for `status`. Legacy suites are among them.
    pub fn units(&self) -> impl Iterator<Item = Unit<'_>> {
        self.suites.all().filter_map(|suite| {
            let (provider, why) = self.serves(suite)?;
            let measured = self.measured.get(&suite).map_or(&[][..], Vec::as_slice);
            Some(Unit { suite, provider: provider.name(), why, measured })
        })
    }

    /// The provider that serves `suite`.
    pub fn provider(&self, suite: SuiteId) -> Option<&dyn Provider> {
        self.serves(suite).map(|(provider, _)| provider)
    }

    /// The ciphers of one's own that can be used, each with the fingerprint of what it computes.
    pub fn fingerprints(&self) -> impl Iterator<Item = (&'static str, &[u8; 32])> {
        self.providers.iter().filter_map(|provider| Some((provider.name(), provider.fingerprint()?)))
    }

    /// The states of the processes that ciphers of one's own run in, by name.
    pub fn workers(&self) -> impl Iterator<Item = (&'static str, WorkerState)> {
        self.providers.iter().filter_map(|provider| Some((provider.name(), provider.worker()?)))
    }

    /// The fingerprint of the cipher of one's own that a suite is made of.
    pub fn fingerprint(&self, suite: SuiteId) -> Option<&[u8; 32]> {
        suite.custom()?;
        self.provider(suite)?.fingerprint()
    }

    /// The next cipher of one's own that is in use, in turns, to have known answers put to it
    /// ([`Provider::check_again`]), which may take long; `None` if there is none.
    pub fn next_to_check(&mut self) -> Option<Arc<dyn Provider>> {
        let is_used =
            |provider: &&Arc<dyn Provider>| provider.fingerprint().is_some() && provider.fault().is_none();
        let own: Vec<_> = self.providers.iter().filter(is_used).collect();
        let provider = Arc::clone(own.get(self.checked % own.len().max(1))?);
        self.checked = self.checked.wrapping_add(1);
        Some(provider)
    }

    /// Ciphers of one's own by name, each with the number of keys that it can have at once, where that is bounded.
    pub fn key_rooms(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.providers.iter().filter_map(|provider| Some((provider.name(), provider.key_room()?)))
    }

    /// The start is over ([`Provider::settle`]).
    pub fn settle(&self) {
        self.providers.iter().for_each(|provider| provider.settle());
    }

    /// The reasons why providers are not used any more.
    pub fn faults(&self) -> impl Iterator<Item = CryptoError> {
        self.providers.iter().filter_map(|provider| provider.fault())
    }

    fn offers(&self, suite: SuiteId) -> impl Iterator<Item = &dyn Provider> {
        self.providers.iter().map(AsRef::as_ref).filter(move |p| p.offers(suite))
    }

    fn serves(&self, suite: SuiteId) -> Option<(&dyn Provider, ChoiceReason)> {
        let called = |name: &str| self.offers(suite).find(|p| p.name() == name);
        for wish in [Some(suite), None] {
            if let Some(provider) = self.preferred.get(&wish).and_then(|name| called(name)) {
                return Some((provider, ChoiceReason::Preferred));
            }
        }
        let fastest = self.measured.get(&suite).and_then(|all| benchmark::fastest(all));
        if let Some(provider) = fastest.and_then(called) {
            return Some((provider, ChoiceReason::Fastest));
        }
        let mut offers = self.offers(suite);
        let first = offers.next()?;
        Some((first, if offers.next().is_some() { ChoiceReason::First } else { ChoiceReason::Only }))
    }

    /// A key for packets, from the provider that serves the suite.
    ///
    /// # Errors
    /// As [`Provider::transform`]; [`CryptoError::Legacy`] for a suite that [`Registry::allow_legacy`] did not allow.
    pub fn transform(
        &self,
        suite: SuiteId,
        keymat: &Secret,
        extended: bool,
    ) -> Result<Box<dyn Transform>, CryptoError> {
        if suite.is_legacy() && !self.legacy {
            return Err(CryptoError::Legacy { suite });
        }
        let provider = self.provider(suite).ok_or(CryptoError::NoProvider(suite))?;
        then_wiped(|| provider.transform(suite, keymat, extended))
    }

    /// A key for integrity alone, from the first provider that has the algorithm, or from the one preferred for all.
    ///
    /// # Errors
    /// As [`Provider::authenticator`]; [`CryptoError::LegacyAuthenticator`] for an algorithm that
    /// [`Registry::allow_legacy`] did not allow.
    pub fn authenticator(
        &self,
        integrity: Integrity,
        keymat: &Secret,
    ) -> Result<Box<dyn Authenticator>, CryptoError> {
        if integrity.legacy_status().is_some() && !self.legacy {
            return Err(CryptoError::LegacyAuthenticator { integrity });
        }
        let preferred = self.preferred.get(&None);
        let first = self.providers.iter().filter(|p| Some(&p.name()) == preferred);
        let rest = self.providers.iter().filter(|p| Some(&p.name()) != preferred);
        for provider in first.chain(rest) {
            match then_wiped(|| provider.authenticator(integrity, keymat)) {
                Err(CryptoError::NoAuthenticator(_)) => {}
                found => return found,
            }
        }
        Err(CryptoError::NoAuthenticator(integrity))
    }
}

/// Octets of the stack that are wiped after a key was made: more than any unit uses.
const KEY_SETUP_STACK: usize = 32 << 10;

/// Make a key, then overwrite what its making left on the stack: for every unit, and below all of its frames, which a unit cannot do
/// itself.
fn then_wiped<T>(make: impl FnOnce() -> T) -> T {
    #[inline(never)]
    fn in_its_own_frame<T>(make: impl FnOnce() -> T) -> T {
        make()
    }
    let made = in_its_own_frame(make);
    zeroize::zeroize_stack::<KEY_SETUP_STACK>();
    made
}

fn names<'a>(providers: impl Iterator<Item = &'a dyn Provider>) -> String {
    let names: Vec<_> = providers.map(Provider::name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
