//! The receiving half of a pair of associations.

use std::net::IpAddr;

use crypto::Registry;
use wire::probe::Message;
use wire::{DropReason, Flow, Time};

use super::config::{SaConfig, Selectors, is_host};
use super::counters::Counters;
use super::key::{Key, Shape};
use super::key_limit::lifetime_within;
use super::name::{Direction, SaName, Spi};
use super::nat::NatChecksum;
use super::options::{Encapsulation, KeyClass, Life, LifeState, Lifetime, Mode};
use crate::{ReplayState, ReplayWindow, SadError};

/// The largest number of messages about the path that wait to be taken.
const MAX_MESSAGES: usize = 16;

/// An inbound association, owned by the inbound thread.
pub struct InboundSa {
    // What every packet touches comes first.
    key: Key,
    shape: Shape,
    extended: bool,
    spi: Spi,
    /// The account of how much more it may carry.
    pub life: Life,
    /// The sequence numbers that were seen. They are checked before decryption and committed after the ICV was right.
    pub replay: ReplayWindow,
    /// The figures of what it carried and refused.
    pub counters: Counters,
    /// The change that a NAT makes to the checksums of its packets, in transport mode in UDP.
    pub nat: NatChecksum,
    selectors: Selectors,
    /// The number that tells its inner fragments from those of other associations.
    context: u32,
    /// The address and port that its newest packet came from; the port of a bare packet is zero.
    seen: (IpAddr, u16),
    /// The address and port that the outbound half was last known to send to.
    followed: (IpAddr, u16),
    /// The number of seconds for which `seen` and `followed` have differed.
    behind: u8,
    /// The messages about the path that the peer sent in dummy packets.
    messages: Vec<Message>,
    /// The limits that it had before [`InboundSa::retire`]; its successor gets these.
    retired: Option<Box<Lifetime>>,
    config: Box<SaConfig>,
}

/// The state of one inbound association that another daemon takes over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundState {
    /// The configuration, with the key.
    pub config: SaConfig,
    /// The sequence numbers that were seen.
    pub replay: ReplayState,
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

/// A packet for which there is an association has been classed.
impl wire::Evidence<wire::stage::Clean, wire::stage::Classed> for InboundSa {}

impl InboundSa {
    /// An association that has received nothing.
    ///
    /// # Errors
    /// The errors of [`SaConfig::check`]; [`SadError::Direction`]; [`SadError::Crypto`] if no provider has the suite.
    pub fn new(config: SaConfig, registry: &Registry) -> Result<InboundSa, SadError> {
        config.check()?;
        if config.direction != Direction::Inbound {
            return Err(SadError::Direction { spi: config.spi, got: config.direction });
        }
        let mut config = config;
        config.options.lifetime = lifetime_within(config.suite, config.options.lifetime);
        Ok(InboundSa {
            key: Key::new(&config, registry)?,
            shape: Shape::of(config.suite),
            extended: config.options.extended_sequence,
            spi: config.spi,
            life: Life::new(config.options.lifetime, Time::default()),
            replay: match config.replay_window {
                0 => ReplayWindow::off(),
                size => ReplayWindow::new(size).ok_or(SadError::ReplayWindowSize(size))?,
            },
            counters: Counters::default(),
            nat: NatChecksum::default(),
            selectors: config.effective_selectors(),
            context: config.spi.0,
            seen: (config.endpoints.remote, config.endpoints.remote_port),
            followed: (config.endpoints.remote, config.endpoints.remote_port),
            behind: 0,
            messages: Vec::new(),
            retired: None,
            config: Box::new(config),
        })
    }

    /// Take in a dummy packet that is authentic and no replay: remember its message about the path, if it has one. A
    /// message that finds no room is lost, as a packet may be.
    #[cold]
    pub fn hear_dummy(&mut self, content: &[u8]) {
        if self.messages.len() < MAX_MESSAGES
            && let Some(message) = Message::parse(content)
        {
            self.messages.push(message);
        }
    }

