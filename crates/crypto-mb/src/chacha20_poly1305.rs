//! ChaCha20-Poly1305 (RFC 8439 section 2.8), for AVX-512 with IFMA.

use crate::Wide;
use crate::chacha::{ChaCha, GROUP_LEN};
use crate::lanes::{BLOCK, Lanes, One, Quad};
use crate::poly1305::{Key, Number, WORTH_WIDE};

/// Groups of key stream computed side by side.
const SET: usize = 4;
/// Registers, and so blocks, of a set.
const SET_BLOCKS: usize = SET * 4;
/// A key of ChaCha20-Poly1305 (RFC 8439). A value of it proves, like [`Wide`], that the processor has the instructions.
pub(crate) struct ChaCha20Poly1305 {
    cipher: ChaCha,
}

impl ChaCha20Poly1305 {
    /// `None` unless `key` has 32 octets, and `wide` has the instructions.
    #[inline(never)]
    pub(crate) fn new(wide: Wide, key: &[u8]) -> Option<ChaCha20Poly1305> {
        let key = key.try_into().ok()?;
        wide.has_ifma().then(|| ChaCha20Poly1305 { cipher: ChaCha::new(key) })
    }

    /// Encrypt `data` where it lies; the tag.
    #[inline(always)]
    pub(crate) fn seal(&self, nonce: u128, aad: &[u8], data: &mut [u8]) -> u128 {
        // SAFETY: this value was made of a `Wide` that says that the processor has these instructions.
        unsafe { self.seal_wide(nonce, aad, data) }
    }

    /// Decrypt `data` where it lies if its tag is right; otherwise it stays as it is.
    #[inline(always)]
    pub(crate) fn open(
        &self,
        nonce: u128,
        aad: &[u8],
        data: &mut [u8],
        is_right: impl Fn(u128) -> bool,
    ) -> bool {
        // SAFETY: as above.
        unsafe { self.open_wide(nonce, aad, data, is_right) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512ifma")]
    fn seal_wide(&self, nonce: u128, aad: &[u8], data: &mut [u8]) -> u128 {
        let seal = |first: &[Quad], data: &mut [u8]| {
            let key = one_time_key(first, data.len());
            self.encrypt(nonce, first, data);
            tag(&key, aad, data)
        };
        match groups(data.len()) {
            1 => seal(self.cipher.stream::<1>(nonce, 0).as_flattened(), data),
            2 => seal(self.cipher.stream::<2>(nonce, 0).as_flattened(), data),
            3 => seal(self.cipher.stream::<3>(nonce, 0).as_flattened(), data),
            _ => seal(self.cipher.stream::<SET>(nonce, 0).as_flattened(), data),
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512ifma")]
    fn open_wide(&self, nonce: u128, aad: &[u8], data: &mut [u8], is_right: impl Fn(u128) -> bool) -> bool {
        let open = |first: &[Quad], data: &mut [u8]| {
            let right = is_right(tag(&one_time_key(first, data.len()), aad, data));
            if right {
                self.encrypt(nonce, first, data);
            }
            right
        };
        match groups(data.len()) {
            1 => open(self.cipher.stream::<1>(nonce, 0).as_flattened(), data),
            2 => open(self.cipher.stream::<2>(nonce, 0).as_flattened(), data),
            3 => open(self.cipher.stream::<3>(nonce, 0).as_flattened(), data),
            _ => open(self.cipher.stream::<SET>(nonce, 0).as_flattened(), data),
        }
    }

    /// Encrypt, or decrypt, with the first blocks of the key stream and what follows them.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    fn encrypt(&self, nonce: u128, first: &[Quad], data: &mut [u8]) {
        let (here, rest) = data.split_at_mut(data.len().min((SET_BLOCKS - 1) * Quad::LEN));
        apply(first.get(1..).unwrap_or_default(), here);
        let mut block = SET_BLOCKS as u32;
        for octets in rest.chunks_mut(SET * GROUP_LEN) {
            match octets.len().div_ceil(GROUP_LEN) {
                1 => apply(self.cipher.stream::<1>(nonce, block).as_flattened(), octets),
                2 => apply(self.cipher.stream::<2>(nonce, block).as_flattened(), octets),
                3 => apply(self.cipher.stream::<3>(nonce, block).as_flattened(), octets),
                _ => apply(self.cipher.stream::<SET>(nonce, block).as_flattened(), octets),
            }
            block += SET_BLOCKS as u32;
        }
    }
}

/// Groups of key stream for so many octets and the one-time key before them.
#[inline(always)]
fn groups(len: usize) -> usize {
    (len + Quad::LEN).div_ceil(GROUP_LEN)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn apply(stream: &[Quad], data: &mut [u8]) {
    for (octets, stream) in data.chunks_mut(Quad::LEN).zip(stream) {
        Quad::load(octets).xor(*stream).store(octets);
    }
}

/// The one-time key that the first block of the key stream has, for `len` octets of ciphertext.
#[inline(always)]
fn one_time_key(stream: &[Quad], len: usize) -> Key {
    let [r, s] = stream.first().map_or([0; 2], |block| block.first_two());
    Key::new(r, s, len >= WORTH_WIDE)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512ifma")]
fn tag(key: &Key, aad: &[u8], cipher: &[u8]) -> u128 {
    let lengths = aad.len() as u128 | (cipher.len() as u128) << 64;
    let blocks = |octets| <[u8]>::chunks(octets, BLOCK).map(|block| One::load(block).value());
    if cipher.len() >= WORTH_WIDE {
        let sum = key.absorb_all(Number::ZERO, blocks(aad));
        return key.tag(key.absorb_wide(sum, cipher, lengths));
    }
    let all = blocks(aad).chain(blocks(cipher)).chain([lengths]);
    key.tag(key.absorb_all(Number::ZERO, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number of groups of key stream, one set and more.
    #[test]
    fn a_refused_packet_stays_as_it_is() {
        for wide in Wide::detect_all() {
            let Some(key) = ChaCha20Poly1305::new(wide, &[7; 32]) else { continue };
            for len in [0, 1, 100, 192, 193, 400, 700, 960, 961, 1400, 9000] {
                let mut data = vec![0x5a; len];
                let tag = key.seal(3, &[1; 8], &mut data);
                let sealed = data.clone();
                assert!(!key.open(3, &[1; 8], &mut data, |found| found == tag ^ 1));
                assert_eq!(data, sealed);
                assert!(key.open(3, &[1; 8], &mut data, |found| found == tag));
                assert_eq!(data, vec![0x5a; len]);
            }
        }
    }
}
