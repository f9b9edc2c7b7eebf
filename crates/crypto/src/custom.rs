//! Ciphers of one's own (paper 004 section 7): what a cipher is, and what a key of it can do.
//!
//! A cipher supplies a primitive: blocks, a key stream, or a combined mode. The modes of ESP, integrity and key
//! derivation are made of it in one place, by the host (`crypto-std`). mAES-512, a library that was loaded, and a
//! library in a worker process implement the same traits. Batch calls come first, as everywhere in this crate; a call
//! can fail, because a worker process can end.

mod description;
mod key;

pub use description::{CustomDescription, DescriptionError, NONCE_LEN, Primitive};
pub use key::{AeadKey, AeadOp, BlockKey, CbcOp, CtrOp, StreamKey, StreamOp, ctr_over_blocks};

use crate::UnitFailed;

/// A cipher of one's own that is ready to make keys.
pub trait CustomCipher: Send + Sync {
    /// The name, the lengths and the limits of the cipher.
    fn description(&self) -> &CustomDescription;

    /// Prepare a key of [`CustomDescription::key_len`] octets.
    ///
    /// # Errors
    /// [`SetKeyError`]: the cipher refuses the key, or it cannot answer.
    fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError>;
}

/// A prepared key, by the primitive of its cipher.
pub enum CustomKey {
    /// The key of a block cipher.
    Block(Box<dyn BlockKey>),
    /// The key of a stream cipher.
    Stream(Box<dyn StreamKey>),
    /// The key of a combined mode.
    Aead(Box<dyn AeadKey>),
}

/// The reason why a cipher did not take a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetKeyError {
    /// The key has another length than the cipher's.
    #[error("the key has the wrong length for this cipher")]
    Length,
    /// The cipher names this key as weak.
    #[error("the cipher refuses this key as weak; draw another one")]
    Weak,
    /// The unit that computes the cipher has as many keys as it can have.
    #[error(
        "the worker of this cipher has room for {0} keys, one for each association and direction, and all are in use; \
         delete associations that are not needed, or say `isolation = \"none\"` in the cipher's table"
    )]
    NoRoom(usize),
    /// The unit that computes the cipher is gone, or answered something that has no meaning.
    #[error("the unit of this cipher failed")]
    Unit(#[from] UnitFailed),
}
