//! The options of an association beyond its names, key and selectors. The defaults are those of a modern ESP
//! association: UDP encapsulation, 32-bit sequence numbers, ECN and DSCP across the tunnel, no padding, no end.

use std::fmt;

use wire::{AggregateId, DropReason, Time};

use super::name::Spi;

/// The protocol of an association (RFC 4301 section 4.1), or a member of a chain that has no key (paper 001 section
/// 2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SaProtocol {
    /// Encapsulating Security Payload (RFC 4303).
    #[default]
    Esp,
    /// Authentication Header (RFC 4302).
    Ah,
    /// IP Payload Compression (RFC 3173); its SPI is a CPI of 16 bits.
    IpComp,
    /// IP in IP (RFC 2003, RFC 2473). It has no key, and no SPI on the wire.
    IpIp,
}

impl SaProtocol {
    /// The word for the protocol in commands and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            SaProtocol::Esp => "esp",
            SaProtocol::Ah => "ah",
            SaProtocol::IpComp => "ipcomp",
            SaProtocol::IpIp => "ipip",
        }
    }

    /// Whether the protocol has a key, a sequence number and a replay window.
    pub const fn is_keyed(self) -> bool {
        matches!(self, SaProtocol::Esp | SaProtocol::Ah)
    }
}

/// The part of a packet that an association encloses (RFC 4301 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The payload of an IP packet between the two endpoints.
    Transport,
    /// A whole IP packet with its header.
    Tunnel,
    /// The payload of a packet between fixed inner addresses, those of the selectors, which never travel. On the wire
    /// it looks like transport mode (draft-nikander-esp-beet-mode).
    Beet,
}

impl Mode {
    /// The word for the mode in commands and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Transport => "transport",
            Mode::Tunnel => "tunnel",
            Mode::Beet => "beet",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The way in which the outer packets travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encapsulation {
    /// Packets travel in UDP (RFC 3948), which is the fast way and passes NAT.
    #[default]
    Udp,
    /// Packets travel bare, with an IP protocol number of their own.
    None,
}

/// The source of the DSCP in the outer header (RFC 4301 section 5.1.2.1 note 6, RFC 2983).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Dscp {
    /// The DSCP of the inner header.
    #[default]
    Copy,
    /// A fixed DSCP for every packet.
    Set(u8),
    /// A table from the inner DSCP to the outer one.
    Map(Box<[u8; 64]>),
}

/// The source of the don't-fragment flag in an outer IPv4 header (RFC 4301 section 8.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DontFragment {
    /// The flag of the inner header; inner packets of IPv6 count as having it.
    #[default]
    Copy,
    /// The flag is always set.
    Set,
    /// The flag is always clear, so outer packets may be fragmented on the way.
    Clear,
}

/// The source of the time to live in the outer header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HopLimit {
    /// The value of the inner header.
    Copy,
    /// A fixed value for every packet.
    Set(u8),
}

/// The place where an inner packet is cut that does not fit the path and may be fragmented (RFC 4301 section 8.2.1, RFC
/// 4303 section 3.3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fragmentation {
    /// The packet is carried whole and the outer packet is fragmented. It takes one sequence number, and only the peer
    /// joins it.
    #[default]
    After,
    /// An IPv4 packet is cut before it enters the tunnel, and each fragment is protected by itself. Its destination
    /// joins it, and the path sees no fragments. IPv6 packets are only cut by their senders.
    Before,
}

/// The treatment of header fields at the ends of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderPolicy {
    /// The source of the outer DSCP.
    pub dscp: Dscp,
    /// Whether the outer DSCP of an inbound packet replaces the inner one (RFC 2983 section 4, the pipe's opposite).
    pub dscp_inward: bool,
    /// Whether ECN crosses the tunnel (normal mode of RFC 6040). Otherwise its compatibility mode holds (outer
    /// Not-ECT).
    pub ecn: bool,
    /// The source of the outer don't-fragment flag.
    pub df: DontFragment,
    /// The source of the outer time to live or hop limit.
    pub hop_limit: HopLimit,
    /// The place where a packet is cut that does not fit the path and may be cut.
    pub fragment: Fragmentation,
}

impl Default for HeaderPolicy {
    fn default() -> HeaderPolicy {
        HeaderPolicy {
            dscp: Dscp::Copy,
            dscp_inward: false,
            ecn: true,
            df: DontFragment::Copy,
            hop_limit: HopLimit::Set(64),
            fragment: Fragmentation::After,
        }
    }
}

/// Traffic flow confidentiality padding (RFC 4303 section 2.7), outbound in tunnel mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tfc {
    /// Payloads are not padded.
    #[default]
    None,
    /// Payloads grow to the next multiple of this many octets, as far as the path MTU allows.
    Multiple(u16),
    /// Every payload is as long as the path MTU allows.
    Full,
}

