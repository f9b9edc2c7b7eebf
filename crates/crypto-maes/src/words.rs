//! The steps of mAES-512 between its two AES cores: the permutation P, and whitening.
//!
//! Octet i of P's output is octet 5i + 4 (modulo 16) of its input: with the octets of a block written in four columns
//! of four, row r is turned by r + 1 columns. So P needs no byte shuffle, which a processor may lack, only words,
//! shifts and masks, and takes constant time. A loop over blocks of two words is what the compiler makes wide
//! registers of.

use bytemuck::must_cast;

/// Octets of a block.
pub(crate) const BLOCK: usize = 16;

/// A block of AES and of mAES-512.
pub(crate) type Block = [u8; BLOCK];

/// The octets of each row in two columns, read with the lowest octet first.
const ROWS: [u64; 4] =
    [0x0000_00ff_0000_00ff, 0x0000_ff00_0000_ff00, 0x00ff_0000_00ff_0000, 0xff00_0000_ff00_0000];

/// A block as two words of two columns each, the lowest octet first.
#[inline(always)]
pub(crate) fn words(block: &Block) -> [u64; 2] {
    let [low, high]: [u64; 2] = must_cast(*block);
    [u64::from_le(low), u64::from_le(high)]
}

/// The block of two words.
#[inline(always)]
pub(crate) fn block([low, high]: [u64; 2]) -> Block {
    must_cast([low.to_le(), high.to_le()])
}

/// The four words that have columns 0 and 1, 1 and 2, 2 and 3, 3 and 0.
#[inline(always)]
fn columns([low, high]: [u64; 2]) -> [u64; 4] {
    [low, low >> 32 | high << 32, high, high >> 32 | low << 32]
}

/// A word whose rows are those of these words, in turn.
#[inline(always)]
fn rows(a: u64, b: u64, c: u64, d: u64) -> u64 {
    let [ra, rb, rc, rd] = ROWS;
    a & ra | b & rb | c & rc | d & rd
}

/// x ^ w for every block.
#[inline(always)]
pub(crate) fn add(blocks: &mut [Block], w: &Block) {
    let [w_low, w_high] = words(w);
    for place in blocks {
        let [low, high] = words(place);
        *place = block([low ^ w_low, high ^ w_high]);
    }
}

/// w ^ P(x) for every block.
#[inline(always)]
pub(crate) fn permute(blocks: &mut [Block], w: &Block) {
    let [w_low, w_high] = words(w);
    for place in blocks {
        let [x01, x12, x23, x30] = columns(words(place));
        *place = block([rows(x12, x23, x30, x01) ^ w_low, rows(x30, x01, x12, x23) ^ w_high]);
    }
}

/// The inverse: P^-1(x ^ w) for every block.
#[inline(always)]
pub(crate) fn permute_back(blocks: &mut [Block], w: &Block) {
    let [w_low, w_high] = words(w);
    for place in blocks {
        let [low, high] = words(place);
        let [x01, x12, x23, x30] = columns([low ^ w_low, high ^ w_high]);
        *place = block([rows(x30, x23, x12, x01), rows(x12, x01, x30, x23)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the definition (docs/maes.md).
    const TABLE: [usize; 16] = [4, 9, 14, 3, 8, 13, 2, 7, 12, 1, 6, 11, 0, 5, 10, 15];

    #[test]
    fn words_and_masks_are_the_table() {
        for count in 0..14 {
            let input: Vec<Block> =
                (0..count).map(|n| std::array::from_fn(|i| (i * 31 + n * 7) as u8)).collect();
            let w: Block = std::array::from_fn(|i| (i * 99) as u8);
            let mut blocks = input.clone();
            permute(&mut blocks, &w);
            for (input, output) in input.iter().zip(&blocks) {
                assert_eq!(*output, std::array::from_fn(|i| input[TABLE[i]] ^ w[i]));
            }
            permute_back(&mut blocks, &w);
            assert_eq!(blocks, input);
            add(&mut blocks, &w);
            for (input, output) in input.iter().zip(&blocks) {
                assert_eq!(*output, std::array::from_fn(|i| input[i] ^ w[i]));
            }
        }
    }
}
