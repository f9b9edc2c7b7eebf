//! The Identification field of outer IPv4 headers that may be fragmented.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

/// The number of counters that all pairs of hosts share.
const COUNTERS: usize = 64;

/// A counter for packets that may be fragmented. Associations between the same two hosts share it: fragments of two of
/// their packets with one number could be joined into a third (RFC 6864 section 4.3 wants each number once for a
/// source, destination and protocol as long as packets live). More hosts may share it without harm.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identification(Arc<AtomicU16>);

impl Identification {
    /// The next Identification value. Zero comes like any other.
    #[inline]
    pub(crate) fn next(&self) -> u16 {
        self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// Continue behind `number`, if no number was given yet.
    fn resume(&self, number: u16) {
        _ = self.0.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The counters that the associations of one thread use.
#[derive(Debug)]
pub(crate) struct Identifications(Box<[Identification]>);

impl Identifications {
    pub(crate) fn new() -> Identifications {
        Identifications((0..COUNTERS).map(|_| Identification::default()).collect())
    }

    /// The counter for packets from `local` to `remote`. A counter that was never used continues behind `number`.
    pub(crate) fn between(&self, local: IpAddr, remote: IpAddr, number: u64) -> Identification {
        let words = [local, remote].map(wire::addr::to_bits).map(|bits| bits as u64 ^ (bits >> 64) as u64);
        let place = crate::keyed::fold(words[0] ^ 0x9e37_79b9_7f4a_7c15, words[1] ^ 0xd1b5_4a32_d192_ed03);
        let counter = self.0.get(place as usize % COUNTERS).cloned().unwrap_or_default();
        counter.resume(number as u16);
        counter
    }
}
