//! GHASH (NIST SP 800-38D section 6.4) over several blocks an instruction.
//!
//! Blocks are held with their octets reversed, so that GCM's reflected polynomials lie in the registers' bits as carry-less
//! multiplication takes them; the key is multiplied by x once, which saves the shift of each product. Products of several
//! blocks with as many powers of the key are summed before one reduction modulo x^128 + x^7 + x^2 + x + 1.

use zeroize::Zeroize;

use crate::lanes::{BLOCK, Block, Lanes, One};

/// Registers full of blocks between two reductions.
pub(crate) const STEP: usize = 8;
/// The most blocks of a register.
const WIDEST: usize = 4;

/// The highest power of the key in the table: that of the associated data before a step of ciphertext and the block of lengths.
const TOP: usize = STEP * WIDEST + 2;
/// Zeros behind the first power: the last register may hold more blocks than there are.
const BEHIND: usize = WIDEST - 1;

/// Powers of the hash key. Wiped when dropped.
pub(crate) struct Powers {
    /// Powers of the key, from the highest to the first, each times x.
    powers: [Block; TOP + BEHIND],
}

impl Drop for Powers {
    fn drop(&mut self) {
        self.powers.zeroize();
    }
}

impl Powers {
    /// The powers of the hash key, which is given as AES makes it.
    #[inline(always)]
    pub(crate) fn new(key: One) -> Powers {
        let key = times_x(key.reversed());
        let mut powers = Powers { powers: [[0; BLOCK]; TOP + BEHIND] };
        let mut power = key;
        for place in powers.powers.iter_mut().rev().skip(BEHIND) {
            *place = power.value().to_le_bytes();
            power = multiplied(power, key);
        }
        powers
    }

    /// The power with this exponent and those below it, one a lane: blocks that follow one another take them.
    #[inline(always)]
    pub(crate) fn from<L: Lanes>(&self, exponent: usize) -> L {
        let at = TOP.saturating_sub(exponent);
        debug_assert!((1..=TOP).contains(&exponent) && L::BLOCKS <= BEHIND + 1);
        L::load(self.powers.get(at..at + L::BLOCKS).unwrap_or_default().as_flattened())
    }
}

/// A sum of products, not reduced yet; each lane has its own.
#[derive(Clone, Copy)]
pub(crate) struct Sum<L> {
    low: L,
    middle: L,
    high: L,
}

impl<L: Lanes> Sum<L> {
    #[inline(always)]
    pub(crate) fn zero() -> Sum<L> {
        let zero = L::two(One::new(0), One::new(0));
        Sum { low: zero, middle: zero, high: zero }
    }

    /// The products of blocks (reversed) with powers.
    #[inline(always)]
    pub(crate) fn of(blocks: L, powers: L) -> Sum<L> {
        Sum {
            low: blocks.product::<0x00>(powers),
            middle: blocks.product::<0x01>(powers).xor(blocks.product::<0x10>(powers)),
            high: blocks.product::<0x11>(powers),
        }
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, other: Sum<L>) {
        self.low = self.low.xor(other.low);
        self.middle = self.middle.xor(other.middle);
        self.high = self.high.xor(other.high);
    }

    /// The sum of all lanes modulo the field's polynomial, over x^128: the low quarter is cleared twice by adding a multiple of the polynomial.
    #[inline(always)]
    pub(crate) fn reduced(self) -> One {
        let (low, middle, high) = (self.low.sum(), self.middle.sum(), self.high.sum());
        let polynomial = One::new(POLYNOMIAL);
        let middle = middle.xor(low.swapped()).xor(low.product::<0x00>(polynomial));
        high.xor(middle.swapped()).xor(middle.product::<0x00>(polynomial))
    }
}

/// x^7 + x^2 + x, reflected: what is left of the field's polynomial in one quarter of a product.
const POLYNOMIAL: u128 = 0xc200_0000_0000_0000;

/// The product of a block (reversed) with a power.
#[inline(always)]
pub(crate) fn multiplied(block: One, power: One) -> One {
    Sum::of(block, power).reduced()
}

/// A block times x, in constant time.
#[inline(always)]
fn times_x(block: One) -> One {
    let value = block.value();
    // All ones where the highest bit is set.
    let overflow = ((value >> 127) as u64).wrapping_neg();
    let overflow = (u128::from(overflow) << 64) | u128::from(overflow);
    One::new((value << 1) ^ (overflow & ((POLYNOMIAL << 64) | 1)))
}
