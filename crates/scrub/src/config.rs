//! The configuration of a scrubber: a profile, and the differences from it.

use crate::rule::{Mode, Rule};
use std::time::Duration;
use wire::{Prefix, ScrubId, protocol, reassembly};

/// A profile: a set of modes for all rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Everything is examined as in `standard`, and nothing is changed.
    Observe,
    /// Only what every reader must agree on to see the same stream is enforced; unknown options and protocols pass.
    Minimal,
    /// The profile for a network with hosts of all kinds.
    #[default]
    Standard,
    /// The strictest profile, which also removes what tells an observer about the hosts behind.
    Strict,
}

impl Profile {
    /// All profiles, each stricter than those before it.
    pub const ALL: [Profile; 4] = [Profile::Observe, Profile::Minimal, Profile::Standard, Profile::Strict];

    /// The word for the profile in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Profile::Observe => "observe",
            Profile::Minimal => "minimal",
            Profile::Standard => "standard",
            Profile::Strict => "strict",
        }
    }

    /// The profile with this word.
    pub fn find(word: &str) -> Option<Profile> {
        Profile::ALL.into_iter().find(|profile| profile.name() == word)
    }

    /// The number by which policy names the profile.
    pub const fn id(self) -> ScrubId {
        ScrubId(self as u8 + 1)
    }

    /// The profile with this number; `None`: not scrubbed.
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

/// The half of a connection whose data are recorded, so that no copy of them can differ (paper 003 section III.B.1: the
/// half that comes from outside).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protect {
    /// Only data that go inside are recorded.
    #[default]
    Inside,
    /// The data of both halves are recorded.
    Both,
}

/// The treatment of a segment whose connection's start was not seen (rule Q.14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Midstream {
    /// The segment is dropped.
    #[default]
    Drop,
    /// The segment opens a connection whose window scale is unknown.
    PickUp,
}

/// The treatment of urgent data (rule T.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Urgent {
    /// Urgent data become ordinary data (RFC 6093 section 3.4).
    #[default]
    InBand,
    /// The segment is dropped.
    Drop,
}

/// The amount that a standby hears about connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Feed {
    /// There is no standby.
    #[default]
    Off,
    /// The standby hears the positions of connections. Data under way when it takes over are refused until the host
    /// inside has acknowledged them.
    Positions,
    /// The standby also hears the octets that are in store.
    Octets,
}

/// The bounds on connections (rule Q.16), so that nobody can use up all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowLimits {
    /// The largest number of connections whose handshake is done and that are not closed.
    pub established: usize,
    /// The largest number of those that one source address outside (an IPv6 /64) opened.
    pub established_per_source: usize,
    /// The largest number of closed connections that are remembered for as long as late segments of them may come. It
    /// is `closing` times as many as close in a second.
    pub closed: usize,
    /// The largest number of connections whose handshake is not done.
    pub half_open: usize,
    /// The largest number of those from one source address (an IPv6 /64).
    pub half_open_per_source: usize,
    /// The time that a handshake may take.
    pub handshake: Duration,
    /// The time that an established connection may be silent.
    pub idle: Duration,
    /// The time for which a closing or closed connection is remembered.
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

/// The bounds on flows without connections that are remembered: UDP, echo (rules I.1, I.2, U.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// The largest number of sessions; half of them are for those opened outside.
    pub count: usize,
    /// The largest number of those from one source address outside (an IPv6 /64).
    pub per_source: usize,
    /// The time that a session may be silent. (RFC 4787 section 4.3: two minutes at least.)
    pub idle: Duration,
}

impl Default for SessionLimits {
    fn default() -> SessionLimits {
        SessionLimits { count: 1 << 17, per_source: 1 << 12, idle: Duration::from_secs(180) }
    }
}

/// The bounds on the data in store (rules Q.10, Q.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// The largest number of octets of all connections.
    pub memory: usize,
    /// The part of `memory`, in 256ths, that must be in use before only hashes are kept of data in order (pressure
    /// level 2); 0: always, 256: never.
    pub hashes_from: usize,
    /// The largest number of octets behind a hole in one connection, once half of `memory` is in use.
    pub beyond_hole: usize,
    /// The largest number of separate pieces of one connection.
    pub pieces: usize,
}

impl Default for StoreLimits {
    fn default() -> StoreLimits {
        StoreLimits { memory: 64 << 20, hashes_from: 160, beyond_hole: 64 << 10, pieces: 256 }
    }
}

/// A set of octet values, for example protocols or option kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Octets([u128; 2]);

