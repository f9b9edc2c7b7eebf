//! The sockets of outer packets by class (docs/design/0042): how packets are split among them, the classes of inbound
//! associations, and what came of each queue.
//!
//! What enters: the daemon's sockets, and the associations as they come and go. What leaves: a socket for each class.

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_rs::{MapCore, MapFlags};
use wire::AggregateId;

use crate::abi::{self, AGGREGATES, SOCKET_QUEUES, SPLIT_WORDS, Share, Split, Wire};
use crate::error::SockmonError;
use crate::programs::{self, Maps};
use crate::queue_counts::QueueTable;
use crate::sys;
use crate::tun_queues::QueueShare;

/// How outer packets are split among the queues of the daemon's sockets, by their class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketSplit {
    /// The most packets that wait in each queue; at most [`SocketSplit::MOST_QUEUES`] queues.
    pub limits: Vec<u32>,
    /// The most packets that wait in the queue behind these, where what names no association of its sender goes.
    pub strangers: u32,
    /// The class of each outer DSCP, where the association has none of its own.
    pub of_dscp: [AggregateId; AGGREGATES],
    /// The queues of each class, by its number; `None`: no packet is of this class.
    pub shares: [Option<QueueShare>; AGGREGATES],
}

impl SocketSplit {
    /// The most queues of classes. One more is there for what names no association.
    pub const MOST_QUEUES: usize = SOCKET_QUEUES - 1;

    /// The octets of the split as the kernel half reads it. `seed` is random and secret.
    fn entry(&self, seed: [u64; SPLIT_WORDS]) -> Split {
        let queues = self.limits.len().min(SocketSplit::MOST_QUEUES) as u8;
        let share = |share: Option<QueueShare>| match share {
            Some(QueueShare { first, count }) if first < queues => {
                Share { first, count: count.clamp(1, queues - first) }
            }
            _ => Share { first: 0, count: 0 },
        };
        Split {
            seed,
            queues: queues.into(),
            of_dscp: self.of_dscp.map(|class| class.0),
            of: self.shares.map(share),
            apps: 0,
        }
    }

    /// The limits of all queues.
    fn all_limits(&self) -> Vec<u32> {
        let classes = self.limits.iter().take(SocketSplit::MOST_QUEUES);
        classes.chain([&self.strangers]).map(|limit| (*limit).max(1)).collect()
    }
}

/// An inbound association, by what its outer packets show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SaName {
    /// The security parameter index.
    pub spi: u32,
    /// The sender of its packets; `None`: anybody.
    pub source: Option<IpAddr>,
}

impl SaName {
    fn key(self) -> abi::SaName {
        let source = match self.source {
            Some(IpAddr::V4(source)) => source.to_ipv6_mapped().octets(),
            Some(IpAddr::V6(source)) => source.octets(),
            None => [0; 16],
        };
        abi::SaName { spi: self.spi.to_be(), source }
    }
}

