//! The sending half of a pair of associations.

use crypto::Registry;
use wire::{DropReason, Time};

use std::net::{IpAddr, SocketAddr};

use super::config::{SaConfig, Selectors, is_host};
use super::counters::Counters;
use super::identification::{Identification, Identifications};
use super::key::{Key, Shape};
use super::key_limit::{lifetime_within, packets_within};
use super::name::{Direction, Spi};
use super::options::{Encapsulation, Life, LifeState, Lifetime, Mode};
use super::path_mtu::{PathMtu, PathMtuLimits, PathMtuUpdate};
use crate::SadError;

/// The last sequence number of an association without extended sequence numbers (RFC 4303 section 3.3.3).
const LAST_SEQUENCE: u64 = u32::MAX as u64;
/// The last extended sequence number. The one behind it would leave no number to say "exhausted" with.
const LAST_EXTENDED: u64 = u64::MAX - 1;

/// An outbound association, owned by the outbound thread.
pub struct OutboundSa {
    // What every packet touches comes first.
    next_sequence: u64,
    /// The last sequence number that it may send.
    last_sequence: u64,
    key: Key,
    shape: Shape,
    spi: Spi,
    /// The account of how much more it may carry.
    pub life: Life,
    /// The figures of what it carried and refused.
    pub counters: Counters,
    selectors: Selectors,
    path: PathMtu,
    identification: Identification,
    /// The configuration; its `path_mtu` is the one in force.
    config: Box<SaConfig>,
}

/// The state of one outbound association that another daemon takes over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboundState {
    /// The configuration, with the key.
    pub config: SaConfig,
    /// The sequence number of the next packet; one more than the last of all means exhausted.
    pub next_sequence: u64,
    /// The number of packets that it carried.
    pub packets: u64,
    /// The number of octets that it carried.
    pub bytes: u64,
    /// The time at which it last carried a packet.
    pub last_used: Time,
    /// The time at which it was added.
    pub added: Time,
    /// The time at which it carried its first packet.
    pub first_used: Option<Time>,
    /// The stage of its life.
    pub life: LifeState,
}

impl OutboundSa {
    /// An association that has sent nothing; its first packet has sequence number 1.
    ///
    /// # Errors
    /// The errors of [`SaConfig::check`]; [`SadError::Direction`]; [`SadError::Crypto`] if no provider has the suite.
    pub fn new(config: SaConfig, registry: &Registry) -> Result<OutboundSa, SadError> {
        config.check()?;
        if config.direction != Direction::Outbound {
            return Err(SadError::Direction { spi: config.spi, got: config.direction });
        }
        let mut config = config;
        config.options.lifetime = lifetime_within(config.suite, config.options.lifetime);
        let last_sequence = if config.options.extended_sequence { LAST_EXTENDED } else { LAST_SEQUENCE };
        Ok(OutboundSa {
            next_sequence: 1,
            // Dummy packets take a number and are counted nowhere else.
            last_sequence: packets_within(config.suite, &config.options)
                .unwrap_or(last_sequence)
                .min(last_sequence),
            key: Key::new(&config, registry)?,
            shape: Shape::of(config.suite).padded(config.options.padding),
            spi: config.spi,
            life: Life::new(config.options.lifetime, Time::default()),
            counters: Counters::default(),
            selectors: config.effective_selectors(),
            path: PathMtu::new(config.path_mtu),
            identification: Identification::default(),
            config: Box::new(config),
        })
    }

    /// The same association with a life that begins now.
    #[must_use]
    pub fn starting(mut self, now: Time) -> OutboundSa {
        self.life = Life::new(self.config.options.lifetime, now);
        self
    }

    /// An association that continues where another daemon stopped.
    ///
    /// # Errors
    /// The errors of [`OutboundSa::new`]; [`SadError::SequenceState`] if no association can be at that number.
    pub fn import(state: OutboundState, registry: &Registry) -> Result<OutboundSa, SadError> {
        let mut sa = OutboundSa::new(state.config, registry)?;
        if state.next_sequence == 0 || state.next_sequence > sa.last_sequence + 1 {
            return Err(SadError::SequenceState { spi: sa.spi });
        }
        sa.next_sequence = state.next_sequence;
        sa.counters.packets = state.packets;
        sa.counters.bytes = state.bytes;
        sa.counters.last_used = state.last_used;
        sa.life = Life::new(sa.config.options.lifetime, state.added);
        sa.life.resume(state.life, state.first_used);
        Ok(sa)
    }

    /// The state that another daemon needs to continue. This daemon must not send another packet afterwards. What was
    /// learned about the path stays behind: the other daemon learns it from its first packet that does not fit.
    pub fn export(&self) -> OutboundState {
        OutboundState {
            config: self.as_configured(),
            next_sequence: self.next_sequence,
            packets: self.counters.packets,
            bytes: self.counters.bytes,
            last_used: self.counters.last_used,
            added: self.life.added(),
            first_used: self.life.first_used(),
            life: self.life.state(),
        }
    }

    /// The next Identification for an outer IPv4 packet that may be fragmented.
    #[inline]
    pub fn next_identification(&self) -> u16 {
        self.identification.next()
    }

    /// Count identifications together with the other associations between the same hosts.
    pub(crate) fn share_identifications(&mut self, with: &Identifications) {
        let ends = &self.config.endpoints;
        self.identification = with.between(ends.local, ends.remote, self.next_sequence - 1);
    }

    /// Whether the lifetime of the association has room for one more packet with this many octets of data, as of `now`.
    /// Protocols without a sequence number ask this alone: IP in IP and IPComp.
    ///
    /// # Errors
    /// [`DropReason::SaExpired`] behind a hard limit.
    #[inline]
    pub fn check_lifetime(&mut self, now: Time, octets: usize) -> Result<(), DropReason> {
        self.life.carry(now, self.counters.packets + 1, self.counters.bytes + octets as u64)
    }

