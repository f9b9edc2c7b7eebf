//! The policy for ICMP errors that nobody signs, and what is counted against it (RFC 4301 sections 5.1.1, 6.1.1 and
//! 8.2.1).

use sadb::sa::PathMtuLimits;
use wire::Time;

/// A kind of ICMP errors, by version, type and code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpKind {
    /// The version: 4 (ICMP) or 6 (ICMPv6).
    pub version: u8,
    /// The ICMP type of the error.
    pub kind: u8,
    /// The ICMP code of the error; `None`: every code.
    pub code: Option<u8>,
}

impl IcmpKind {
    /// Whether one of the kinds in the list covers a message.
    pub(crate) fn lists(kinds: &[IcmpKind], version: u8, kind: u8, code: u8) -> bool {
        kinds.iter().any(|one| {
            (one.version, one.kind) == (version, kind) && one.code.is_none_or(|listed| listed == code)
        })
    }
}

/// The policy for unauthenticated ICMP errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcmpPolicy {
    /// The UDP port that ESP leaves from; datagrams of other ports belong to other programs.
    pub port: u16,
    /// The kinds of errors that are examined; any other ends with [`wire::DropReason::IcmpRefused`].
    pub accept: Vec<IcmpKind>,
    /// The number of errors about packets sent a moment ago that are believed in a second.
    pub per_second: u32,
    /// The bounds of what they teach about paths.
    pub path: PathMtuLimits,
    /// The number of ICMP errors in a second that tell senders on this side that their packets are refused (RFC 4301
    /// section 5.1.1); zero: none.
    pub refusals: u32,
}

impl Default for IcmpPolicy {
    /// The default policy: "fragmentation needed" and "packet too big", 256 in a second.
    fn default() -> IcmpPolicy {
        let accept = vec![
            IcmpKind { version: 4, kind: 3, code: Some(4) },
            IcmpKind { version: 6, kind: 2, code: None },
        ];
        IcmpPolicy {
            port: ipsec::udp_encap::PORT,
            accept,
            per_second: 256,
            path: PathMtuLimits::default(),
            refusals: 0,
        }
    }
}

/// The policy in force, and the counts of this second.
#[derive(Debug, Default)]
pub(crate) struct IcmpLimits {
    pub(crate) policy: IcmpPolicy,
    looked_at: PerSecond,
    refused: PerSecond,
}

impl IcmpLimits {
    /// The bounds of what is learned about paths.
    pub(crate) fn path_limits(&self) -> PathMtuLimits {
        self.policy.path
    }

    /// Whether one more error may be believed.
    pub(crate) fn has_room(&mut self, now: Time) -> bool {
        self.looked_at.count(now) <= self.policy.per_second
    }

    /// Whether one more sender may be told that its packet is refused.
    pub(crate) fn may_refuse(&mut self, now: Time) -> bool {
        self.policy.refusals > 0 && self.refused.count(now) <= self.policy.refusals
    }
}

/// The number of times that something happened in a second.
#[derive(Debug, Default)]
struct PerSecond {
    second: u64,
    count: u32,
}

impl PerSecond {
    /// Count once more, and return the number in this second.
    fn count(&mut self, now: Time) -> u32 {
        let second = now.0 / 1_000_000_000;
        if second != self.second {
            (self.second, self.count) = (second, 0);
        }
        self.count = self.count.saturating_add(1);
        self.count
    }
}
