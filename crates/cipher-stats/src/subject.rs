//! A cipher as the tests see it: a function that makes an output of a key and an input.
//!
//! | primitive | input | output |
//! |---|---|---|
//! | blocks | the block | its encryption |
//! | stream | the nonce | the first 16 octets of the key stream |
//! | AEAD | the nonce | the ciphertext of 16 zero octets; the tag is not looked at |
//!
//! A tag is left out because good combined modes have tags that fail these tests: a universal hash is linear.

use std::sync::Arc;

use crypto::UnitFailed;
use crypto::custom::{
    AeadKey, AeadOp, CtrOp, CustomCipher, CustomKey, NONCE_LEN, Primitive, SetKeyError, StreamOp,
};

use crate::random::Random;

/// Octets of the output where a cipher has no blocks.
const OUTPUT: usize = 16;
/// Octets of each packet of a key stream. It is a multiple of every block.
const PACKET: usize = 4096;
/// Calls for one key after which a cipher is taken to refuse all keys.
const MOST_REFUSED: usize = 1000;
/// Operations in one call.
const BATCH: usize = 16;

/// The reason why a cipher could not be tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// The cipher does not take keys as long as it says.
    #[error("the cipher says that its own key length is wrong; correct its description or its key setup")]
    KeyLength,
    /// The cipher refuses every key that was drawn.
    #[error("the cipher refused 1000 random keys in a row as weak; correct its key setup")]
    Keys,
    /// The unit that computes the cipher failed.
    #[error("the unit that computes the cipher failed; run `ravelin cipher check` on it")]
    Unit(#[from] UnitFailed),
    /// The cipher made a key of another primitive than it describes.
    #[error("the cipher made a key of another primitive than it describes; run `ravelin cipher check` on it")]
    Primitive,
}

/// A cipher under test.
#[derive(Clone)]
pub struct Subject {
    cipher: Arc<dyn CustomCipher>,
    primitive: Primitive,
    key_len: usize,
}

/// A cipher under test with a key.
pub struct Keyed {
    key: CustomKey,
    primitive: Primitive,
}

impl Subject {
    /// The cipher as a function.
    pub fn new(cipher: Arc<dyn CustomCipher>) -> Subject {
        let description = cipher.description();
        let (primitive, key_len) = (description.primitive, description.key_len);
        Subject { cipher, primitive, key_len }
    }

    /// What the cipher supplies.
    pub fn primitive(&self) -> Primitive {
        self.primitive
    }

    /// Octets of the input.
    pub fn input_len(&self) -> usize {
        match self.primitive {
            Primitive::Block { block_len } => block_len,
            Primitive::Stream | Primitive::Aead { .. } => NONCE_LEN,
        }
    }

    /// Octets of the output.
    pub fn output_len(&self) -> usize {
        match self.primitive {
            Primitive::Block { block_len } => block_len,
            Primitive::Stream | Primitive::Aead { .. } => OUTPUT,
        }
    }

    /// Octets of the key.
    pub fn key_len(&self) -> usize {
        self.key_len
    }

    /// Take a key; `None` if the cipher refuses it as weak.
    ///
    /// # Errors
    /// [`SubjectError`] for every other refusal.
    pub fn set_key(&self, key: &[u8]) -> Result<Option<Keyed>, SubjectError> {
        let key = match self.cipher.set_key(key) {
            Ok(key) => key,
            Err(SetKeyError::Weak) => return Ok(None),
            Err(SetKeyError::Length) => return Err(SubjectError::KeyLength),
            Err(SetKeyError::Unit(_) | SetKeyError::NoRoom(_)) => return Err(UnitFailed.into()),
        };
        let fits = matches!(
            (&key, self.primitive),
            (CustomKey::Block(_), Primitive::Block { .. })
                | (CustomKey::Stream(_), Primitive::Stream)
                | (CustomKey::Aead(_), Primitive::Aead { .. })
        );
        if fits { Ok(Some(Keyed { key, primitive: self.primitive })) } else { Err(SubjectError::Primitive) }
    }

    /// Draw keys until the cipher takes one. `refused` counts those that it did not take.
    ///
    /// # Errors
    /// [`SubjectError`].
    pub fn random_key(
        &self,
        random: &mut Random,
        refused: &mut u64,
    ) -> Result<(Vec<u8>, Keyed), SubjectError> {
        for _ in 0..MOST_REFUSED {
            let key = random.octets(self.key_len);
            if let Some(keyed) = self.set_key(&key)? {
                return Ok((key, keyed));
            }
            *refused += 1;
        }
        Err(SubjectError::Keys)
    }
}

