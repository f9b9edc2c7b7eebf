//! The permutation P of mAES-512, with the whitening that follows it.
//!
//! Octet i of the output is octet 5i + 4 (modulo 16) of the input: with the octets of a block written in four columns of
//! four, row r is turned by r + 1 columns. So it needs no byte shuffle, only words and masks, in constant time.

use pulp::Arch;

/// The octets of a row in each word, read with the lowest octet first.
const ROWS: [u32; 4] = [0x0000_00ff, 0x0000_ff00, 0x00ff_0000, 0xff00_0000];

#[inline(always)]
fn words(block: &[u8; 16]) -> [u32; 4] {
    let x = u128::from_le_bytes(*block);
    [x as u32, (x >> 32) as u32, (x >> 64) as u32, (x >> 96) as u32]
}

#[inline(always)]
fn octets([a, b, c, d]: [u32; 4]) -> [u8; 16] {
    (u128::from(a) | u128::from(b) << 32 | u128::from(c) << 64 | u128::from(d) << 96).to_le_bytes()
}

/// Turn rows by these numbers of columns.
#[inline(always)]
fn turned(x: [u32; 4], by: [usize; 4]) -> [u32; 4] {
    std::array::from_fn(|column| (0..4).fold(0, |word, row| word | x[(column + by[row]) & 3] & ROWS[row]))
}

#[inline(always)]
fn xor(x: [u32; 4], w: [u32; 4]) -> [u32; 4] {
    std::array::from_fn(|i| x[i] ^ w[i])
}

/// w ^ P(x) for every block.
#[inline]
pub(crate) fn permute(blocks: &mut [[u8; 16]], w: &[u8; 16]) {
    let w = words(w);
    Arch::new().dispatch(|| {
        for block in blocks {
            *block = octets(xor(turned(words(block), [1, 2, 3, 0]), w));
        }
    });
}

/// The inverse: P^-1(x ^ w) for every block.
#[inline]
pub(crate) fn permute_back(blocks: &mut [[u8; 16]], w: &[u8; 16]) {
    let w = words(w);
    Arch::new().dispatch(|| {
        for block in blocks {
            *block = octets(turned(xor(words(block), w), [3, 2, 1, 0]));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the definition has it (issue 23 item 7).
    const P: [usize; 16] = [4, 9, 14, 3, 8, 13, 2, 7, 12, 1, 6, 11, 0, 5, 10, 15];

    #[test]
    fn words_and_masks_are_the_table() {
        let mut block = [std::array::from_fn(|i| i as u8)];
        permute(&mut block, &[0; 16]);
        assert_eq!(block[0].map(usize::from), P);
        permute(&mut block, &[7; 16]);
        permute_back(&mut block, &[7; 16]);
        assert_eq!(block[0].map(usize::from), P);
    }
}
