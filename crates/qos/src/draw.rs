//! Random bits of one draw. A caller may use the random bits of one [`Context`](crate::Context) for many packets, and
//! what happens to them must differ all the same: else one draw would end a whole queue.

/// The number of draws so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Draws(u64);

impl Draws {
    /// The bits of the next draw, from the random bits of the call (the mixer of SplitMix64).
    pub(crate) const fn next(&mut self, random: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = random ^ self.0;
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
