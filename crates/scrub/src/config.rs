//! What a scrubber does: a profile, and what is different from it.

use crate::rule::{Mode, Rule};
use std::time::Duration;
use wire::{Prefix, ScrubId, protocol, reassembly};

/// A set of modes for all rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Everything is looked at as in `standard`, nothing is changed.
    Observe,
    /// What every reader must agree on to see the same stream; options and protocols nobody knows pass.
    Minimal,
    /// For a network with hosts of all kinds.
    #[default]
    Standard,
    /// Also what tells an observer about the hosts behind.
    Strict,
}

impl Profile {
    /// All of them, each stricter than those before it.
    pub const ALL: [Profile; 4] = [Profile::Observe, Profile::Minimal, Profile::Standard, Profile::Strict];

    /// The word in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Profile::Observe => "observe",
            Profile::Minimal => "minimal",
            Profile::Standard => "standard",
            Profile::Strict => "strict",
        }
    }

    /// By its word.
    pub fn find(word: &str) -> Option<Profile> {
        Profile::ALL.into_iter().find(|profile| profile.name() == word)
    }

    /// Its number where policy names it.
    pub const fn id(self) -> ScrubId {
        ScrubId(self as u8 + 1)
    }

    /// By its number; `None`: not scrubbed.
    pub fn of_id(id: ScrubId) -> Option<Profile> {
        Profile::ALL.into_iter().find(|profile| profile.id() == id)
    }

    fn mode(self, rule: Rule) -> Mode {
        let [minimal, standard, strict] = rule.modes();
        match self {
            Profile::Observe if standard == Mode::On => Mode::Observe,
            Profile::Observe => Mode::Off,
            Profile::Minimal => minimal,
            Profile::Standard => standard,
            Profile::Strict => strict,
        }
    }
}

/// Whose data are recorded, so that no copy of them can differ (paper 003 section III.B.1: the half that comes from outside).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protect {
    /// What goes inside.
    #[default]
    Inside,
    /// Both halves.
    Both,
}

/// What becomes of a segment whose connection's start was not seen (rule Q.14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Midstream {
    /// It is dropped.
    #[default]
    Drop,
    /// It opens a connection whose window scale is unknown.
    PickUp,
}

/// What becomes of urgent data (rule T.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Urgent {
    /// They are ordinary data (RFC 6093 section 3.4).
    #[default]
    InBand,
    /// The segment is dropped.
    Drop,
}

/// What a standby hears of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Feed {
    /// There is none.
    #[default]
    Off,
    /// Where they are. What was under way when it takes over is refused until the host inside has acknowledged it.
    Positions,
    /// Also what is in store.
    Octets,
}

/// Bounds on connections (rule Q.16, and what nobody may use up).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowLimits {
    /// Connections whose handshake is done and that are not closed.
    pub established: usize,
    /// Of those, opened by one source address outside (an IPv6 /64).
    pub established_per_source: usize,
    /// Connections that are closed and remembered for as long as late segments of them may come: `closing` times as many as close in a
    /// second.
    pub closed: usize,
    /// Connections whose handshake is not.
    pub half_open: usize,
    /// Of those, by one source address (an IPv6 /64).
    pub half_open_per_source: usize,
    /// How long a handshake may take.
    pub handshake: Duration,
    /// How long an established connection may be silent.
    pub idle: Duration,
    /// How long one that is closing or closed is remembered.
    pub closing: Duration,
}

impl Default for FlowLimits {
    fn default() -> FlowLimits {
        FlowLimits {
            established: 1 << 20,
            established_per_source: 1 << 17,
            closed: 1 << 22,
            half_open: 1 << 16,
            half_open_per_source: 1 << 12,
            handshake: Duration::from_secs(30),
            // Longer than RFC 5382 section 5 asks of a NAT: two hours and four minutes.
            idle: Duration::from_secs(2 * 3600 + 300),
            closing: Duration::from_secs(120),
        }
    }
}

