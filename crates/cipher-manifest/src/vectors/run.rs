//! Test vectors put before a cipher, through the traits alone.

use std::fmt;

use crypto::custom::{
    AeadKey, AeadOp, CustomCipher, CustomDescription, CustomKey, Primitive, SetKeyError, StreamKey, StreamOp,
};
use serde::{Deserialize, Serialize};

use super::block;
use super::failure::Failure;
use super::{Case, Sealed, Vector, Vectors};

/// How many tests of each mode a cipher has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Valid tests of blocks.
    pub block: u32,
    /// Valid tests of counter mode.
    pub ctr: u32,
    /// Valid tests of CBC.
    pub cbc: u32,
    /// Valid tests of GCM over the block cipher.
    pub gcm: u32,
    /// Valid tests of a stream cipher.
    pub stream: u32,
    /// Valid tests of the cipher's own combined mode.
    pub aead: u32,
    /// Tests of any mode that had to be refused.
    pub invalid: u32,
}

impl Counts {
    /// The number of all tests.
    pub fn total(&self) -> u32 {
        let all = [self.block, self.ctr, self.cbc, self.gcm, self.stream, self.aead, self.invalid];
        all.into_iter().fold(0, u32::saturating_add)
    }

    fn add(&mut self, test: &Vector) {
        let count = match (&test.case, test.valid) {
            (_, false) => &mut self.invalid,
            (Case::Block { .. }, _) => &mut self.block,
            (Case::Ctr { .. }, _) => &mut self.ctr,
            (Case::Cbc { .. }, _) => &mut self.cbc,
            (Case::Gcm(_), _) => &mut self.gcm,
            (Case::Stream { .. }, _) => &mut self.stream,
            (Case::Aead(_), _) => &mut self.aead,
        };
        *count = count.saturating_add(1);
    }
}

/// The first test that a cipher did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorError {
    /// The test's number; `None`: the file as a whole is not this cipher's.
    pub tc_id: Option<u64>,
    /// What was wrong, in words for the author.
    pub why: String,
    /// Whether the unit that computes the cipher failed: there is no answer, so none that is wrong.
    pub no_answer: bool,
}

impl fmt::Display for VectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tc_id {
            Some(tc_id) => write!(f, "test vector {tc_id}: {}", self.why),
            None => write!(f, "test vectors: {}", self.why),
        }
    }
}

impl std::error::Error for VectorError {}

/// Put every test before the cipher. Each is computed in more than one way where there is more than one: in both
/// directions, in one piece and in several, by the cipher's own mode and by the host's over its blocks.
///
/// # Errors
/// [`VectorError`]: the first test that the cipher does not pass.
pub fn run(vectors: &Vectors, cipher: &dyn CustomCipher) -> Result<Counts, VectorError> {
    let description = cipher.description();
    if vectors.cipher() != description.name {
        let why = format!("they are for {:.20}, not for {}", vectors.cipher(), description.name);
        return Err(VectorError { tc_id: None, why, no_answer: false });
    }
    let mut counts = Counts::default();
    for test in vectors.tests() {
        check(test, description, cipher).map_err(|error| VectorError {
            tc_id: Some(test.tc_id),
            why: error.to_string(),
            no_answer: error.is_no_answer(),
        })?;
        counts.add(test);
    }
    Ok(counts)
}

