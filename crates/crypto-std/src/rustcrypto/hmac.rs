//! HMAC (RFC 2104) with both keyed states made in advance: two compressions less a packet, and no hash object to copy.

use std::marker::PhantomData;

use crypto::{HashState, MAX_ICV_LEN};
use zeroize::Zeroize;

use super::mac::{Mac, MacSteps, Tag};

/// A hash function of the Merkle-Damgard kind, at the level of its compression function.
pub(super) trait Compression<const BLOCK: usize>: Send + Sync {
    /// The chaining value of the compression function.
    type State: Copy + Zeroize + Send + Sync;
    /// The chaining value before the first block.
    const START: Self::State;
    /// Octets of the digest.
    const DIGEST: usize;

    /// Take in whole blocks.
    fn compress(state: &mut Self::State, blocks: &[[u8; BLOCK]]);

    /// The digest; behind [`Self::DIGEST`] octets it is not part of it.
    fn octets(state: &Self::State) -> [u8; 64];

    /// The length of the message in bits, as it ends the last block.
    fn write_length(block: &mut [u8; BLOCK], bits: u64);

    /// The chaining value as words that can be kept.
    fn keep(state: &Self::State) -> [u64; 8];

    /// The chaining value that was kept.
    fn restore(words: &[u64; 8]) -> Self::State;
}

macro_rules! compression {
    ($name:ident, $word:ty, $words:literal, $block:literal, $digest:literal, $compress:path, $octets:ident, $start:expr) => {
        pub(super) struct $name;

        impl Compression<$block> for $name {
            type State = [$word; $words];
            const START: Self::State = $start;
            const DIGEST: usize = $digest;

            #[inline(always)]
            fn compress(state: &mut Self::State, blocks: &[[u8; $block]]) {
                $compress(state, blocks);
            }

            #[inline(always)]
            fn octets(state: &Self::State) -> [u8; 64] {
                let mut out = [0; 64];
                let (places, _) = out.as_chunks_mut::<{ size_of::<$word>() }>();
                for (place, word) in places.iter_mut().zip(state) {
                    *place = word.$octets();
                }
                out
            }

            #[inline(always)]
            fn write_length(block: &mut [u8; $block], bits: u64) {
                // SHA-384 and SHA-512 have a field of 128 bits; its upper half is always 0 here.
                block[$block - 8..].copy_from_slice(&bits.$octets());
            }

            fn keep(state: &Self::State) -> [u64; 8] {
                let mut words = [0; 8];
                for (to, from) in words.iter_mut().zip(state) {
                    *to = u64::from(*from);
                }
                words
            }

            fn restore(words: &[u64; 8]) -> Self::State {
                let mut state = [0; $words];
                for (to, from) in state.iter_mut().zip(words) {
                    *to = *from as $word;
                }
                state
            }
        }
    };
}

// RFC 1321 section 3.3; FIPS 180-4 sections 5.3.1, 5.3.3, 5.3.4, 5.3.5.
compression!(Md5, u32, 4, 64, 16, md5::block_api::compress, to_le_bytes, {
    [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476]
});
compression!(Sha1, u32, 5, 64, 20, sha1::block_api::compress, to_be_bytes, {
    [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0]
});
compression!(Sha256, u32, 8, 64, 32, sha2::block_api::compress256, to_be_bytes, {
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19]
});
compression!(Sha384, u64, 8, 128, 48, sha2::block_api::compress512, to_be_bytes, {
    [
        0xcbbb_9d5d_c105_9ed8,
        0x629a_292a_367c_d507,
        0x9159_015a_3070_dd17,
        0x152f_ecd8_f70e_5939,
        0x6733_2667_ffc0_0b31,
        0x8eb4_4a87_6858_1511,
        0xdb0c_2e0d_64f9_8fa7,
        0x47b5_481d_befa_4fa4,
    ]
});
compression!(Sha512, u64, 8, 128, 64, sha2::block_api::compress512, to_be_bytes, {
    [
        0x6a09_e667_f3bc_c908,
        0xbb67_ae85_84ca_a73b,
        0x3c6e_f372_fe94_f82b,
        0xa54f_f53a_5f1d_36f1,
        0x510e_527f_ade6_82d1,
        0x9b05_688c_2b3e_6c1f,
        0x1f83_d9ab_fb41_bd6b,
        0x5be0_cd19_137e_2179,
    ]
});

/// An HMAC key of at most a block.
pub(super) struct Hmac<H: Compression<BLOCK>, const BLOCK: usize> {
    inner: H::State,
    outer: H::State,
    hash: PhantomData<H>,
}

impl<H: Compression<BLOCK>, const BLOCK: usize> Hmac<H, BLOCK> {
    pub(super) fn new(key: &[u8]) -> Self {
        let keyed = |pad: u8| {
            let mut block = [pad; BLOCK];
            for (to, from) in block.iter_mut().zip(key) {
                *to ^= from;
            }
            let mut state = H::START;
            H::compress(&mut state, &[block]);
            block.zeroize();
            state
        };
        Hmac { inner: keyed(0x36), outer: keyed(0x5c), hash: PhantomData }
    }

