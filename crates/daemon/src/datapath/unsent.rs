//! Peers to whom this host's own kernel sends nothing of what was sealed for them: a firewall here, or no route.

use std::collections::BTreeMap;
use std::net::IpAddr;

use wire::{DropReason, Time};

use crate::health::{GIVEN_UP, PATIENCE};

/// Peers that are remembered at once; others are when these are done.
const PEERS: usize = 256;

/// What the kernel answers for a peer's packets, since it last took one.
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

/// All peers of which the kernel took nothing since a refusal.
#[derive(Clone, Debug, Default)]
pub struct Unsent {
    peers: BTreeMap<IpAddr, Refusal>,
}

impl Unsent {
    /// Whether the kernel takes packets for every peer.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// The kernel took a packet for this peer.
    #[inline]
    pub(crate) fn sent(&mut self, peer: IpAddr) {
        if !self.peers.is_empty() {
            self.peers.remove(&peer);
        }
    }

    /// The kernel did not take a packet for this peer.
    #[cold]
    pub(crate) fn refused(&mut self, peer: IpAddr, reason: DropReason, errno: Option<i32>, now: Time) {
        // A packet that does not fit, or is none for the socket, says nothing of the peer.
        if !matches!(reason, DropReason::Unroutable | DropReason::Backpressure) {
            return;
        }
        self.peers.retain(|_, known| now.since(known.last) < GIVEN_UP);
        let fresh = Refusal { reason, errno, since: now, last: now };
        if let Some(known) = self.peers.get_mut(&peer) {
            *known = Refusal { since: known.since, ..fresh };
        } else if self.peers.len() < PEERS {
            self.peers.insert(peer, fresh);
        }
    }

    /// Peers to whom nothing was sent for long. A queue that was full once is none of them.
    pub(crate) fn found(&self, now: Time) -> impl Iterator<Item = (IpAddr, Refusal)> {
        let lasts = move |one: &Refusal| {
            let until = if one.reason == DropReason::Backpressure { one.last } else { now };
            until.since(one.since) >= PATIENCE && now.since(one.last) < GIVEN_UP
        };
        self.peers.iter().filter(move |(_, one)| lasts(one)).map(|(peer, one)| (*peer, *one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn found(unsent: &Unsent, second: u64) -> Vec<(IpAddr, Option<i32>)> {
        unsent.found(Time::from_secs(second)).map(|(peer, one)| (peer, one.errno)).collect()
    }

    #[test]
    fn a_peer_of_which_everything_is_refused_is_found_until_something_is_taken() {
        let mut unsent = Unsent::default();
        for second in 0..10 {
            unsent.refused(peer(1), DropReason::Unroutable, Some(libc::EPERM), Time::from_secs(second));
            // Now and then one is taken.
            unsent.refused(peer(2), DropReason::Unroutable, Some(libc::EPERM), Time::from_secs(second));
            unsent.sent(peer(2));
        }
        assert_eq!((found(&unsent, 9), found(&unsent, 10)), (vec![], vec![(peer(1), Some(libc::EPERM))]));
        unsent.sent(peer(1));
        assert_eq!(found(&unsent, 11), []);
        // Nobody tries any more.
        unsent.refused(peer(1), DropReason::Unroutable, None, Time::from_secs(20));
        assert_eq!((found(&unsent, 319).len(), found(&unsent, 320).len()), (1, 0));
        unsent.refused(peer(1), DropReason::Unroutable, None, Time::from_secs(400));
        assert_eq!(found(&unsent, 401), []);
    }

    #[test]
    fn a_full_queue_and_a_packet_that_does_not_fit_are_no_fault_of_the_peers() {
        let mut unsent = Unsent::default();
        unsent.refused(peer(1), DropReason::Backpressure, Some(libc::ENOBUFS), Time::from_secs(0));
        unsent.refused(peer(2), DropReason::TooBig, Some(libc::EMSGSIZE), Time::from_secs(0));
        assert_eq!(found(&unsent, 100), []);
        unsent.refused(peer(1), DropReason::Backpressure, Some(libc::ENOBUFS), Time::from_secs(10));
        assert_eq!(found(&unsent, 10), [(peer(1), Some(libc::ENOBUFS))]);
    }

    #[test]
    fn peers_are_bounded() {
        let mut unsent = Unsent::default();
        for n in 0..1000u32 {
            let peer = std::net::Ipv4Addr::from(n).into();
            unsent.refused(peer, DropReason::Unroutable, None, Time::from_secs(1));
        }
        assert_eq!(unsent.peers.len(), PEERS);
    }
}