/// The amount of padding in the ESP trailer, besides what hides lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Padding {
    /// The least padding that the suite allows (RFC 4106 section 3.2, RFC 4303 section 2.4).
    #[default]
    Least,
    /// Padding to whole blocks of AES-GCM in UDP, where the path has room. It takes up to 12 octets more and saves work
    /// for the cipher (docs/design/0008-cost-of-a-packet.md).
    Blocks,
}

/// The fields by which an inbound association is found (RFC 4301 section 4.1); the longest match wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyClass {
    /// The SPI alone is compared.
    #[default]
    Spi,
    /// The SPI and the destination address are compared (a multicast group).
    SpiDestination,
    /// The SPI, the destination and the source address are compared.
    SpiDestinationSource,
}

/// The bounds of what an association may carry, and for how long. Zero means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Limits {
    /// The number of octets in inner packets.
    pub bytes: u64,
    /// The number of packets.
    pub packets: u64,
    /// The number of seconds since the association was added.
    pub seconds: u64,
    /// The number of seconds since its first packet.
    pub seconds_used: u64,
}

/// The soft limits, which announce the end of an association, and the hard limits, which end it (RFC 4301 section
/// 4.4.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lifetime {
    /// The limits at which a key manager is told to negotiate a successor.
    pub soft: Limits,
    /// The limits behind which the association carries nothing more.
    pub hard: Limits,
}

impl Lifetime {
    /// The same lifetime with soft limits lowered by up to `percent` (at most 50), so that associations made together
    /// do not all ask for successors at once. `random` is a random number.
    #[must_use]
    pub fn jittered(mut self, percent: u8, random: u32) -> Lifetime {
        let part = u64::from(percent.min(50)) * u64::from(random >> 16);
        for limit in [
            &mut self.soft.bytes,
            &mut self.soft.packets,
            &mut self.soft.seconds,
            &mut self.soft.seconds_used,
        ] {
            // limit * percent/100 * random/2^16, without overflow.
            *limit -= (u128::from(*limit) * u128::from(part) / (100 << 16)) as u64;
        }
        self
    }
}

/// The stage of an association's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LifeState {
    /// The association is within its soft limits.
    #[default]
    Mature,
    /// The association is behind a soft limit.
    Dying,
    /// The association is behind a hard limit.
    Dead,
}

impl LifeState {
    /// The word for the state in commands and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            LifeState::Mature => "mature",
            LifeState::Dying => "dying",
            LifeState::Dead => "dead",
        }
    }
}

/// The account of an association against its [`Lifetime`]. It costs two comparisons for a packet.
#[derive(Clone, Debug, Default)]
pub struct Life {
    state: LifeState,
    /// The next limits of packets and octets at which the state may change.
    packets: u64,
    bytes: u64,
    added: Time,
    first_used: Option<Time>,
    lifetime: Lifetime,
    /// Whether a soft limit was met before the end. The reports pass through that state, even if both came between two
    /// looks.
    was_dying: bool,
    /// The state that was reported last.
    told: LifeState,
}

impl Life {
    /// A life that begins at `added`.
    pub fn new(lifetime: Lifetime, added: Time) -> Life {
        let mut life = Life { added, lifetime, ..Life::default() };
        life.arm();
        life
    }

    /// The stage of the life.
    pub fn state(&self) -> LifeState {
        self.state
    }

    /// The time at which the association was added.
    pub fn added(&self) -> Time {
        self.added
    }

    /// The time at which the association carried its first packet.
    pub fn first_used(&self) -> Option<Time> {
        self.first_used
    }

    /// Whether one more packet may pass; `packets` and `bytes` count what passed so far, this packet included. The
    /// state moves on as limits are met: ask [`Self::state`] afterwards.
    ///
    /// # Errors
    /// [`DropReason::SaExpired`] behind a hard limit.
    #[inline]
    pub fn carry(&mut self, now: Time, packets: u64, bytes: u64) -> Result<(), DropReason> {
        if packets < self.packets && bytes < self.bytes && self.first_used.is_some() {
            return Ok(());
        }
        self.carry_slowly(now, packets, bytes)
    }

    #[cold]
    fn carry_slowly(&mut self, now: Time, packets: u64, bytes: u64) -> Result<(), DropReason> {
        self.first_used.get_or_insert(now);
        let over = |limit: u64, count: u64| limit != 0 && count > limit;
        let reached = |limit: u64, count: u64| limit != 0 && count >= limit;
        let Lifetime { soft, hard } = self.lifetime;
        if reached(soft.packets, packets) || reached(soft.bytes, bytes) {
            self.enter(LifeState::Dying);
        }
        if over(hard.packets, packets) || over(hard.bytes, bytes) {
            self.enter(LifeState::Dead);
        }
        if self.state == LifeState::Dead { Err(DropReason::SaExpired) } else { Ok(()) }
    }