impl Keyed {
    /// The outputs of inputs, one behind the other. `outputs` is emptied first.
    ///
    /// # Errors
    /// [`UnitFailed`]: what `outputs` holds has no meaning.
    pub fn outputs(&self, inputs: &[u8], outputs: &mut Vec<u8>) -> Result<(), UnitFailed> {
        outputs.clear();
        match &self.key {
            CustomKey::Block(key) => {
                outputs.extend_from_slice(inputs);
                key.encrypt_blocks(outputs)
            }
            CustomKey::Stream(key) => {
                let (nonces, _) = inputs.as_chunks::<NONCE_LEN>();
                outputs.resize(nonces.len() * OUTPUT, 0);
                let mut ops: Vec<StreamOp<'_>> = nonces
                    .iter()
                    .zip(outputs.chunks_mut(OUTPUT))
                    .map(|(nonce, data)| StreamOp { nonce, offset: 0, data })
                    .collect();
                ops.chunks_mut(BATCH).try_for_each(|ops| key.xor_batch(ops))
            }
            CustomKey::Aead(key) => {
                let (nonces, _) = inputs.as_chunks::<NONCE_LEN>();
                outputs.resize(nonces.len() * OUTPUT, 0);
                self.seal(key.as_ref(), nonces, outputs.chunks_mut(OUTPUT))
            }
        }
    }

    /// Decrypt blocks in place; `false` if the cipher has no blocks, and nothing was done.
    ///
    /// # Errors
    /// [`UnitFailed`]: what `blocks` holds has no meaning.
    pub fn decrypt(&self, blocks: &mut [u8]) -> Result<bool, UnitFailed> {
        match &self.key {
            CustomKey::Block(key) => key.decrypt_blocks(blocks).map(|()| true),
            CustomKey::Stream(_) | CustomKey::Aead(_) => Ok(false),
        }
    }

    /// Fill octets with the key stream that packets of ESP would meet: packets of 4096 octets, each with a sequence
    /// number of its own behind the salt (RFC 3686, RFC 4106). `first` is the sequence number of the first packet.
    ///
    /// Blocks of 8 octets have no such mode; here they are in counter mode, the counter being a 64-bit number.
    ///
    /// # Errors
    /// [`UnitFailed`]: what `octets` holds has no meaning.
    pub fn key_stream(&self, salt: [u8; 4], first: u64, octets: &mut [u8]) -> Result<(), UnitFailed> {
        octets.fill(0);
        let nonces: Vec<[u8; NONCE_LEN]> = (first..)
            .zip(octets.chunks(PACKET))
            .map(|(sequence, _)| {
                let mut nonce = [0; NONCE_LEN];
                let (front, back) = nonce.split_at_mut(salt.len());
                front.copy_from_slice(&salt);
                back.copy_from_slice(&sequence.to_be_bytes());
                nonce
            })
            .collect();
        let packets = nonces.iter().zip(octets.chunks_mut(PACKET));
        match &self.key {
            CustomKey::Block(key) if self.primitive == (Primitive::Block { block_len: 8 }) => {
                let mut counter = first.wrapping_mul((PACKET / 8) as u64);
                for place in octets.chunks_mut(8) {
                    place.iter_mut().zip(counter.to_be_bytes()).for_each(|(to, from)| *to = from);
                    counter = counter.wrapping_add(1);
                }
                key.encrypt_blocks(octets)
            }
            CustomKey::Block(key) => {
                let mut ops: Vec<CtrOp<'_>> =
                    packets.map(|(nonce, data)| CtrOp { counter: first_counter(nonce), data }).collect();
                ops.chunks_mut(BATCH).try_for_each(|ops| key.ctr_xor_batch(ops))
            }
            CustomKey::Stream(key) => {
                let mut ops: Vec<StreamOp<'_>> =
                    packets.map(|(nonce, data)| StreamOp { nonce, offset: 0, data }).collect();
                ops.chunks_mut(BATCH).try_for_each(|ops| key.xor_batch(ops))
            }
            CustomKey::Aead(key) => self.seal(key.as_ref(), &nonces, octets.chunks_mut(PACKET)),
        }
    }

    /// The octets of a packet of [`Self::key_stream`].
    pub const PACKET: usize = PACKET;

    fn seal<'a>(
        &self,
        key: &dyn AeadKey,
        nonces: &'a [[u8; NONCE_LEN]],
        places: impl Iterator<Item = &'a mut [u8]>,
    ) -> Result<(), UnitFailed> {
        let tag_len = match self.primitive {
            Primitive::Aead { tag_len } => tag_len,
            Primitive::Block { .. } | Primitive::Stream => OUTPUT,
        };
        let mut tags = vec![0; nonces.len() * tag_len];
        let mut ops: Vec<AeadOp<'_>> = nonces
            .iter()
            .zip(places)
            .zip(tags.chunks_mut(tag_len))
            .map(|((nonce, data), tag)| AeadOp { nonce, aad: &[], data, tag, ok: false })
            .collect();
        ops.chunks_mut(BATCH).try_for_each(|ops| key.seal_batch(ops))
    }
}

/// The first counter block of a packet: the nonce, and 1 (RFC 3686 section 4).
fn first_counter(nonce: &[u8; NONCE_LEN]) -> [u8; 16] {
    let mut counter = [0; 16];
    let (front, back) = counter.split_at_mut(NONCE_LEN);
    front.copy_from_slice(nonce);
    back.copy_from_slice(&1u32.to_be_bytes());
    counter
}

/// Flip one bit; bit 0 is the most significant one of the first octet. A bit that is not there is not flipped.
pub fn flip(octets: &mut [u8], bit: usize) {
    if let Some(octet) = octets.get_mut(bit / 8) {
        *octet ^= 0x80 >> (bit % 8);
    }
}
