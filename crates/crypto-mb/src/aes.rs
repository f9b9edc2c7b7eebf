//! AES: the key schedule (FIPS 197 section 5.2), and several blocks at once.

use zeroize::Zeroize;

use crate::lanes::{Block, Lanes, One};

/// Round keys of the longest key: 14 rounds and the whitening before them.
const MOST_KEYS: usize = 15;

/// The round keys of one AES key of 16, 24 or 32 octets. Wiped when dropped.
pub(crate) struct Schedule {
    /// The round keys, one more than the key has rounds; zeros behind them.
    keys: [Block; MOST_KEYS],
    rounds: usize,
}

impl Drop for Schedule {
    fn drop(&mut self) {
        self.keys.zeroize();
    }
}

impl Schedule {
    /// `None` if `key` has another length.
    #[inline(always)]
    pub(crate) fn new(key: &[u8]) -> Option<Schedule> {
        let (words, rest) = key.as_chunks::<4>();
        if !matches!(words.len(), 4 | 6 | 8) || !rest.is_empty() {
            return None;
        }
        let rounds = words.len() + 6;
        let mut schedule = Schedule { keys: [[0; 16]; MOST_KEYS], rounds };
        let expanded = schedule.keys.as_flattened_mut().as_chunks_mut::<4>().0;
        let expanded = expanded.get_mut(..4 * (rounds + 1))?;
        expanded.get_mut(..words.len())?.copy_from_slice(words);
        let mut round_constant = 1u8;
        for at in words.len()..expanded.len() {
            let mut word = u32::from_le_bytes(*expanded.get(at - 1)?);
            if at % words.len() == 0 {
                word = substituted(word).rotate_right(8) ^ u32::from(round_constant);
                // Times x in the field of AES; eleven constants at most.
                round_constant = (round_constant << 1) ^ ((round_constant >> 7) * 0x1b);
            } else if words.len() == 8 && at % 8 == 4 {
                word = substituted(word);
            }
            let before = u32::from_le_bytes(*expanded.get(at - words.len())?);
            *expanded.get_mut(at)? = (before ^ word).to_le_bytes();
        }
        Some(schedule)
    }

    /// The whitening key, the keys of the middle rounds, the key of the last.
    #[inline(always)]
    pub(crate) fn parts(&self) -> (&Block, &[Block], &Block) {
        debug_assert!(matches!(self.rounds, 10 | 12 | 14));
        let [first, rest @ ..] = &self.keys;
        match rest.get(..self.rounds) {
            Some([middle @ .., last]) => (first, middle, last),
            _ => (first, &[], first),
        }
    }

    /// Encrypt `N` registers full of blocks, and one block more.
    #[inline(always)]
    pub(crate) fn encrypt<L: Lanes, const N: usize>(&self, mut many: [L; N], one: One) -> ([L; N], One) {
        let (first, middle, last) = self.parts();
        let key = One::load(first);
        let mut one = one.xor(key);
        for lanes in &mut many {
            *lanes = lanes.xor(L::all(key));
        }
        for key in middle {
            let key = One::load(key);
            one = one.round(key);
            for lanes in &mut many {
                *lanes = lanes.round(L::all(key));
            }
        }
        let key = One::load(last);
        for lanes in &mut many {
            *lanes = lanes.last_round(L::all(key));
        }
        (many, one.last_round(key))
    }

    #[inline(always)]
    pub(crate) fn whiten<L: Lanes>(many: &mut [L], key: &Block) {
        let key = L::all(One::load(key));
        for lanes in many {
            *lanes = lanes.xor(key);
        }
    }

    #[inline(always)]
    pub(crate) fn round<L: Lanes>(many: &mut [L], key: &Block) {
        let key = L::all(One::load(key));
        for lanes in many {
            *lanes = lanes.round(key);
        }
    }

    #[inline(always)]
    pub(crate) fn last_round<L: Lanes>(many: &mut [L], key: &Block) {
        let key = L::all(One::load(key));
        for lanes in many {
            *lanes = lanes.last_round(key);
        }
    }

    /// Encrypt one block alone.
    #[inline(always)]
    pub(crate) fn encrypt_one(&self, block: One) -> One {
        self.encrypt::<One, 0>([], block).1
    }
}

/// The S-box on each octet of a word, without a table: where all columns of the state are alike, ShiftRows changes nothing.
#[inline(always)]
fn substituted(word: u32) -> u32 {
    let state = One::new(u128::from(word) * 0x1_0000_0001_0000_0001_0000_0001);
    state.last_round(One::new(0)).value() as u32
}
