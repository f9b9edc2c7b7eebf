//! The figures of what one association has carried and refused.

use wire::{DropReason, Time};

/// The figures of one association, counted by the thread that owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// The number of packets that it carried. Outbound, a packet counts from its sequence number on, also if the crypto
    /// unit then fails ([`DropReason::UnitFailed`]): the key may have been used for it.
    pub packets: u64,
    /// The number of octets in the inner packets that it carried.
    pub bytes: u64,
    /// The time of the last packet that it carried; [`Time::default`]: never.
    pub last_used: Time,
    /// The length in octets of the longest inner packet since the last call of [`Counters::take_longest`].
    longest: usize,
    /// Packets with a combination of inner and outer ECN field that RFC 6040 figure 4 marks "(!!!)": dangerous.
    pub ecn_dangerous: u64,
    /// Packets with a combination that the figure marks "(!)": unused, perhaps dangerous.
    pub ecn_unused: u64,
    /// The number of NAT keepalives that were sent for it.
    pub keepalives: u64,
    /// The number of dummy packets among those carried (outbound).
    pub dummies: u64,
    drops: [u64; DropReason::ALL.len()],
}

impl Counters {
    /// Count a packet of `bytes` inner octets.
    #[inline]
    pub fn carried(&mut self, now: Time, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
        self.last_used = now;
        self.longest = self.longest.max(bytes);
    }

    /// Octets of the longest inner packet carried since the last call; zero: none was.
    pub fn take_longest(&mut self) -> usize {
        std::mem::take(&mut self.longest)
    }

    /// Count a packet that was dropped.
    #[inline]
    pub fn dropped(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }

    /// The number of packets that were dropped for this reason.
    pub fn drops_for(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// Every reason for which packets were dropped, with their number.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().copied().zip(self.drops).filter(|(_, count)| *count > 0)
    }
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            packets: 0,
            bytes: 0,
            last_used: Time::default(),
            longest: 0,
            ecn_dangerous: 0,
            ecn_unused: 0,
            keepalives: 0,
            dummies: 0,
            drops: [0; DropReason::ALL.len()],
        }
    }
}
