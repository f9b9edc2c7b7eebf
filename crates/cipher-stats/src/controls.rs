//! Ciphers whose result is known before: AES-256, which passes everything, and broken ones, each of which fails the test
//! made for it. A report in which one of them does something else is void, since then nobody knows what the tests see.

mod aes;

use std::sync::Arc;

use ::aes::Aes256;
use cipher::{Array, BlockCipherEncrypt, KeyInit};
use crypto::UnitFailed;
use crypto::custom::{
    BlockKey, CtrOp, CustomCipher, CustomDescription, CustomKey, Primitive, SetKeyError, ctr_over_blocks,
};

pub use self::aes::TableAes;

use self::aes::{BLOCK, KEY};
use crate::battery::Data;

/// A cipher that must fail.
pub struct Control {
    /// What it is, for people.
    pub name: &'static str,
    /// The cipher.
    pub cipher: Arc<dyn CustomCipher>,
    /// The data in which it must be found out.
    pub data: Data,
    /// The test over that data that it must fail.
    pub test: &'static str,
}

/// The controls of every report.
pub fn controls() -> Vec<Control> {
    let control = |name, cipher, data, test| Control { name, cipher, data, test };
    vec![
        control("AES cut to 1 round", Arc::new(TableAes::new(1)), Data::InputBits, "dependence"),
        control("AES cut to 3 rounds", Arc::new(TableAes::new(3)), Data::OctetSums, "integral-monobit"),
        control(
            "AES with a bit biased by 1/64",
            Arc::new(Toy::new(Fault::Bias)),
            Data::Counter,
            "monobit-worst",
        ),
        control(
            "AES with a counter that repeats",
            Arc::new(Toy::new(Fault::Repeat)),
            Data::Counter,
            "collisions",
        ),
        control("the identity", Arc::new(Toy::new(Fault::Identity)), Data::InputBits, "avalanche"),
        control(
            "AES that ignores a bit of its key",
            Arc::new(Toy::new(Fault::KeyBit)),
            Data::KeyBits,
            "dependence-worst",
        ),
    ]
}

/// AES-256 of a crate that others keep: what must pass.
pub fn reference() -> Arc<dyn CustomCipher> {
    Arc::new(Toy::new(Fault::None))
}

/// What is wrong with a toy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Nothing: it is AES-256.
    None,
    /// The first bit of the output is one with the probability 1/2 + 1/64.
    Bias,
    /// Counter mode has 4096 different blocks.
    Repeat,
    /// The output is the input.
    Identity,
    /// The last bit of the key does nothing.
    KeyBit,
}

/// AES-256 with a fault.
struct Toy {
    description: CustomDescription,
    fault: Fault,
}

impl Toy {
    fn new(fault: Fault) -> Toy {
        let description = CustomDescription {
            name: "refaes256".to_owned(),
            version: "1".to_owned(),
            vendor: "control".to_owned(),
            primitive: Primitive::Block { block_len: BLOCK },
            key_len: KEY,
            max_octets: None,
        };
        Toy { description, fault }
    }
}

impl CustomCipher for Toy {
    fn description(&self) -> &CustomDescription {
        &self.description
    }

    fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError> {
        let mut key = <[u8; KEY]>::try_from(key).map_err(|_| SetKeyError::Length)?;
        if self.fault == Fault::KeyBit {
            key[KEY - 1] &= 0xfe;
        }
        Ok(CustomKey::Block(Box::new(ToyKey { aes: Aes256::new(&key.into()), fault: self.fault })))
    }
}

struct ToyKey {
    aes: Aes256,
    fault: Fault,
}

impl BlockKey for ToyKey {
    fn encrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        if self.fault == Fault::Identity {
            return Ok(());
        }
        let (blocks, _) = blocks.as_chunks_mut::<BLOCK>();
        self.aes.encrypt_blocks(Array::cast_slice_from_core_mut(blocks));
        if self.fault == Fault::Bias {
            // The last five bits are all zero once in 32 times, and in half of these the first bit was zero.
            for block in blocks {
                block[0] |= u8::from(block[BLOCK - 1] & 0x1f == 0) << 7;
            }
        }
        Ok(())
    }

    /// Nobody decrypts with a control.
    fn decrypt_blocks(&self, _blocks: &mut [u8]) -> Result<(), UnitFailed> {
        Err(UnitFailed)
    }

    fn ctr_xor_batch(&self, ops: &mut [CtrOp<'_>]) -> Result<(), UnitFailed> {
        if self.fault == Fault::Repeat {
            for op in &mut *ops {
                // 16 packets of 256 blocks, then the first again.
                let [front @ .., last, _, _, _, _] = &mut op.counter;
                front.fill(0);
                *last &= 0x0f;
            }
        }
        ctr_over_blocks(|blocks| self.encrypt_blocks(blocks), ops)
    }
}
