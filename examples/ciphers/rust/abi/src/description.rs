//! The description of a cipher, as `include/ravelin_cipher.h` lays it out.

use core::ffi::{CStr, c_char, c_void};
use core::mem::offset_of;

use aead::AeadInOut;
use cipher::typenum::Unsigned as _;
use cipher::{BlockCipherDecrypt, BlockCipherEncrypt, BlockSizeUser, KeyInit, KeySizeUser};

use crate::{aead_kind, block_kind, setkey};

const ABI_MAJOR: u32 = 1;
const ABI_MINOR: u32 = 0;

const BLOCK: u32 = 1;
const AEAD: u32 = 3;

const CONSTANT_TIME: u64 = 1;
const IN_PLACE: u64 = 2;
const OVERLAP_FORBIDDEN: u64 = 4;

type SetKey = unsafe extern "C" fn(*mut c_void, *const u8, usize) -> i32;
type Blocks = unsafe extern "C" fn(*const c_void, *mut u8, *const u8, usize);
type Seal =
    unsafe extern "C" fn(*const c_void, *const u8, *const u8, usize, *mut u8, *const u8, usize, *mut u8);
type Open = unsafe extern "C" fn(
    *const c_void,
    *const u8,
    *const u8,
    usize,
    *mut u8,
    *const u8,
    usize,
    *const u8,
) -> i32;
/// A function that these examples never have; the pointer is NULL.
type Absent = Option<unsafe extern "C" fn()>;

/// `struct ravelin_cipher` of the header, field by field.
#[repr(C)]
pub struct Cipher {
    abi_major: u32,
    abi_minor: u32,
    struct_size: u32,
    kind: u32,
    flags: u64,
    name: *const c_char,
    version: *const c_char,
    vendor: *const c_char,
    block_len: u32,
    key_len: u32,
    nonce_len: u32,
    tag_len: u32,
    ctx_size: u32,
    ctx_align: u32,
    max_octets_per_key: u64,
    setkey: Option<SetKey>,
    encrypt_blocks: Option<Blocks>,
    decrypt_blocks: Option<Blocks>,
    ctr_xor: Absent,
    ctr_xor_batch: Absent,
    cbc_encrypt_batch: Absent,
    xor_at: Absent,
    seal: Option<Seal>,
    open: Option<Open>,
    seal_batch: Absent,
    open_batch: Absent,
}

// SAFETY: the pointers are those of constant text, and nothing is ever written.
unsafe impl Sync for Cipher {}

/// What a description says that the traits of the cipher do not.
pub struct About {
    /// The name in suites, `[a-z][a-z0-9]{1,15}`.
    pub name: &'static CStr,
    /// The version, 1 to 63 octets of printable ASCII.
    pub version: &'static CStr,
    /// Whether time, branches and addresses do not depend on keys or data.
    pub constant_time: bool,
}

impl Cipher {
    const fn empty<C: KeyInit>(about: &About, kind: u32) -> Cipher {
        let constant_time = if about.constant_time { CONSTANT_TIME } else { 0 };
        Cipher {
            abi_major: ABI_MAJOR,
            abi_minor: ABI_MINOR,
            struct_size: size_of::<Cipher>() as u32,
            kind,
            flags: constant_time | IN_PLACE | OVERLAP_FORBIDDEN,
            name: about.name.as_ptr(),
            version: about.version.as_ptr(),
            vendor: c"Ravelin examples".as_ptr(),
            block_len: 0,
            key_len: <C as KeySizeUser>::KeySize::U32,
            nonce_len: 0,
            tag_len: 0,
            ctx_size: size_of::<C>() as u32,
            ctx_align: align_of::<C>() as u32,
            max_octets_per_key: 0,
            setkey: Some(setkey::<C>),
            encrypt_blocks: None,
            decrypt_blocks: None,
            ctr_xor: None,
            ctr_xor_batch: None,
            cbc_encrypt_batch: None,
            xor_at: None,
            seal: None,
            open: None,
            seal_batch: None,
            open_batch: None,
        }
    }

    /// The description of a block cipher.
    pub const fn block<C>(about: &About) -> Cipher
    where
        C: KeyInit + BlockCipherEncrypt + BlockCipherDecrypt,
    {
        Cipher {
            block_len: <C as BlockSizeUser>::BlockSize::U32,
            encrypt_blocks: Some(block_kind::encrypt_blocks::<C>),
            decrypt_blocks: Some(block_kind::decrypt_blocks::<C>),
            ..Cipher::empty::<C>(about, BLOCK)
        }
    }

    /// The description of a combined mode.
    pub const fn aead<C: KeyInit + AeadInOut>(about: &About) -> Cipher {
        Cipher {
            nonce_len: C::NonceSize::U32,
            tag_len: C::TagSize::U32,
            seal: Some(aead_kind::seal::<C>),
            open: Some(aead_kind::open::<C>),
            ..Cipher::empty::<C>(about, AEAD)
        }
    }
}

// The layout of the header on machines of 64 bits, where Ravelin runs.
const _: () = assert!(size_of::<Cipher>() == 168 && align_of::<Cipher>() == 8);
const _: () = assert!(offset_of!(Cipher, name) == 24 && offset_of!(Cipher, block_len) == 48);
const _: () = assert!(offset_of!(Cipher, max_octets_per_key) == 72 && offset_of!(Cipher, setkey) == 80);
const _: () = assert!(offset_of!(Cipher, seal) == 136 && offset_of!(Cipher, open_batch) == 160);
