//! Registers as blocks side by side: one, two or four.
//!
//! Code over [`Lanes`] is compiled once for each width: everything in it is always inlined into the few functions of `gcm` and
//! `chacha20_poly1305` that are compiled for the instructions of that width.
//!
//! The rule that the unsafe blocks here rest on, which no type can say: an operation of [`One`], [`Pair`] or [`Quad`] is called only below a
//! function with the `target_feature`s of that width. Those functions are unsafe to call, and their callers show a
//! [`Wide`](crate::Wide), which exists only where the processor was asked.

use core::arch::x86_64::*;

/// Octets of a block of AES and of GHASH.
pub(crate) const BLOCK: usize = 16;

/// One block in memory.
pub(crate) type Block = [u8; BLOCK];

/// Blocks side by side in one register.
///
/// See above for where its operations may be called.
pub(crate) trait Lanes: Copy {
    /// Number of blocks, at most four.
    const BLOCKS: usize;

    /// Octets of all blocks.
    const LEN: usize = Self::BLOCKS * BLOCK;

    /// Octets, zeros where `octets` has fewer than [`Self::LEN`].
    fn load(octets: &[u8]) -> Self;

    /// Write the first octets of the register, as many as `octets` takes.
    fn store(self, octets: &mut [u8]);

    /// Zeros behind the first `len` octets.
    fn keep(self, len: usize) -> Self;

    /// The same block in each lane.
    fn all(block: One) -> Self;

    /// This value in each counter (the first 32 bits of a lane), zeros elsewhere.
    fn counters(of: [i32; 4]) -> Self;

    /// Two blocks in the first two lanes (the first alone, where there is but one), zeros behind them.
    fn two(first: One, second: One) -> Self;

    /// The sum of all lanes.
    fn sum(self) -> One;

    fn xor(self, other: Self) -> Self;

    /// The sum of each 32 bits.
    fn add(self, other: Self) -> Self;

    /// Each block's octets in reverse order.
    fn reversed(self) -> Self;

    /// A round of AES encryption, with this round key.
    fn round(self, key: Self) -> Self;

    /// The last round of AES encryption, with this round key.
    fn last_round(self, key: Self) -> Self;

    /// The carry-less product of a half of each block with a half of the other's: bit 0 of `HALVES` chooses the upper of this one,
    /// bit 4 that of the other.
    fn product<const HALVES: i32>(self, other: Self) -> Self;
}

/// One block in a register.
#[derive(Clone, Copy)]
pub(crate) struct One(__m128i);
/// Two blocks side by side.
#[derive(Clone, Copy)]
pub(crate) struct Pair(__m256i);
/// Four blocks side by side.
#[derive(Clone, Copy)]
pub(crate) struct Quad(__m512i);

impl One {
    #[inline(always)]
    pub(crate) fn new(block: u128) -> One {
        One(bytemuck::must_cast(block))
    }

    #[inline(always)]
    pub(crate) fn value(self) -> u128 {
        bytemuck::must_cast(self.0)
    }

    #[inline(always)]
    pub(crate) fn register(self) -> __m128i {
        self.0
    }

    /// The block with both 64-bit halves exchanged.
    #[inline(always)]
    pub(crate) fn swapped(self) -> One {
        One::new(self.value().rotate_left(64))
    }
}

impl Quad {
    #[inline(always)]
    pub(crate) fn new(register: __m512i) -> Quad {
        Quad(register)
    }

    #[inline(always)]
    pub(crate) fn register(self) -> __m512i {
        self.0
    }

    /// At most [`Self::LEN`] octets, zeros before them.
    #[inline(always)]
    pub(crate) fn load_last(octets: &[u8]) -> Quad {
        let len = octets.len().min(Self::LEN);
        let before = Self::LEN - len;
        // SAFETY: as the module demands; octets before the beginning are masked out, so not read.
        Quad(unsafe {
            let from = octets.as_ptr().wrapping_sub(before);
            _mm512_maskz_loadu_epi8(!mask(before), from.cast())
        })
    }

