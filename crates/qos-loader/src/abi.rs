//! The description of a component as the C header lays it out, read with suspicion.
//!
//! Nothing is read and nothing will be called outside of the library's own mapping. Pointers are numbers here until
//! they are known to lead into it.

use std::ffi::{CStr, c_char, c_void};
use std::mem::offset_of;

use cipher_loader::shared::MappedLibrary;
use qos::behaviour::foreign::{Answer, Call, PacketView};

use crate::error::AbiError;

/// The one symbol that the library of a component exports.
pub const SYMBOL: &CStr = c"ravelin_qos_v1";
/// The major number of the ABI that is understood.
const MAJOR: u32 = 1;
const BEHAVIOUR: u32 = 1;
/// The octets of a description of version 1.0.
const SIZE: u32 = 56;
const _: () = assert!(size_of::<RawDescription>() == SIZE as usize);
/// The octets that a description of a later minor version may have.
const LONGEST: u32 = 4096;
/// The longest text of a description, with its NUL.
const LONGEST_TEXT: usize = 64;
/// What functions answer where nothing is wrong.
pub(crate) const OK: i32 = 0;

/// What an instance is made with: the C header's `struct ravelin_qos_settings`.
#[repr(C)]
pub struct Settings {
    /// The text of the parameters, with a NUL behind it.
    pub parameters: *const c_char,
    /// The octets of the text, without that NUL.
    pub parameters_len: usize,
    /// A number that is random and secret, for keys of hashes.
    pub secret: u64,
    /// The number of ports that the graph gives the component.
    pub ports: u32,
    /// The reserved field, which is 0.
    pub reserved: u32,
}

/// What a library says of its component: the C header's `struct ravelin_qos_component`, with pointers as numbers.
#[repr(C)]
pub struct RawDescription {
    /// The major number of the ABI.
    pub abi_major: u32,
    /// The minor number of the ABI.
    pub abi_minor: u32,
    /// The octets of the description.
    pub struct_size: u32,
    /// The kind of the component.
    pub kind: u32,
    /// The address of the name.
    pub name: usize,
    /// The address of the version.
    pub version: usize,
    /// The address of the function that makes an instance.
    pub create: usize,
    /// The address of the function that frees an instance.
    pub destroy: usize,
    /// The address of the function that judges packets.
    pub run: usize,
}

pub(crate) type Create = unsafe extern "C" fn(*const Settings, *mut *mut c_void, *mut c_char, usize) -> i32;
pub(crate) type Destroy = unsafe extern "C" fn(*mut c_void);
pub(crate) type Run =
    unsafe extern "C" fn(*mut c_void, *const Call, *const PacketView, *mut Answer, usize) -> i32;
type Describe = unsafe extern "C" fn() -> usize;

/// The functions of a component, each of them code of the library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Functions {
    pub(crate) create: Create,
    pub(crate) destroy: Destroy,
    pub(crate) run: Run,
}

/// A description that can be used.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) functions: Functions,
}

/// The description of the component in a library.
///
/// # Errors
/// [`AbiError`]: the first rule that is broken.
pub(crate) fn describe(library: &MappedLibrary) -> Result<Description, AbiError> {
    let describe = library.code(SYMBOL).ok_or(AbiError::Symbol)?;
    // SAFETY: the address is code of the library, and the header gives the symbol this type.
    let describe = unsafe { std::mem::transmute::<usize, Describe>(describe) };
    // SAFETY: as above. What comes back is a number until it is known to lead into the library.
    let address = unsafe { describe() };
    let front: [u8; offset_of!(RawDescription, name)] =
        library.read(address).ok_or(AbiError::Outside("description"))?;
    let major = word(&front, offset_of!(RawDescription, abi_major));
    let minor = word(&front, offset_of!(RawDescription, abi_minor));
    let size = word(&front, offset_of!(RawDescription, struct_size));
    let kind = word(&front, offset_of!(RawDescription, kind));
    if major != MAJOR {
        return Err(AbiError::Version { major, minor });
    }
    // Version 1.0 has one size; later ones append fields, which this host does not read.
    if !(SIZE..=LONGEST).contains(&size) || minor == 0 && size != SIZE {
        return Err(AbiError::Size { got: size, want: SIZE });
    }
    if kind != BEHAVIOUR {
        return Err(AbiError::Kind(kind));
    }
    let all: [u8; SIZE as usize] = library.read(address).ok_or(AbiError::Outside("description"))?;
    let function = |at: usize, name| match pointer(&all, at) {
        0 => Err(AbiError::Missing(name)),
        address if library.is_code(address) => Ok(address),
        _ => Err(AbiError::Outside(name)),
    };
    let create = function(offset_of!(RawDescription, create), "create")?;
    let destroy = function(offset_of!(RawDescription, destroy), "destroy")?;
    let run = function(offset_of!(RawDescription, run), "run")?;
    // SAFETY: each address is code of the library, and the header gives the functions these types.
    let functions = unsafe {
        Functions {
            create: std::mem::transmute::<usize, Create>(create),
            destroy: std::mem::transmute::<usize, Destroy>(destroy),
            run: std::mem::transmute::<usize, Run>(run),
        }
    };
    let name = text(library, pointer(&all, offset_of!(RawDescription, name)), "name")?;
    let version = text(library, pointer(&all, offset_of!(RawDescription, version)), "version")?;
    Ok(Description { name, version, functions })
}

/// The number of 32 bits at this place.
fn word(octets: &[u8], at: usize) -> u32 {
    let four = octets.get(at..).and_then(|rest| rest.first_chunk::<4>());
    four.map_or(0, |four| u32::from_ne_bytes(*four))
}

/// The pointer at this place, as a number.
fn pointer(octets: &[u8], at: usize) -> usize {
    let eight = octets.get(at..).and_then(|rest| rest.first_chunk::<8>());
    eight.map_or(0, |eight| usize::from_ne_bytes(*eight))
}

/// A text of the library, which ends there.
fn text(library: &MappedLibrary, address: usize, what: &'static str) -> Result<String, AbiError> {
    let mut octets = Vec::new();
    for at in 0..LONGEST_TEXT {
        let [octet] = library.read(address.wrapping_add(at)).ok_or(AbiError::Outside(what))?;
        if octet == 0 {
            let text = String::from_utf8(octets).map_err(|_| AbiError::Text(what))?;
            let is_plain = !text.is_empty() && !text.chars().any(char::is_control);
            return if is_plain { Ok(text) } else { Err(AbiError::Text(what)) };
        }
        octets.push(octet);
    }
    Err(AbiError::Text(what))
}
