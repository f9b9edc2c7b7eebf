//! Calls into a stream cipher.

use std::ffi::c_void;
use std::mem::transmute;

use super::batch::copied;
use crate::abi::{IN_PLACE, Raw};
use crate::context::Context;
use crypto::UnitFailed;
use crypto::custom::{NONCE_LEN, StreamKey, StreamOp};

type XorAt = unsafe extern "C" fn(*const c_void, *const u8, u64, *mut u8, *const u8, usize);

/// The function of a stream cipher.
#[derive(Clone, Copy)]
pub(super) struct Functions {
    pub(super) in_place: bool,
    xor_at: XorAt,
}

impl Functions {
    /// Only for a description that was checked: the function is code of the library.
    pub(super) fn new(raw: &Raw) -> Functions {
        // SAFETY: the address is code of the library, and the header gives the function this type.
        let xor_at = unsafe { transmute::<usize, XorAt>(raw.xor_at) };
        Functions { in_place: raw.flags & IN_PLACE != 0, xor_at }
    }
}

/// A key of a stream cipher in a library.
pub(super) struct Key {
    pub(super) context: Context,
    pub(super) functions: Functions,
}

impl Key {
    fn xor(&self, nonce: &[u8; NONCE_LEN], offset: u64, data: &mut [u8]) {
        let xor_at = self.functions.xor_at;
        if self.functions.in_place {
            let at = data.as_mut_ptr();
            // SAFETY: the slice has so many octets, the nonce has 12, and the cipher says that dst may be src.
            unsafe { xor_at(self.context.at(), nonce.as_ptr(), offset, at, at, data.len()) };
            return;
        }
        let mut at = offset;
        copied(data, |to, from| {
            let (nonce, len) = (nonce.as_ptr(), to.len());
            // SAFETY: both slices have so many octets and do not overlap; the nonce has 12.
            unsafe { xor_at(self.context.at(), nonce, at, to.as_mut_ptr(), from.as_ptr(), len) };
            at = at.saturating_add(len as u64);
        });
    }
}

impl StreamKey for Key {
    fn xor_batch(&self, ops: &mut [StreamOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            let nonce = op.nonce.try_into().map_err(|_| UnitFailed)?;
            let len = u64::try_from(op.data.len()).map_err(|_| UnitFailed)?;
            op.offset.checked_add(len).ok_or(UnitFailed)?;
            self.xor(nonce, op.offset, op.data);
        }
        Ok(())
    }
}
