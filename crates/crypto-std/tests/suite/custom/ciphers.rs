//! Ciphers of one's own for tests: known primitives in the form of the traits, with faults.
#![allow(dead_code, reason = "each test program uses a part of this")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aes::Aes256;
use chacha20poly1305::ChaCha20Poly1305;
use chacha20poly1305::aead::AeadInOut;
use cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use crypto::custom::{
    AeadKey, AeadOp, BlockKey, CustomCipher, CustomDescription, CustomKey, Primitive, SetKeyError, StreamKey,
    StreamOp,
};
use crypto::{Suites, UnitFailed};
use crypto_maes::Maes512;
use crypto_std::CustomProvider;

/// A provider of each kind of cipher, with the catalogue that has its suites.
pub fn custom_providers() -> [(CustomProvider, Suites); 3] {
    let ciphers: [Arc<dyn CustomCipher>; 3] =
        [Arc::new(Maes512::new()), Arc::new(Flow), Arc::new(Box20::new())];
    ciphers.map(|cipher| {
        let mut suites = Suites::standard();
        suites.register(cipher.description(), 61440, true).unwrap();
        (CustomProvider::new(cipher, &suites).unwrap(), suites)
    })
}

fn description(name: &str, primitive: Primitive) -> CustomDescription {
    let (version, vendor) = ("1".to_owned(), "test".to_owned());
    CustomDescription { name: name.to_owned(), version, vendor, primitive, key_len: 32, max_octets: None }
}

/// What is wrong with a cipher.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    None,
    /// Another permutation for one key of the fingerprint, the first.
    OtherForOneKey,
    /// The unit fails for all keys but those of the fingerprint.
    FailsLater,
}

/// AES-256 as a cipher of one's own.
pub struct Aes {
    description: CustomDescription,
    fault: Fault,
}

impl Aes {
    pub fn new(name: &str, fault: Fault) -> Aes {
        Aes { description: description(name, Primitive::Block { block_len: 16 }), fault }
    }

    /// A cipher with blocks of 8 octets: 3DES would do, this is a Feistel network of four rounds.
    pub fn short(name: &str) -> Short {
        Short(description(name, Primitive::Block { block_len: 8 }))
    }
}

/// Whether the key is one that only traffic in these tests uses.
fn is_of_traffic(key: &[u8]) -> bool {
    key[..4] == *crate::packet::keymat(4, 1).expose()
}

impl CustomCipher for Aes {
    fn description(&self) -> &CustomDescription {
        &self.description
    }

    fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError> {
        let aes = Aes256::new_from_slice(key).map_err(|_| SetKeyError::Length)?;
        // The first octet of the first key of the fingerprint.
        let other = self.fault == Fault::OtherForOneKey && key[0] == first_octet();
        let fails = self.fault == Fault::FailsLater && is_of_traffic(key);
        Ok(CustomKey::Block(Box::new(AesKey { aes, other, fails })))
    }
}

/// Any octet will do that a key of the fingerprint starts with and the keys of traffic do not.
fn first_octet() -> u8 {
    use sha2::{Digest, Sha256};
    let parts: [&[u8]; 3] = [b"ravelin cipher behaviour v1 key", &[0; 4], &[0; 4]];
    let first = Sha256::digest(parts.concat())[0];
    assert_ne!(first, crate::packet::keymat(1, 1).expose()[0]);
    first
}

struct AesKey {
    aes: Aes256,
    other: bool,
    fails: bool,
}

impl BlockKey for AesKey {
    fn encrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        if self.fails {
            return Err(UnitFailed);
        }
        let (blocks, _) = blocks.as_chunks_mut::<16>();
        for block in blocks {
            self.aes.encrypt_block(Array::cast_from_core_mut(block));
            block[0] ^= u8::from(self.other);
        }
        Ok(())
    }

    fn decrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        if self.fails {
            return Err(UnitFailed);
        }
        let (blocks, _) = blocks.as_chunks_mut::<16>();
        for block in blocks {
            block[0] ^= u8::from(self.other);
            self.aes.decrypt_block(Array::cast_from_core_mut(block));
        }
        Ok(())
    }
}

/// A Feistel network over 8 octets whose rounds are AES.
pub struct Short(CustomDescription);

struct ShortKey(Aes256);

impl CustomCipher for Short {
    fn description(&self) -> &CustomDescription {
        &self.0
    }

    fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError> {
        let aes = Aes256::new_from_slice(key).map_err(|_| SetKeyError::Length)?;
        Ok(CustomKey::Block(Box::new(ShortKey(aes))))
    }
}

