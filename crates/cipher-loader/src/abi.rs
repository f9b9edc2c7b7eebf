//! The description of a cipher as the C header lays it out, read with suspicion.
//!
//! Nothing is read and nothing will be called outside of the library's own mapping. Pointers are numbers here until
//! they are known to lead into it.

use std::mem::{MaybeUninit, offset_of};

use cipher_manifest::Manifest;
use crypto::custom::{CustomDescription, NONCE_LEN, Primitive};

use crate::error::AbiError;
use crate::maps::Ranges;

/// The major number of the ABI that is understood.
pub(crate) const MAJOR: u32 = 1;
const BLOCK: u32 = 1;
const STREAM: u32 = 2;
const AEAD: u32 = 3;
const CONSTANT_TIME: u64 = 1;
/// dst may be src.
pub(crate) const IN_PLACE: u64 = 2;
const OVERLAP_FORBIDDEN: u64 = 4;
const FLAGS: u64 = CONSTANT_TIME | IN_PLACE | OVERLAP_FORBIDDEN;
/// What `setkey` and `open` answer where nothing is wrong.
pub(crate) const OK: i32 = 0;
/// What `setkey` answers to a key of another length.
pub(crate) const BAD_LENGTH: i32 = -1;
/// What `setkey` answers to a weak key.
pub(crate) const WEAK_KEY: i32 = -2;
/// What `open` answers to a wrong tag.
pub(crate) const BAD_TAG: i32 = -3;
/// The longest text of a description, with its NUL.
const LONGEST_TEXT: usize = 64;
/// The octets that a description of a later minor version may have.
const LONGEST: u32 = 4096;

/// `struct ravelin_cipher`, with numbers for pointers.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Raw {
    pub(crate) abi_major: u32,
    pub(crate) abi_minor: u32,
    pub(crate) struct_size: u32,
    pub(crate) kind: u32,
    pub(crate) flags: u64,
    name: usize,
    version: usize,
    vendor: usize,
    block_len: u32,
    key_len: u32,
    nonce_len: u32,
    tag_len: u32,
    pub(crate) ctx_size: u32,
    pub(crate) ctx_align: u32,
    max_octets_per_key: u64,
    pub(crate) setkey: usize,
    pub(crate) encrypt_blocks: usize,
    pub(crate) decrypt_blocks: usize,
    pub(crate) ctr_xor: usize,
    pub(crate) ctr_xor_batch: usize,
    pub(crate) cbc_encrypt_batch: usize,
    pub(crate) xor_at: usize,
    pub(crate) seal: usize,
    pub(crate) open: usize,
    pub(crate) seal_batch: usize,
    pub(crate) open_batch: usize,
}

/// The C header's `struct ravelin_cipher_ctr`: one packet of a batch.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawCtr {
    pub(crate) counter: [u8; 16],
    pub(crate) data: *mut u8,
    pub(crate) len: usize,
}

/// The C header's `struct ravelin_cipher_cbc`: one packet of a batch.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawCbc {
    pub(crate) iv: [u8; 16],
    pub(crate) data: *mut u8,
    pub(crate) len: usize,
}

/// The C header's `struct ravelin_cipher_aead`: one packet of a batch.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawAead {
    pub(crate) nonce: *const u8,
    pub(crate) aad: *const u8,
    pub(crate) aad_len: usize,
    pub(crate) data: *mut u8,
    pub(crate) len: usize,
    pub(crate) tag: *mut u8,
    pub(crate) result: i32,
    pub(crate) reserved: u32,
}

/// The octets of version 1.0.
const SIZE: u32 = size_of::<Raw>() as u32;
/// The octets that tell version and size, which come first in every version.
const FRONT: usize = offset_of!(Raw, kind);

/// The description at this address.
///
/// # Errors
/// [`AbiError`]: it does not lie in the library, or it is of another version.
pub(crate) fn read(address: usize, library: &Ranges) -> Result<Raw, AbiError> {
    let there = library.readable(address);
    if address == 0 || there < FRONT {
        return Err(AbiError::Outside("description"));
    }
    let mut raw = MaybeUninit::<Raw>::zeroed();
    // SAFETY: so many octets of the library's own mapping can be read from here on, and the library stays mapped. Any
    // octets are a `Raw`, which has numbers alone; those that are not copied are zero.
    let front = unsafe {
        std::ptr::copy_nonoverlapping(address as *const u8, raw.as_mut_ptr().cast::<u8>(), FRONT);
        raw.assume_init()
    };
    let (major, minor, got) = (front.abi_major, front.abi_minor, front.struct_size);
    if major != MAJOR {
        return Err(AbiError::Version { major, minor });
    }
    // Version 1.0 has one size; later ones append fields, which this host does not read.
    if !(SIZE..=LONGEST).contains(&got) || minor == 0 && got != SIZE {
        return Err(AbiError::Size { got, want: SIZE });
    }
    if there < size_of::<Raw>() {
        return Err(AbiError::Outside("description"));
    }
    // SAFETY: as above; all of it can be read.
    Ok(unsafe {
        std::ptr::copy_nonoverlapping(address as *const u8, raw.as_mut_ptr().cast::<u8>(), size_of::<Raw>());
        raw.assume_init()
    })
}

