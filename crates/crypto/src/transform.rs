//! The protection of packets by one key: encryption and integrity of a batch, in place.
//!
//! An operation names the parts of one packet as ESP lays them out (RFC 4303 section 2): a header that is authenticated, an
//! explicit IV, the octets that are encrypted, an integrity check value. What of it goes into a nonce, into associated
//! data or under a MAC is the transform's to know (RFC 4106, RFC 4309, RFC 7634, RFC 4303 section 2.2.1), and so is the
//! upper half of an extended sequence number, which is authenticated and never sent.

/// Octets of the authenticated header: SPI and the lower half of the sequence number.
pub const HEADER_LEN: usize = 8;

/// The longest explicit IV of any suite.
pub const MAX_IV_LEN: usize = 16;

/// The longest ICV of any suite.
pub const MAX_ICV_LEN: usize = 32;

/// One packet to seal.
pub struct SealOp<'a> {
    /// The sequence number of the packet, in full. Never used before with this key: nonces and IVs are made of it.
    pub sequence: u64,
    /// The ESP header (SPI and low half of the sequence number): authenticated, not encrypted.
    pub header: &'a [u8; HEADER_LEN],
    /// Out: the explicit IV, exactly as long as the suite says.
    pub iv: &'a mut [u8],
    /// Plaintext in, ciphertext out. A multiple of the suite's block.
    pub data: &'a mut [u8],
    /// Out: the ICV, exactly as long as the suite says.
    pub icv: &'a mut [u8],
}

/// One packet to open.
pub struct OpenOp<'a> {
    /// The sequence number of the packet, the upper half as the receiver infers it.
    pub sequence: u64,
    /// The ESP header (SPI and low half of the sequence number): authenticated, not encrypted.
    pub header: &'a [u8; HEADER_LEN],
    /// The explicit IV that came with it.
    pub iv: &'a [u8],
    /// Ciphertext in, plaintext out; its content is worthless unless `ok`.
    pub data: &'a mut [u8],
    /// The ICV that came with it.
    pub icv: &'a [u8],
    /// Out: whether the ICV was right. Lengths that the suite does not have, or data that is no multiple of its block, are
    /// answered like a wrong ICV.
    pub ok: bool,
}

/// A key for packets, ready for use. One per association.
pub trait Transform: Send + Sync {
    /// Seal every packet of the batch.
    fn seal_batch(&self, ops: &mut [SealOp<'_>]);

    /// Open every packet of the batch and set each `ok`. ICVs are compared in constant time, before anything is decrypted
    /// where the suite allows that.
    fn open_batch(&self, ops: &mut [OpenOp<'_>]);

    /// Seal a batch of one packet.
    fn seal(&self, op: SealOp<'_>) {
        self.seal_batch(&mut [op]);
    }

    /// Open one packet; `false` if the ICV is wrong.
    #[must_use]
    fn open(&self, op: OpenOp<'_>) -> bool {
        let mut ops = [op];
        self.open_batch(&mut ops);
        ops[0].ok
    }
}

/// A key for integrity alone over octets in several places, ready for use (AH, RFC 4302).
pub trait Authenticator: Send + Sync {
    /// Octets that [`Self::sign`] writes: explicit IV, if the algorithm has one, and ICV.
    fn len(&self) -> usize;

    /// Whether it writes nothing; no algorithm does that.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Write the explicit IV that goes with this sequence number to the start of `out`, which has [`Self::len`] octets: an
    /// algorithm that has one covers it with the ICV, in its place (RFC 4543 section 7). Nothing, for an algorithm without.
    fn put_iv(&self, _sequence: u64, _out: &mut [u8]) {}

    /// Write IV and ICV of the octets of all parts, one behind the other, into `out`, which has [`Self::len`] octets.
    /// `sequence` was never used before with this key.
    ///
    /// The parts must hold zeros where the ICV will stand, and what [`Self::put_iv`] writes where the IV will.
    fn sign(&self, sequence: u64, parts: &[&[u8]], out: &mut [u8]);

    /// Whether `icv` (IV and ICV) is right for the octets of all parts, which hold the IV and zeros for the ICV. Compared in
    /// constant time.
    #[must_use]
    fn verify(&self, parts: &[&[u8]], icv: &[u8]) -> bool;
}
