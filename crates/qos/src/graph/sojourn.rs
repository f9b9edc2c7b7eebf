//! How long packets were in the gateway until they left a queue: a histogram whose buckets are powers of two of
//! nanoseconds.
//!
//! A sojourn begins with the packet's arrival, as it does for active queue management, so that of a later queue has
//! those of the queues in front of it in it. Its end is the time of the call that takes the packet. No clock is read
//! here, and a packet that arrives and leaves within one call has a sojourn of 0.

/// The number of buckets.
pub const BUCKETS: usize = 28;
/// The power of two that bounds the first bucket: 256 ns.
const FIRST: u32 = 8;

/// The nanoseconds that no packet of a bucket exceeds; `None` for the last bucket, and beyond it.
pub const fn bound(bucket: usize) -> Option<u64> {
    if bucket + 1 < BUCKETS { Some(1 << (bucket as u32 + FIRST)) } else { None }
}

/// The bucket for a sojourn of so many nanoseconds.
#[inline]
pub const fn bucket(ns: u64) -> usize {
    let bits = u64::BITS - (ns.saturating_sub(1) | ((1 << FIRST) - 1)).leading_zeros();
    let bucket = (bits - FIRST) as usize;
    if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
}

/// A histogram of sojourn times in nanoseconds. A super-packet counts as its pieces. The sum is exact modulo 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sojourn {
    buckets: [u64; BUCKETS],
    sum: u64,
}

impl Sojourn {
    /// Add packets that left after so many nanoseconds.
    #[inline]
    pub(super) fn add(&mut self, ns: u64, packets: u64) {
        self.buckets[bucket(ns)] += packets;
        self.sum = self.sum.wrapping_add(ns.wrapping_mul(packets));
    }

    /// Take packets out again that were added with so many nanoseconds.
    pub(super) fn take_back(&mut self, ns: u64, packets: u64) {
        let count = &mut self.buckets[bucket(ns)];
        *count = count.saturating_sub(packets);
        self.sum = self.sum.wrapping_sub(ns.wrapping_mul(packets));
    }

    /// The packets of each bucket, in the order of [`bound`].
    pub const fn buckets(&self) -> &[u64; BUCKETS] {
        &self.buckets
    }

    /// The nanoseconds of all packets together.
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// The packets of all buckets.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}
