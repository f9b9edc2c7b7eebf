//! Associations by which this host's own kernel sends nothing of what was sealed: a firewall here, or no route.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use sadb::Spi;
use wire::{DropReason, Time};

/// How long nothing gets through before that is a problem.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// A flow that has not tried for so long is given up.
pub(crate) const GIVEN_UP: Duration = Duration::from_secs(300);
/// Associations that are remembered at once; others are when these are done.
const WAYS: usize = 256;

/// An outbound association as its packets show it: the peer's address and the SPI.
pub type SaEnd = (IpAddr, Spi);

/// What the kernel answers for an association's packets, since it last took one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason of the last refusal, in the house's words.
    pub reason: DropReason,
    /// The error's number of the last refusal, where the kernel gave one.
    pub errno: Option<i32>,
    /// The time of the first refusal since a packet was taken.
    pub since: Time,
    /// The time of the last refusal.
    pub last: Time,
}

/// All associations of which the kernel took nothing since a refusal.
#[derive(Clone, Debug, Default)]
pub struct Unsent {
    ways: BTreeMap<SaEnd, Refusal>,
}

impl Unsent {
    /// Whether the kernel takes the packets of every association.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ways.is_empty()
    }

    /// The kernel took a packet of this association.
    #[inline]
    pub(crate) fn sent(&mut self, way: SaEnd) {
        if !self.ways.is_empty() {
            self.ways.remove(&way);
        }
    }

    /// The kernel did not take a packet of this association.
    #[cold]
    pub(crate) fn refused(&mut self, way: SaEnd, reason: DropReason, errno: Option<i32>, now: Time) {
        // A packet that does not fit, or is none for the socket, says nothing of the peer.
        if !matches!(reason, DropReason::Unroutable | DropReason::Backpressure) {
            return;
        }
        let fresh = Refusal { reason, errno, since: now, last: now };
        if let Some(known) = self.ways.get_mut(&way) {
            // What nobody tried for so long has begun anew.
            let since = if now.since(known.last) < GIVEN_UP { known.since } else { now };
            // Where one call does not take several packets, the kernel tells the number for the first of them.
            let errno = errno.or(known.errno.filter(|_| known.reason == reason));
            *known = Refusal { since, errno, ..fresh };
            return;
        }
        if self.ways.len() >= WAYS {
            self.ways.retain(|_, known| now.since(known.last) < GIVEN_UP);
        }
        if self.ways.len() < WAYS {
            self.ways.insert(way, fresh);
        }
    }

    /// Forget the associations for which `is_there` says no.
    pub(crate) fn keep(&mut self, is_there: impl Fn(SaEnd) -> bool) {
        self.ways.retain(|way, _| is_there(*way));
    }

    /// Associations by which nothing was sent for long. A queue that was full once is none of them.
    pub(crate) fn found(&self, now: Time) -> impl Iterator<Item = (SaEnd, Refusal)> {
        let lasts = move |one: &Refusal| {
            let until = if one.reason == DropReason::Backpressure { one.last } else { now };
            until.since(one.since) >= PATIENCE && now.since(one.last) < GIVEN_UP
        };
        self.ways.iter().filter(move |(_, one)| lasts(one)).map(|(way, one)| (*way, *one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(last: u8) -> SaEnd {
        ([192, 0, 2, last].into(), Spi(256))
    }

    fn found(unsent: &Unsent, second: u64) -> Vec<(SaEnd, Option<i32>)> {
        unsent.found(Time::from_secs(second)).map(|(way, one)| (way, one.errno)).collect()
    }

    #[test]
    fn an_association_of_which_everything_is_refused_is_found_until_something_is_taken() {
        let mut unsent = Unsent::default();
        for second in 0..10 {
            unsent.refused(way(1), DropReason::Unroutable, Some(libc::EPERM), Time::from_secs(second));
            // Now and then one is taken.
            unsent.refused(way(2), DropReason::Unroutable, Some(libc::EPERM), Time::from_secs(second));
            unsent.sent(way(2));
        }
        assert_eq!((found(&unsent, 9), found(&unsent, 10)), (vec![], vec![(way(1), Some(libc::EPERM))]));
        unsent.sent(way(1));
        assert_eq!(found(&unsent, 11), []);
        // Nobody tries any more.
        unsent.refused(way(1), DropReason::Unroutable, None, Time::from_secs(20));
        assert_eq!((found(&unsent, 319).len(), found(&unsent, 320).len()), (1, 0));
        unsent.refused(way(1), DropReason::Unroutable, None, Time::from_secs(400));
        assert_eq!(found(&unsent, 401), []);
    }

    #[test]
    fn a_full_queue_and_a_packet_that_does_not_fit_are_no_fault_of_the_peers() {
        let mut unsent = Unsent::default();
        unsent.refused(way(1), DropReason::Backpressure, Some(libc::ENOBUFS), Time::from_secs(0));
        unsent.refused(way(2), DropReason::TooBig, Some(libc::EMSGSIZE), Time::from_secs(0));
        assert_eq!(found(&unsent, 100), []);
        unsent.refused(way(1), DropReason::Backpressure, Some(libc::ENOBUFS), Time::from_secs(10));
        assert_eq!(found(&unsent, 10), [(way(1), Some(libc::ENOBUFS))]);
    }

    /// A firewall drops ESP and lets UDP pass, and each has an association with the peer.
    #[test]
    fn an_association_that_works_hides_no_other_one_with_its_peer() {
        let mut unsent = Unsent::default();
        let (bare, in_udp) = (way(1), (way(1).0, Spi(257)));
        for second in 0..=10 {
            unsent.refused(bare, DropReason::Unroutable, Some(libc::EPERM), Time::from_secs(second));
            unsent.sent(in_udp);
        }
        assert_eq!(found(&unsent, 10), [(bare, Some(libc::EPERM))]);
        // It is removed.
        unsent.keep(|way| way != bare);
        assert_eq!(found(&unsent, 10), []);
    }

    #[test]
    fn associations_are_bounded() {
        let mut unsent = Unsent::default();
        let way = |n: u32| (std::net::Ipv4Addr::from(n).into(), Spi(256));
        (0..1000).for_each(|n| unsent.refused(way(n), DropReason::Unroutable, None, Time::from_secs(1)));
        assert_eq!(unsent.ways.len(), WAYS);
        // Associations that nobody tried for long make room.
        unsent.refused(way(2000), DropReason::Unroutable, None, Time::from_secs(400));
        assert_eq!(unsent.ways.len(), 1);
    }
}