impl Octets {
    /// The set of these values.
    pub const fn of(values: &[u8]) -> Octets {
        let mut bits = [0; 2];
        let mut at = 0;
        while at < values.len() {
            bits[(values[at] >> 7) as usize] |= 1 << (values[at] & 127);
            at += 1;
        }
        Octets(bits)
    }

    /// Whether the value is in the set.
    pub const fn contains(&self, value: u8) -> bool {
        self.0[(value >> 7) as usize] & 1 << (value & 127) != 0
    }
}

/// The whole configuration of a scrubber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    modes: [Mode; Rule::ALL.len()],
    /// The half of each connection whose data are recorded.
    pub protect: Protect,
    /// The least time to live and hop limit (rules 4.14, 6.2); zero: none.
    pub least_ttl: u8,
    /// The longest packet in octets that the next link carries, by the side it goes to: outside, inside.
    pub mtu: [usize; 2],
    /// The largest MSS in octets that is let through (rule O.2), beside what `mtu` allows.
    pub max_segment: Option<u16>,
    /// The protocols that pass (rule 4.17).
    pub protocols: Octets,
    /// The IPv6 options that pass (rule 6.10).
    pub ipv6_options: Octets,
    /// The types of IPv6 routing headers that pass (rule 6.3).
    pub routing: Octets,
    /// Whether both sides are one link, like those of a bridge, so that a host without an address asks for one through
    /// it (rules 4.13, 6.12, 6.13).
    pub one_link: bool,
    /// Whether packets may have passed that were not seen here, as where a capture was made beside the way, and packets
    /// that this scrubber drops arrive all the same. An acknowledgment of data that were not seen is then believed as
    /// far as the receiver's window goes (rule Q.7), and counts as observed.
    pub may_miss: bool,
    /// Whether packets of a host to itself are among the packets: both ends are loopback addresses (rules 4.13, 6.13).
    pub loopback: bool,
    /// Whether all packets between hosts of a link are among the packets: limited broadcasts, senders without an
    /// address and in 240/4 (rule 4.13), redirects and router discovery of IPv4 (rule I.3). They are only observed.
    pub any_host: bool,
    /// Whether routers outside may advertise themselves (rule 6.12).
    pub outside_routers: bool,
    /// Whether IPv6 flow labels pass (rule 6.11). They tell one flow of a host from another, and some hosts from
    /// others.
    pub flow_labels: bool,
    /// The pairs of networks between whose hosts ESP, AH and IKE may pass (rule V.1), in both directions.
    pub sanctioned: Vec<(Prefix, Prefix)>,
    /// The kinds of TCP options that pass although no rule knows them (rule O.8).
    pub tcp_options: Octets,
    /// The treatment of urgent data.
    pub urgent: Urgent,
    /// The treatment of connections whose start was not seen.
    pub midstream: Midstream,
    /// Whether data in SYN and fast-open cookies pass (rule O.7).
    pub fast_open: bool,
    /// Whether silent connections are asked if they are there, and both ends of a forgotten one are reset (rule Q.16).
    /// Offline, without hosts that could answer, connections are just forgotten.
    pub goodbye: bool,
    /// The amount that a standby hears.
    pub feed: Feed,
    /// The bounds on fragments (rule 4.11).
    pub fragments: reassembly::Limits,
    /// The bounds on connections.
    pub flows: FlowLimits,
    /// The bounds on flows without connections.
    pub sessions: SessionLimits,
    /// The bounds on data in store.
    pub store: StoreLimits,
}

impl Config {
    /// The default configuration of a profile.
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

    /// The mode of a rule.
    #[inline]
    pub fn mode(&self, rule: Rule) -> Mode {
        self.modes.get(rule.index()).copied().unwrap_or(Mode::On)
    }

    /// Set another mode for a rule.
    ///
    /// # Errors
    /// [`ModeError`] if the rule cannot have this mode.
    pub fn set_mode(&mut self, rule: Rule, mode: Mode) -> Result<(), ModeError> {
        if rule.is_structural() && mode == Mode::Off {
            return Err(ModeError::CannotBeOff(rule));
        }
        if let Some(place) = self.modes.get_mut(rule.index()) {
            *place = mode;
        }
        Ok(())
    }

    /// Whether nothing is changed at all, so that packets pass as they came.
    pub fn is_observing(&self) -> bool {
        self.modes.iter().all(|mode| *mode != Mode::On)
    }
}

/// The error that a rule cannot have a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeError {
    /// The rule cannot be off, for a packet that it refuses cannot be read.
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
