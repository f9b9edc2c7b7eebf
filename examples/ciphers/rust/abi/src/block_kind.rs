//! The functions of block ciphers.

use core::ffi::c_void;

use cipher::{BlockCipherDecrypt, BlockCipherEncrypt};

use crate::{in_out, key_of};

/// `blocks` blocks, each for itself.
///
/// # Safety
/// As in the header: `ctx` has a key, `src` and `dst` have `blocks` blocks.
pub unsafe extern "C" fn encrypt_blocks<C: BlockCipherEncrypt>(
    ctx: *const c_void,
    dst: *mut u8,
    src: *const u8,
    blocks: usize,
) {
    // SAFETY: by the caller.
    let (key, data) = unsafe { (key_of::<C>(ctx), in_out(dst, src, blocks)) };
    key.encrypt_blocks_inout(data);
}

/// The inverse of [`encrypt_blocks`].
///
/// # Safety
/// As in the header: `ctx` has a key, `src` and `dst` have `blocks` blocks.
pub unsafe extern "C" fn decrypt_blocks<C: BlockCipherDecrypt>(
    ctx: *const c_void,
    dst: *mut u8,
    src: *const u8,
    blocks: usize,
) {
    // SAFETY: by the caller.
    let (key, data) = unsafe { (key_of::<C>(ctx), in_out(dst, src, blocks)) };
    key.decrypt_blocks_inout(data);
}
