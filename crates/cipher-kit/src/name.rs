//! The names of the checks.

use std::fmt;
use std::str::FromStr;

/// A check of a cipher, in the order in which they are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CheckName {
    /// The library can be loaded, and its description is that of the manifest.
    Descriptor,
    /// The known answers of the vector file.
    Vectors,
    /// What was encrypted is decrypted again, 100 000 times.
    Inverse,
    /// No two blocks have one ciphertext.
    Permutation,
    /// Many at once are the same as one by one.
    Multiblock,
    /// Buffers at any address, in front of memory that cannot be touched, in one place and in two.
    Placement,
    /// Several threads with one key.
    Reentrancy,
    /// Neither the context of a key nor anything of the host's is changed.
    Immutability,
    /// No copy of a key is left when the key is gone.
    Wipe,
    /// Keys of other lengths are refused, and keys know nothing of each other.
    Keys,
    /// What was changed on its way does not open.
    Forgery,
    /// Whole packets of every suite and mode through the engine.
    Esp,
    /// A million iterations, each on the result of the one before.
    MonteCarlo,
    /// Two implementations compute the same.
    Agreement,
    /// No read or write out of place, and no use of what nobody wrote.
    Memory,
}

impl CheckName {
    /// Every check, in this order.
    pub const ALL: [CheckName; 15] = [
        CheckName::Descriptor,
        CheckName::Vectors,
        CheckName::Inverse,
        CheckName::Permutation,
        CheckName::Multiblock,
        CheckName::Placement,
        CheckName::Reentrancy,
        CheckName::Immutability,
        CheckName::Wipe,
        CheckName::Keys,
        CheckName::Forgery,
        CheckName::Esp,
        CheckName::MonteCarlo,
        CheckName::Agreement,
        CheckName::Memory,
    ];

    /// The word for it in reports and options.
    pub const fn word(self) -> &'static str {
        match self {
            CheckName::Descriptor => "descriptor",
            CheckName::Vectors => "vectors",
            CheckName::Inverse => "inverse",
            CheckName::Permutation => "permutation",
            CheckName::Multiblock => "multiblock",
            CheckName::Placement => "placement",
            CheckName::Reentrancy => "reentrancy",
            CheckName::Immutability => "immutability",
            CheckName::Wipe => "wipe",
            CheckName::Keys => "keys",
            CheckName::Forgery => "forgery",
            CheckName::Esp => "esp",
            CheckName::MonteCarlo => "montecarlo",
            CheckName::Agreement => "agreement",
            CheckName::Memory => "memory",
        }
    }
}

/// The task of a child for [`CheckName::Agreement`] whose vectors a reference has made.
pub(crate) const REFERENCE: &str = "agreement-reference";

impl fmt::Display for CheckName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// A word that names no check.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no check of this name; there are descriptor, vectors, inverse, permutation, multiblock, placement, \
         reentrancy, immutability, wipe, keys, forgery, esp, montecarlo, agreement and memory"
)]
pub struct UnknownCheck;

impl FromStr for CheckName {
    type Err = UnknownCheck;

    fn from_str(word: &str) -> Result<CheckName, UnknownCheck> {
        CheckName::ALL.into_iter().find(|name| name.word() == word).ok_or(UnknownCheck)
    }
}
