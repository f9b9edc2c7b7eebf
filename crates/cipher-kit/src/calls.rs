//! Calls into a key of any kind, and octets for them.

use cipher_loader::Form;
use crypto::UnitFailed;
use crypto::custom::{AeadOp, CustomCipher, CustomKey, NONCE_LEN, Primitive, StreamOp};

/// The way in which a cipher is called where contexts are not what is checked.
pub(crate) const LENIENT: Form = Form { writable: true, apart: false, plain: false };

/// What a check says: what it found, or what was wrong.
pub(crate) type Verdict = Result<String, String>;

/// Octets that are authenticated with every packet of these checks.
pub(crate) const AAD: &[u8] = b"spi and sequence";

/// The answer of a call that failed.
pub(crate) fn failed(_: UnitFailed) -> String {
    "the cipher gave an answer that has no meaning".to_owned()
}

/// Octets that look random and are the same in each run: splitmix64 from this seed.
pub(crate) struct Octets(u64);

impl Octets {
    pub(crate) fn new(seed: u64) -> Octets {
        Octets(seed ^ 0x5851_f42d_4c95_7f2d)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// A number below this one, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap_or(0)
    }

    pub(crate) fn fill(&mut self, octets: &mut [u8]) {
        for row in octets.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            row.iter_mut().zip(word).for_each(|(to, from)| *to = from);
        }
    }

    pub(crate) fn take(&mut self, len: usize) -> Vec<u8> {
        let mut octets = vec![0; len];
        self.fill(&mut octets);
        octets
    }

    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut octets = [0; N];
        self.fill(&mut octets);
        octets
    }
}

/// The lengths of a cipher that these checks need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lengths {
    pub(crate) key: usize,
    /// What the length of data must be a multiple of.
    pub(crate) unit: usize,
    /// 0 without a tag.
    pub(crate) tag: usize,
}

impl Lengths {
    pub(crate) fn of(cipher: &dyn CustomCipher) -> Lengths {
        let description = cipher.description();
        let (unit, tag) = match description.primitive {
            Primitive::Block { block_len } => (block_len, 0),
            Primitive::Stream => (1, 0),
            Primitive::Aead { tag_len } => (1, tag_len),
        };
        Lengths { key: description.key_len, unit, tag }
    }
}

/// Set a key, with the answer as a sentence.
pub(crate) fn set(cipher: &dyn CustomCipher, key: &[u8]) -> Result<CustomKey, String> {
    cipher.set_key(key).map_err(|error| format!("setkey of a key of {} octets: {error}", key.len()))
}

/// Encrypt in place: blocks each for itself, the key stream of a nonce, or a packet whose tag is written.
pub(crate) fn seal(
    key: &CustomKey,
    nonce: &[u8; NONCE_LEN],
    data: &mut [u8],
    tag: &mut [u8],
) -> Result<(), String> {
    match key {
        CustomKey::Block(key) => key.encrypt_blocks(data),
        CustomKey::Stream(key) => key.xor_batch(&mut [StreamOp { nonce, offset: 0, data }]),
        CustomKey::Aead(key) => key.seal_batch(&mut [AeadOp { nonce, aad: AAD, data, tag, ok: false }]),
    }
    .map_err(failed)
}

/// The inverse of [`seal`]; whether the tag was right.
pub(crate) fn open(
    key: &CustomKey,
    nonce: &[u8; NONCE_LEN],
    data: &mut [u8],
    tag: &mut [u8],
) -> Result<bool, String> {
    match key {
        CustomKey::Block(key) => key.decrypt_blocks(data).map(|()| true),
        CustomKey::Stream(key) => key.xor_batch(&mut [StreamOp { nonce, offset: 0, data }]).map(|()| true),
        CustomKey::Aead(key) => {
            let mut ops = [AeadOp { nonce, aad: AAD, data, tag, ok: false }];
            key.open_batch(&mut ops).map(|()| {
                let [AeadOp { ok, .. }] = ops;
                ok
            })
        }
    }
    .map_err(failed)
}
