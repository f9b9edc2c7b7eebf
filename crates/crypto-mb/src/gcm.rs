//! AES-GCM (NIST SP 800-38D) with nonces of 96 bits: encryption and hash in one pass over the data.

use crate::Wide;
use crate::aes::Schedule;
use crate::ghash::{Powers, STEP, Sum, multiplied};
use crate::lanes::{BLOCK, Lanes, One, Pair, Quad};

/// The longest packet, in octets: far above what IP can carry, far below where the counter wraps.
pub(crate) const MAX_DATA: usize = 1 << 24;

/// A key, expanded, for two blocks an instruction or four. Wiped when dropped. A value of it proves, as [`Wide`] does, that the processor has the
/// instructions.
pub(crate) struct Gcm<const FOUR: bool> {
    expanded: ExpandedKey,
}

/// The parts of a message beside its data.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    /// 12 octets, the first the lowest.
    pub(crate) nonce: u128,
    pub(crate) aad: HashedData,
}

/// Associated data, hashed but for the last multiplication.
#[derive(Clone, Copy)]
pub(crate) struct HashedData {
    /// The GHASH sum, its octets reversed, before the last multiplication.
    hash: u128,
    /// The octets of associated data that were hashed.
    len: u64,
}

impl HashedData {
    /// Associated data of at most 16 octets, with zeros behind them: what ESP has (RFC 4106 section 5).
    #[inline(always)]
    pub(crate) fn block(padded: [u8; BLOCK], len: usize) -> HashedData {
        HashedData { hash: u128::from_be_bytes(padded), len: len as u64 }
    }
}

impl<const FOUR: bool> Gcm<FOUR> {
    /// `None` unless `key` has 16, 24 or 32 octets, and `wide` is as wide as this type.
    #[inline(never)]
    pub(crate) fn new(wide: Wide, key: &[u8]) -> Option<Gcm<FOUR>> {
        if wide.takes_four() != FOUR {
            return None;
        }
        // SAFETY: `wide` says that the processor has these instructions.
        unsafe { ExpandedKey::new(key) }.map(|expanded| Gcm { expanded })
    }

    /// Encrypt or decrypt `data`, at most [`MAX_DATA`] octets, where it lies; the tag of associated data and ciphertext.
    #[inline(always)]
    pub(crate) fn run<const SEAL: bool>(&self, run: Run, data: &mut [u8]) -> u128 {
        if FOUR {
            // SAFETY: this value was made of a `Wide` that says that the processor has these instructions.
            unsafe { self.expanded.run_by_four::<SEAL>(run, data) }
        } else {
            // SAFETY: as above.
            unsafe { self.expanded.run_by_two::<SEAL>(run, data) }
        }
    }

    /// Associated data of any length.
    #[cfg(test)]
    pub(crate) fn absorb(&self, aad: &[u8]) -> HashedData {
        // SAFETY: as above.
        unsafe { self.expanded.absorb(aad) }
    }
}

/// The values that are computed from a key: its schedule and the powers of the hash key.
struct ExpandedKey {
    schedule: Schedule,
    powers: Powers,
}

impl ExpandedKey {
    #[target_feature(enable = "avx2,aes,pclmulqdq")]
    fn new(key: &[u8]) -> Option<ExpandedKey> {
        let schedule = Schedule::new(key)?;
        let powers = Powers::new(schedule.encrypt_one(One::new(0)));
        Some(ExpandedKey { schedule, powers })
    }

    #[cfg(test)]
    #[target_feature(enable = "avx2,aes,pclmulqdq")]
    fn absorb(&self, aad: &[u8]) -> HashedData {
        let mut hash = One::new(0);
        for block in aad.chunks(BLOCK) {
            hash = multiplied(hash, self.powers.from(1)).xor(One::load(block).reversed());
        }
        HashedData { hash: hash.value(), len: aad.len() as u64 }
    }

    #[target_feature(enable = "avx2,aes,pclmulqdq,vaes,vpclmulqdq")]
    fn run_by_two<const SEAL: bool>(&self, run: Run, data: &mut [u8]) -> u128 {
        Message::<Pair>::new(self, run, data.len()).run::<STEP, SEAL>(data)
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,aes,pclmulqdq,vaes,vpclmulqdq")]
    fn run_by_four<const SEAL: bool>(&self, run: Run, data: &mut [u8]) -> u128 {
        Message::<Quad>::new(self, run, data.len()).run::<STEP, SEAL>(data)
    }
}

/// A message on its way.
struct Message<'a, L> {
    key: &'a ExpandedKey,
    /// The hash so far; reversed.
    hash: One,
    /// How many blocks the hash is before the block that comes next: 1 as long as it is the last block of associated data, not yet
    /// multiplied, then 0, since it is added to that block.
    gap: usize,
    /// The counter block that encrypts the tag.
    tag_counter: One,
    /// The counter block before those of the next blocks, in each lane, reversed.
    counters: L,
    lengths: One,
}

impl<'a, L: Lanes> Message<'a, L> {
    #[inline(always)]
    fn new(key: &'a ExpandedKey, Run { nonce, aad }: Run, len: usize) -> Self {
        // The block that encrypts the tag, reversed: the nonce, then the number 1.
        let counter = One::new(nonce.swap_bytes() | 1);
        Message {
            key,
            hash: One::new(aad.hash),
            gap: 1,
            tag_counter: counter.reversed(),
            counters: L::all(counter),
            lengths: One::new((u128::from(8 * aad.len) << 64) | (8 * len as u128)),
        }
    }