fn check(test: &Vector, description: &CustomDescription, cipher: &dyn CustomCipher) -> Result<(), Failure> {
    fits(&test.case, description.primitive)?;
    let key = match cipher.set_key(&test.key) {
        Ok(key) => key,
        Err(SetKeyError::Length | SetKeyError::Weak) if !test.valid => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    match (&test.case, &key) {
        (Case::Gcm(sealed), CustomKey::Block(key)) => block::gcm(&**key, sealed, test.valid),
        (Case::Aead(sealed), CustomKey::Aead(key)) => aead(&**key, sealed, test.valid),
        _ if !test.valid => Err(Failure::Differs("the test is invalid, and the cipher took its key")),
        (Case::Block { msg, ct }, CustomKey::Block(key)) => {
            let Primitive::Block { block_len } = description.primitive else {
                return Err(Failure::Mode(description.primitive.name()));
            };
            block::blocks(&**key, block_len, msg, ct)
        }
        (Case::Ctr { counter, msg, ct }, CustomKey::Block(key)) => block::ctr(&**key, counter, msg, ct),
        (Case::Cbc { iv, msg, ct }, CustomKey::Block(key)) => block::cbc(&**key, iv, msg, ct),
        (Case::Stream { nonce, offset, msg, ct }, CustomKey::Stream(key)) => {
            stream(&**key, nonce, *offset, msg, ct)?;
            stream(&**key, nonce, *offset, ct, msg)
        }
        _ => Err(Failure::Mode(description.primitive.name())),
    }
}

/// Whether the cipher's kind and lengths are those of the test.
fn fits(case: &Case, primitive: Primitive) -> Result<(), Failure> {
    let fits = match (case, primitive) {
        (Case::Block { msg, .. }, Primitive::Block { block_len }) => msg.len().is_multiple_of(block_len),
        (Case::Ctr { .. } | Case::Gcm(_), Primitive::Block { block_len }) => block_len == super::BLOCK,
        (Case::Cbc { iv, .. }, Primitive::Block { block_len }) => iv.len() == block_len,
        (Case::Stream { .. }, Primitive::Stream) => true,
        (Case::Aead(sealed), Primitive::Aead { tag_len }) => sealed.tag.len() == tag_len,
        _ => false,
    };
    if fits { Ok(()) } else { Err(Failure::Mode(primitive.name())) }
}

/// The whole message, and again in two pieces.
fn stream(key: &dyn StreamKey, nonce: &[u8], offset: u64, from: &[u8], to: &[u8]) -> Result<(), Failure> {
    let mut whole = from.to_vec();
    key.xor_batch(&mut [StreamOp { nonce, offset, data: &mut whole }])?;
    if whole != to {
        return Err(Failure::Differs("the ciphertext or the plaintext is another"));
    }
    let mut pieces = from.to_vec();
    // About a third, and an odd number, so that no border of a block is met.
    let (first, second) = pieces.split_at_mut(((from.len() / 3) | 1).min(from.len()));
    let behind = offset + first.len() as u64;
    key.xor_batch(&mut [
        StreamOp { nonce, offset, data: first },
        StreamOp { nonce, offset: behind, data: second },
    ])?;
    if pieces != to {
        return Err(Failure::Differs("the message in two pieces gives another text than in one"));
    }
    Ok(())
}

fn aead(key: &dyn AeadKey, test: &Sealed, valid: bool) -> Result<(), Failure> {
    let Sealed { nonce, aad, msg, ct, tag } = test;
    let (mut data, mut made) = (ct.clone(), tag.clone());
    let mut open = [AeadOp { nonce, aad, data: &mut data, tag: &mut made, ok: false }];
    key.open_batch(&mut open)?;
    let [AeadOp { ok, .. }] = open;
    match (valid, ok) {
        (false, false) => return Ok(()),
        (false, true) => return Err(Failure::Differs("the test is invalid, and the cipher opened it")),
        (true, false) => return Err(Failure::Differs("the cipher does not open it")),
        (true, true) => {}
    }
    if data != *msg {
        return Err(Failure::Differs("the plaintext is another"));
    }
    made.fill(0);
    key.seal_batch(&mut [AeadOp { nonce, aad, data: &mut data, tag: &mut made, ok: false }])?;
    if data != *ct {
        return Err(Failure::Differs("the ciphertext is another"));
    }
    if made != *tag {
        return Err(Failure::Differs("the tag is another"));
    }
    Ok(())
}
