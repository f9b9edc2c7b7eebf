//! Associations whose packets the kernel half might take for those of another suite of a cipher of one's own
//! ([`sadb::spd::RivalSuite`]). Whatever adds an inbound association or changes the policy asks here.

use std::net::IpAddr;
use std::sync::Arc;

use crypto::SuiteId;
use policy::Compiled;
use sadb::spd::{RivalSuite, Spd};
use sadb::{Direction, SaConfig, Spi};
use wire::Services;

use super::PolicyInForce;
use crate::plane::halves::Halves;
use documents::api_error::{ApiError, Blame};

/// An inbound association and the item that it does not go with. It has nothing of the key.
#[derive(Debug)]
pub(crate) struct Rivals {
    spi: Spi,
    remote: IpAddr,
    suite: SuiteId,
    item: RivalSuite,
}

impl Rivals {
    /// The item that the association does not go with, if there is one.
    pub(crate) fn find(spd: &Spd, config: &SaConfig) -> Option<Rivals> {
        let item = spd.rival_suite(config)?;
        Some(Rivals { spi: config.spi, remote: config.endpoints.remote, suite: config.suite, item })
    }

    /// The association, the item by its line, and why they do not go together.
    pub(crate) fn words(&self, compiled: &Compiled) -> String {
        let Rivals { spi, remote, suite, item } = self;
        let line = match documents::decision::rule_position(compiled, item.rule) {
            Some(at) => format!("{}, line {} (`{}`)", at.file, at.line, at.text),
            None => "an item".to_owned(),
        };
        let app = compiled.application(item.app).map_or("an application", |app| app.name.as_str());
        format!(
            "the inbound association {spi} from {remote} has the suite {suite}, and {line} of {app} names the suite {}; the \
             kernel half does not tell two suites of ciphers of one's own apart, so packets under one would pass as packets \
             under the other",
            item.suite
        )
    }
}

impl PolicyInForce {
    /// Refuse an inbound association that does not go with the policy in force. While a policy is on trial, it has to go
    /// with the policy before as well, so that it does not keep the trial from its end.
    ///
    /// # Errors
    /// The item that it does not go with.
    pub(in crate::plane) fn admits(&self, config: &SaConfig) -> Result<(), ApiError> {
        if config.direction != Direction::Inbound || config.services() != Services::CUSTOM {
            return Ok(());
        }
        check(self.compiled(), config)?;
        // A policy before that cannot be read again cannot come back.
        match self.store.trial.as_ref().map(|_| self.store.previous_candidate()) {
            Some(Ok(Some(before))) => check(&before.compiled, config),
            Some(Ok(None) | Err(_)) | None => Ok(()),
        }
    }
}

fn check(compiled: &Compiled, config: &SaConfig) -> Result<(), ApiError> {
    let Some(rivals) = Rivals::find(&compiled.spd, config) else { return Ok(()) };
    Err(ApiError::new(Blame::Conflict, rivals.words(compiled)).remedy(format!(
        "give the association the suite {}, bind it to the application that uses its own suite, or narrow its remote \
         selector to peers that the item is not for",
        rivals.item.suite
    )))
}

/// Refuse a policy that an association does not go with; `spd` is that of `compiled`.
///
/// # Errors
/// The association and the item; a data thread that does not answer.
pub(in crate::plane) async fn check_all(
    compiled: &Compiled,
    spd: &Arc<Spd>,
    halves: &Halves,
) -> Result<(), ApiError> {
    if !spd.names_custom() {
        return Ok(());
    }
    let spd = spd.clone();
    let first = halves
        .ask_inbound(move |half| half.engine.sad().list().find_map(|sa| Rivals::find(&spd, sa.config())));
    let Some(rivals) = first.await? else { return Ok(()) };
    Err(ApiError::new(Blame::Conflict, rivals.words(compiled)).remedy(format!(
        "the policy in force stays; name the suite {} in the item, or delete the association first (`ravelin sa delete {}`)",
        rivals.suite, rivals.spi
    )))
}

#[cfg(test)]
mod tests;