    /// The same blocks, but `block` in place of the last.
    #[inline(always)]
    pub(crate) fn with_last(self, block: One) -> Quad {
        // SAFETY: as the module demands.
        Quad(unsafe { _mm512_inserti32x4::<3>(self.0, block.0) })
    }

    /// The first and the second block.
    #[inline(always)]
    pub(crate) fn first_two(self) -> [u128; 2] {
        let [first, second, ..]: [u128; 4] = bytemuck::must_cast(self.0);
        [first, second]
    }
}

/// The shuffle that reverses the octets of a block.
const REVERSE: u128 =
    u128::from_be_bytes([15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]).swap_bytes();

/// Operations that are one instruction.
macro_rules! instructions {
    ($xor:ident, $add:ident, $shuffle:ident, $round:ident, $last:ident, $product:ident) => {
        #[inline(always)]
        fn xor(self, other: Self) -> Self {
            // SAFETY: called below a function for this width, as the module demands.
            Self(unsafe { $xor(self.0, other.0) })
        }

        #[inline(always)]
        fn add(self, other: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { $add(self.0, other.0) })
        }

        #[inline(always)]
        fn reversed(self) -> Self {
            // SAFETY: as above.
            Self(unsafe { $shuffle(self.0, Self::all(One::new(REVERSE)).0) })
        }

        #[inline(always)]
        fn round(self, key: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { $round(self.0, key.0) })
        }

        #[inline(always)]
        fn last_round(self, key: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { $last(self.0, key.0) })
        }

        #[inline(always)]
        fn product<const HALVES: i32>(self, other: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { $product::<HALVES>(self.0, other.0) })
        }
    };
}

/// Octets of a register that is not filled.
#[inline(always)]
fn padded<const N: usize>(octets: &[u8]) -> [u8; N] {
    let mut all = [0; N];
    all.iter_mut().zip(octets).for_each(|(to, from)| *to = *from);
    all
}