    /// Advance the life to `now`. Call this about once a second.
    pub fn tick(&mut self, now: Time) {
        let past = |limit: u64, since: Option<Time>| {
            limit != 0 && since.is_some_and(|since| now.0.saturating_sub(since.0) / 1_000_000_000 >= limit)
        };
        let met = |limits: Limits| {
            past(limits.seconds, Some(self.added)) || past(limits.seconds_used, self.first_used)
        };
        let (dying, dead) = (met(self.lifetime.soft), met(self.lifetime.hard));
        if dying {
            self.enter(LifeState::Dying);
        }
        if dead {
            self.enter(LifeState::Dead);
        }
    }

    /// Enter the dying state: a successor is needed for another reason than a limit.
    pub(super) fn is_dying(&mut self) {
        self.enter(LifeState::Dying);
    }

    /// The next state that was entered and not reported yet. Dying is reported before dead, even if both came between
    /// two calls. Call this until there is none.
    pub fn take_change(&mut self) -> Option<LifeState> {
        let next = match (self.told, self.state) {
            (LifeState::Mature, LifeState::Dead) if self.was_dying => LifeState::Dying,
            (_, state) => state,
        };
        (std::mem::replace(&mut self.told, next) != next).then_some(next)
    }

    /// Replace the limits (a key manager may); a limit that was met stays met.
    pub fn set_lifetime(&mut self, lifetime: Lifetime) {
        self.lifetime = lifetime;
        self.arm();
    }

    /// Continue the account of another daemon.
    pub(super) fn resume(&mut self, state: LifeState, first_used: Option<Time>) {
        self.first_used = first_used;
        self.enter(state);
    }

    fn enter(&mut self, state: LifeState) {
        self.was_dying |= state == LifeState::Dying && self.state != LifeState::Dead;
        self.state = self.state.max(state);
        self.arm();
    }

    fn arm(&mut self) {
        let Lifetime { soft, hard } = self.lifetime;
        let next = |soft: u64, hard: u64, state| match state {
            LifeState::Mature if soft != 0 => soft,
            // The hard limit itself may still be carried.
            LifeState::Mature | LifeState::Dying if hard != 0 => hard.saturating_add(1),
            LifeState::Mature | LifeState::Dying => u64::MAX,
            LifeState::Dead => 0,
        };
        // A hard limit below the soft one is met first.
        let least = |soft: u64, hard: u64| {
            next(soft, hard, self.state).min(if hard == 0 { u64::MAX } else { hard.saturating_add(1) })
        };
        (self.packets, self.bytes) = match self.state {
            LifeState::Dead => (0, 0),
            _ => (least(soft.packets, hard.packets), least(soft.bytes, hard.bytes)),
        };
    }
}

/// The parts of an association's configuration that have a default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaOptions {
    /// The protocol: ESP, AH, or a member of a chain without a key.
    pub protocol: SaProtocol,
    /// The way in which outer packets travel: in UDP, or bare.
    pub encapsulation: Encapsulation,
    /// Whether sequence numbers have 64 bits (RFC 4303 section 2.2.1).
    pub extended_sequence: bool,
    /// The limits of its life.
    pub lifetime: Lifetime,
    /// The treatment of header fields across the tunnel.
    pub headers: HeaderPolicy,
    /// The padding that hides lengths.
    pub tfc: Tfc,
    /// The padding of the ESP trailer.
    pub padding: Padding,
    /// The association that an outbound packet goes through next, to the same or another peer: a bundle (RFC 4301
    /// section 4.1; paper 001: the SPI chain).
    pub next: Option<Spi>,
    /// The fields by which an inbound association is found.
    pub class: KeyClass,
    /// The class of the graph that its packets are in; the default: the association does not say.
    pub aggregate: AggregateId,
    /// The number of seconds of silence after which an outbound association sends a keepalive, so that a NAT on the way
    /// keeps its mapping (RFC 3948 section 4); zero: none.
    pub keepalive: u16,
    /// The least number of packets that leave in a second on an outbound association; dummies fill up what is missing
    /// (RFC 4303 section 2.6); zero: none.
    pub dummy: u16,
    /// Whether a pair of associations follows its peer to another address or port that an authentic packet shows.
    pub follow_peer: bool,
}

