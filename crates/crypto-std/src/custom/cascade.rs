//! The cascade: a cipher of one's own inside, AES-256-GCM around its ciphertext, under independent keys.
//!
//! Whoever breaks one of them has the other before him, and what arrives is verified before the inner cipher sees it.
//! One IV is on the wire: both nonces are made of the sequence number, each with its own salt.

use crypto::{OpenOp, SealOp, Transform, UnitFailed};

use crate::rustcrypto::{LANES, MAX_DATA, PacketCipher};

/// Octets of the explicit IV.
const IV: usize = 8;

pub(super) struct Cascade {
    inner: Box<dyn PacketCipher>,
    outer: Box<dyn Transform>,
}

impl Cascade {
    pub(super) fn new(inner: Box<dyn PacketCipher>, outer: Box<dyn Transform>) -> Cascade {
        Cascade { inner, outer }
    }
}

impl Transform for Cascade {
    fn seal_batch(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        if ops.iter().any(|op| op.iv.len() != IV || op.data.len() > MAX_DATA) {
            return Err(UnitFailed);
        }
        ops.chunks_mut(LANES).try_for_each(|lanes| self.inner.encrypt(lanes))?;
        self.outer.seal_batch(ops)
    }

    fn open_batch(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        self.outer.open_batch(ops)?;
        ops.chunks_mut(LANES).try_for_each(|lanes| self.inner.decrypt(lanes))
    }
}
