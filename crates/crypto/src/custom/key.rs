//! The keys of ciphers of one's own: the calls that the host's modes are made of.

use crate::UnitFailed;

/// Blocks whose counters are encrypted at once by [`BlockKey::ctr_xor_batch`]: a multiple of what any unit of AES takes.
const COUNTERS: usize = 128;
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

/// One packet in CBC mode.
pub struct CbcOp<'a> {
    /// The IV; as many octets as the block has count.
    pub iv: [u8; BLOCK],
    /// What is encrypted or decrypted in place: a multiple of the block.
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
        ctr_over_blocks(|blocks| self.encrypt_blocks(blocks), ops)
    }

    /// Encrypt every packet in CBC mode, if the cipher has its own way to do so: `Ok(false)` says that it has not, and
    /// nothing was touched.
    ///
    /// # Errors
    /// [`UnitFailed`]: the octets of all packets are undefined.
    fn cbc_encrypt_batch(&self, _ops: &mut [CbcOp<'_>]) -> Result<bool, UnitFailed> {
        Ok(false)
    }

    /// Decrypt every packet in CBC mode, if the key is faster at it than by [`Self::decrypt_blocks`]: a call into another
    /// process is dear. `Ok(false)` says that it is not, and nothing was touched.
    ///
    /// # Errors
    /// [`UnitFailed`]: the octets of all packets are undefined.
    fn cbc_decrypt_batch(&self, _ops: &mut [CbcOp<'_>]) -> Result<bool, UnitFailed> {
        Ok(false)
    }
}

/// XOR the key stream of counter mode into every packet, by blocks of 16 octets that `encrypt` encrypts, each for itself:
/// the default of [`BlockKey::ctr_xor_batch`], and what a cipher's own counter mode is compared with.
///
/// The key stream that it leaves on the stack tells of one packet, not of the key; as everywhere, it is not wiped.
///
/// # Errors
/// [`UnitFailed`] from `encrypt`: the octets of all packets are undefined.
pub fn ctr_over_blocks(
    encrypt: impl Fn(&mut [u8]) -> Result<(), UnitFailed>,
    ops: &mut [CtrOp<'_>],
) -> Result<(), UnitFailed> {
    let mut stream = [[0; BLOCK]; COUNTERS];
    let mut result = Ok(());
    // Short packets share a call, so that a cipher that takes several blocks at once has them.
    let (mut first, mut done) = (0, 0);
    while let Some(rest) = ops.get_mut(first..).filter(|rest| !rest.is_empty()) {
        let (mut filled, mut offset) = (0, done);
        for op in &mut *rest {
            let blocks = op.data.len().saturating_sub(offset).div_ceil(BLOCK);
            offset = 0;
            let until = (filled + blocks).min(COUNTERS);
            count(&mut op.counter, stream.get_mut(filled..until).unwrap_or_default());
            filled = until;
            if filled == COUNTERS {
                break;
            }
        }
        let used = stream.get_mut(..filled).unwrap_or_default().as_flattened_mut();
        result = encrypt(used);
        if result.is_err() {
            break;
        }
        let mut used = &*used;
        for op in rest {
            let data = op.data.get_mut(done..).unwrap_or_default();
            let now = data.len().min(used.len());
            data.iter_mut().zip(used).for_each(|(to, from)| *to ^= from);
            if now < data.len() {
                done += now;
                break;
            }
            used = used.get(now.next_multiple_of(BLOCK)..).unwrap_or_default();
            (first, done) = (first + 1, 0);
        }
    }
    result
}

/// Write as many counter blocks as there are places, and move the counter behind them: its last four octets, without
/// carry into the others (RFC 3686 section 4).
#[inline]
fn count(counter: &mut [u8; BLOCK], places: &mut [[u8; BLOCK]]) {
    let base = u128::from_be_bytes(*counter);
    let (upper, low) = (base >> 32 << 32, base as u32);
    let at = |number: u32| (upper | u128::from(low.wrapping_add(number))).to_be_bytes();
    for (place, number) in places.iter_mut().zip(0..) {
        *place = at(number);
    }
    *counter = at(places.len() as u32);
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
