//! What a crypto unit offers.

use crate::{Authenticator, CryptoError, Integrity, Secret, SuiteId, Transform};

/// The state of the process that a cipher of one's own runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerState {
    /// Whether it takes packets.
    pub is_up: bool,
    /// A sentence for people, without a full stop.
    pub text: String,
    /// What it counted since the start.
    pub counts: WorkerCounts,
}

/// The counts of the process that a cipher of one's own runs in, since the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerCounts {
    /// Processes that were started behind the first one.
    pub restarts: u64,
    /// Packets whose key stream was there before they came.
    pub ahead: u64,
    /// Packets for which a data thread waited.
    pub called: u64,
    /// Times at which the process was late, caught up and was not restarted. The packets were dropped.
    pub late: u64,
    /// Batches of packets that failed.
    pub failed: u64,
}

/// Somebody who implements suites: a unit.
pub trait Provider: Send + Sync {
    /// The name of the provider in `status`.
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

    /// Put known answers to the provider again, which may take some ten milliseconds. One that fails is not used from
    /// then on. Only ciphers of one's own are asked while they are in use: their code is not the house's.
    ///
    /// # Errors
    /// What [`Self::fault`] says from then on.
    fn check_again(&self) -> Result<(), CryptoError> {
        Ok(())
    }

    /// The reason why the provider is not used any more, if it is not.
    fn fault(&self) -> Option<CryptoError> {
        None
    }

    /// The number of keys that the provider can have at once; `None` if nothing but memory bounds it.
    fn key_room(&self) -> Option<usize> {
        None
    }

    /// The start is over, and with it the time in which a provider's process may be slower than later.
    fn settle(&self) {}

    /// The state of the process that the provider's code runs in; `None` if that is this one.
    fn worker(&self) -> Option<WorkerState> {
        None
    }

    /// The fingerprint of what a cipher of one's own computes, if the provider is one. Equal fingerprints are equal
    /// ciphers.
    fn fingerprint(&self) -> Option<&[u8; 32]> {
        None
    }

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