/// Bounds on what is known of flows without connections: UDP, echo (rules I.1, I.2, U.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Sessions; half of them for those opened outside.
    pub count: usize,
    /// Of those, by one source address outside (an IPv6 /64).
    pub per_source: usize,
    /// How long one may be silent. (RFC 4787 section 4.3: two minutes at least.)
    pub idle: Duration,
}

impl Default for SessionLimits {
    fn default() -> SessionLimits {
        SessionLimits { count: 1 << 17, per_source: 1 << 12, idle: Duration::from_secs(180) }
    }
}

/// Bounds on what is in store (rules Q.10, Q.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Octets of all connections.
    pub memory: usize,
    /// Of 256 parts of `memory`, how many must be in use for hashes alone to be kept of data in order (pressure level 2); 0: always,
    /// 256: never.
    pub hashes_from: usize,
    /// Octets behind a hole, of one connection, once half of `memory` is in use.
    pub beyond_hole: usize,
    /// Separate pieces of one connection.
    pub pieces: usize,
}

impl Default for StoreLimits {
    fn default() -> StoreLimits {
        StoreLimits { memory: 64 << 20, hashes_from: 160, beyond_hole: 64 << 10, pieces: 256 }
    }
}

/// A set of octet values: protocols, option kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Octets([u128; 2]);

impl Octets {
    /// Those named.
    pub const fn of(values: &[u8]) -> Octets {
        let mut bits = [0; 2];
        let mut at = 0;
        while at < values.len() {
            bits[(values[at] >> 7) as usize] |= 1 << (values[at] & 127);
            at += 1;
        }
        Octets(bits)
    }

    /// Whether it is in.
    pub const fn contains(&self, value: u8) -> bool {
        self.0[(value >> 7) as usize] & 1 << (value & 127) != 0
    }
}

/// All a scrubber is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    modes: [Mode; Rule::ALL.len()],
    /// Whose data are recorded.
    pub protect: Protect,
    /// Least time to live and hop limit (rules 4.14, 6.2); zero: none.
    pub least_ttl: u8,
    /// Longest packet that the next link carries, by the side it goes to: outside, inside.
    pub mtu: [usize; 2],
    /// Largest MSS that is let through (rule O.2), beside what `mtu` allows.
    pub max_segment: Option<u16>,
    /// Protocols that pass (rule 4.17).
    pub protocols: Octets,
    /// IPv6 options that pass (rule 6.10).
    pub ipv6_options: Octets,
    /// IPv6 routing headers that pass (rule 6.3).
    pub routing: Octets,
    /// Both sides are one link, as those of a bridge: a host without an address asks for one through it (rules 4.13, 6.12, 6.13).
    pub one_link: bool,
    /// Packets may have passed that were not seen here, as beside the way where a capture was made, and what this scrubber ends arrives all
    /// the same: an acknowledgment of what was not seen is believed as far as the receiver's window goes (rule Q.7), and counts as observed.
    pub may_miss: bool,
    /// A host's talk to itself is among the packets: both ends are loopback addresses (rules 4.13, 6.13).
    pub loopback: bool,
    /// Whatever hosts of a link say to each other is among the packets: limited broadcasts, senders without an address and in 240/4 (rule
    /// 4.13), redirects and router discovery of IPv4 (rule I.3). They are observed.
    pub any_host: bool,
    /// And routers outside may say that they are (rule 6.12).
    pub outside_routers: bool,
    /// Let IPv6 flow labels pass (rule 6.11). They tell one flow of a host from another, and some hosts from others.
    pub flow_labels: bool,
    /// Pairs of networks between whose hosts ESP, AH and IKE may pass (rule V.1), in both directions.
    pub sanctioned: Vec<(Prefix, Prefix)>,
    /// Kinds of TCP options that pass although no rule knows them (rule O.8).
    pub tcp_options: Octets,
    /// Urgent data.
    pub urgent: Urgent,
    /// Connections whose start was not seen.
    pub midstream: Midstream,
    /// Let data in SYN and fast-open cookies pass (rule O.7).
    pub fast_open: bool,
    /// Ask silent connections whether they are there, and reset both ends of one that is forgotten (rule Q.16). Without hosts that
    /// could answer, as offline, they are forgotten.
    pub goodbye: bool,
    /// A standby.
    pub feed: Feed,
    /// Fragments (rule 4.11).
    pub fragments: reassembly::Limits,
    /// Connections.
    pub flows: FlowLimits,
    /// Flows without connections.
    pub sessions: SessionLimits,
    /// Data in store.
    pub store: StoreLimits,
}

