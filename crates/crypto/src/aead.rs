//! Authenticated encryption with a detached tag, in place, over a batch of packets.

/// Octets of a nonce: salt (4) and IV (8).
pub const NONCE_LEN: usize = 12;
/// Octets of a tag.
pub const TAG_LEN: usize = 16;

/// One packet to seal.
pub struct SealOp<'a> {
    /// Never used before with this key.
    pub nonce: [u8; NONCE_LEN],
    /// Authenticated, not encrypted.
    pub aad: &'a [u8],
    /// Plaintext in, ciphertext out.
    pub data: &'a mut [u8],
    /// Where the tag goes.
    pub tag: &'a mut [u8; TAG_LEN],
}

/// One packet to open.
pub struct OpenOp<'a> {
    /// The nonce it was sealed with.
    pub nonce: [u8; NONCE_LEN],
    /// Authenticated, not encrypted.
    pub aad: &'a [u8],
    /// Ciphertext in, plaintext out; its content is worthless unless `ok`.
    pub data: &'a mut [u8],
    /// The tag that came with it.
    pub tag: [u8; TAG_LEN],
    /// Out: whether the tag was right.
    pub ok: bool,
}

/// A key, ready for use. One per association and direction.
pub trait Aead: Send + Sync {
    /// Seal every packet of the batch.
    fn seal_batch(&self, ops: &mut [SealOp<'_>]);

    /// Open every packet of the batch and set each `ok`. Tags are compared in constant time.
    fn open_batch(&self, ops: &mut [OpenOp<'_>]);

    /// Seal one packet.
    fn seal(&self, op: SealOp<'_>) {
        self.seal_batch(&mut [op]);
    }

    /// Open one packet; `false` if the tag is wrong.
    #[must_use]
    fn open(&self, op: OpenOp<'_>) -> bool {
        let mut ops = [op];
        self.open_batch(&mut ops);
        ops[0].ok
    }
}
