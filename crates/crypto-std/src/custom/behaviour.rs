//! The fingerprint of what a cipher computes (issue 23 item 4): implementations of one cipher agree, ciphers that differ
//! do not.

use std::fmt;

use crypto::custom::{AeadOp, CustomCipher, CustomKey, NONCE_LEN, SetKeyError, StreamOp};
use sha2::{Digest, Sha256};

/// Pairs of key and input that are looked at.
const PAIRS: u32 = 256;
/// Octets of each input.
const INPUT: usize = 64;
/// Octets of associated data for a combined mode.
const AAD: usize = 12;

/// SHA-256 over the output of a cipher for fixed keys and inputs. It is no secret: it names a behaviour, as a Vendor ID
/// names an implementation (RFC 7296 section 3.12).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Behaviour([u8; 32]);

impl Behaviour {
    /// Look at a cipher.
    ///
    /// # Errors
    /// What it did instead of answering, as the rest of a sentence.
    pub fn of(cipher: &dyn CustomCipher) -> Result<Behaviour, &'static str> {
        let description = cipher.description();
        let mut hash = Sha256::new();
        hash.update(description.primitive.name());
        for pair in 0..PAIRS {
            let key = octets(b"key", pair, description.key_len);
            let mut data = octets(b"input", pair, INPUT);
            match cipher.set_key(&key) {
                Ok(CustomKey::Block(key)) => {
                    key.encrypt_blocks(&mut data).map_err(|_| "failed to encrypt blocks")?;
                }
                Ok(CustomKey::Stream(key)) => {
                    let nonce = octets(b"nonce", pair, NONCE_LEN);
                    let mut ops = [StreamOp { nonce: &nonce, offset: u64::from(pair) * 3, data: &mut data }];
                    key.xor_batch(&mut ops).map_err(|_| "failed to make a key stream")?;
                }
                Ok(CustomKey::Aead(key)) => {
                    let nonce = octets(b"nonce", pair, NONCE_LEN);
                    let aad = octets(b"aad", pair, AAD);
                    let mut tag = [0; 16];
                    let tag_len = match description.primitive {
                        crypto::custom::Primitive::Aead { tag_len } => tag_len,
                        _ => return Err("made a key of another kind than its description has"),
                    };
                    let tag = tag.get_mut(..tag_len).ok_or("has a tag that is too long")?;
                    let mut ops = [AeadOp { nonce: &nonce, aad: &aad, data: &mut data, tag, ok: false }];
                    key.seal_batch(&mut ops).map_err(|_| "failed to seal")?;
                    hash.update(&*ops[0].tag);
                }
                // A fixed key that the cipher calls weak is part of its behaviour.
                Err(SetKeyError::Weak) => data.fill(0),
                Err(SetKeyError::Length) => {
                    return Err("refuses keys of the length that its description has");
                }
                Err(SetKeyError::Unit(_) | SetKeyError::NoRoom(_)) => return Err("failed to take a key"),
            }
            hash.update(&data);
        }
        Ok(Behaviour(hash.finalize().into()))
    }

    /// The 32 octets of it.
    pub fn octets(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Debug for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Octets that anybody can compute: SHA-256 of label, number of the pair and number of the part, one behind the other.
fn octets(label: &[u8], pair: u32, len: usize) -> Vec<u8> {
    let parts = (0u32..).flat_map(|part| {
        let mut hash = Sha256::new();
        hash.update(b"ravelin cipher behaviour v1 ");
        hash.update(label);
        hash.update(pair.to_be_bytes());
        hash.update(part.to_be_bytes());
        <[u8; 32]>::from(hash.finalize())
    });
    parts.take(len).collect()
}