/// The sockets that have queues.
#[derive(Clone, Debug, Default)]
pub struct QueuedSockets<'fd> {
    /// The UDP sockets of IPv4 and of IPv6, in the order of their queues.
    pub udp: [Vec<BorrowedFd<'fd>>; 2],
    /// The raw sockets for ESP, with the numbers of their queues.
    pub esp: Vec<(BorrowedFd<'fd>, u32)>,
    /// The raw sockets for AH, with the numbers of their queues.
    pub ah: Vec<(BorrowedFd<'fd>, u32)>,
}

/// The bit of a place that says that a raw socket is one for AH.
const PLACE_AH: u32 = 0x100;

/// Split packets among the sockets from now on, or no more. The counts begin anew.
pub(crate) fn split(
    maps: &Maps,
    split: Option<&SocketSplit>,
    seed: [u64; SPLIT_WORDS],
) -> Result<QueueTable, SockmonError> {
    let queues = QueueTable::of(maps, programs::SOCKET_QUEUES)?;
    maps.write(programs::SOCKET_SPLIT, &0u32, &Split::NONE)?;
    queues.limit(&[], 0);
    queues.begin();
    if let Some(split) = split {
        change(maps, &queues, split, seed)?;
    }
    Ok(queues)
}

/// Split packets in another way from now on. The counts go on.
pub(crate) fn change(
    maps: &Maps,
    queues: &QueueTable,
    split: &SocketSplit,
    seed: [u64; SPLIT_WORDS],
) -> Result<(), SockmonError> {
    // What waits in a queue that nothing comes to any more goes on to be counted.
    queues.limit(&split.all_limits(), u64::MAX);
    maps.write(programs::SOCKET_SPLIT, &0u32, &split.entry(seed))
}

fn cookie(socket: BorrowedFd<'_>) -> Result<u64, SockmonError> {
    let cookie = sys::socket_option::<u64>(socket, libc::SO_COOKIE);
    cookie.map_err(SockmonError::system("ask for the cookie of a socket".to_owned()))
}

/// Tell the kernel half which sockets have queues.
pub(crate) fn put(maps: &Maps, sockets: &QueuedSockets<'_>) -> Result<(), SockmonError> {
    let mut places: HashMap<u64, u32> = HashMap::new();
    let mut chosen: HashMap<u32, (u64, BorrowedFd<'_>)> = HashMap::new();
    for (family, sockets) in (0u32..).zip(&sockets.udp) {
        for (queue, socket) in (0..SOCKET_QUEUES as u32).zip(sockets) {
            let cookie = cookie(*socket)?;
            places.insert(cookie, queue);
            chosen.insert(family * SOCKET_QUEUES as u32 + queue, (cookie, *socket));
        }
    }
    for (sockets, kind) in [(&sockets.esp, 0), (&sockets.ah, PLACE_AH)] {
        for (socket, queue) in sockets {
            places.insert(cookie(*socket)?, queue | kind);
        }
    }
    put_udp(maps, &chosen)?;
    maps.retain(programs::SOCKET_PLACES, |cookie: &u64| !places.contains_key(cookie))?;
    places.iter().try_for_each(|(cookie, place)| maps.write(programs::SOCKET_PLACES, cookie, place))
}

/// Put UDP sockets into these slots, each with its cookie, and take others out.
fn put_udp(maps: &Maps, wanted: &HashMap<u32, (u64, BorrowedFd<'_>)>) -> Result<(), SockmonError> {
    let array = maps.get(programs::UDP_SOCKETS)?;
    let what = || SockmonError::bpf(format!("write map {}", programs::UDP_SOCKETS));
    let mut missing = Vec::new();
    for slot in 0..2 * SOCKET_QUEUES as u32 {
        // User space reads the cookie of the socket that is there.
        let there = array.lookup(slot.bytes(), MapFlags::ANY).map_err(what())?;
        let there = there.and_then(|octets| u64::read(&octets));
        match wanted.get(&slot) {
            Some((cookie, _)) if there == Some(*cookie) => {}
            wanted => {
                // A socket is in one slot alone, so it leaves the one that it had before it comes into another.
                if there.is_some() {
                    maps.delete(programs::UDP_SOCKETS, &slot)?;
                }
                missing.extend(wanted.map(|(_, socket)| (slot, *socket)));
            }
        }
    }
    missing.into_iter().try_for_each(|(slot, socket)| {
        let number = u64::from(socket.as_raw_fd().cast_unsigned());
        array.update(slot.bytes(), number.bytes(), MapFlags::ANY).map_err(what())
    })
}

/// Set the class of an association; the default one leaves it to the outer header.
pub(crate) fn set_class(maps: &Maps, sa: SaName, class: AggregateId) -> Result<(), SockmonError> {
    maps.write(programs::SA_CLASSES, &sa.key(), &u32::from(class.0))
}

/// Forget the class of an association. What names it waits where strangers do.
pub(crate) fn forget_class(maps: &Maps, sa: SaName) -> Result<(), SockmonError> {
    maps.delete(programs::SA_CLASSES, &sa.key())
}

/// Set the classes of these associations, and forget all others.
pub(crate) fn set_classes(maps: &Maps, classes: &HashMap<SaName, AggregateId>) -> Result<(), SockmonError> {
    let wanted: HashMap<abi::SaName, u32> =
        classes.iter().map(|(sa, class)| (sa.key(), u32::from(class.0))).collect();
    maps.retain(programs::SA_CLASSES, |key: &abi::SaName| !wanted.contains_key(key))?;
    maps.write_all(programs::SA_CLASSES, wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_stays_within_the_queues_and_a_class_that_is_not_there_has_none() {
        let mut shares = [None; AGGREGATES];
        shares[1] = Some(QueueShare { first: 0, count: 9 });
        shares[2] = Some(QueueShare { first: 1, count: 0 });
        shares[3] = Some(QueueShare { first: 2, count: 1 });
        let of_dscp = [AggregateId(1); AGGREGATES];
        let split = SocketSplit { limits: vec![8, 0], strangers: 4, of_dscp, shares };
        let entry = split.entry([1; SPLIT_WORDS]);
        assert_eq!((entry.queues, entry.of_dscp[9]), (2, 1));
        let share = |first, count| Share { first, count };
        assert_eq!(entry.of[..4], [share(0, 0), share(0, 2), share(1, 1), share(0, 0)]);
        assert_eq!(split.all_limits(), [8, 1, 4]);
    }
}