    /// The messages about the path that came since the last call.
    #[inline]
    pub fn take_messages(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.messages)
    }

    /// The same association with a life that begins now.
    #[must_use]
    pub fn starting(mut self, now: Time) -> InboundSa {
        self.life = Life::new(self.config.options.lifetime, now);
        self
    }

    /// An association that continues where another daemon stopped.
    ///
    /// # Errors
    /// The errors of [`InboundSa::new`]; [`SadError::ReplayState`] if the window is not one that [`InboundSa::export`]
    /// makes.
    pub fn import(state: InboundState, registry: &Registry) -> Result<InboundSa, SadError> {
        let mut sa = InboundSa::new(state.config, registry)?;
        if state.replay.size != sa.config.replay_window
            || !sa.extended && state.replay.top > u64::from(u32::MAX)
        {
            return Err(SadError::ReplayState { spi: sa.spi });
        }
        sa.replay = ReplayWindow::import(&state.replay).ok_or(SadError::ReplayState { spi: sa.spi })?;
        sa.counters.packets = state.packets;
        sa.counters.bytes = state.bytes;
        sa.counters.last_used = state.last_used;
        sa.life = Life::new(sa.config.options.lifetime, state.added);
        sa.life.resume(state.life, state.first_used);
        Ok(sa)
    }

    /// Count a packet that came out of the association with this many octets of data, if the lifetime has room for it as of
    /// `now`.
    ///
    /// # Errors
    /// [`DropReason::SaExpired`] behind a hard limit. Nothing is counted then.
    #[inline]
    pub fn carry(&mut self, now: Time, octets: usize) -> Result<(), DropReason> {
        self.life.carry(now, self.counters.packets + 1, self.counters.bytes + octets as u64)?;
        self.counters.carried(now, octets);
        Ok(())
    }

    /// The state that another daemon needs to continue.
    pub fn export(&self) -> InboundState {
        InboundState {
            config: (*self.config).clone(),
            replay: self.replay.export(),
            packets: self.counters.packets,
            bytes: self.counters.bytes,
            last_used: self.counters.last_used,
            added: self.life.added(),
            first_used: self.life.first_used(),
            life: self.life.state(),
        }
    }

    /// The SPI of the association.
    #[inline]
    pub fn spi(&self) -> Spi {
        self.spi
    }

    /// The name by which it is found, according to its key class.
    pub fn name(&self) -> SaName {
        let ends = &self.config.endpoints;
        let (destination, source) = match self.config.options.class {
            KeyClass::Spi => (None, None),
            KeyClass::SpiDestination => (Some(ends.local), None),
            KeyClass::SpiDestinationSource => (Some(ends.local), Some(ends.remote)),
        };
        SaName { spi: self.spi, destination, source }
    }

    /// The number that tells its inner fragments from those of other associations. It is the SPI, or a number below 256
    /// that the database gave it where several associations may have one SPI.
    #[inline]
    pub fn context(&self) -> u32 {
        self.context
    }

    pub(crate) fn set_context(&mut self, context: u32) {
        self.context = context;
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

    /// The whole sequence number of a packet that carries these lower 32 bits.
    #[inline]
    pub fn whole_sequence(&self, low: u32) -> u64 {
        if self.extended { self.replay.infer(low) } else { low.into() }
    }

    /// Advance its life to `now`, and return the next state that was not reported yet. Call this about once a second,
    /// until there is none.
    pub fn age(&mut self, now: Time) -> Option<LifeState> {
        self.life.tick(now);
        self.life.take_change()
    }

    /// Replace the limits of its life. A limit of its suite stays.
    pub fn set_lifetime(&mut self, lifetime: Lifetime) {
        let lifetime = lifetime_within(self.config.suite, lifetime);
        self.config.options.lifetime = lifetime;
        self.life.set_lifetime(lifetime);
    }

    /// End its life `seconds` after it was added, unless it ends earlier: its successor has taken over.
    pub fn retire(&mut self, seconds: u64) {
        let before = self.config.options.lifetime;
        if before.hard.seconds == 0 || before.hard.seconds > seconds {
            self.retired.get_or_insert_with(|| Box::new(before));
            let mut lifetime = before;
            lifetime.hard.seconds = seconds;
            self.set_lifetime(lifetime);
        }
    }

    /// The configuration for its successor, with the limits that it had before it was retired.
    pub fn as_configured(&self) -> SaConfig {
        let mut config = (*self.config).clone();
        if let Some(before) = &self.retired {
            config.options.lifetime = **before;
        }
        config
    }

    /// Replace the replay window by one of another size, which remembers as much of the old one as it can. Numbers that
    /// fall out of a smaller window are refused from then on.
    ///
    /// # Errors
    /// [`SadError::ReplayWindowSize`].
    pub fn resize_replay(&mut self, size: u32) -> Result<(), SadError> {
        let off = size == 0 && !self.extended;
        let resized = if off { Some(ReplayWindow::off()) } else { self.replay.resized(size) };
        self.replay = resized.ok_or(SadError::ReplayWindowSize(size))?;
        self.config.replay_window = size;
        Ok(())
    }

    /// The configuration that it was made of.
    pub fn config(&self) -> &SaConfig {
        &self.config
    }

    /// The configuration that it was made of, and its counters.
    pub fn config_and_counters(&mut self) -> (&SaConfig, &mut Counters) {
        (&self.config, &mut self.counters)
    }

    /// Whether a packet in UDP comes from the same place as the newest one, so that nothing is to be noticed about its
    /// sender. It is always true for bare associations and for those of groups, which have many senders.
    #[inline]
    pub fn is_settled(&self, source: IpAddr, port: u16) -> bool {
        self.seen == (source, port) || !self.has_one_place()
    }

    fn has_one_place(&self) -> bool {
        let options = &self.config.options;
        options.encapsulation == Encapsulation::Udp && options.class == KeyClass::Spi
    }

    /// Whether a packet from `source` is worth opening to see whether the peer has moved there. In transport mode the
    /// address is the inner packet's too, so only its port may move (RFC 3948 section 3.1.2).
    pub fn may_have_moved(&self, source: IpAddr, destination: IpAddr) -> bool {
        let config = &*self.config;
        config.options.follow_peer
            && config.mode != Mode::Transport
            && destination == config.endpoints.local
            && source != destination
            && is_host(source)
            && source.is_ipv4() == destination.is_ipv4()
    }

    /// Note that an authentic packet, newer than all before it, came from this place. Returns the old place if it is
    /// another one. With [`follow_peer`](crate::sa::SaOptions::follow_peer) the association takes the new place as its
    /// peer's.
    pub fn notice(&mut self, source: IpAddr, port: u16) -> Option<(IpAddr, u16)> {
        if self.is_settled(source, port) {
            return None;
        }
        let old = std::mem::replace(&mut self.seen, (source, port));
        self.behind = 0;
        let follow = self.config.options.follow_peer;
        if follow {
            let ends = &mut self.config.endpoints;
            (ends.remote, ends.remote_port) = (source, port);
        }
        // Where any port was right, none is new; but whoever follows has to learn the first.
        (follow || old.1 != 0).then_some(old)
    }

    /// Note that the outbound half was told of this move. Moves count in their order: a move whose predecessor was lost
    /// did not find the outbound half where it looked.
    pub fn followed(&mut self, old: (IpAddr, u16), new: (IpAddr, u16)) {
        if self.followed == old {
            self.followed = new;
        }
    }

    /// The move that the outbound half still has to make, from its place to the peer's, if nothing was heard of it for
    /// two calls. Call this about once a second.
    pub fn still_to_follow(&mut self) -> Option<((IpAddr, u16), (IpAddr, u16))> {
        if self.seen == self.followed || !self.config.options.follow_peer || !self.has_one_place() {
            return None;
        }
        self.behind += 1;
        (self.behind >= 2).then(|| {
            self.behind = 0;
            (self.followed, self.seen)
        })
    }

    /// Whether an outer packet between these addresses may belong to the association. `source_port` is `None` for ESP
    /// without UDP.
    pub fn is_peer(&self, source: IpAddr, destination: IpAddr, source_port: Option<u16>) -> bool {
        let ends = &self.config.endpoints;
        // Found by its SPI alone, an association belongs to one pair of addresses; a group takes packets from several senders
        // unless the source was part of what it was found by.
        (source == ends.remote || self.config.options.class == KeyClass::SpiDestination)
            && destination == ends.local
            && source_port.is_none_or(|port| ends.remote_port == 0 || ends.remote_port == port)
    }

    /// Whether the association may carry a decrypted packet (RFC 4301 section 5.2 step 4).
    ///
    /// # Errors
    /// [`DropReason::SelectorMismatch`].
    #[inline]
    pub fn admits(&self, flow: &Flow) -> Result<(), DropReason> {
        if self.selectors.covers(flow) { Ok(()) } else { Err(DropReason::SelectorMismatch) }
    }
}

impl std::fmt::Debug for InboundSa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "InboundSa({}, {}, {})", self.spi, self.config.suite, self.config.mode)
    }
}
