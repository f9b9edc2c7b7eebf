//! Block ciphers: blocks and CBC by calls, counter mode as key stream.

use crypto::UnitFailed;
use crypto::custom::{BlockKey, CbcOp, CtrOp, Primitive};

use super::Key;
use crate::batch::{Batch, Entry, Place};
use crate::core::Claim;
use crate::layout::{ENTRIES, Op};

/// Octets of a packet whose chaining is undone at once: a multiple of any block.
const CHUNK: usize = 1024;

impl Key {
    fn block_len(&self) -> usize {
        match self.core.description.primitive {
            Primitive::Block { block_len } => block_len.clamp(1, 16),
            _ => 16,
        }
    }

    fn whole(&self, len: usize) -> usize {
        len - len % self.block_len()
    }

    fn blocks(&self, op: Op, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        let whole = self.whole(blocks.len());
        let some = blocks.get_mut(..whole).unwrap_or_default();
        let result = self.claim().and_then(|claim| {
            some.chunks_mut(self.piece()).try_for_each(|piece| {
                let mut batch = Batch::new(&self.core, &claim);
                let place = batch.add(&Entry::default(), Some(piece), piece.len())?;
                batch.run_all(op, self.index)?;
                if op == Op::Encrypt {
                    batch.take_encrypted(&place, piece)
                } else {
                    batch.take(&place, piece).map_err(UnitFailed::from)
                }
            })
        });
        if result.is_err() {
            blocks.fill(0);
        }
        self.ended(result)
    }

    fn cbc(&self, claim: &Claim<'_>, what: Op, ops: &mut [CbcOp<'_>]) -> Result<(), UnitFailed> {
        let mut index = 0;
        while index < ops.len() {
            let mut batch = Batch::new(&self.core, claim);
            let mut places: [Option<Place>; ENTRIES] = [None; ENTRIES];
            let mut some = false;
            while let Some(op) = ops.get(index) {
                let data = op.data.get(..self.whole(op.data.len())).unwrap_or_default();
                if !batch.fits(data.len()) {
                    break;
                }
                let place = batch.add(&Entry { nonce: op.iv, ..Entry::default() }, Some(data), data.len())?;
                *places.get_mut(index).ok_or(UnitFailed)? = Some(place);
                (index, some) = (index + 1, true);
            }
            if !some {
                // A packet that no lane has room for.
                return Err(UnitFailed);
            }
            batch.run_all(what, self.index)?;
            for (op, place) in ops.iter_mut().zip(&places) {
                let whole = self.whole(op.data.len());
                match (place, op.data.get_mut(..whole)) {
                    (Some(place), Some(data)) if what == Op::Cbc => batch.take_encrypted(place, data)?,
                    (Some(place), Some(data)) => unchain(&batch, place, self.block_len(), op.iv, data)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

impl Key {
    fn cbc_all(&self, what: Op, ops: &mut [CbcOp<'_>]) -> Result<(), UnitFailed> {
        let result = self
            .claim()
            .and_then(|claim| ops.chunks_mut(ENTRIES).try_for_each(|ops| self.cbc(&claim, what, ops)));
        if result.is_err() {
            ops.iter_mut().for_each(|op| op.data.fill(0));
        }
        self.ended(result)
    }
}

/// Undo the chaining of a packet whose blocks the worker decrypted, each for itself: `data` has the ciphertext still.
fn unchain(
    batch: &Batch<'_>,
    place: &Place,
    block_len: usize,
    iv: [u8; 16],
    data: &mut [u8],
) -> Result<(), UnitFailed> {
    let mut before = iv;
    let before = before.get_mut(..block_len).ok_or(UnitFailed)?;
    let mut plain = [0; CHUNK];
    for (at, data) in (0..).step_by(CHUNK).zip(data.chunks_mut(CHUNK)) {
        let plain = plain.get_mut(..data.len()).ok_or(UnitFailed)?;
        batch.take_part(place, at, plain)?;
        let chained = before.iter().chain(&*data);
        plain.iter_mut().zip(chained).for_each(|(to, from)| *to ^= from);
        if let Some(last) = data.len().checked_sub(block_len).and_then(|at| data.get(at..)) {
            before.copy_from_slice(last);
        }
        data.copy_from_slice(plain);
    }
    Ok(())
}

impl BlockKey for Key {
    fn encrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        self.blocks(Op::Encrypt, blocks)
    }

    fn decrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), UnitFailed> {
        self.blocks(Op::Decrypt, blocks)
    }

    fn ctr_xor_batch(&self, ops: &mut [CtrOp<'_>]) -> Result<(), UnitFailed> {
        self.xor(ops)
    }

    fn cbc_encrypt_batch(&self, ops: &mut [CbcOp<'_>]) -> Result<bool, UnitFailed> {
        self.cbc_all(Op::Cbc, ops).map(|()| true)
    }

    fn cbc_decrypt_batch(&self, ops: &mut [CbcOp<'_>]) -> Result<bool, UnitFailed> {
        self.cbc_all(Op::Decrypt, ops).map(|()| true)
    }
}
