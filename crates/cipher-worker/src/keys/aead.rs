//! Combined modes: by calls.

use crypto::UnitFailed;
use crypto::custom::{AeadKey, AeadOp, NONCE_LEN, Primitive};

use super::Key;
use crate::batch::{Batch, Entry, Place};
use crate::core::Claim;
use crate::layout::{ENTRIES, Op};

impl Key {
    fn fits(&self, op: &AeadOp<'_>) -> bool {
        let tag =
            matches!(self.core.description.primitive, Primitive::Aead { tag_len } if tag_len == op.tag.len());
        op.nonce.len() == NONCE_LEN && tag
    }

    fn pass(&self, claim: &Claim<'_>, what: Op, ops: &mut [AeadOp<'_>]) -> Result<(), UnitFailed> {
        let mut first = 0;
        while let Some(ops) = ops.get_mut(first..).filter(|rest| !rest.is_empty()) {
            let mut batch = Batch::new(&self.core, claim);
            let mut places = [Place::default(); ENTRIES];
            let mut count = 0;
            for (op, place) in ops.iter().zip(&mut places) {
                let octets = op.data.len() + op.aad.len() + op.tag.len();
                if !batch.fits(octets) {
                    break;
                }
                let mut entry = Entry { aad: op.aad, tag_len: op.tag.len(), ..Entry::default() };
                entry.nonce.iter_mut().zip(op.nonce).for_each(|(to, from)| *to = *from);
                if what == Op::Open {
                    entry.tag = op.tag;
                }
                *place = batch.add(&entry, Some(op.data), op.data.len())?;
                count += 1;
            }
            if count == 0 {
                // A packet that no lane has room for.
                return Err(UnitFailed);
            }
            batch.run_all(what, self.index)?;
            for (index, (op, place)) in ops.iter_mut().zip(&places).take(count).enumerate() {
                if what == Op::Seal {
                    batch.take_encrypted(place, op.data)?;
                    batch.take_tag(place, op.tag)?;
                    continue;
                }
                op.ok = batch.verdict(index)?;
                if op.ok {
                    batch.take(place, op.data)?;
                } else {
                    op.data.fill(0);
                }
            }
            first += count;
        }
        Ok(())
    }

    fn aead(&self, what: Op, ops: &mut [AeadOp<'_>]) -> Result<(), UnitFailed> {
        let result = if ops.iter().all(|op| self.fits(op)) {
            self.claim().and_then(|claim| self.pass(&claim, what, ops))
        } else {
            Err(UnitFailed)
        };
        if result.is_err() {
            for op in &mut *ops {
                op.data.fill(0);
                op.ok = false;
            }
        }
        self.ended(result)
    }
}

impl AeadKey for Key {
    fn seal_batch(&self, ops: &mut [AeadOp<'_>]) -> Result<(), UnitFailed> {
        self.aead(Op::Seal, ops)
    }

    fn open_batch(&self, ops: &mut [AeadOp<'_>]) -> Result<(), UnitFailed> {
        self.aead(Op::Open, ops)
    }
}
