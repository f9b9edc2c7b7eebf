//! The receiving half of a pair of associations.

use std::net::IpAddr;

use crypto::{Aead, NONCE_LEN, Registry};
use wire::{DropReason, Flow, Time};

use super::config::{Direction, SaConfig, Selectors, Spi};
use super::counters::Counters;
use super::outbound::{key_and_salt, nonce};
use crate::{ReplayState, ReplayWindow, SadError};

/// An inbound association, owned by the inbound thread.
pub struct InboundSa {
    // What every packet touches comes first.
    aead: Box<dyn Aead>,
    salt: [u8; 4],
    spi: Spi,
    /// The sequence numbers seen. Checked before decryption, committed after the ICV was right.
    pub replay: ReplayWindow,
    /// What it carried and refused.
    pub counters: Counters,
    selectors: Selectors,
    config: Box<SaConfig>,
}

/// What one inbound association takes along to another daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundState {
    /// The configuration, key included.
    pub config: SaConfig,
    /// The sequence numbers seen.
    pub replay: ReplayState,
    /// Packets carried.
    pub packets: u64,
    /// Octets carried.
    pub bytes: u64,
    /// When it last carried one.
    pub last_used: Time,
}

impl InboundSa {
    /// An association that has received nothing.
    ///
    /// # Errors
    /// As [`SaConfig::check`]; [`SadError::Direction`]; [`SadError::Crypto`] if no provider has the suite.
    pub fn new(config: SaConfig, registry: &Registry) -> Result<InboundSa, SadError> {
        config.check()?;
        if config.direction != Direction::Inbound {
            return Err(SadError::Direction { spi: config.spi, got: config.direction });
        }
        let (key, salt) = key_and_salt(&config)?;
        Ok(InboundSa {
            aead: registry.aead(config.suite, &key)?,
            salt,
            spi: config.spi,
            replay: ReplayWindow::new(config.replay_window)
                .ok_or(SadError::ReplayWindowSize(config.replay_window))?,
            counters: Counters::default(),
            selectors: config.effective_selectors(),
            config: Box::new(config),
        })
    }

    /// Go on where another daemon stopped.
    ///
    /// # Errors
    /// As [`InboundSa::new`]; [`SadError::ReplayState`] if the window is not one that [`InboundSa::export`] makes.
    pub fn import(state: InboundState, registry: &Registry) -> Result<InboundSa, SadError> {
        let mut sa = InboundSa::new(state.config, registry)?;
        if state.replay.size != sa.config.replay_window || state.replay.top > u64::from(u32::MAX) {
            return Err(SadError::ReplayState { spi: sa.spi });
        }
        sa.replay = ReplayWindow::import(&state.replay).ok_or(SadError::ReplayState { spi: sa.spi })?;
        sa.counters.packets = state.packets;
        sa.counters.bytes = state.bytes;
        sa.counters.last_used = state.last_used;
        Ok(sa)
    }

    /// What another daemon needs to go on.
    pub fn export(&self) -> InboundState {
        InboundState {
            config: (*self.config).clone(),
            replay: self.replay.export(),
            packets: self.counters.packets,
            bytes: self.counters.bytes,
            last_used: self.counters.last_used,
        }
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
    pub fn config(&self) -> &SaConfig {
        &self.config
    }

    /// Whether an outer packet between these addresses may belong to it. `source_port` is `None` for ESP without UDP.
    pub fn is_peer(&self, source: IpAddr, destination: IpAddr, source_port: Option<u16>) -> bool {
        let ends = &self.config.endpoints;
        source == ends.remote
            && destination == ends.local
            && source_port.is_none_or(|port| ends.remote_port == 0 || ends.remote_port == port)
    }

    /// Whether a decrypted packet is one that it may carry (RFC 4301 section 5.2 step 4).
    ///
    /// # Errors
    /// [`DropReason::SelectorMismatch`].
    pub fn admits(&self, flow: &Flow) -> Result<(), DropReason> {
        if self.selectors.covers(flow) { Ok(()) } else { Err(DropReason::SelectorMismatch) }
    }
}

impl std::fmt::Debug for InboundSa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "InboundSa({}, {}, {})", self.spi, self.config.suite, self.config.mode)
    }
}
