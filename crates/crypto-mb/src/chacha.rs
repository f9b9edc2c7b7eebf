//! ChaCha20 (RFC 8439 section 2.4), four blocks a register: each register has one row of four blocks.

use core::arch::x86_64::{
    __m512i, _mm512_add_epi32, _mm512_broadcast_i32x4, _mm512_rol_epi32, _mm512_set_epi32,
    _mm512_shuffle_epi32, _mm512_shuffle_i32x4, _mm512_xor_si512,
};

use zeroize::Zeroize;

use crate::lanes::{BLOCK, Lanes, One, Quad};

/// Blocks of a group: what four registers hold.
const GROUP: usize = 4;
/// Octets of a block.
const BLOCK_LEN: usize = 64;
/// Octets of a group's key stream.
pub(crate) const GROUP_LEN: usize = GROUP * BLOCK_LEN;
/// The first row of the ChaCha state (RFC 8439 section 2.3).
const CONSTANT: u128 = u128::from_le_bytes(*b"expand 32-byte k");

/// A ChaCha20 key of 32 octets. Wiped when dropped.
pub(crate) struct ChaCha {
    key: [u8; 2 * BLOCK],
}

impl Drop for ChaCha {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

/// The rows of a group.
type Rows = [__m512i; 4];

impl ChaCha {
    pub(crate) fn new(key: [u8; 2 * BLOCK]) -> ChaCha {
        ChaCha { key }
    }

    /// The key stream of `N` groups from the block with this number on, in order.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(crate) fn stream<const N: usize>(&self, nonce: u128, block: u32) -> [[Quad; 4]; N] {
        let (first, second) = self.key.split_at(BLOCK);
        let row = |value: One| _mm512_broadcast_i32x4(value.register());
        let (constant, upper, lower) =
            (row(One::new(CONSTANT)), row(One::load(first)), row(One::load(second)));
        let mut counter = row(One::new((nonce << 32) | u128::from(block)));
        counter = _mm512_add_epi32(counter, _mm512_set_epi32(0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0));
        let mut start = [[constant, upper, lower, counter]; N];
        for rows in &mut start {
            rows[3] = counter;
            counter =
                _mm512_add_epi32(counter, _mm512_set_epi32(0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 4));
        }
        let mut state = start;
        for _ in 0..10 {
            for rows in &mut state {
                quarter_rounds(rows);
                *rows = diagonal(*rows);
            }
            for rows in &mut state {
                quarter_rounds(rows);
                *rows = straight(*rows);
            }
        }
        let zero = Quad::two(One::new(0), One::new(0));
        let mut stream = [[zero; 4]; N];
        for ((stream, rows), start) in stream.iter_mut().zip(&state).zip(&start) {
            let mut sums = *rows;
            for (sum, start) in sums.iter_mut().zip(start) {
                *sum = _mm512_add_epi32(*sum, *start);
            }
            *stream = blocks(sums);
        }
        stream
    }
}

/// The four quarter rounds of columns, of all four blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn quarter_rounds([a, b, c, d]: &mut Rows) {
    *a = _mm512_add_epi32(*a, *b);
    *d = _mm512_rol_epi32::<16>(_mm512_xor_si512(*d, *a));
    *c = _mm512_add_epi32(*c, *d);
    *b = _mm512_rol_epi32::<12>(_mm512_xor_si512(*b, *c));
    *a = _mm512_add_epi32(*a, *b);
    *d = _mm512_rol_epi32::<8>(_mm512_xor_si512(*d, *a));
    *c = _mm512_add_epi32(*c, *d);
    *b = _mm512_rol_epi32::<7>(_mm512_xor_si512(*b, *c));
}

/// Rows turned so that diagonals become columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn diagonal([a, b, c, d]: Rows) -> Rows {
    [
        a,
        _mm512_shuffle_epi32::<0b00_11_10_01>(b),
        _mm512_shuffle_epi32::<0b01_00_11_10>(c),
        _mm512_shuffle_epi32::<0b10_01_00_11>(d),
    ]
}

/// Rows turned back, the inverse of [`diagonal`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn straight([a, b, c, d]: Rows) -> Rows {
    [
        a,
        _mm512_shuffle_epi32::<0b10_01_00_11>(b),
        _mm512_shuffle_epi32::<0b01_00_11_10>(c),
        _mm512_shuffle_epi32::<0b00_11_10_01>(d),
    ]
}

/// Rows of four blocks into the blocks, one a register.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn blocks([a, b, c, d]: Rows) -> [Quad; 4] {
    const EVEN: i32 = 0b10_00_10_00;
    const ODD: i32 = 0b11_01_11_01;
    const LOW: i32 = 0b01_00_01_00;
    const HIGH: i32 = 0b11_10_11_10;
    let (ab_low, ab_high) = (_mm512_shuffle_i32x4::<LOW>(a, b), _mm512_shuffle_i32x4::<HIGH>(a, b));
    let (cd_low, cd_high) = (_mm512_shuffle_i32x4::<LOW>(c, d), _mm512_shuffle_i32x4::<HIGH>(c, d));
    [
        Quad::new(_mm512_shuffle_i32x4::<EVEN>(ab_low, cd_low)),
        Quad::new(_mm512_shuffle_i32x4::<ODD>(ab_low, cd_low)),
        Quad::new(_mm512_shuffle_i32x4::<EVEN>(ab_high, cd_high)),
        Quad::new(_mm512_shuffle_i32x4::<ODD>(ab_high, cd_high)),
    ]
}
