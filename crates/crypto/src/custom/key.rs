//! The keys of ciphers of one's own: the calls that the host's modes are made of.

use crate::UnitFailed;

/// Blocks whose counters are encrypted at once by [`BlockKey::ctr_xor_batch`].
const COUNTERS: usize = 32;
/// Octets of a counter block (RFC 3686 section 4).
const BLOCK: usize = 16;

/// One packet in counter mode.
pub struct CtrOp<'a> {
    /// The first counter block. Its last four octets are a big-endian number that grows by one with each block and wraps
    /// without carry (RFC 3686 section 4).
    pub counter: [u8; BLOCK],
    /// The octets that are XORed with the key stream, in place; any number.
    pub data: &'a mut [u8],
}

/// One packet that is encrypted in CBC mode.
pub struct CbcOp<'a> {
    /// The IV; as many octets as the block has count.
    pub iv: [u8; BLOCK],
    /// The plaintext, which is replaced by the ciphertext: a multiple of the block.
    pub data: &'a mut [u8],
}

/// A key of a block cipher.
///
/// Lengths that are no multiple of the block are a fault of the caller; the octets behind the last whole block are left
/// as they are.
pub trait BlockKey: Send + Sync {
    /// Encrypt each block of `blocks` for itself, in place.
    ///
    /// # Errors
    /// [`UnitFailed`]: the octets of `blocks` are undefined.
    fn encrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed>;

    /// Decrypt each block of `blocks` for itself, in place.
    ///
    /// # Errors
    /// [`UnitFailed`]: the octets of `blocks` are undefined.
    fn decrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed>;

    /// XOR the key stream of counter mode into every packet. Blocks of 16 octets only. The default makes it of
    /// [`Self::encrypt_blocks`]; a cipher that is faster at it has its own.
    ///
    /// # Errors
    /// [`UnitFailed`]: the octets of all packets are undefined.
    fn ctr_xor_batch(&self, ops: &mut [CtrOp<'_>]) -> Result<(), UnitFailed> {
        let mut stream = [0; COUNTERS * BLOCK];
        for op in ops {
            for data in op.data.chunks_mut(COUNTERS * BLOCK) {
                let (counters, _) = stream.as_chunks_mut::<BLOCK>();
                let used = data.len().div_ceil(BLOCK);
                for to in counters.iter_mut().take(used) {
                    *to = op.counter;
                    increment(&mut op.counter);
                }
                let stream = stream.get_mut(..used * BLOCK).unwrap_or_default();
                self.encrypt_blocks(stream)?;
                for (to, from) in data.iter_mut().zip(&*stream) {
                    *to ^= from;
                }
            }
        }
        zeroize::Zeroize::zeroize(&mut stream);
        Ok(())
    }

    /// Encrypt every packet in CBC mode, if the cipher has its own way to do so: `Ok(false)` says that it has not, and
    /// nothing was touched.
    ///
    /// # Errors
    /// [`UnitFailed`]: the octets of all packets are undefined.
    fn cbc_encrypt_batch(&self, _ops: &mut [CbcOp<'_>]) -> Result<bool, UnitFailed> {
        Ok(false)
    }
}

/// Add one to the last four octets, without carry into the others (RFC 3686 section 4).
fn increment(counter: &mut [u8; BLOCK]) {
    if let Some(low) = counter.last_chunk_mut::<4>() {
        *low = u32::from_be_bytes(*low).wrapping_add(1).to_be_bytes();
    }
}

/// A part of one packet under a stream cipher.
pub struct StreamOp<'a> {
    /// The nonce, as long as the cipher says.
    pub nonce: &'a [u8],
    /// The octet of the key stream that meets the first octet of `data`.
    pub offset: u64,
    /// The octets that are XORed with the key stream, in place.
    pub data: &'a mut [u8],
}

/// A key of a stream cipher.
pub trait StreamKey: Send + Sync {
    /// XOR the key stream into every packet.
    ///
    /// # Errors
    /// [`UnitFailed`]: the octets of all packets are undefined.
    fn xor_batch(&self, ops: &mut [StreamOp<'_>]) -> Result<(), UnitFailed>;
}

/// One packet under a combined mode.
pub struct AeadOp<'a> {
    /// The nonce, as long as the cipher says.
    pub nonce: &'a [u8],
    /// The octets that are authenticated and not encrypted.
    pub aad: &'a [u8],
    /// The octets that are sealed or opened in place.
    pub data: &'a mut [u8],
    /// The tag, as long as the cipher says: sealing writes it, opening reads it.
    pub tag: &'a mut [u8],
    /// Whether the tag was right; opening sets it. Without it the content of `data` is worthless.
    pub ok: bool,
}

/// A key of a combined mode (RFC 5116).
pub trait AeadKey: Send + Sync {
    /// Seal every packet and write its tag.
    ///
    /// # Errors
    /// [`UnitFailed`]: the octets of all packets are undefined.
    fn seal_batch(&self, ops: &mut [AeadOp<'_>]) -> Result<(), UnitFailed>;

    /// Open every packet and set each `ok`.
    ///
    /// # Errors
    /// [`UnitFailed`]: the octets of all packets are undefined, and no `ok` counts.
    fn open_batch(&self, ops: &mut [AeadOp<'_>]) -> Result<(), UnitFailed>;
}