/// The text at this address, if it ends within its bounds and in the library.
fn text(address: usize, what: &'static str, library: &Ranges) -> Result<String, AbiError> {
    let most = library.readable(address).min(LONGEST_TEXT);
    if address == 0 || most == 0 {
        return Err(AbiError::Outside(what));
    }
    // SAFETY: so many octets of the library's own mapping can be read from here on, and nobody writes constant data.
    let octets = unsafe { std::slice::from_raw_parts(address as *const u8, most) };
    let end = octets.iter().position(|octet| *octet == 0).ok_or(AbiError::Text(what))?;
    let text = octets.get(..end).and_then(|octets| std::str::from_utf8(octets).ok());
    text.map(str::to_owned).ok_or(AbiError::Text(what))
}

impl Raw {
    /// The name of the cipher.
    pub(crate) fn name(&self, library: &Ranges) -> Result<String, AbiError> {
        text(self.name, "name", library)
    }

    /// Everything that the description says, if it can be used and is what the manifest says.
    pub(crate) fn check(&self, library: &Ranges, manifest: &Manifest) -> Result<CustomDescription, AbiError> {
        let number = |what, got, want, right| {
            if right { Ok(()) } else { Err(AbiError::Number { what, got, want }) }
        };
        number("kind", self.kind.into(), "1, 2 and 3 are known", (BLOCK..=AEAD).contains(&self.kind))?;
        number("flags", self.flags, "only 1, 2 and 4 are known", self.flags & !FLAGS == 0)?;
        let nonce = if self.kind == BLOCK { 0 } else { NONCE_LEN as u32 };
        let want = "a block cipher has 0, others 12";
        number("nonce_len", self.nonce_len.into(), want, self.nonce_len == nonce)?;
        let want = "only a block cipher has blocks";
        number("block_len", self.block_len.into(), want, self.kind == BLOCK || self.block_len == 0)?;
        let want = "only an AEAD has tags";
        number("tag_len", self.tag_len.into(), want, self.kind == AEAD || self.tag_len == 0)?;
        let want = "1 to 65536 octets are possible";
        number("ctx_size", self.ctx_size.into(), want, (1..=65536).contains(&self.ctx_size))?;
        let right = self.ctx_align.is_power_of_two() && self.ctx_align <= 64;
        number("ctx_align", self.ctx_align.into(), "a power of two, at most 64", right)?;
        let length = |length: u32| usize::try_from(length).unwrap_or(usize::MAX);
        let primitive = match self.kind {
            BLOCK => Primitive::Block { block_len: length(self.block_len) },
            STREAM => Primitive::Stream,
            _ => Primitive::Aead { tag_len: length(self.tag_len) },
        };
        let description = CustomDescription {
            name: self.name(library)?,
            version: text(self.version, "version", library)?,
            vendor: text(self.vendor, "vendor", library)?,
            primitive,
            key_len: length(self.key_len),
            max_octets: Some(self.max_octets_per_key).filter(|most| *most != 0),
        };
        description.check()?;
        self.compare(&description, manifest)?;
        self.functions(library)?;
        Ok(description)
    }

    fn compare(&self, description: &CustomDescription, manifest: &Manifest) -> Result<(), AbiError> {
        let want = &manifest.description;
        let quoted = |text: &str| format!("{text:?}");
        let most = |octets: Option<u64>| octets.unwrap_or(0).to_string();
        let kind = |primitive: Primitive| match primitive {
            Primitive::Block { block_len } => format!("a block cipher with blocks of {block_len} octets"),
            Primitive::Stream => "a stream cipher".to_owned(),
            Primitive::Aead { tag_len } => format!("an AEAD with tags of {tag_len} octets"),
        };
        let constant_time = self.flags & CONSTANT_TIME != 0;
        for (what, got, want) in [
            ("name", quoted(&description.name), quoted(&want.name)),
            ("version", quoted(&description.version), quoted(&want.version)),
            ("vendor", quoted(&description.vendor), quoted(&want.vendor)),
            ("kind", kind(description.primitive), kind(want.primitive)),
            ("key_len", description.key_len.to_string(), want.key_len.to_string()),
            ("max_octets_per_key", most(description.max_octets), most(want.max_octets)),
            ("flag of constant time", constant_time.to_string(), manifest.constant_time.to_string()),
        ] {
            if got != want {
                return Err(AbiError::Manifest { what, got, want });
            }
        }
        Ok(())
    }

    /// Whether the functions are those of the kind, and are code of the library.
    fn functions(&self, library: &Ranges) -> Result<(), AbiError> {
        let wide = self.kind == BLOCK && self.block_len == 16;
        for (name, address, must, may) in [
            ("setkey", self.setkey, true, true),
            ("encrypt_blocks", self.encrypt_blocks, self.kind == BLOCK, self.kind == BLOCK),
            ("decrypt_blocks", self.decrypt_blocks, self.kind == BLOCK, self.kind == BLOCK),
            ("ctr_xor", self.ctr_xor, false, wide),
            ("ctr_xor_batch", self.ctr_xor_batch, false, wide),
            ("cbc_encrypt_batch", self.cbc_encrypt_batch, false, wide),
            ("xor_at", self.xor_at, self.kind == STREAM, self.kind == STREAM),
            ("seal", self.seal, self.kind == AEAD, self.kind == AEAD),
            ("open", self.open, self.kind == AEAD, self.kind == AEAD),
            ("seal_batch", self.seal_batch, false, self.kind == AEAD),
            ("open_batch", self.open_batch, false, self.kind == AEAD),
        ] {
            match address {
                0 if must => return Err(AbiError::Missing(name)),
                0 => {}
                _ if !may => return Err(AbiError::Surplus(name)),
                _ if !library.is_code(address) => return Err(AbiError::Outside(name)),
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
