//! A histogram of times with fixed limits: each power of two in eight parts, so that a quantile is told within an
//! eighth.

/// The parts of a power of two.
const PARTS: u64 = 8;
/// The places: one for each time below eight, then eight for each power of two.
const PLACES: usize = 64 * PARTS as usize;

/// A histogram of times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    places: Vec<u64>,
    count: u64,
    sum: u128,
    least: u64,
    most: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { places: vec![0; PLACES], count: 0, sum: 0, least: u64::MAX, most: 0 }
    }
}

impl Histogram {
    /// Count one more time.
    pub fn add(&mut self, ns: u64) {
        self.places[place(ns)] += 1;
        self.count += 1;
        self.sum += u128::from(ns);
        self.least = self.least.min(ns);
        self.most = self.most.max(ns);
    }

    /// The number of times.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The least time; `None` if there is none.
    pub fn least(&self) -> Option<u64> {
        (self.count > 0).then_some(self.least)
    }

    /// The greatest time; `None` if there is none.
    pub fn most(&self) -> Option<u64> {
        (self.count > 0).then_some(self.most)
    }

    /// The mean of the times; `None` if there is none.
    pub fn mean(&self) -> Option<u64> {
        u64::try_from(self.sum.checked_div(u128::from(self.count))?).ok()
    }

    /// The time that so many parts per million of the times do not exceed, rounded up by an eighth at most.
    pub fn quantile(&self, parts: u64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank = (u128::from(self.count) * u128::from(parts.min(1_000_000))).div_ceil(1_000_000).max(1);
        let mut passed = 0_u128;
        let at = self.places.iter().position(|count| {
            passed += u128::from(*count);
            passed >= rank
        })?;
        Some(top(at).clamp(self.least, self.most))
    }
}

/// The place of a time.
fn place(ns: u64) -> usize {
    if ns < PARTS {
        return ns as usize;
    }
    let power = u64::from(ns.ilog2());
    ((power - 2) * PARTS + ((ns >> (power - 3)) & (PARTS - 1))) as usize
}

/// The greatest time of a place.
fn top(place: usize) -> u64 {
    let place = place as u64;
    if place < PARTS {
        return place;
    }
    let power = place / PARTS + 2;
    let first = (PARTS + place % PARTS) << (power - 3);
    first + ((1 << (power - 3)) - 1)
}
