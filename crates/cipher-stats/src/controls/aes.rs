//! AES-256 with tables of octets (FIPS 197), cut to any number of rounds.
//!
//! It is here to be found out: cut to few rounds it fails the tests of randomness, and its time depends on the key, since
//! places in a table are read that the key chooses. Nothing encrypts with it.

use crypto::UnitFailed;
use crypto::custom::{BlockKey, CustomCipher, CustomDescription, CustomKey, Primitive, SetKeyError};

/// Octets of a block.
pub const BLOCK: usize = 16;
/// Octets of the key.
pub const KEY: usize = 32;
/// The number of rounds that AES-256 has.
pub const ROUNDS: usize = 14;

/// The S-box: the inverse in GF(2^8), then the affine map (FIPS 197 section 5.1.1).
const SBOX: [u8; 256] = sbox();

const fn double(a: u8) -> u8 {
    (a << 1) ^ ((a >> 7) * 0x1b)
}

const fn sbox() -> [u8; 256] {
    let mut table = [0; 256];
    // p walks through the powers of 3, q through those of its inverse, so that q is the inverse of p.
    let (mut p, mut q) = (1u8, 1u8);
    loop {
        p ^= double(p);
        q ^= q << 1;
        q ^= q << 2;
        q ^= q << 4;
        if q & 0x80 != 0 {
            q ^= 0x09;
        }
        table[p as usize] =
            q ^ q.rotate_left(1) ^ q.rotate_left(2) ^ q.rotate_left(3) ^ q.rotate_left(4) ^ 0x63;
        if p == 1 {
            break;
        }
    }
    table[0] = 0x63;
    table
}

/// How an octet is found in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lookup {
    /// The table is read by its place: which cache line is read depends on it.
    Place,
    /// The table is searched for the octet of which it is the inverse: how long that takes depends on it.
    Search,
}

/// The inverse of the S-box.
const INVERSE: [u8; 256] = {
    let mut table = [0; 256];
    let mut octet = 0;
    while octet < 256 {
        table[SBOX[octet] as usize] = octet as u8;
        octet += 1;
    }
    table
};

impl Lookup {
    fn substitute(self, octet: u8) -> u8 {
        match self {
            // A table of 256 octets has a place for each.
            Lookup::Place => SBOX.get(usize::from(octet)).copied().unwrap_or_default(),
            Lookup::Search => INVERSE.iter().position(|inverse| *inverse == octet).unwrap_or_default() as u8,
        }
    }
}

/// AES-256 with tables, cut to so many rounds.
#[derive(Clone, Debug)]
pub struct TableAes {
    description: CustomDescription,
    rounds: usize,
    lookup: Lookup,
}

impl TableAes {
    /// So many rounds, at most 14; 14 are AES-256.
    pub fn new(rounds: usize) -> TableAes {
        let rounds = rounds.min(ROUNDS);
        let description = CustomDescription {
            name: format!("aes{rounds}rounds"),
            version: "1".to_owned(),
            vendor: "control".to_owned(),
            primitive: Primitive::Block { block_len: BLOCK },
            key_len: KEY,
            max_octets: None,
        };
        TableAes { description, rounds, lookup: Lookup::Place }
    }

    /// AES-256 that searches its table: its time depends on key and input so much that any measurement shows it.
    pub fn searching() -> TableAes {
        TableAes { lookup: Lookup::Search, ..TableAes::new(ROUNDS) }
    }
}

impl CustomCipher for TableAes {
    fn description(&self) -> &CustomDescription {
        &self.description
    }

    fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError> {
        let key = <&[u8; KEY]>::try_from(key).map_err(|_| SetKeyError::Length)?;
        let mut keys = expand(key, self.lookup);
        keys.truncate(self.rounds + 1);
        Ok(CustomKey::Block(Box::new(TableKey { keys, lookup: self.lookup })))
    }
}

