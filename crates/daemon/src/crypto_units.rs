//! Which provider serves which suite: the configuration's wish, else the fastest of a start-up measurement.

use crypto::{CryptoError, Registry, SuiteId};
use crypto_mb::Wide;

use crate::config::{Config, CryptoConfig};

/// Every unit of the house that this machine can run, each of which knows its answers.
///
/// # Errors
/// If one computes a wrong answer.
pub fn all() -> Result<Registry, CryptoError> {
    let registry = crypto_std::registry()?;
    match Wide::detect() {
        Some(wide) => registry.with_tested(wide),
        None => Ok(registry),
    }
}

/// The registry that a configuration asks for. Measures for a few milliseconds.
///
/// # Errors
/// If a provider computes a wrong answer, or the configuration names one that is not there or lacks the suite.
pub fn registry(config: &Config) -> Result<Registry, CryptoError> {
    let mut registry = untimed(&config.crypto)?;
    registry.choose(&mut || netio::clock::monotonic().0);
    Ok(registry)
}

/// The same without the measurement, so always alike: for replay.
///
/// # Errors
/// As [`registry`].
pub fn untimed(config: &CryptoConfig) -> Result<Registry, CryptoError> {
    let mut registry = all()?;
    if config.legacy {
        registry.allow_legacy(true)?;
    }
    if let Some(unit) = &config.unit {
        registry.prefer(None, unit)?;
    }
    for (suite, unit) in &config.units {
        registry.prefer(Some(*suite), unit)?;
    }
    Ok(registry)
}

/// Who serves each suite, for `status`.
pub fn report(registry: &Registry, legacy: bool) -> Vec<api::CryptoUnit> {
    let shown = |suite: SuiteId| legacy || !suite.is_legacy();
    registry
        .units()
        .filter(|unit| shown(unit.suite))
        .map(|unit| api::CryptoUnit {
            suite: unit.suite.to_string(),
            unit: unit.provider.to_owned(),
            why: match unit.why {
                crypto::Why::Only => "only",
                crypto::Why::First => "first",
                crypto::Why::Fastest => "fastest",
                crypto::Why::Preferred => "preferred",
            }
            .to_owned(),
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
