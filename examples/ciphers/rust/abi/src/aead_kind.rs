//! The functions of combined modes.

use core::ffi::c_void;

use aead::array::Array;
use aead::{AeadInOut, Nonce};
use cipher::typenum::Unsigned as _;

use crate::{in_out, key_of, octets, result};

/// Encrypt `len` octets and write the tag.
///
/// # Safety
/// As in the header: `ctx` has a key, the pointers have as many octets as is said there.
pub unsafe extern "C" fn seal<C: AeadInOut>(
    ctx: *const c_void,
    nonce: *const u8,
    aad: *const u8,
    aad_len: usize,
    dst: *mut u8,
    src: *const u8,
    len: usize,
    tag: *mut u8,
) {
    // SAFETY: by the caller.
    let (key, nonce, aad, mut data) = unsafe {
        (key_of::<C>(ctx), nonce.cast::<Nonce<C>>().read(), octets(aad, aad_len), in_out::<u8>(dst, src, len))
    };
    let made = key.encrypt_inout_detached(&nonce, aad, data.reborrow()).unwrap_or_else(|_| {
        // The message is longer than the algorithm allows. The header knows no error: nothing is let out.
        data.get_out().fill(0);
        Array::default()
    });
    // SAFETY: by the caller; a tag is a row of octets.
    unsafe { core::ptr::copy_nonoverlapping(made.as_ptr(), tag, C::TagSize::USIZE) };
}

/// Check the tag and decrypt `len` octets. A wrong tag leaves `dst` as it was.
///
/// # Safety
/// As in the header: `ctx` has a key, the pointers have as many octets as is said there.
pub unsafe extern "C" fn open<C: AeadInOut>(
    ctx: *const c_void,
    nonce: *const u8,
    aad: *const u8,
    aad_len: usize,
    dst: *mut u8,
    src: *const u8,
    len: usize,
    tag: *const u8,
) -> i32 {
    // SAFETY: by the caller.
    let (key, nonce, aad, data, tag) = unsafe {
        (
            key_of::<C>(ctx),
            nonce.cast::<Nonce<C>>().read(),
            octets(aad, aad_len),
            in_out::<u8>(dst, src, len),
            tag.cast::<aead::Tag<C>>().read(),
        )
    };
    match key.decrypt_inout_detached(&nonce, aad, data, &tag) {
        Ok(()) => result::OK,
        Err(_) => result::BAD_TAG,
    }
}