/// The round keys (FIPS 197 section 5.2).
fn expand(key: &[u8; KEY], lookup: Lookup) -> Vec<[u8; BLOCK]> {
    let (words, _) = key.as_chunks::<4>();
    let mut words = words.to_vec();
    let mut constant = 1;
    for index in words.len()..4 * (ROUNDS + 1) {
        let mut word = words.last().copied().unwrap_or_default();
        if index % 8 == 0 {
            word.rotate_left(1);
            word = word.map(|octet| lookup.substitute(octet));
            word[0] ^= constant;
            constant = double(constant);
        } else if index % 8 == 4 {
            word = word.map(|octet| lookup.substitute(octet));
        }
        let back = words.get(index - 8).copied().unwrap_or_default();
        word.iter_mut().zip(back).for_each(|(to, from)| *to ^= from);
        words.push(word);
    }
    let (keys, _) = words.as_flattened().as_chunks::<BLOCK>();
    keys.to_vec()
}

struct TableKey {
    keys: Vec<[u8; BLOCK]>,
    lookup: Lookup,
}

impl BlockKey for TableKey {
    fn encrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        let (blocks, _) = blocks.as_chunks_mut::<BLOCK>();
        blocks.iter_mut().for_each(|block| self.encrypt(block));
        Ok(())
    }

    /// Nobody decrypts with a control.
    fn decrypt_blocks(&self, _blocks: &mut [u8]) -> Result<(), UnitFailed> {
        Err(UnitFailed)
    }
}

impl TableKey {
    fn encrypt(&self, block: &mut [u8; BLOCK]) {
        let Some((first, rest)) = self.keys.split_first() else { return };
        add(block, first);
        let last = rest.len();
        for (round, key) in (1..).zip(rest) {
            *block = shift_rows(block.map(|octet| self.lookup.substitute(octet)));
            if round < last {
                mix_columns(block);
            }
            add(block, key);
        }
    }
}

fn add(block: &mut [u8; BLOCK], key: &[u8; BLOCK]) {
    block.iter_mut().zip(key).for_each(|(to, from)| *to ^= from);
}

/// Row r moves by r places to the left; octet i is in row i mod 4.
fn shift_rows(block: [u8; BLOCK]) -> [u8; BLOCK] {
    std::array::from_fn(|i| block.get((i + 4 * (i % 4)) % BLOCK).copied().unwrap_or_default())
}

fn mix_columns(block: &mut [u8; BLOCK]) {
    let (columns, _) = block.as_chunks_mut::<4>();
    for column in columns {
        let [a, b, c, d] = *column;
        let all = a ^ b ^ c ^ d;
        *column = [
            a ^ all ^ double(a ^ b),
            b ^ all ^ double(b ^ c),
            c ^ all ^ double(c ^ d),
            d ^ all ^ double(d ^ a),
        ];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encrypt(rounds: usize, key: &[u8; KEY], block: [u8; BLOCK]) -> [u8; BLOCK] {
        let Ok(CustomKey::Block(key)) = TableAes::new(rounds).set_key(key) else { panic!("no key") };
        let mut block = block;
        assert_eq!(key.encrypt_blocks(&mut block), Ok(()));
        block
    }

    #[test]
    fn fourteen_rounds_are_aes() {
        // FIPS 197 appendix C.3.
        let key = std::array::from_fn(|i| i as u8);
        let block = std::array::from_fn(|i| 0x11 * i as u8);
        let cipher = 0x8ea2_b7ca_5167_45bf_eafc_4990_4b49_6089u128.to_be_bytes();
        assert_eq!(encrypt(ROUNDS, &key, block), cipher);
    }

    #[test]
    fn a_search_finds_what_the_table_has() {
        for octet in 0..=255 {
            assert_eq!(Lookup::Search.substitute(octet), Lookup::Place.substitute(octet));
        }
    }

    #[test]
    fn one_round_leaves_octets_apart() {
        let key = [7; KEY];
        let (zero, mut one) = ([0; BLOCK], [0; BLOCK]);
        one[5] = 1;
        let (zero, one) = (encrypt(1, &key, zero), encrypt(1, &key, one));
        assert_eq!(zero.iter().zip(one).filter(|(a, b)| **a != *b).count(), 1);
    }
}