    #[inline(always)]
    fn run<const N: usize, const SEAL: bool>(mut self, data: &mut [u8]) -> u128 {
        let step_len = N * L::LEN;
        // One octet at least stays for the end, if there is one.
        let steps = data.len().saturating_sub(1) / step_len * step_len;
        let (steps, rest) = data.split_at_mut(steps);
        let mut steps = steps.chunks_exact_mut(step_len);
        if let Some(step) = steps.next() {
            // The associated data is multiplied while the first step is encrypted.
            self.hash = multiplied(self.hash, self.key.powers.from(1));
            self.gap = 0;
            let stream = self.stream::<N>();
            let mut before = Self::apply::<N, SEAL>(step, stream);
            for step in steps {
                before = self.step::<N, SEAL>(step, before);
            }
            self.absorb(before);
        }
        let tag = match rest.len().div_ceil(L::LEN) {
            0 => self.finish::<0, SEAL>(rest),
            1 => self.finish::<1, SEAL>(rest),
            2 => self.finish::<2, SEAL>(rest),
            3 => self.finish::<3, SEAL>(rest),
            4 => self.finish::<4, SEAL>(rest),
            5 => self.finish::<5, SEAL>(rest),
            6 => self.finish::<6, SEAL>(rest),
            7 => self.finish::<7, SEAL>(rest),
            _ => self.finish::<8, SEAL>(rest),
        };
        tag.value()
    }

    /// The counter blocks of the next `N` registers.
    #[inline(always)]
    fn next_counters<const N: usize>(&self) -> [L; N] {
        let mut next = self.counters.add(L::counters([1, 2, 3, 4]));
        let advance = L::counters([L::BLOCKS as i32; 4]);
        let mut all = [next; N];
        for place in &mut all {
            *place = next.reversed();
            next = next.add(advance);
        }
        all
    }

    #[inline(always)]
    fn advance<const N: usize>(&mut self) {
        self.counters = self.counters.add(L::counters([(N * L::BLOCKS) as i32; 4]));
    }

    /// The key stream of the next `N` registers.
    #[inline(always)]
    fn stream<const N: usize>(&mut self) -> [L; N] {
        let (stream, _) = self.key.schedule.encrypt(self.next_counters::<N>(), One::new(0));
        self.advance::<N>();
        stream
    }

    /// Encrypt or decrypt `N` registers full of blocks; the ciphertext, reversed.
    #[inline(always)]
    fn apply<const N: usize, const SEAL: bool>(data: &mut [u8], mut stream: [L; N]) -> [L; N] {
        for (octets, stream) in data.chunks_exact_mut(L::LEN).zip(&mut stream) {
            let before = L::load(octets);
            let after = before.xor(*stream);
            after.store(octets);
            *stream = if SEAL { after } else { before }.reversed();
        }
        stream
    }

    /// The product of the register with this index of `N`.
    #[inline(always)]
    fn product<const N: usize>(&self, blocks: L, index: usize) -> Sum<L> {
        let blocks = if index == 0 { blocks.xor(L::two(self.hash, One::new(0))) } else { blocks };
        Sum::of(blocks, self.key.powers.from((N - index) * L::BLOCKS))
    }

    /// Hash `N` registers full of ciphertext.
    #[inline(always)]
    fn absorb<const N: usize>(&mut self, blocks: [L; N]) {
        let mut sum = Sum::zero();
        for (index, blocks) in blocks.iter().enumerate() {
            sum.add(self.product::<N>(*blocks, index));
        }
        self.hash = sum.reduced();
    }

    /// Encrypt or decrypt `N` registers full of blocks and hash the ones before meanwhile: the processor does both at once if they come to it
    /// mixed.
    #[inline(always)]
    fn step<const N: usize, const SEAL: bool>(&mut self, data: &mut [u8], blocks: [L; N]) -> [L; N] {
        let mut stream = self.next_counters::<N>();
        self.advance::<N>();
        let (first, middle, last) = self.key.schedule.parts();
        let mut sum = Sum::zero();
        Schedule::whiten(&mut stream, first);
        let (early, late) = middle.split_at(N.min(middle.len()));
        for (index, (blocks, key)) in blocks.iter().zip(early).enumerate() {
            Schedule::round(&mut stream, key);
            sum.add(self.product::<N>(*blocks, index));
        }
        for key in late {
            Schedule::round(&mut stream, key);
        }
        Schedule::last_round(&mut stream, last);
        self.hash = sum.reduced();
        Self::apply::<N, SEAL>(data, stream)
    }

    /// The last `N` registers, the last of which may not be full, and the tag.
    #[inline(always)]
    fn finish<const N: usize, const SEAL: bool>(&self, data: &mut [u8]) -> One {
        let key = self.key;
        let (stream, tag_stream) = key.schedule.encrypt(self.next_counters::<N>(), self.tag_counter);
        let mut exponent = data.len().div_ceil(BLOCK) + 1;
        // The hash stands `gap` blocks before the first block, the lengths behind the last.
        let ends = L::two(self.hash, self.lengths);
        let mut sum = Sum::of(ends, L::two(key.powers.from(exponent + self.gap), key.powers.from(1)));
        for (octets, stream) in data.chunks_mut(L::LEN).zip(&stream) {
            let before = L::load(octets);
            let after = before.xor(*stream);
            after.store(octets);
            let cipher = if SEAL { after.keep(octets.len()) } else { before };
            sum.add(Sum::of(cipher.reversed(), key.powers.from(exponent)));
            exponent = exponent.saturating_sub(L::BLOCKS);
        }
        sum.reduced().reversed().xor(tag_stream)
    }
}