    #[inline]
    fn one(&self, parts: &[&[u8]]) -> [u8; 64] {
        let mut state = self.inner;
        let mut tail = [0; BLOCK];
        let mut filled = 0;
        let mut octets = BLOCK;
        for part in parts {
            octets += part.len();
            let mut part = *part;
            if filled > 0 {
                let take = part.len().min(BLOCK - filled);
                let (now, rest) = part.split_at(take);
                put(&mut tail, filled, now);
                filled += take;
                part = rest;
                if filled < BLOCK {
                    continue;
                }
                H::compress(&mut state, &[tail]);
            }
            let (blocks, rest) = part.as_chunks::<BLOCK>();
            if !blocks.is_empty() {
                H::compress(&mut state, blocks);
            }
            put(&mut tail, 0, rest);
            filled = rest.len();
        }
        finish::<H, BLOCK>(&mut state, &mut tail, filled, octets);
        self.outer(&state)
    }

    /// The outer hash, over the inner one.
    #[inline(always)]
    fn outer(&self, inner: &H::State) -> [u8; 64] {
        let mut digest = [0; BLOCK];
        put(&mut digest, 0, H::octets(inner).get(..H::DIGEST).unwrap_or(&[]));
        let mut state = self.outer;
        finish::<H, BLOCK>(&mut state, &mut digest, H::DIGEST, BLOCK + H::DIGEST);
        H::octets(&state)
    }
}

#[inline(always)]
fn put(to: &mut [u8], at: usize, from: &[u8]) {
    if let Some(to) = to.get_mut(at..at + from.len()) {
        to.copy_from_slice(from);
    }
}

/// The last block or two: `filled` octets of `tail`, 0x80, zeros, the length of the message of `octets` octets.
#[inline(always)]
fn finish<H: Compression<BLOCK>, const BLOCK: usize>(
    state: &mut H::State,
    tail: &mut [u8; BLOCK],
    filled: usize,
    octets: usize,
) {
    if let Some(rest) = tail.get_mut(filled..) {
        rest.fill(0);
    }
    put(tail, filled, &[0x80]);
    // The length takes an eighth of a block.
    if filled >= BLOCK - BLOCK / 8 {
        H::compress(state, &[*tail]);
        tail.fill(0);
    }
    H::write_length(tail, octets as u64 * 8);
    H::compress(state, &[*tail]);
}

impl<H: Compression<BLOCK>, const BLOCK: usize> Mac for Hmac<H, BLOCK> {
    fn mac(&self, messages: &[&[&[u8]]], out: &mut [Tag]) {
        for (parts, tag) in messages.iter().zip(out) {
            let digest = self.one(parts);
            if let Some((left, _)) = digest.split_first_chunk() {
                *tag = *left;
            }
        }
    }

    fn steps(&self) -> Option<&dyn MacSteps> {
        Some(self)
    }
}

impl<H: Compression<BLOCK>, const BLOCK: usize> MacSteps for Hmac<H, BLOCK> {
    fn begin(&self, state: &mut HashState) {
        (state.words, state.filled, state.octets) = (H::keep(&self.inner), 0, BLOCK);
    }

    fn absorb(&self, state: &mut HashState, mut octets: &[u8]) {
        state.octets += octets.len();
        let mut chain = H::restore(&state.words);
        if state.filled > 0 {
            let (now, rest) = octets.split_at(octets.len().min(BLOCK.saturating_sub(state.filled)));
            put(&mut state.block, state.filled, now);
            state.filled += now.len();
            octets = rest;
            match state.block.first_chunk::<BLOCK>() {
                Some(block) if state.filled >= BLOCK => H::compress(&mut chain, &[*block]),
                _ => return,
            }
        }
        let (blocks, rest) = octets.as_chunks::<BLOCK>();
        if !blocks.is_empty() {
            H::compress(&mut chain, blocks);
        }
        put(&mut state.block, 0, rest);
        state.filled = rest.len();
        state.words = H::keep(&chain);
        chain.zeroize();
    }

    fn end(&self, state: &mut HashState) -> Tag {
        let mut chain = H::restore(&state.words);
        let mut tail = [0; BLOCK];
        put(&mut tail, 0, state.block.get(..state.filled).unwrap_or(&[]));
        finish::<H, BLOCK>(&mut chain, &mut tail, state.filled, state.octets);
        let digest = self.outer(&chain);
        chain.zeroize();
        digest.first_chunk().copied().unwrap_or([0; MAX_ICV_LEN])
    }
}

impl<H: Compression<BLOCK>, const BLOCK: usize> Drop for Hmac<H, BLOCK> {
    fn drop(&mut self) {
        self.inner.zeroize();
        self.outer.zeroize();
    }
}
