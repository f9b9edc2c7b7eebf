//! The known answers of a cipher of one's own, repeated while it is in use: one that answers otherwise than it did is not
//! used any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crypto::{OpenOp, SealOp, StepState, Transform, UnitFailed};

/// Whether a cipher still answers as it did. All keys of the cipher share it.
#[derive(Clone, Debug)]
pub(super) struct Trust(Arc<AtomicBool>);

impl Trust {
    /// Trust in a cipher whose answers were right.
    pub(super) fn new() -> Trust {
        Trust(Arc::new(AtomicBool::new(true)))
    }

    /// Trust it no more, for good.
    pub(super) fn withdraw(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether it is trusted.
    pub(super) fn holds(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A key that stops where its cipher is not trusted any more.
pub(super) struct Trusted {
    pub(super) key: Box<dyn Transform>,
    pub(super) trust: Trust,
}

impl Trusted {
    fn key(&self) -> Result<&dyn Transform, UnitFailed> {
        if self.trust.holds() { Ok(self.key.as_ref()) } else { Err(UnitFailed) }
    }
}

impl Transform for Trusted {
    fn seal_batch(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        self.key()?.seal_batch(ops)
    }

    fn open_batch(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        self.key()?.open_batch(ops)
    }

    fn seal(&self, op: SealOp<'_>) -> Result<(), UnitFailed> {
        self.key()?.seal(op)
    }

    fn open(&self, op: OpenOp<'_>) -> Result<bool, UnitFailed> {
        self.key()?.open(op)
    }

    fn seal_step(
        &self,
        op: SealOp<'_>,
        state: &mut StepState,
        octets: &mut usize,
    ) -> Result<bool, UnitFailed> {
        self.key()?.seal_step(op, state, octets)
    }

    fn open_step(
        &self,
        op: OpenOp<'_>,
        state: &mut StepState,
        octets: &mut usize,
    ) -> Result<Option<bool>, UnitFailed> {
        self.key()?.open_step(op, state, octets)
    }
}
