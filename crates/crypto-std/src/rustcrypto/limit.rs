//! The bound that every mode keeps, and what is left of a packet that does not fit.

use crypto::SealOp;

/// The longest packet, in octets: far above what IP can carry, far below where any counter here wraps.
pub(super) const MAX_DATA: usize = 1 << 24;

/// Blank a packet whose lengths are those of another suite, so that nothing secret stays in it.
pub(super) fn blank(op: &mut SealOp<'_>) {
    op.data.fill(0);
    op.icv.fill(0);
}
