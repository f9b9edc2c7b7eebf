//! The description of a component as the C header lays it out, read with suspicion.
//!
//! Nothing is read and nothing will be called outside of the library's own mapping. Pointers are numbers here until
//! they are known to lead into it.

use std::ffi::{CStr, c_char, c_void};

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
/// The octets that a description of a later minor version may have.
const LONGEST: u32 = 4096;
/// The longest text of a description, with its NUL.
const LONGEST_TEXT: usize = 64;
/// What functions answer where nothing is wrong.
pub(crate) const OK: i32 = 0;

/// The C header's `struct ravelin_qos_settings`.
#[repr(C)]
pub(crate) struct Settings {
    pub(crate) parameters: *const c_char,
    pub(crate) parameters_len: usize,
    pub(crate) secret: u64,
    pub(crate) ports: u32,
    pub(crate) reserved: u32,
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
    let front: [u8; 16] = library.read(address).ok_or(AbiError::Outside("description"))?;
    let (major, minor, size, kind) = (word(&front, 0), word(&front, 4), word(&front, 8), word(&front, 12));
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
    let (create, destroy, run) = (function(32, "create")?, function(40, "destroy")?, function(48, "run")?);
    // SAFETY: each address is code of the library, and the header gives the functions these types.
    let functions = unsafe {
        Functions {
            create: std::mem::transmute::<usize, Create>(create),
            destroy: std::mem::transmute::<usize, Destroy>(destroy),
            run: std::mem::transmute::<usize, Run>(run),
        }
    };
    let name = text(library, pointer(&all, 16), "name")?;
    let version = text(library, pointer(&all, 24), "version")?;
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
