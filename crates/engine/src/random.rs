//! Numbers for what need not be hard to guess by whoever sees many of them.

/// A Xorshift generator (Marsaglia 2003) with a secret seed.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The generator of this seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    /// The next number, which is never zero.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
