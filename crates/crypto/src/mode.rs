//! The modes of ciphers of one's own, and the lengths that every cipher has.

use std::fmt;

/// The lengths of a cipher in octets: key, salt behind it, explicit IV, block, and ICV if the mode is a combined one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CipherRow {
    pub(crate) key: usize,
    pub(crate) salt: usize,
    pub(crate) iv: usize,
    pub(crate) block: usize,
    pub(crate) icv: usize,
}

/// What ESP makes of a cipher of one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModeKind {
    /// Counter mode (RFC 3686); the host authenticates.
    Ctr,
    /// CBC mode (RFC 3602); the host authenticates.
    Cbc,
    /// The key stream of a stream cipher; the host authenticates.
    Stream,
    /// GCM over the block cipher (RFC 4106): integrity rests on the cipher, too.
    Gcm,
    /// A combined mode of the cipher itself: integrity rests on the cipher, too.
    Aead,
    /// Counter mode or key stream inside, AES-256-GCM around its ciphertext, under independent keys.
    Cascade,
}

impl ModeKind {
    /// Repeating a (key, nonce) pair breaks the mode.
    pub const fn nonce_is_counter(self) -> bool {
        !matches!(self, ModeKind::Cbc)
    }

    /// Whether integrity rests on the cipher of one's own, so that policy and configuration must say `alone`.
    pub const fn is_alone(self) -> bool {
        matches!(self, ModeKind::Gcm | ModeKind::Aead)
    }

    /// The distance of the mode's private transform id from the manifest's base (RFC 7296 section 3.3.2: an id names
    /// cipher and mode).
    pub const fn id_offset(self) -> u16 {
        match self {
            ModeKind::Ctr | ModeKind::Stream | ModeKind::Aead => 0,
            ModeKind::Cbc => 1,
            ModeKind::Gcm => 2,
            ModeKind::Cascade => 3,
        }
    }
}

/// A mode of a cipher of one's own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CustomMode(&'static Row);

/// Everything that the catalogue knows of a mode.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) word: &'static str,
    pub(crate) cipher: &'static str,
    pub(crate) kind: ModeKind,
    pub(crate) block_len: usize,
    pub(crate) lengths: CipherRow,
    pub(crate) transform_id: u16,
    pub(crate) most_octets: Option<u64>,
}

impl CustomMode {
    /// A mode whose row lives as long as the process.
    pub(crate) fn new(row: Row) -> CustomMode {
        CustomMode(Box::leak(Box::new(row)))
    }

    /// The word for it in suites: `maes512ctr`.
    pub const fn word(self) -> &'static str {
        self.0.word
    }

    /// The name of the cipher: `maes512`.
    pub const fn cipher(self) -> &'static str {
        self.0.cipher
    }

    /// What is made of the cipher.
    pub const fn kind(self) -> ModeKind {
        self.0.kind
    }

    /// Octets of a block of the cipher; 1 if it has none.
    pub const fn cipher_block_len(self) -> usize {
        self.0.block_len
    }

    /// The private-use id of the transform (RFC 7296 section 3.3.2), 1024 to 65535.
    pub const fn transform_id(self) -> u16 {
        self.0.transform_id
    }

    /// Octets that one key may encrypt; `None`: the host's own limits alone count.
    pub const fn most_octets(self) -> Option<u64> {
        self.0.most_octets
    }

    pub(crate) const fn row(self) -> CipherRow {
        self.0.lengths
    }
}

impl fmt::Debug for CustomMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