impl Config {
    /// As the profile says.
    pub fn new(profile: Profile) -> Config {
        Config {
            modes: std::array::from_fn(|at| profile.mode(Rule::ALL[at])),
            protect: Protect::Inside,
            least_ttl: 0,
            mtu: [1500, 1500],
            max_segment: None,
            protocols: Octets::of(&[
                protocol::ICMP,
                protocol::ICMPV6,
                protocol::TCP,
                protocol::UDP,
                protocol::SCTP,
                protocol::ESP,
                protocol::AH,
            ]),
            // Router alert and the Alternate-Marking and IOAM options have uses between routers only.
            ipv6_options: Octets::of(&[]),
            routing: Octets::of(&[]),
            one_link: false,
            may_miss: false,
            loopback: false,
            any_host: false,
            outside_routers: false,
            flow_labels: profile != Profile::Strict,
            sanctioned: Vec::new(),
            tcp_options: Octets::of(&[]),
            urgent: Urgent::InBand,
            midstream: Midstream::Drop,
            fast_open: false,
            goodbye: true,
            feed: Feed::Off,
            fragments: reassembly::Limits {
                datagrams: 256,
                memory: 4 << 20,
                timeout: Duration::from_secs(15),
            },
            flows: FlowLimits::default(),
            sessions: SessionLimits::default(),
            store: StoreLimits::default(),
        }
    }

    /// What is said of a rule.
    #[inline]
    pub fn mode(&self, rule: Rule) -> Mode {
        self.modes.get(rule.index()).copied().unwrap_or(Mode::On)
    }

    /// Say something else of it.
    ///
    /// # Errors
    /// [`ModeError`].
    pub fn set_mode(&mut self, rule: Rule, mode: Mode) -> Result<(), ModeError> {
        if rule.is_structural() && mode == Mode::Off {
            return Err(ModeError::CannotBeOff(rule));
        }
        if let Some(place) = self.modes.get_mut(rule.index()) {
            *place = mode;
        }
        Ok(())
    }

    /// Whether nothing is changed at all: packets pass as they came.
    pub fn is_observing(&self) -> bool {
        self.modes.iter().all(|mode| *mode != Mode::On)
    }
}

/// A rule cannot have a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeError {
    /// Without it a packet cannot be read.
    CannotBeOff(Rule),
}

impl std::fmt::Display for ModeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ModeError::CannotBeOff(rule) = self;
        write!(
            f,
            "rule {} ({}) cannot be off: a packet that it refuses cannot be read; say `observe` to see what it would drop",
            rule.id(),
            rule.name()
        )
    }
}

impl std::error::Error for ModeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observing_never_acts_and_structural_rules_stay() {
        assert!(Config::new(Profile::Observe).is_observing());
        let mut config = Config::new(Profile::Standard);
        assert!(!config.is_observing());
        assert_eq!(config.set_mode(Rule::TcpOffset, Mode::Off), Err(ModeError::CannotBeOff(Rule::TcpOffset)));
        assert_eq!(config.mode(Rule::TcpOffset), Mode::On);
        config.set_mode(Rule::TcpOffset, Mode::Observe).expect("it may observe");
        assert_eq!(config.mode(Rule::TcpOffset), Mode::Observe);
        assert!(
            config.protocols.contains(6) && !config.protocols.contains(47) && !config.protocols.contains(255)
        );
    }
}