impl ShortKey {
    fn round(&self, round: u8, half: u32) -> u32 {
        let mut block = Array([round; 16]);
        block[..4].copy_from_slice(&half.to_be_bytes());
        self.0.encrypt_block(&mut block);
        u32::from_be_bytes([block[0], block[1], block[2], block[3]])
    }

    fn run(&self, blocks: &mut [u8], rounds: [u8; 4]) {
        for block in blocks.as_chunks_mut::<8>().0 {
            let all = u64::from_be_bytes(*block);
            let (mut left, mut right) = ((all >> 32) as u32, all as u32);
            for round in rounds {
                (left, right) = (right, left ^ self.round(round, right));
            }
            *block = (u64::from(right) << 32 | u64::from(left)).to_be_bytes();
        }
    }
}

impl BlockKey for ShortKey {
    fn encrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        self.run(blocks, [1, 2, 3, 4]);
        Ok(())
    }

    fn decrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        self.run(blocks, [4, 3, 2, 1]);
        Ok(())
    }
}

/// A stream cipher: AES-256 over nonce and number of the block.
pub struct Flow;

struct FlowKey(Aes256);

impl CustomCipher for Flow {
    fn description(&self) -> &CustomDescription {
        static DESCRIPTION: std::sync::OnceLock<CustomDescription> = std::sync::OnceLock::new();
        DESCRIPTION.get_or_init(|| description("flow", Primitive::Stream))
    }

    fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError> {
        let aes = Aes256::new_from_slice(key).map_err(|_| SetKeyError::Length)?;
        Ok(CustomKey::Stream(Box::new(FlowKey(aes))))
    }
}

impl StreamKey for FlowKey {
    fn xor_batch(&self, ops: &mut [StreamOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            for (at, octet) in (op.offset..).zip(&mut *op.data) {
                let mut block = Array([0; 16]);
                block[..12].copy_from_slice(op.nonce);
                block[12..].copy_from_slice(&((at / 16) as u32).to_be_bytes());
                self.0.encrypt_block(&mut block);
                *octet ^= block[(at % 16) as usize];
            }
        }
        Ok(())
    }
}

/// ChaCha20-Poly1305 as a combined mode of one's own.
pub struct Box20(CustomDescription);

impl Box20 {
    pub fn new() -> Box20 {
        Box20(description("box20", Primitive::Aead { tag_len: 16 }))
    }
}

struct Box20Key(ChaCha20Poly1305);

impl CustomCipher for Box20 {
    fn description(&self) -> &CustomDescription {
        &self.0
    }

    fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError> {
        let key = ChaCha20Poly1305::new_from_slice(key).map_err(|_| SetKeyError::Length)?;
        Ok(CustomKey::Aead(Box::new(Box20Key(key))))
    }
}

impl AeadKey for Box20Key {
    fn seal_batch(&self, ops: &mut [AeadOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            let nonce: [u8; 12] = op.nonce.try_into().map_err(|_| UnitFailed)?;
            let tag = self.0.encrypt_inout_detached(&nonce.into(), op.aad, (&mut *op.data).into());
            op.tag.copy_from_slice(&tag.map_err(|_| UnitFailed)?);
        }
        Ok(())
    }

    fn open_batch(&self, ops: &mut [AeadOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            let nonce: [u8; 12] = op.nonce.try_into().map_err(|_| UnitFailed)?;
            let tag: [u8; 16] = (&*op.tag).try_into().map_err(|_| UnitFailed)?;
            let opened =
                self.0.decrypt_inout_detached(&nonce.into(), op.aad, (&mut *op.data).into(), &tag.into());
            op.ok = opened.is_ok();
        }
        Ok(())
    }
}

/// AES-256 that counts the octets it is given.
pub struct Watched {
    aes: Aes,
    pub calls: Arc<AtomicU64>,
}

impl Watched {
    pub fn new() -> Watched {
        Watched { aes: Aes::new("watched1", Fault::None), calls: Arc::default() }
    }
}

struct WatchedKey(Box<dyn BlockKey>, Arc<AtomicU64>);

impl CustomCipher for Watched {
    fn description(&self) -> &CustomDescription {
        self.aes.description()
    }

    fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError> {
        let CustomKey::Block(key) = self.aes.set_key(key)? else { return Err(SetKeyError::Length) };
        Ok(CustomKey::Block(Box::new(WatchedKey(key, self.calls.clone()))))
    }
}

impl BlockKey for WatchedKey {
    fn encrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        self.1.fetch_add(blocks.len() as u64, Ordering::Relaxed);
        self.0.encrypt_blocks(blocks)
    }

    fn decrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        self.1.fetch_add(blocks.len() as u64, Ordering::Relaxed);
        self.0.decrypt_blocks(blocks)
    }
}
