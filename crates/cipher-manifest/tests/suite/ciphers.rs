//! Ciphers of the tests: AES-256 by the `aes` crate, ChaCha20 written out (RFC 8439 section 2.4), ChaCha20-Poly1305 by its
//! crate. Each can be given one fault.

use aes::Aes256;
use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce, Tag};
use cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use crypto::UnitFailed;
use crypto::custom::{
    AeadKey, AeadOp, BlockKey, CbcOp, CtrOp, CustomCipher, CustomDescription, CustomKey, Primitive,
    SetKeyError, StreamKey, StreamOp,
};

/// The one place where a cipher is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    Decrypt,
    ManyBlocks,
    ManyBack,
    OwnCtr,
    OwnCbc,
    Offset,
    Plaintext,
    OpensAll,
    Tag,
    Unit,
}

pub fn description(name: &str, primitive: Primitive) -> CustomDescription {
    CustomDescription {
        name: name.to_owned(),
        version: "1".to_owned(),
        vendor: "tests".to_owned(),
        primitive,
        key_len: 32,
        max_octets: None,
    }
}

pub struct Cipher {
    pub description: CustomDescription,
    pub fault: Fault,
}

impl Cipher {
    pub fn block(fault: Fault) -> Cipher {
        Cipher { description: description("proofaes", Primitive::Block { block_len: 16 }), fault }
    }

    pub fn stream(fault: Fault) -> Cipher {
        Cipher { description: description("proofchacha", Primitive::Stream), fault }
    }

    pub fn aead(fault: Fault) -> Cipher {
        Cipher { description: description("proofaead", Primitive::Aead { tag_len: 16 }), fault }
    }
}

impl CustomCipher for Cipher {
    fn description(&self) -> &CustomDescription {
        &self.description
    }

    fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError> {
        let octets: [u8; 32] = key.try_into().map_err(|_| SetKeyError::Length)?;
        if octets == [0xee; 32] {
            return Err(SetKeyError::Weak);
        }
        let fault = self.fault;
        Ok(match self.description.primitive {
            Primitive::Block { .. } => CustomKey::Block(Box::new(AesKey(Aes256::new(&octets.into()), fault))),
            Primitive::Stream => CustomKey::Stream(Box::new(ChaChaKey(octets, fault))),
            Primitive::Aead { .. } => {
                CustomKey::Aead(Box::new(SealKey(ChaCha20Poly1305::new(&Key::from(octets)), fault)))
            }
        })
    }
}

struct AesKey(Aes256, Fault);

impl BlockKey for AesKey {
    fn encrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        let many = blocks.len() > 16;
        for block in blocks.as_chunks_mut::<16>().0 {
            self.0.encrypt_block(block.into());
        }
        if self.1 == Fault::ManyBlocks && many {
            blocks[17] ^= 1;
        }
        if self.1 == Fault::Unit { Err(UnitFailed) } else { Ok(()) }
    }

    fn decrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        let many = blocks.len() > 16;
        for block in blocks.as_chunks_mut::<16>().0 {
            self.0.decrypt_block(block.into());
        }
        if self.1 == Fault::Decrypt || self.1 == Fault::ManyBack && many {
            blocks[0] ^= 0x80;
        }
        Ok(())
    }

    fn ctr_xor_batch(&self, ops: &mut [CtrOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            for data in op.data.chunks_mut(16) {
                let mut stream = op.counter;
                self.0.encrypt_block((&mut stream).into());
                data.iter_mut().zip(stream).for_each(|(to, from)| *to ^= from);
                let low = u32::from_be_bytes(op.counter[12..].try_into().unwrap());
                // A carry into the other octets is the usual mistake.
                let whole = u128::from_be_bytes(op.counter).wrapping_add(1);
                match self.1 {
                    Fault::OwnCtr => op.counter = whole.to_be_bytes(),
                    _ => op.counter[12..].copy_from_slice(&low.wrapping_add(1).to_be_bytes()),
                }
            }
        }
        Ok(())
    }

    fn cbc_encrypt_batch(&self, ops: &mut [CbcOp<'_>]) -> Result<bool, UnitFailed> {
        for op in ops {
            for block in op.data.as_chunks_mut::<16>().0 {
                block.iter_mut().zip(op.iv).for_each(|(to, from)| *to ^= from);
                self.0.encrypt_block((&mut *block).into());
                if self.1 != Fault::OwnCbc {
                    op.iv = *block;
                }
            }
        }
        Ok(true)
    }
}

struct ChaChaKey([u8; 32], Fault);

impl ChaChaKey {
    /// A block of the key stream (RFC 8439 section 2.3).
    fn block(&self, counter: u32, nonce: &[u8]) -> [u8; 64] {
        let words = |octets: &[u8]| -> Vec<u32> {
            octets.chunks(4).map(|four| u32::from_le_bytes(four.try_into().unwrap())).collect()
        };
        let mut start = words(b"expand 32-byte k");
        start.extend(words(&self.0));
        start.push(counter);
        start.extend(words(nonce));
        let mut state = start.clone();
        let mut quarter = |a: usize, b: usize, c: usize, d: usize| {
            for (x, y, z, turn) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
                state[x] = state[x].wrapping_add(state[y]);
                state[z] = (state[z] ^ state[x]).rotate_left(turn);
            }
        };
        for _ in 0..10 {
            for column in 0..4 {
                quarter(column, column + 4, column + 8, column + 12);
            }
            for at in 0..4 {
                quarter(at, 4 + (at + 1) % 4, 8 + (at + 2) % 4, 12 + (at + 3) % 4);
            }
        }
        let mut out = [0; 64];
        for (to, (a, b)) in out.chunks_mut(4).zip(state.iter().zip(&start)) {
            to.copy_from_slice(&a.wrapping_add(*b).to_le_bytes());
        }
        out
    }
}

impl StreamKey for ChaChaKey {
    fn xor_batch(&self, ops: &mut [StreamOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            for (to, at) in op.data.iter_mut().zip(op.offset..) {
                let within = if self.1 == Fault::Offset { at - op.offset } else { at } % 64;
                *to ^=
                    self.block(u32::try_from(at / 64).unwrap(), op.nonce)[usize::try_from(within).unwrap()];
            }
        }
        Ok(())
    }
}

struct SealKey(ChaCha20Poly1305, Fault);

impl AeadKey for SealKey {
    fn seal_batch(&self, ops: &mut [AeadOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            let nonce = Nonce::try_from(op.nonce).map_err(|_| UnitFailed)?;
            let tag = self.0.encrypt_inout_detached(&nonce, op.aad, (&mut *op.data).into());
            op.tag.copy_from_slice(&tag.map_err(|_| UnitFailed)?);
            op.tag[0] ^= u8::from(self.1 == Fault::Tag);
        }
        Ok(())
    }

    fn open_batch(&self, ops: &mut [AeadOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            let nonce = Nonce::try_from(op.nonce).map_err(|_| UnitFailed)?;
            let tag = Tag::try_from(&*op.tag).map_err(|_| UnitFailed)?;
            op.ok = self.0.decrypt_inout_detached(&nonce, op.aad, (&mut *op.data).into(), &tag).is_ok();
            op.ok |= self.1 == Fault::OpensAll;
            if self.1 == Fault::Plaintext {
                op.data[0] ^= 1;
            }
        }
        Ok(())
    }
}
