//! What is kept of one packet between two steps of its sealing or opening.
//!
//! The owner keeps one state for each packet that is in progress, and uses it for one packet after another. A transform
//! that works in steps writes it ([`crate::Transform::seal_step`], [`crate::Transform::open_step`]); nobody else looks
//! inside. It is wiped when a packet is done and when the state is dropped.

use zeroize::Zeroize;

/// The longest block that a cipher is chained by, in octets.
const MAX_CHAIN: usize = 16;

/// The longest block of a hash function, in octets (SHA-384 and SHA-512).
pub const MAX_HASH_BLOCK: usize = 128;

/// What is kept of one packet between two steps. The default is that of a packet of which nothing is done.
#[derive(Default)]
pub struct StepState {
    /// The number of octets of data that the cipher is done with.
    pub ciphered: usize,
    /// The number of octets of data that the MAC has taken in.
    pub authenticated: usize,
    /// Whether the MAC has taken in what stands in front of the data.
    pub has_begun: bool,
    /// Whether the ICV of a packet that is opened was right.
    pub is_right: bool,
    /// The block that the next block of the cipher is chained to.
    pub chain: [u8; MAX_CHAIN],
    /// The hash over what the MAC has taken in.
    pub hash: HashState,
}

impl StepState {
    /// Wipe it, for the next packet.
    pub fn clear(&mut self) {
        let StepState { ciphered, authenticated, has_begun, is_right, chain, hash } = self;
        (*ciphered, *authenticated, *has_begun, *is_right) = (0, 0, false, false);
        chain.zeroize();
        let HashState { words, block, filled, octets } = hash;
        (*filled, *octets) = (0, 0);
        words.zeroize();
        block.zeroize();
    }
}

impl Drop for StepState {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A hash over the first octets of a message.
pub struct HashState {
    /// The chaining value of the compression function.
    pub words: [u64; 8],
    /// The octets that do not fill a block yet.
    pub block: [u8; MAX_HASH_BLOCK],
    /// The number of octets in the block.
    pub filled: usize,
    /// The number of octets that were taken in.
    pub octets: usize,
}

impl Default for HashState {
    fn default() -> HashState {
        HashState { words: [0; 8], block: [0; MAX_HASH_BLOCK], filled: 0, octets: 0 }
    }
}
