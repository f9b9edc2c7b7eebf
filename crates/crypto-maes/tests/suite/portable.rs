//! mAES-512 once more, octet by octet: its own AES (FIPS 197), its own key derivation on SHA-256, a table for P.

use sha2::{Digest, Sha256};

const P: [usize; 16] = [4, 9, 14, 3, 8, 13, 2, 7, 12, 1, 6, 11, 0, 5, 10, 15];

fn times(a: u8, b: u8) -> u8 {
    (0..8).fold(0, |sum, bit| {
        let power = (0..bit).fold(a, |x, _| x << 1 ^ if x & 0x80 != 0 { 0x1b } else { 0 });
        if b >> bit & 1 != 0 { sum ^ power } else { sum }
    })
}

/// FIPS 197 section 5.1.1: the inverse in GF(2^8), then an affine map.
fn sbox() -> [u8; 256] {
    std::array::from_fn(|x| {
        let x = x as u8;
        let inverse = (0..=255).find(|y| times(x, *y) == 1).unwrap_or(0);
        (0..5).fold(0x63, |sum, turn| sum ^ inverse.rotate_left(turn))
    })
}

pub struct Aes256 {
    sbox: [u8; 256],
    twice: [u8; 256],
    thrice: [u8; 256],
    round_keys: Vec<[u8; 16]>,
}

impl Aes256 {
    pub fn new(key: &[u8; 32]) -> Aes256 {
        let sbox = sbox();
        let mut words: Vec<[u8; 4]> = key.as_chunks::<4>().0.to_vec();
        let mut constant = 1;
        for i in 8..60 {
            let mut word: [u8; 4] = words[i - 1];
            if i % 8 == 0 {
                word.rotate_left(1);
                word = word.map(|octet| sbox[usize::from(octet)]);
                word[0] ^= constant;
                constant = times(constant, 2);
            } else if i % 8 == 4 {
                word = word.map(|octet| sbox[usize::from(octet)]);
            }
            let before: [u8; 4] = words[i - 8];
            words.push(std::array::from_fn(|j| word[j] ^ before[j]));
        }
        let round_keys = words.chunks(4).map(|four| four.as_flattened().try_into().unwrap()).collect();
        let [twice, thrice] = [2, 3].map(|factor| std::array::from_fn(|x| times(x as u8, factor)));
        Aes256 { sbox, twice, thrice, round_keys }
    }

    pub fn encrypt(&self, block: [u8; 16]) -> [u8; 16] {
        let last = self.round_keys.len() - 1;
        let add = |x: [u8; 16], round: usize| std::array::from_fn(|i| x[i] ^ self.round_keys[round][i]);
        let mut x: [u8; 16] = add(block, 0);
        for round in 1..=last {
            // SubBytes and ShiftRows.
            let shifted: [u8; 16] = std::array::from_fn(|i| self.sbox[usize::from(x[5 * i % 16])]);
            let mixed: [u8; 16] = std::array::from_fn(|i| {
                let column = i / 4 * 4;
                let at = |row: usize| usize::from(shifted[column + (i + row) % 4]);
                self.twice[at(0)] ^ self.thrice[at(1)] ^ (at(2) ^ at(3)) as u8
            });
            x = add(if round == last { shifted } else { mixed }, round);
        }
        x
    }
}

pub struct Maes {
    a: Aes256,
    b: Aes256,
    w: [[u8; 16]; 3],
}

/// HMAC-SHA-256 (RFC 2104) over parts that are joined.
fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let pad = |octet: u8| -> Vec<u8> {
        let mut block = vec![octet; 64];
        block.iter_mut().zip(key).for_each(|(to, from)| *to ^= from);
        block
    };
    let inner = Sha256::digest([&pad(0x36)[..], &parts.concat()].concat());
    Sha256::digest([&pad(0x5c)[..], &inner].concat()).into()
}

impl Maes {
    pub fn new(key: &[u8; 64]) -> Maes {
        // RFC 5869: the first step with an empty salt, then two of the second.
        let prk = hmac(&[0; 32], &[key]);
        let first = hmac(&prk, &[b"mAES-512 v1", &[1]]);
        let second = hmac(&prk, &[&first, b"mAES-512 v1", &[2]]);
        let w = [first, second].concat();
        Maes {
            a: Aes256::new(key[..32].try_into().unwrap()),
            b: Aes256::new(key[32..].try_into().unwrap()),
            w: std::array::from_fn(|i| w[16 * i..16 * i + 16].try_into().unwrap()),
        }
    }

    pub fn encrypt(&self, x: [u8; 16]) -> [u8; 16] {
        let xor = |a: [u8; 16], b: [u8; 16]| std::array::from_fn(|i| a[i] ^ b[i]);
        let inner = self.a.encrypt(xor(x, self.w[0]));
        let permuted: [u8; 16] = std::array::from_fn(|i| inner[P[i]]);
        xor(self.w[2], self.b.encrypt(xor(self.w[1], permuted)))
    }
}
