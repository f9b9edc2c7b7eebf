//! Which provider serves which suite: the configuration's wish, else the fastest of a start-up measurement.

use crypto::{CryptoError, Provider, Registry, SuiteId};
use crypto_mb::Wide;

use config::{Config, CryptoConfig};

use crate::ciphers::{self, StartWorker};

/// Every unit of the house that this machine can run, each of which knows its answers. The wide one is left out if it does not:
/// the others have all that it has.
///
/// # Errors
/// If one of the others computes a wrong answer.
pub fn all() -> Result<Registry, CryptoError> {
    Ok(with_wide(crypto_std::registry()?, Wide::detect()))
}

fn with_wide(registry: Registry, wide: Option<impl Provider + 'static>) -> Registry {
    match wide {
        Some(wide) => registry.with_optional(wide),
        None => registry,
    }
}

/// What `status` and `doctor` say of units and ciphers that are not used.
pub fn faults(registry: &Registry) -> impl Iterator<Item = api::Problem> {
    let units = registry.left_out().cloned().chain(registry.faults()).map(|error| api::Problem {
        code: "failed".to_owned(),
        message: error.to_string(),
        remedy: Some(error.remedy().unwrap_or(LEFT_OUT).to_owned()),
        ..api::Problem::default()
    });
    let down = registry.workers().filter(|(_, state)| !state.is_up).map(|(name, state)| api::Problem {
        code: "cipher_worker".to_owned(),
        message: format!("the worker of cipher {name}: {}", state.text),
        remedy: Some(
            "its packets are dropped (unit_failed) until it is back; if it does not come back, look at the log, and check the \
             cipher (`ravelin cipher check`)"
                .to_owned(),
        ),
        ..api::Problem::default()
    });
    units.chain(down)
}

const LEFT_OUT: &str = "the other units serve its suites, which is slower; this machine computed a wrong answer: test its memory and \
                        processor, and tell us if they are sound";

/// The registry that a configuration asks for. Measures for a few milliseconds.
///
/// # Errors
/// If a provider computes a wrong answer, or the configuration names one that is not there or lacks the suite.
pub fn registry(config: &Config, start: StartWorker<'_>) -> Result<Registry, CryptoError> {
    let mut registry = untimed(&config.crypto, start)?;
    for error in registry.left_out() {
        tracing::warn!("{error}; {}", error.remedy().unwrap_or(LEFT_OUT));
    }
    registry.choose(&mut || netio::clock::monotonic().0);
    Ok(registry)
}

/// The same without the measurement, so always alike: for replay.
///
/// # Errors
/// As [`registry`].
pub fn untimed(config: &CryptoConfig, start: StartWorker<'_>) -> Result<Registry, CryptoError> {
    let mut registry = ciphers::add(&config.ciphers, all()?, start);
    if config.legacy {
        registry.allow_legacy(true)?;
    }
    if let Some(unit) = &config.unit {
        registry.prefer(None, unit)?;
    }
    for (suite, unit) in &config.units {
        match registry.prefer(Some(*suite), unit) {
            // It is told of already, and no cipher of one's own keeps a daemon from starting.
            Err(CryptoError::CipherLeftOut { .. }) => {}
            preferred => preferred?,
        }
    }
    Ok(registry)
}

/// Who serves each suite, for `status`.
pub fn report(registry: &Registry, legacy: bool) -> Vec<api::CryptoUnit> {
    let shown = |suite: SuiteId| legacy || !suite.is_legacy();
    let fingerprints = ciphers::fingerprints(registry);
    registry
        .units()
        .filter(|unit| shown(unit.suite))
        .map(|unit| api::CryptoUnit {
            suite: unit.suite.to_string(),
            unit: unit.provider.to_owned(),
            why: match unit.why {
                crypto::ChoiceReason::Only => "only",
                crypto::ChoiceReason::First => "first",
                crypto::ChoiceReason::Fastest => "fastest",
                crypto::ChoiceReason::Preferred => "preferred",
            }
            .to_owned(),
            custom: ciphers::agreement(unit.suite, &fingerprints),
            measured: unit
                .measured
                .iter()
                .map(|m| api::CryptoMeasured {
                    unit: m.provider.to_owned(),
                    short_ns: m.short_ns,
                    long_ns: m.full_ns,
                })
                .collect(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crypto::{Secret, Transform};

    /// Offers everything and makes no key.
    struct BrokenUnit;

    impl Provider for BrokenUnit {
        fn name(&self) -> &'static str {
            "wide"
        }
        fn offers(&self, _: SuiteId) -> bool {
            true
        }
        fn transform(&self, suite: SuiteId, _: &Secret, _: bool) -> Result<Box<dyn Transform>, CryptoError> {
            Err(CryptoError::NoProvider(suite))
        }
    }

    #[test]
    fn a_wide_unit_that_fails_is_told_of_and_left_out() {
        let registry = with_wide(crypto_std::registry().unwrap(), Some(BrokenUnit));
        let faults: Vec<_> = faults(&registry).collect();
        assert_eq!(faults.len(), 1);
        assert!(
            faults[0].message.starts_with("provider wide failed its known-answer test for "),
            "{faults:?}"
        );
        assert!(report(&registry, true).iter().all(|unit| unit.unit != "wide"));
        assert_eq!(report(&registry, true).len(), report(&crypto_std::registry().unwrap(), true).len());
    }
}