/// The largest number of dummy packets that an association sends in a second.
pub const MAX_DUMMY: u16 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn life(soft: Limits, hard: Limits) -> Life {
        Life::new(Lifetime { soft, hard }, Time(5 * SECOND))
    }

    #[test]
    fn packets_and_octets_end_a_life_exactly() {
        let limits = |packets, bytes| Limits { packets, bytes, ..Limits::default() };
        let mut one = life(limits(2, 0), limits(4, 0));
        let states = (1..=5).map(|n| (one.carry(Time(0), n, n * 100).is_ok(), one.state()));
        let want = [
            (true, LifeState::Mature),
            (true, LifeState::Dying),
            (true, LifeState::Dying),
            (true, LifeState::Dying),
            (false, LifeState::Dead),
        ];
        assert_eq!(states.collect::<Vec<_>>(), want);
        let mut two = life(limits(0, 0), limits(0, 250));
        assert_eq!(two.carry(Time(0), 1, 100), Ok(()));
        assert_eq!(two.carry(Time(0), 2, 250), Ok(()));
        assert_eq!(two.state(), LifeState::Mature);
        assert_eq!(two.carry(Time(0), 3, 251), Err(DropReason::SaExpired));
        // The end was never near: nothing is told but that it is there.
        assert_eq!((two.take_change(), two.take_change()), (Some(LifeState::Dead), None));
        // The dead stay dead.
        two.set_lifetime(Lifetime::default());
        assert_eq!(two.carry(Time(0), 1, 1), Err(DropReason::SaExpired));
    }

    #[test]
    fn a_hard_limit_below_the_soft_one_holds() {
        let limits = |packets| Limits { packets, ..Limits::default() };
        let mut one = life(limits(9), limits(2));
        assert!(one.carry(Time(0), 2, 0).is_ok());
        assert_eq!(one.carry(Time(0), 3, 0), Err(DropReason::SaExpired));
    }

    #[test]
    fn time_ends_a_life() {
        let soft = Limits { seconds: 10, ..Limits::default() };
        let hard = Limits { seconds_used: 3, ..Limits::default() };
        let mut one = life(soft, hard);
        one.tick(Time(14 * SECOND));
        assert_eq!(one.state(), LifeState::Mature);
        one.tick(Time(15 * SECOND));
        assert_eq!(one.state(), LifeState::Dying);
        assert_eq!(one.carry(Time(20 * SECOND), 1, 1), Ok(()));
        one.tick(Time(22 * SECOND));
        assert_eq!(one.state(), LifeState::Dying);
        one.tick(Time(23 * SECOND));
        assert_eq!(one.carry(Time(24 * SECOND), 2, 2), Err(DropReason::SaExpired));
    }

    #[test]
    fn that_it_dies_is_told_before_that_it_is_dead() {
        let seconds = |seconds| Limits { seconds, ..Limits::default() };
        let packets = |packets| Limits { packets, ..Limits::default() };
        let told = |life: &mut Life| std::iter::from_fn(|| life.take_change()).collect::<Vec<_>>();
        let both = [LifeState::Dying, LifeState::Dead];
        // Both between two looks: by time, by packets, and by one packet.
        let mut one = life(seconds(3), seconds(4));
        one.tick(Time(9 * SECOND));
        assert_eq!((told(&mut one), told(&mut one)), (both.to_vec(), vec![]));
        let mut two = life(packets(3), packets(4));
        assert_eq!((1..=5).filter(|n| two.carry(Time(0), *n, 1).is_ok()).count(), 4);
        assert_eq!(told(&mut two), both);
        let mut three =
            life(Limits { bytes: 10, ..Limits::default() }, Limits { bytes: 20, ..Limits::default() });
        assert_eq!(three.carry(Time(0), 1, 30), Err(DropReason::SaExpired));
        assert_eq!(told(&mut three), both);
        // Each between two looks of its own.
        let mut four = life(seconds(3), seconds(4));
        four.tick(Time(8 * SECOND));
        assert_eq!(told(&mut four), [LifeState::Dying]);
        four.tick(Time(9 * SECOND));
        assert_eq!(told(&mut four), [LifeState::Dead]);
        // A soft limit behind the hard one is never met.
        let mut five = life(seconds(9), seconds(4));
        five.tick(Time(9 * SECOND));
        assert_eq!(told(&mut five), [LifeState::Dead]);
    }

    #[test]
    fn jitter_lowers_soft_limits_only_and_by_no_more_than_asked() {
        let limits = Limits { bytes: u64::MAX, packets: 1000, seconds: 3600, seconds_used: 0 };
        let whole = Lifetime { soft: limits, hard: limits };
        assert_eq!(whole.jittered(10, 0), whole);
        assert_eq!(whole.jittered(0, u32::MAX), whole);
        let low = whole.jittered(10, u32::MAX);
        assert_eq!(low.hard, limits);
        assert_eq!((low.soft.packets, low.soft.seconds, low.soft.seconds_used), (901, 3241, 0));
        assert!(low.soft.bytes < u64::MAX && low.soft.bytes > u64::MAX / 10 * 9 - 10);
    }
}
