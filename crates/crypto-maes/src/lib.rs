//! mAES-512, the sample cipher of paper 004 section 7: an AES with changed functions and a longer key that takes about
//! twice the time. docs/maes.md has the definition, what it is good for, and what it is not.
//!
//! E(x) = W2 ^ B(W1 ^ P(A(x ^ W0))), where A and B are AES-256 under the two halves of the key, P permutes octets,
//! and the W are 16 octets each of HKDF-SHA-256 over the whole key.
#![forbid(unsafe_code)]

mod core;
mod counter;
mod key;
mod words;

use crypto::custom::{CustomCipher, CustomDescription, CustomKey, Primitive, SetKeyError};

pub use crate::key::KEY_LEN;

use crate::key::Key;
use crate::words::BLOCK;

/// Octets of the stack that are wiped after a key was expanded: more than key setup uses.
const KEY_SETUP_STACK: usize = 8192;

/// The first of the private transform ids of the compiled-in mAES-512 (RFC 7296 section 3.3.2).
pub const TRANSFORM_ID: u16 = 61440;

/// The cipher mAES-512, compiled in.
#[derive(Clone, Debug)]
pub struct Maes512 {
    description: CustomDescription,
}

impl Maes512 {
    /// The name in suites and policy.
    pub const NAME: &'static str = "maes512";

    /// The cipher, ready to make keys.
    pub fn new() -> Maes512 {
        Maes512 { description: description() }
    }
}

impl Default for Maes512 {
    fn default() -> Maes512 {
        Maes512::new()
    }
}

/// Name and lengths of mAES-512.
pub fn description() -> CustomDescription {
    CustomDescription {
        name: Maes512::NAME.to_owned(),
        version: "1".to_owned(),
        vendor: "Ravelin".to_owned(),
        primitive: Primitive::Block { block_len: BLOCK },
        key_len: KEY_LEN,
        max_octets: None,
    }
}

impl CustomCipher for Maes512 {
    fn description(&self) -> &CustomDescription {
        &self.description
    }

    fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError> {
        let key = <&[u8; KEY_LEN]>::try_from(key).map_err(|_| SetKeyError::Length)?;
        let made = Key::new(key);
        // Whether the key was taken or refused.
        zeroize::zeroize_stack::<KEY_SETUP_STACK>();
        Ok(CustomKey::Block(made?))
    }
}
