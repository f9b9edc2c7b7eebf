//! The test vectors of a cipher: known answers from outside, in the layout of the Wycheproof project.
//!
//! `{"cipher","montecarlo","tests":[{"tcId","mode","key","iv","aad","msg","ct","tag","offset","result"}]}`; octets are
//! hexadecimal digits, and `montecarlo` may be absent. What each mode needs is in [`Case`]. A cipher without at least [`Vectors::FEWEST`] valid tests that encrypt
//! something is not registered (issue 23 item 5).

mod block;
mod failure;
mod read;
mod run;

use zeroize::Zeroizing;

use crypto::custom::NONCE_LEN;

pub use run::{Counts, VectorError, run};

/// Octets of a counter block and of a GCM tag.
pub(crate) const BLOCK: usize = 16;

/// The test vectors of one cipher.
pub struct Vectors {
    cipher: String,
    montecarlo: Option<Vec<u8>>,
    tests: Vec<Vector>,
}

impl std::fmt::Debug for Vectors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vectors").field("cipher", &self.cipher).field("tests", &self.tests.len()).finish()
    }
}

impl Vectors {
    /// The number of octets that a vector file may have.
    pub const MOST_OCTETS: usize = 16 * 1024 * 1024;
    /// The number of tests that a vector file may have.
    pub const MOST_TESTS: usize = 100_000;
    /// The number of valid tests with a message of at least one octet that a vector file must have.
    pub const FEWEST: usize = 100;

    /// The name of the cipher that the tests are for.
    pub fn cipher(&self) -> &str {
        &self.cipher
    }

    /// The result of a million iterations, if the author wrote one down (`montecarlo` of `ravelin cipher check`).
    pub fn montecarlo(&self) -> Option<&[u8]> {
        self.montecarlo.as_deref()
    }

    /// The tests, in the order of the file.
    pub fn tests(&self) -> &[Vector] {
        &self.tests
    }
}

/// A test: one known answer.
pub struct Vector {
    /// The number of the test, which no other test of the file has.
    pub tc_id: u64,
    /// The key of this test.
    pub key: Zeroizing<Vec<u8>>,
    /// Mode, input and output.
    pub case: Case,
    /// Whether the cipher must give this answer. An invalid test of a mode with a tag must not open. An invalid test
    /// of another mode has a key that the cipher must refuse.
    pub valid: bool,
}

impl std::fmt::Debug for Vector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Keys are never printed, not even those of tests.
        f.debug_struct("Vector").field("tc_id", &self.tc_id).field("mode", &self.case.mode()).finish()
    }
}

/// What is computed in a test.
#[derive(Clone, PartialEq, Eq)]
pub enum Case {
    /// Blocks, each for itself, in both directions.
    Block {
        /// Plaintext: whole blocks, at least one.
        msg: Vec<u8>,
        /// Ciphertext of the same length.
        ct: Vec<u8>,
    },
    /// Counter mode (RFC 3686 section 4); `iv` in the file.
    Ctr {
        /// The first counter block.
        counter: [u8; BLOCK],
        /// Plaintext, of any length.
        msg: Vec<u8>,
        /// Ciphertext of the same length.
        ct: Vec<u8>,
    },
    /// CBC without padding (NIST SP 800-38A section 6.2).
    Cbc {
        /// The IV: one whole block.
        iv: Vec<u8>,
        /// Plaintext that is whole blocks.
        msg: Vec<u8>,
        /// Ciphertext of the same length.
        ct: Vec<u8>,
    },
    /// GCM over a block cipher, with a nonce of 12 and a tag of 16 octets (NIST SP 800-38D).
    Gcm(Sealed),
    /// The key stream of a stream cipher; `iv` in the file is the nonce.
    Stream {
        /// The nonce, `iv` in the file.
        nonce: [u8; NONCE_LEN],
        /// The octet of the key stream that meets the first octet of the message; 0 if the file has none.
        offset: u64,
        /// Plaintext, of any length.
        msg: Vec<u8>,
        /// Ciphertext of the same length.
        ct: Vec<u8>,
    },
    /// A combined mode of the cipher itself (RFC 5116).
    Aead(Sealed),
}

/// A message that is sealed.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The nonce; `iv` in the file.
    pub nonce: [u8; NONCE_LEN],
    /// The octets that are authenticated and not encrypted.
    pub aad: Vec<u8>,
    /// Plaintext, of any length.
    pub msg: Vec<u8>,
    /// Ciphertext of the same length.
    pub ct: Vec<u8>,
    /// The tag: 16 octets for GCM, 8, 12 or 16 for other combined modes.
    pub tag: Vec<u8>,
}

impl Case {
    /// The word for the mode in the file.
    pub const fn mode(&self) -> &'static str {
        match self {
            Case::Block { .. } => "block",
            Case::Ctr { .. } => "ctr",
            Case::Cbc { .. } => "cbc",
            Case::Gcm(_) => "gcm",
            Case::Stream { .. } => "stream",
            Case::Aead(_) => "aead",
        }
    }

    /// The plaintext of the test.
    pub fn message(&self) -> &[u8] {
        match self {
            Case::Block { msg, .. }
            | Case::Ctr { msg, .. }
            | Case::Cbc { msg, .. }
            | Case::Stream { msg, .. } => msg,
            Case::Gcm(sealed) | Case::Aead(sealed) => &sealed.msg,
        }
    }
}