    /// Take the sequence number of the next packet, which has this many octets of data. It is never given out again. IV and
    /// nonce of the packet are made of it too. A packet behind a limit of the lifetime takes no number.
    ///
    /// # Errors
    /// [`DropReason::SaExpired`] behind a hard limit of the lifetime. [`DropReason::SequenceExhausted`] behind the last
    /// number, 2^32-1 or 2^64-2 extended, for ever (RFC 4303 section 3.3.3: the counter must not wrap).
    #[inline]
    pub fn next_packet(&mut self, now: Time, octets: usize) -> Result<u64, DropReason> {
        self.check_lifetime(now, octets)?;
        let sequence = self.next_sequence;
        if sequence > self.last_sequence {
            return Err(DropReason::SequenceExhausted);
        }
        self.next_sequence = sequence + 1;
        Ok(sequence)
    }

    /// Whether the association can carry another packet: it has a sequence number left and is within its hard limits.
    pub fn is_alive(&self) -> bool {
        self.next_sequence <= self.last_sequence && self.life.state() != LifeState::Dead
    }

    /// The sequence number of the next packet.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// The SPI of the association.
    #[inline]
    pub fn spi(&self) -> Spi {
        self.spi
    }

    /// The key, ready for use.
    #[inline]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The lengths that its suite puts on the wire.
    #[inline]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Advance its life to `now`, and return the next state that was not reported yet. Call this about once a second,
    /// until there is none.
    pub fn age(&mut self, now: Time) -> Option<LifeState> {
        // A sixteenth of the numbers is left to find a successor with.
        if self.next_sequence > self.last_sequence - self.last_sequence / 16 {
            self.life.is_dying();
        }
        self.life.tick(now);
        self.life.take_change()
    }

    /// Replace the limits of its life. A limit of its suite stays.
    pub fn set_lifetime(&mut self, lifetime: Lifetime) {
        let lifetime = lifetime_within(self.config.suite, lifetime);
        self.config.options.lifetime = lifetime;
        self.life.set_lifetime(lifetime);
    }

    /// The knowledge about the path.
    pub fn path(&self) -> &PathMtu {
        &self.path
    }

    /// Take in an ICMP error: a packet of this association of `packet` octets did not fit, and `mtu` octets do; see
    /// [`PathMtu::hear`].
    pub fn hear_mtu(&mut self, now: Time, mtu: u32, packet: usize, limits: &PathMtuLimits) -> PathMtuUpdate {
        let v4 = self.config.endpoints.remote.is_ipv4();
        let learned = self.path.hear(now, mtu, packet, v4, limits);
        self.config.path_mtu = self.path.in_force();
        learned
    }

    /// Take in the proof that packets of `mtu` octets arrive; returns whether that changes the path MTU. See
    /// [`PathMtu::prove`].
    pub fn prove_mtu(&mut self, now: Time, mtu: u16, limits: &PathMtuLimits) -> bool {
        let changed = self.path.prove(now, mtu, self.config.endpoints.remote.is_ipv4(), limits);
        self.config.path_mtu = self.path.in_force();
        changed
    }

    /// Take in that the route to the peer carries `mtu` octets; returns whether that changes the path MTU. See
    /// [`PathMtu::follow`].
    pub fn follow_route(&mut self, mtu: u16) -> bool {
        let changed = self.path.follow(mtu, self.config.endpoints.remote.is_ipv4());
        self.config.path_mtu = self.path.in_force();
        changed
    }

    /// Forget what was learned about the path too long before `now`; returns whether something was forgotten.
    pub fn age_mtu(&mut self, now: Time, limits: &PathMtuLimits) -> bool {
        let forgotten = self.path.age(now, limits);
        self.config.path_mtu = self.path.in_force();
        forgotten
    }

    /// Send to another address and port from now on, and forget what was learned about the path to the old one. Only
    /// [`crate::OutboundSad::move_peer`] keeps the database in order.
    pub(crate) fn move_to(&mut self, remote: IpAddr, port: u16) {
        self.config.endpoints.remote = remote;
        self.config.endpoints.remote_port = port;
        self.path.forget();
        self.config.path_mtu = self.path.in_force();
    }

    /// Whether the association may follow its peer to this address and port.
    pub fn may_move_to(&self, remote: IpAddr, port: u16) -> bool {
        let config = &*self.config;
        config.options.follow_peer
            && config.options.encapsulation == Encapsulation::Udp
            && port != 0
            && is_host(remote)
            && remote.is_ipv4() == config.endpoints.remote.is_ipv4()
            // In transport mode the address is the inner packet's.
            && (config.mode != Mode::Transport || remote == config.endpoints.remote)
    }

    /// The configuration for its successor, without what it learned about the path and its route.
    pub fn as_configured(&self) -> SaConfig {
        SaConfig { path_mtu: self.path.most(), ..(*self.config).clone() }
    }

    /// The configuration that it was made of, with the path MTU in force.
    #[inline]
    pub fn config(&self) -> &SaConfig {
        &self.config
    }

    /// The selectors in force (see [`SaConfig::effective_selectors`]).
    pub fn selectors(&self) -> &Selectors {
        &self.selectors
    }

    /// The error for an association that would take flows from this one, its [rival](crate::OutboundSad::rival).
    pub fn is_rival(&self) -> SadError {
        let ends = &self.config.endpoints;
        let peer = SocketAddr::new(ends.remote, ends.remote_port);
        SadError::Rival { spi: self.spi, peer, remote: self.selectors.remote }
    }
}

impl std::fmt::Debug for OutboundSa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OutboundSa({}, {}, {})", self.spi, self.config.suite, self.config.mode)
    }
}
