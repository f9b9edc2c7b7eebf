//! The sending half of a pair of associations.

use crypto::{Aead, NONCE_LEN, Registry, Secret};
use wire::{DropReason, Time};

use super::config::{Direction, SaConfig, Selectors, Spi};
use super::counters::Counters;
use crate::SadError;

/// The last sequence number of an association without extended sequence numbers (RFC 4303 section 3.3.3).
const LAST_SEQUENCE: u64 = u32::MAX as u64;

/// An outbound association, owned by the outbound thread.
pub struct OutboundSa {
    // What every packet touches comes first.
    next_sequence: u64,
    aead: Box<dyn Aead>,
    salt: [u8; 4],
    spi: Spi,
    /// What it carried and refused.
    pub counters: Counters,
    selectors: Selectors,
    config: Box<SaConfig>,
}

/// What one outbound association takes along to another daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboundState {
    /// The configuration, key included.
    pub config: SaConfig,
    /// The sequence number of the next packet, 1 to 2^32 (the latter: exhausted).
    pub next_sequence: u64,
    /// Packets carried.
    pub packets: u64,
    /// Octets carried.
    pub bytes: u64,
    /// When it last carried one.
    pub last_used: Time,
}

impl OutboundSa {
    /// An association that has sent nothing: its first packet has sequence number 1.
    ///
    /// # Errors
    /// As [`SaConfig::check`]; [`SadError::Direction`]; [`SadError::Crypto`] if no provider has the suite.
    pub fn new(config: SaConfig, registry: &Registry) -> Result<OutboundSa, SadError> {
        config.check()?;
        if config.direction != Direction::Outbound {
            return Err(SadError::Direction { spi: config.spi, got: config.direction });
        }
        let (key, salt) = key_and_salt(&config)?;
        Ok(OutboundSa {
            next_sequence: 1,
            aead: registry.aead(config.suite, &key)?,
            salt,
            spi: config.spi,
            counters: Counters::default(),
            selectors: config.effective_selectors(),
            config: Box::new(config),
        })
    }

    /// Go on where another daemon stopped.
    ///
    /// # Errors
    /// As [`OutboundSa::new`]; [`SadError::SequenceState`] if no association can be at that number.
    pub fn import(state: OutboundState, registry: &Registry) -> Result<OutboundSa, SadError> {
        let mut sa = OutboundSa::new(state.config, registry)?;
        if state.next_sequence == 0 || state.next_sequence > LAST_SEQUENCE + 1 {
            return Err(SadError::SequenceState { spi: sa.spi });
        }
        sa.next_sequence = state.next_sequence;
        sa.counters.packets = state.packets;
        sa.counters.bytes = state.bytes;
        sa.counters.last_used = state.last_used;
        Ok(sa)
    }

    /// What another daemon needs to go on. This one must not send another packet afterwards.
    pub fn export(&self) -> OutboundState {
        OutboundState {
            config: (*self.config).clone(),
            next_sequence: self.next_sequence,
            packets: self.counters.packets,
            bytes: self.counters.bytes,
            last_used: self.counters.last_used,
        }
    }

    /// Take the next sequence number; it is never given out again. Also the IV of the packet.
    ///
    /// # Errors
    /// [`DropReason::SequenceExhausted`] behind 2^32-1, for ever.
    #[inline]
    pub fn take_sequence(&mut self) -> Result<u32, DropReason> {
        // Fails exactly when the number no longer fits 32 bits.
        let sequence = u32::try_from(self.next_sequence).map_err(|_| DropReason::SequenceExhausted)?;
        self.next_sequence += 1;
        Ok(sequence)
    }

    /// The number that the next packet will have.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Its SPI.
    #[inline]
    pub fn spi(&self) -> Spi {
        self.spi
    }

    /// The key, ready for use.
    #[inline]
    pub fn aead(&self) -> &dyn Aead {
        self.aead.as_ref()
    }

    /// The nonce of a packet with this explicit IV.
    #[inline]
    pub fn nonce(&self, iv: [u8; 8]) -> [u8; NONCE_LEN] {
        nonce(self.salt, iv)
    }

    /// What it was made of.
    #[inline]
    pub fn config(&self) -> &SaConfig {
        &self.config
    }

    /// The selectors that count (see [`SaConfig::effective_selectors`]).
    pub fn selectors(&self) -> &Selectors {
        &self.selectors
    }
}

impl std::fmt::Debug for OutboundSa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OutboundSa({}, {}, {})", self.spi, self.config.suite, self.config.mode)
    }
}

/// Salt, then IV (RFC 4106 section 4, RFC 7634 section 2).
#[inline]
pub(super) fn nonce(salt: [u8; 4], iv: [u8; 8]) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    nonce[..4].copy_from_slice(&salt);
    nonce[4..].copy_from_slice(&iv);
    nonce
}

/// Keying material cut into cipher key and salt.
pub(super) fn key_and_salt(config: &SaConfig) -> Result<(Secret, [u8; 4]), SadError> {
    let wrong = || SadError::KeymatLength {
        suite: config.suite,
        want: config.suite.keymat_len(),
        got: config.keymat.len(),
    };
    let (key, salt) =
        config.keymat.expose().split_at_checked(config.suite.suite().key_len).ok_or_else(wrong)?;
    Ok((Secret::new(key.to_vec()), salt.try_into().map_err(|_| wrong())?))
}
