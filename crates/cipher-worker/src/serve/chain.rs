//! CBC for ciphers that have no way of their own: packets side by side, so that the cipher gets a block of each at once.

use crypto::UnitFailed;
use crypto::custom::{BlockKey, CbcOp};

/// Packets that the library gets at once.
pub(super) const PACKETS: usize = 16;
/// Octets of the longest block.
const BLOCK: usize = 16;

/// Encrypt at most [`PACKETS`] packets in CBC mode.
pub(super) fn encrypt(key: &dyn BlockKey, block_len: usize, ops: &mut [CbcOp<'_>]) -> Result<(), UnitFailed> {
    if key.cbc_encrypt_batch(ops)? {
        return Ok(());
    }
    let longest = ops.iter().map(|op| op.data.len()).max().unwrap_or(0);
    let mut next = [0; BLOCK * PACKETS];
    for at in (0..longest).step_by(block_len) {
        let mut filled = 0;
        for op in &*ops {
            let Some(block) = op.data.get(at..at + block_len) else { continue };
            let place = next.get_mut(filled..filled + block_len).ok_or(UnitFailed)?;
            place.iter_mut().zip(op.iv.iter().zip(block)).for_each(|(to, (a, b))| *to = a ^ b);
            filled += block_len;
        }
        let blocks = next.get_mut(..filled).ok_or(UnitFailed)?;
        key.encrypt_blocks(blocks)?;
        let mut made = blocks.chunks_exact(block_len);
        for op in &mut *ops {
            let Some(block) = op.data.get_mut(at..at + block_len) else { continue };
            let cipher = made.next().ok_or(UnitFailed)?;
            block.copy_from_slice(cipher);
            op.iv.iter_mut().zip(cipher).for_each(|(to, from)| *to = *from);
        }
    }
    Ok(())
}
