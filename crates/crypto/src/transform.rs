//! The protection of packets by one key: encryption and integrity of a batch, in place.
//!
//! An operation names the parts of one packet as ESP lays them out (RFC 4303 section 2): a header that is authenticated, an
//! explicit IV, the octets that are encrypted, an integrity check value. What of it goes into a nonce, into associated
//! data or under a MAC is the transform's to know (RFC 4106, RFC 4309, RFC 7634, RFC 4303 section 2.2.1), and so is the
//! upper half of an extended sequence number, which is authenticated and never sent.

use crate::StepState;

/// Octets of the authenticated header: SPI and the lower half of the sequence number.
pub const HEADER_LEN: usize = 8;

/// The longest explicit IV of any suite.
pub const MAX_IV_LEN: usize = 16;

/// The longest ICV of any suite.
pub const MAX_ICV_LEN: usize = 32;

/// The parts of one packet that is to be sealed.
pub struct SealOp<'a> {
    /// The full sequence number of the packet. It was never used with this key before, because nonces and IVs are made
    /// of it.
    pub sequence: u64,
    /// The ESP header (SPI and low half of the sequence number): authenticated, not encrypted.
    pub header: &'a [u8; HEADER_LEN],
    /// The place for the explicit IV, exactly as long as the suite says. Sealing writes it.
    pub iv: &'a mut [u8],
    /// The plaintext, which sealing replaces by the ciphertext. Its length is a multiple of the suite's block.
    pub data: &'a mut [u8],
    /// The place for the ICV, exactly as long as the suite says. Sealing writes it.
    pub icv: &'a mut [u8],
}

/// The parts of one packet that is to be opened.
pub struct OpenOp<'a> {
    /// The sequence number of the packet, the upper half as the receiver infers it.
    pub sequence: u64,
    /// The ESP header (SPI and low half of the sequence number): authenticated, not encrypted.
    pub header: &'a [u8; HEADER_LEN],
    /// The explicit IV that the packet brought.
    pub iv: &'a [u8],
    /// The ciphertext, which opening replaces by the plaintext. The content is worthless unless `ok` is set.
    pub data: &'a mut [u8],
    /// The ICV that the packet brought.
    pub icv: &'a [u8],
    /// The result of opening: whether the ICV was right. A length that the suite does not have, and data that is no
    /// multiple of its block, give the same result as a wrong ICV.
    pub ok: bool,
}

/// A crypto unit is gone, late or broken: nothing that it was asked for may be used (paper 004 section 6: modules of
/// their own can fail on their own).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the crypto unit failed; its packets are dropped")]
pub struct UnitFailed;

/// A key that is ready to seal and open packets. Each association has one.
pub trait Transform: Send + Sync {
    /// Seal every packet of the batch in place.
    ///
    /// # Errors
    /// [`UnitFailed`]: some packets are not sealed, and none of the batch may leave. What they hold is undefined; the
    /// caller wipes it. Lengths of another suite end so, too.
    fn seal_batch(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed>;

    /// Open every packet of the batch and set each `ok`. ICVs are compared in constant time, before anything is decrypted
    /// where the suite allows that.
    ///
    /// # Errors
    /// [`UnitFailed`]: nobody knows whether the packets are genuine. No `ok` counts. A wrong ICV is no such failure: a
    /// forged packet must not take its batch with it.
    fn open_batch(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed>;

    /// Seal a batch of one packet.
    ///
    /// # Errors
    /// [`UnitFailed`], with what [`Self::seal_batch`] says of it.
    fn seal(&self, op: SealOp<'_>) -> Result<(), UnitFailed> {
        self.seal_batch(&mut [op])
    }

    /// Open one packet; `false` if the ICV is wrong.
    ///
    /// # Errors
    /// [`UnitFailed`], with what [`Self::open_batch`] says of it.
    fn open(&self, op: OpenOp<'_>) -> Result<bool, UnitFailed> {
        let mut ops = [op];
        self.open_batch(&mut ops)?;
        Ok(ops[0].ok)
    }

    /// Do a part of the sealing of one packet: about as much as `octets` octets of data take, and one block at least.
    /// What was done is taken off `octets`. Returns whether the packet is sealed; if not, the step is over.
    ///
    /// The state is a fresh one at the first step, and that of the step before at each further one, with the same packet.
    /// It is fresh again behind the last step and behind an error. All steps together write the octets that
    /// [`Self::seal`] writes. A transform that knows no steps does everything in the first one.
    ///
    /// # Errors
    /// [`UnitFailed`], with what [`Self::seal_batch`] says of it.
    fn seal_step(
        &self,
        op: SealOp<'_>,
        _state: &mut StepState,
        octets: &mut usize,
    ) -> Result<bool, UnitFailed> {
        *octets = octets.saturating_sub(op.data.len());
        self.seal(op).map(|()| true)
    }

    /// Do a part of the opening of one packet, like [`Self::seal_step`]. Returns whether the ICV was right, once that is
    /// known and the packet is open; `None` while there is more to do. No octet is decrypted before the ICV over the
    /// whole packet was right.
    ///
    /// # Errors
    /// [`UnitFailed`], with what [`Self::open_batch`] says of it.
    fn open_step(
        &self,
        op: OpenOp<'_>,
        _state: &mut StepState,
        octets: &mut usize,
    ) -> Result<Option<bool>, UnitFailed> {
        *octets = octets.saturating_sub(op.data.len());
        self.open(op).map(Some)
    }
}

/// A key for integrity alone over octets in several places, ready for use (AH, RFC 4302).
pub trait Authenticator: Send + Sync {
    /// Octets that [`Self::sign`] writes: explicit IV, if the algorithm has one, and ICV.
    fn len(&self) -> usize;

    /// Whether [`Self::len`] is zero, which is true of no algorithm.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Write the explicit IV for this sequence number to the start of `out`, which has [`Self::len`] octets. An
    /// algorithm with an explicit IV covers it with the ICV where it stands in the packet (RFC 4543 section 7). An
    /// algorithm without one writes nothing.
    fn put_iv(&self, _sequence: u64, _out: &mut [u8]) {}

    /// Compute the explicit IV and the ICV over the octets of all parts, one part behind the other, and write both into
    /// `out`, which has [`Self::len`] octets. `sequence` was never used with this key before.
    ///
    /// The parts must hold zeros where the ICV will stand, and what [`Self::put_iv`] writes where the IV will.
    fn sign(&self, sequence: u64, parts: &[&[u8]], out: &mut [u8]);

    /// Whether `icv`, which is the explicit IV and the ICV, is right for the octets of all parts. The parts hold the
    /// IV, and zeros in place of the ICV. The comparison takes constant time.
    #[must_use]
    fn verify(&self, parts: &[&[u8]], icv: &[u8]) -> bool;
}
