//! The end: what goes to the daemon that takes over ([`crate::handover`]) and how much that is, and who is to stop.

use crypto::Secret;

use super::Plane;
use crate::handover::UsedCiphers;
use control::channel::AskError;
use documents::api_error::ApiError;

impl Plane {
    /// The most octets that a hand-over of all that must not be left out takes, the ciphers of one's own that
    /// associations use, and the rules.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(crate) async fn measured(&self) -> Result<(usize, UsedCiphers, Vec<u8>), ApiError> {
        let rules = self.handed_rules();
        let octets = self.associations.octets_to_hand_over(rules.len(), &self.halves).await?;
        Ok((octets, self.associations.ciphers(&self.halves).await?, rules))
    }

    /// The rules, as they go to the next daemon.
    pub(crate) fn handed_rules(&self) -> Vec<u8> {
        self.rules.handed()
    }

    /// The key of the fingerprints of used keys, and these fingerprints.
    pub(crate) fn handed_keys(&self) -> (Secret, Vec<[u8; 32]>) {
        self.associations.export_keys()
    }

    /// Let both data threads end after what they are doing.
    ///
    /// # Errors
    /// If a thread does not hear of it.
    pub(crate) fn stop_threads(&self) -> Result<(), AskError> {
        self.halves.stop()
    }

    /// Let every capture end; what it has is written first.
    pub(crate) fn stop_captures(&self) {
        self.observers.captures().stop_all();
    }
}
