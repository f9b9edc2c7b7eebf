//! The border between a cipher in Rust and `include/ravelin_cipher.h`: the only unsafe code of the examples in Rust.
//!
//! A cipher that implements the traits of RustCrypto, [`BlockCipherEncrypt`] and [`BlockCipherDecrypt`] or
//! [`AeadInOut`], becomes a library with one line, [`export!`]. Nothing allocates, and no standard library is linked.
//! A panic ends the process: it is an error of the cipher, and must not unwind through C.
//!
//! [`BlockCipherEncrypt`]: cipher::BlockCipherEncrypt
//! [`BlockCipherDecrypt`]: cipher::BlockCipherDecrypt
//! [`AeadInOut`]: aead::AeadInOut

#![no_std]

mod aead_kind;
mod block_kind;
mod description;

use core::ffi::c_void;

use cipher::KeyInit;
use cipher::inout::InOutBuf;
use cipher::typenum::Unsigned as _;

pub use description::{About, Cipher};

/// What setkey and open return; the values of the header.
pub(crate) mod result {
    pub const OK: i32 = 0;
    pub const BAD_LENGTH: i32 = -1;
    pub const BAD_TAG: i32 = -3;
}

/// Export this description as the library's only cipher.
#[macro_export]
macro_rules! export {
    ($description:expr) => {
        static CIPHER: $crate::Cipher = $description;

        /// The description of the cipher for index 0, and NULL behind it.
        #[unsafe(no_mangle)]
        pub extern "C" fn ravelin_cipher_v1(index: u32) -> *const $crate::Cipher {
            if index == 0 { &CIPHER } else { ::core::ptr::null() }
        }
    };
}

/// Prepare a key in the memory of the host.
///
/// # Safety
/// `ctx` has the size and the alignment of `C`, and `key` has `key_len` octets.
pub(crate) unsafe extern "C" fn setkey<C: KeyInit>(ctx: *mut c_void, key: *const u8, key_len: usize) -> i32 {
    if key_len != C::KeySize::USIZE {
        return result::BAD_LENGTH;
    }
    // SAFETY: the host gives `key_len` octets, which is not 0.
    let key = unsafe { core::slice::from_raw_parts(key, key_len) };
    let Ok(cipher) = C::new_from_slice(key) else { return result::BAD_LENGTH };
    // SAFETY: the host gives ctx_size octets at a multiple of ctx_align. Nobody drops them: the host wipes them.
    unsafe { ctx.cast::<C>().write(cipher) };
    result::OK
}

/// The key that `setkey` wrote.
///
/// # Safety
/// `ctx` is what `setkey::<C>` has written, and nobody writes it while `'a` lasts.
unsafe fn key_of<'a, C>(ctx: *const c_void) -> &'a C {
    // SAFETY: by the caller.
    unsafe { &*ctx.cast::<C>() }
}

/// `len` octets; the pointer may be NULL if there are none.
///
/// # Safety
/// `from` has `len` octets that nobody writes while `'a` lasts.
unsafe fn octets<'a>(from: *const u8, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: by the caller.
    unsafe { core::slice::from_raw_parts(from, len) }
}

/// Input and output of `len` elements, which are the same memory or do not overlap.
///
/// # Safety
/// `src` can be read and `dst` can be written, and nobody else uses them while `'a` lasts. `T` is a row of octets.
unsafe fn in_out<'a, T>(dst: *mut u8, src: *const u8, len: usize) -> InOutBuf<'a, 'a, T> {
    const { assert!(align_of::<T>() == 1) };
    if len == 0 {
        return InOutBuf::from(<&mut [T]>::default());
    }
    // SAFETY: by the caller; `T` needs no alignment.
    unsafe { InOutBuf::from_raw(src.cast::<T>(), dst.cast::<T>(), len) }
}

#[link(name = "c")]
unsafe extern "C" {
    safe fn abort() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    abort()
}