/// Copy as many octets as there are, and as there is room for.
#[inline(always)]
fn copied(from: &[u8], to: &mut [u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

impl Lanes for One {
    const BLOCKS: usize = 1;

    #[inline(always)]
    fn load(octets: &[u8]) -> One {
        One::new(u128::from_le_bytes(octets.try_into().unwrap_or_else(|_| padded(octets))))
    }

    #[inline(always)]
    fn store(self, octets: &mut [u8]) {
        copied(&self.value().to_le_bytes(), octets);
    }

    #[inline(always)]
    fn keep(self, len: usize) -> One {
        let gone = 8 * BLOCK.saturating_sub(len);
        One::new(self.value() & u128::MAX.checked_shr(gone as u32).unwrap_or(0))
    }

    #[inline(always)]
    fn all(block: One) -> One {
        block
    }

    #[inline(always)]
    fn counters([first, ..]: [i32; 4]) -> One {
        One::new(u128::from(first.cast_unsigned()))
    }

    #[inline(always)]
    fn two(first: One, _: One) -> One {
        first
    }

    #[inline(always)]
    fn sum(self) -> One {
        self
    }

    instructions!(
        _mm_xor_si128,
        _mm_add_epi32,
        _mm_shuffle_epi8,
        _mm_aesenc_si128,
        _mm_aesenclast_si128,
        _mm_clmulepi64_si128
    );
}

impl Lanes for Pair {
    const BLOCKS: usize = 2;

    #[inline(always)]
    fn load(octets: &[u8]) -> Pair {
        if let Ok(both) = <[u8; 32]>::try_from(octets) {
            return Pair(bytemuck::must_cast(both));
        }
        // What packets that are padded to whole blocks end with.
        if let Ok(first) = <[u8; BLOCK]>::try_from(octets) {
            return Pair::two(One::new(u128::from_le_bytes(first)), One::new(0));
        }
        Pair(bytemuck::must_cast(padded::<32>(octets)))
    }

    #[inline(always)]
    fn store(self, octets: &mut [u8]) {
        let from: [u8; 32] = bytemuck::must_cast(self.0);
        if let Ok(both) = <&mut [u8; 32]>::try_from(&mut *octets) {
            *both = from;
        } else if let Ok(first) = <&mut Block>::try_from(&mut *octets) {
            // SAFETY: as the module demands.
            *first = bytemuck::must_cast(unsafe { _mm256_castsi256_si128(self.0) });
        } else {
            copied(&from, octets);
        }
    }

    #[inline(always)]
    fn keep(self, len: usize) -> Pair {
        if len >= Self::LEN {
            return self;
        }
        let from: [u8; 32] = bytemuck::must_cast(self.0);
        Pair::load(from.get(..len).unwrap_or(&from))
    }

    #[inline(always)]
    fn all(block: One) -> Pair {
        // SAFETY: as the module demands.
        Pair(unsafe { _mm256_broadcastsi128_si256(block.0) })
    }

    #[inline(always)]
    fn counters([first, second, ..]: [i32; 4]) -> Pair {
        Pair(bytemuck::must_cast([first, 0, 0, 0, second, 0, 0, 0]))
    }

    #[inline(always)]
    fn two(first: One, second: One) -> Pair {
        // SAFETY: as the module demands.
        Pair(unsafe { _mm256_set_m128i(second.0, first.0) })
    }

    #[inline(always)]
    fn sum(self) -> One {
        // SAFETY: as the module demands.
        let (low, high) = unsafe { (_mm256_castsi256_si128(self.0), _mm256_extracti128_si256::<1>(self.0)) };
        One(low).xor(One(high))
    }

    instructions!(
        _mm256_xor_si256,
        _mm256_add_epi32,
        _mm256_shuffle_epi8,
        _mm256_aesenc_epi128,
        _mm256_aesenclast_epi128,
        _mm256_clmulepi64_epi128
    );
}

/// A bit for each of the first `len` of 64 octets.
#[inline(always)]
fn mask(len: usize) -> u64 {
    u64::MAX.checked_shr(64 - len.min(64) as u32).unwrap_or(0)
}

impl Lanes for Quad {
    const BLOCKS: usize = 4;

    #[inline(always)]
    fn load(octets: &[u8]) -> Quad {
        if let Ok(all) = <[u8; 64]>::try_from(octets) {
            return Quad(bytemuck::must_cast(all));
        }
        // SAFETY: as the module demands; octets behind the end are masked out, so not read.
        Quad(unsafe { _mm512_maskz_loadu_epi8(mask(octets.len()), octets.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self, octets: &mut [u8]) {
        if let Ok(all) = <&mut [u8; 64]>::try_from(&mut *octets) {
            *all = bytemuck::must_cast(self.0);
            return;
        }
        // SAFETY: as the module demands; octets behind the end are masked out, so not written.
        unsafe { _mm512_mask_storeu_epi8(octets.as_mut_ptr().cast(), mask(octets.len()), self.0) }
    }

    #[inline(always)]
    fn keep(self, len: usize) -> Quad {
        // SAFETY: as the module demands.
        Quad(unsafe { _mm512_maskz_mov_epi8(mask(len), self.0) })
    }

    #[inline(always)]
    fn all(block: One) -> Quad {
        // SAFETY: as the module demands.
        Quad(unsafe { _mm512_broadcast_i32x4(block.0) })
    }

    #[inline(always)]
    fn counters([a, b, c, d]: [i32; 4]) -> Quad {
        Quad(bytemuck::must_cast([a, 0, 0, 0, b, 0, 0, 0, c, 0, 0, 0, d, 0, 0, 0]))
    }

    #[inline(always)]
    fn two(first: One, second: One) -> Quad {
        // SAFETY: as the module demands.
        Quad(unsafe { _mm512_zextsi256_si512(_mm256_set_m128i(second.0, first.0)) })
    }

    #[inline(always)]
    fn sum(self) -> One {
        // SAFETY: as the module demands.
        let (low, high) = unsafe { (_mm512_castsi512_si256(self.0), _mm512_extracti64x4_epi64::<1>(self.0)) };
        Pair(low).xor(Pair(high)).sum()
    }

    instructions!(
        _mm512_xor_si512,
        _mm512_add_epi32,
        _mm512_shuffle_epi8,
        _mm512_aesenc_epi128,
        _mm512_aesenclast_epi128,
        _mm512_clmulepi64_epi128
    );
}
