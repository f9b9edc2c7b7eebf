//! How long packets of a class were in the gateway, as a histogram.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long packets had been in the gateway when they left a queue: from their arrival at hook 1a, so the time at the
/// queues in front of it is included. A super-packet counts as its pieces. Percentiles are the upper bounds of buckets,
/// which are powers of two; they are absent where no packet left, or where the bucket has no bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosSojourn {
    /// The packets of each bucket; `sojourn_bounds_ns` has the bounds.
    pub buckets: Vec<u64>,
    /// Nanoseconds of all packets together.
    pub sum_ns: u64,
    /// Nanoseconds that half of the packets did not exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<u64>,
    /// Nanoseconds that 99 of 100 packets did not exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
    /// Nanoseconds that no packet exceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ns: Option<u64>,
}

impl QosSojourn {
    /// The sojourns of these buckets. `bounds` are in nanoseconds, one less than there are buckets.
    pub fn new(buckets: Vec<u64>, sum_ns: u64, bounds: &[u64]) -> QosSojourn {
        let of = |percent| percentile(&buckets, bounds, percent);
        let (p50_ns, p99_ns, max_ns) = (of(50), of(99), of(100));
        QosSojourn { buckets, sum_ns, p50_ns, p99_ns, max_ns }
    }

    /// The sojourns of the packets that left since `before`, an earlier answer about the same queue. Where a count is
    /// less than it was, the graph began anew, and all of its packets left since.
    pub fn since(&self, before: &QosSojourn, bounds: &[u64]) -> QosSojourn {
        let earlier = before.buckets.iter().copied().chain(std::iter::repeat(0));
        let left = self.buckets.iter().zip(earlier).map(|(now, then)| now.checked_sub(then));
        match left.collect::<Option<Vec<u64>>>() {
            Some(buckets) => QosSojourn::new(buckets, self.sum_ns.wrapping_sub(before.sum_ns), bounds),
            None => self.clone(),
        }
    }

    /// The packets of all buckets.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// The bound of the bucket that has the packet which this percentage of all do not exceed.
fn percentile(buckets: &[u64], bounds: &[u64], percent: u64) -> Option<u64> {
    let all: u128 = buckets.iter().map(|count| u128::from(*count)).sum();
    let rank = (all * u128::from(percent)).div_ceil(100).max(1);
    let mut below = 0;
    let bucket = buckets.iter().position(|count| {
        below += u128::from(*count);
        below >= rank
    })?;
    bounds.get(bucket).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: [u64; 3] = [10, 20, 40];

    fn figures(buckets: &[u64]) -> [Option<u64>; 3] {
        let of = QosSojourn::new(buckets.to_vec(), 0, &BOUNDS);
        [of.p50_ns, of.p99_ns, of.max_ns]
    }

    #[test]
    fn percentiles_are_bounds_of_the_bucket_with_the_packet_of_that_rank() {
        assert_eq!(figures(&[0; 4]), [None; 3]);
        assert_eq!(figures(&[1, 0, 0, 0]), [Some(10); 3]);
        assert_eq!(figures(&[50, 50, 0, 0]), [Some(10), Some(20), Some(20)]);
        assert_eq!(figures(&[49, 51, 0, 0]), [Some(20), Some(20), Some(20)]);
        assert_eq!(figures(&[99, 0, 1, 0]), [Some(10), Some(10), Some(40)]);
        assert_eq!(figures(&[98, 0, 2, 0]), [Some(10), Some(40), Some(40)]);
        // What is beyond the last bound has none.
        assert_eq!(figures(&[99, 0, 0, 1]), [Some(10), Some(10), None]);
        assert_eq!(figures(&[u64::MAX, 0, u64::MAX, 0])[0], Some(10));
    }

    #[test]
    fn an_interval_has_the_packets_of_its_own() {
        let before = QosSojourn::new(vec![100, 0, 0, 0], 500, &BOUNDS);
        let now = QosSojourn::new(vec![100, 0, 3, 0], 590, &BOUNDS);
        assert_eq!(now.since(&before, &BOUNDS), QosSojourn::new(vec![0, 0, 3, 0], 90, &BOUNDS));
        // A class that had no packets before has no buckets there.
        assert_eq!(now.since(&QosSojourn::default(), &BOUNDS), now);
        let anew = QosSojourn::new(vec![1, 0, 0, 0], 5, &BOUNDS);
        assert_eq!(anew.since(&now, &BOUNDS), anew);
    }
}
