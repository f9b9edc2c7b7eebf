//! The name and the lengths of a cipher of one's own, and which of them are sound.

use std::ops::RangeInclusive;

use crate::{Cipher, Integrity};

/// What a cipher supplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Primitive {
    /// A permutation of blocks for each key.
    Block {
        /// Octets of a block: 8 or 16.
        block_len: usize,
    },
    /// A key stream for each nonce, of which any octet can be reached.
    Stream,
    /// Encryption with associated data (RFC 5116).
    Aead {
        /// Octets of the tag: 8, 12 or 16.
        tag_len: usize,
    },
}

impl Primitive {
    /// The word for it in manifests and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Primitive::Block { .. } => "block",
            Primitive::Stream => "stream",
            Primitive::Aead { .. } => "aead",
        }
    }
}

/// Everything that policy, keys and the wire need to know of a cipher of one's own. No code of it is needed for that.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CustomDescription {
    /// The name, from which the names of its suites are made: `maes512` gives `maes512ctr-sha256`.
    pub name: String,
    /// The version of the implementation, as people read it.
    pub version: String,
    /// The author or organisation, as people read it.
    pub vendor: String,
    /// What the cipher supplies.
    pub primitive: Primitive,
    /// Octets of the key.
    pub key_len: usize,
    /// Octets that one key may encrypt, if the author limits them. Nobody can raise it.
    pub max_octets: Option<u64>,
}

/// Octets of the nonce of stream ciphers and combined modes: 4 of salt, 8 of sequence number.
pub const NONCE_LEN: usize = 12;
/// Blocks of 8 octets that one key may encrypt: far below the birthday bound of 2^32 (issue 23 item 4).
const MOST_SHORT_BLOCKS: u64 = 1 << 20;

/// The reason why a description cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// The name has other characters or another length than a name has.
    #[error(
        "the name {0:?} is no cipher's: it has 2 to 16 characters, a small letter first, then small letters and digits"
    )]
    Name(String),
    /// The name is that of a standard algorithm, or a suite of it would be.
    #[error("the name {0:?} belongs to a standard algorithm, or a suite of it would; choose another")]
    Standard(String),
    /// A text for people is empty, long, or not printable.
    #[error("the {0} has 1 to 63 printable characters")]
    Text(&'static str),
    /// A length is none that Ravelin can use.
    #[error("{what} of {got} octets: {want}")]
    Length {
        /// The length that is wrong.
        what: &'static str,
        /// What it may be.
        want: &'static str,
        /// The number of octets that it has.
        got: usize,
    },
}

impl CustomDescription {
    /// The keys that are possible, in octets.
    pub const KEY_LENGTHS: RangeInclusive<usize> = 16..=128;
    /// The lengths that a name may have.
    pub const NAME_LENGTHS: RangeInclusive<usize> = 2..=16;

    /// Whether everything in it can be used.
    ///
    /// # Errors
    /// [`DescriptionError`] for the first that cannot.
    pub fn check(&self) -> Result<(), DescriptionError> {
        check_name(&self.name)?;
        for (what, text) in [("version", &self.version), ("vendor", &self.vendor)] {
            let printable = text.chars().all(|c| !c.is_control());
            if !(1..=63).contains(&text.len()) || !printable {
                return Err(DescriptionError::Text(what));
            }
        }
        let length = |what, want, got, right| {
            if right { Ok(()) } else { Err(DescriptionError::Length { what, want, got }) }
        };
        length("a key", "16 to 128 are possible", self.key_len, Self::KEY_LENGTHS.contains(&self.key_len))?;
        match self.primitive {
            Primitive::Block { block_len } => {
                length("a block", "8 and 16 are possible", block_len, matches!(block_len, 8 | 16))
            }
            Primitive::Stream => Ok(()),
            Primitive::Aead { tag_len } => {
                length("a tag", "8, 12 and 16 are possible", tag_len, matches!(tag_len, 8 | 12 | 16))
            }
        }
    }

    /// Octets that one key may encrypt: the author's limit, and 2^20 blocks for blocks of 8 octets. `None`: the host's
    /// own limits alone count.
    pub fn most_octets(&self) -> Option<u64> {
        let short = match self.primitive {
            Primitive::Block { block_len: 8 } => Some(MOST_SHORT_BLOCKS * 8),
            _ => None,
        };
        match (self.max_octets, short) {
            (Some(author), Some(short)) => Some(author.min(short)),
            (author, short) => author.or(short),
        }
    }
}

fn check_name(name: &str) -> Result<(), DescriptionError> {
    let mut letters = name.bytes();
    let first = letters.next().is_some_and(|c| c.is_ascii_lowercase());
    let rest = letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    if !first || !rest || !CustomDescription::NAME_LENGTHS.contains(&name.len()) {
        return Err(DescriptionError::Name(name.chars().take(20).collect()));
    }
    // `aes256` would give `aes256ctr`, which is taken; so would `aes128g` never be told from a slip of the finger.
    let standard = ["", "cbc", "ctr", "gcm", "gcm8", "gcm12", "gcm16"].iter().any(|mode| {
        let word = format!("{name}{mode}");
        Cipher::ALL.iter().any(|cipher| cipher.name() == word)
            || Integrity::ALL.iter().any(|integrity| integrity.name() == word)
    });
    let reserved = ["alone", "any", "none", "ring", "rustcrypto", "wide", "null"].contains(&name);
    if standard || reserved { Err(DescriptionError::Standard(name.to_owned())) } else { Ok(()) }
}
