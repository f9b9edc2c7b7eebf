//! A transform that does nothing, to measure everything around the cipher. Only here: no registry of the product has it.

use crypto::{CryptoError, OpenOp, Provider, SealOp, Secret, SuiteId, Transform, UnitFailed};

/// Claims to have every suite and leaves every packet as it is, with a tag of zeros.
#[derive(Clone, Copy, Debug)]
pub struct Null;

struct NullKey;

impl Provider for Null {
    fn name(&self) -> &'static str {
        "null (no protection at all; for measuring)"
    }

    fn offers(&self, _suite: SuiteId) -> bool {
        true
    }

    fn transform(
        &self,
        _suite: SuiteId,
        _keymat: &Secret,
        _extended: bool,
    ) -> Result<Box<dyn Transform>, CryptoError> {
        Ok(Box::new(NullKey))
    }
}

impl Transform for NullKey {
    fn seal_batch(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            op.iv.copy_from_slice(&op.sequence.to_be_bytes());
            op.icv.fill(0);
        }
        Ok(())
    }

    fn open_batch(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            op.ok = true;
        }
        Ok(())
    }
}
