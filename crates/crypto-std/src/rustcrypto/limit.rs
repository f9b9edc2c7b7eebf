//! The bound that every mode keeps, and what is left of packets that do not fit.

use crypto::{SealOp, UnitFailed};

/// The longest packet, in octets: far above what IP can carry, far below where any counter here wraps.
pub(crate) const MAX_DATA: usize = 1 << 24;

/// Blank a packet whose lengths are those of another suite, so that nothing secret stays in it.
#[cold]
pub(super) fn blank(op: &mut SealOp<'_>) -> Result<(), UnitFailed> {
    op.data.fill(0);
    op.icv.fill(0);
    Err(UnitFailed)
}

/// Seal all of them, also those behind one that fails: no plaintext stays.
#[inline]
pub(super) fn each<T>(
    ops: &mut [T],
    seal: impl Fn(&mut T) -> Result<(), UnitFailed>,
) -> Result<(), UnitFailed> {
    let mut all = Ok(());
    for op in ops {
        all = seal(op).and(all);
    }
    all
}
