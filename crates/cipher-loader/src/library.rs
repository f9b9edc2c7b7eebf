//! A library that is mapped, and the calls into it.
//!
//! A library stays mapped, and its sealed memory stays open, until the process ends: a key of it may still be in use,
//! and the dynamic loader takes a second library under one path for the first. A take-over exchanges ciphers.

mod aead;
mod batch;
mod block;
mod form;
mod stream;

use std::ffi::{CStr, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use cipher_manifest::Manifest;
use crypto::UnitFailed;
use crypto::custom::{CustomCipher, CustomDescription, CustomKey, Primitive, SetKeyError};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::abi::{self, BAD_LENGTH, OK, Raw, WEAK_KEY};
use crate::context::{Context, ContextError, Pool};
use crate::elf::{self, SYMBOL};
use crate::error::{AbiError, LoadError};
use crate::maps::{Maps, Ranges};
use crate::sealed::Sealed;

pub use form::Form;

/// The descriptions that a library may have.
const MOST_CIPHERS: u32 = 64;

type SetKey = unsafe extern "C" fn(*mut c_void, *const u8, usize) -> i32;
type Describe = unsafe extern "C" fn(u32) -> *const Raw;

/// A cipher in a library that was loaded.
pub struct LoadedCipher {
    inner: Arc<Inner>,
}

/// What keys share with their cipher.
struct Inner {
    description: CustomDescription,
    setkey: SetKey,
    functions: Functions,
    pool: Arc<Pool>,
}

/// The functions of a kind.
#[derive(Clone, Copy)]
enum Functions {
    Block(block::Functions),
    Stream(stream::Functions),
    Aead(aead::Functions),
}

/// A library in the memory of this process.
pub(crate) struct Mapped {
    library: ManuallyDrop<Library>,
    _sealed: ManuallyDrop<Sealed>,
    ranges: Ranges,
}

impl Mapped {
    /// Map a sealed library; its constructors run.
    pub(crate) fn open(sealed: Sealed, name: &str, maps: &Maps) -> Result<Mapped, LoadError> {
        let refused = |why: String| LoadError::Link { library: name.to_owned(), why };
        let path = sealed.path();
        // Without `_sealed` the path could name another library while this one is mapped.
        let sealed = ManuallyDrop::new(sealed);
        // SAFETY: loading runs the library's constructors. Its digest is the one that root configured, and it has
        // passed its trial, or this is the process of the trial.
        let library = unsafe { Library::open(path.to_str().ok(), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| refused(shown(&error)))?;
        let library = ManuallyDrop::new(library);
        let ranges =
            maps.of(&sealed).map_err(|error| LoadError::System("cannot read /proc/self/maps", error))?;
        if ranges.is_empty() {
            return Err(refused("it gave another library".to_owned()));
        }
        Ok(Mapped { library, _sealed: sealed, ranges })
    }

    /// The address of a symbol, if it is code of the library.
    pub(crate) fn code(&self, symbol: &CStr) -> Option<usize> {
        // SAFETY: the symbol is only looked up; its address is a number until it is known to be code of the library.
        let found = unsafe { self.library.get::<*const c_void>(symbol.to_bytes_with_nul()) }.ok()?;
        Some(*found as usize).filter(|address| self.ranges.is_code(*address))
    }

    /// The places of the library in the memory of this process.
    pub(crate) fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// The places of the library that it may write.
    pub(crate) fn written(&self, octets: &[u8]) -> Vec<std::ops::Range<usize>> {
        let Some(start) = self.ranges.start() else { return Vec::new() };
        let address = |offset| start.saturating_add(usize::try_from(offset).unwrap_or(usize::MAX));
        elf::written(octets).into_iter().map(|at| address(at.start)..address(at.end)).collect()
    }

    /// The cipher that has the manifest's name, if its description can be used.
    pub(crate) fn cipher(&self, manifest: &Manifest) -> Result<LoadedCipher, LoadError> {
        self.find(manifest).map_err(|why| LoadError::abi(manifest, why))
    }

    fn find(&self, manifest: &Manifest) -> Result<LoadedCipher, AbiError> {
        // SAFETY: the header gives the symbol this type.
        let describe = unsafe { self.library.get::<Describe>(SYMBOL.to_bytes_with_nul()) };
        let describe = *describe.map_err(|_| AbiError::Symbol)?;
        if !self.ranges.is_code(describe as usize) {
            return Err(AbiError::Outside("function ravelin_cipher_v1"));
        }
        for index in 0..MOST_CIPHERS {
            // SAFETY: the function is code of the library, and the header gives it this type.
            let address = unsafe { describe(index) } as usize;
            if address == 0 {
                let name = manifest.description.name.clone();
                return Err(AbiError::Name { name, count: index });
            }
            let raw = abi::read(address, &self.ranges)?;
            if raw.name(&self.ranges)? == manifest.description.name {
                let description = raw.check(&self.ranges, manifest)?;
                return Ok(LoadedCipher { inner: Arc::new(Inner::new(&raw, description)) });
            }
        }
        Err(AbiError::Endless)
    }
}

/// A message of the dynamic loader with what it says as the reason: one line, not too long.
fn shown(error: &dyn std::error::Error) -> String {
    let reason = std::iter::successors(Some(error), |error| error.source()).last().unwrap_or(error);
    reason.to_string().chars().take(300).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

impl LoadedCipher {
    /// Map a sealed library that passed its trial, and find the manifest's cipher in it.
    pub(crate) fn open(sealed: Sealed, manifest: &Manifest) -> Result<LoadedCipher, LoadError> {
        let maps = Maps::open().map_err(|error| LoadError::System("cannot open /proc/self/maps", error))?;
        Mapped::open(sealed, &manifest.library.file, &maps)?.cipher(manifest)
    }

    /// Prepare a key, and let the library judge its length.
    pub(crate) fn try_key(&self, key: &[u8]) -> Result<(CustomKey, (usize, usize)), KeyError> {
        let setkey = self.inner.setkey;
        // SAFETY: the function is code of the library; the context has the size and alignment that it asked for, and
        // the key has this length.
        let set = |at| unsafe { setkey(at, key.as_ptr(), key.len()) };
        let (context, answer) = match Context::new(&self.inner.pool, set) {
            Ok(made) => made,
            Err(ContextError::Memory(error)) => return Err(KeyError::Memory(error.to_string())),
            Err(ContextError::Outside) => return Err(KeyError::Outside),
        };
        let pages = context.pages();
        match answer {
            OK => Ok((self.inner.key(context), pages)),
            BAD_LENGTH => Err(KeyError::Length),
            WEAK_KEY => Err(KeyError::Weak),
            other => Err(KeyError::Answer(other)),
        }
    }
}

/// The reason why a library gave no key, in more words than [`SetKeyError`] has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("setkey says that the key has the wrong length")]
    Length,
    #[error("setkey says that the key is weak")]
    Weak,
    #[error("setkey answered {0}, which has no meaning")]
    Answer(i32),
    #[error("setkey wrote beside its context")]
    Outside,
    #[error("no memory for a key: {0}")]
    Memory(String),
}

impl From<KeyError> for SetKeyError {
    fn from(error: KeyError) -> SetKeyError {
        match error {
            KeyError::Length => SetKeyError::Length,
            KeyError::Weak => SetKeyError::Weak,
            KeyError::Answer(_) | KeyError::Outside | KeyError::Memory(_) => SetKeyError::Unit(UnitFailed),
        }
    }
}

impl Inner {
    /// Only for a description that [`Raw::check`] has passed: its functions are code of the library.
    fn new(raw: &Raw, description: CustomDescription) -> Inner {
        let functions = match description.primitive {
            Primitive::Block { block_len } => Functions::Block(block::Functions::new(raw, block_len)),
            Primitive::Stream => Functions::Stream(stream::Functions::new(raw)),
            Primitive::Aead { tag_len } => Functions::Aead(aead::Functions::new(raw, tag_len)),
        };
        let length = |length: u32| usize::try_from(length).unwrap_or(usize::MAX);
        Inner {
            description,
            // SAFETY: the address is code of the library, and the header gives the function this type.
            setkey: unsafe { std::mem::transmute::<usize, SetKey>(raw.setkey) },
            functions,
            pool: Pool::new(length(raw.ctx_size), length(raw.ctx_align)),
        }
    }

    fn key(&self, context: Context) -> CustomKey {
        match self.functions {
            Functions::Block(functions) => CustomKey::Block(Box::new(block::Key { context, functions })),
            Functions::Stream(functions) => CustomKey::Stream(Box::new(stream::Key { context, functions })),
            Functions::Aead(functions) => CustomKey::Aead(Box::new(aead::Key { context, functions })),
        }
    }
}

impl CustomCipher for LoadedCipher {
    fn description(&self) -> &CustomDescription {
        &self.inner.description
    }

    fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError> {
        if key.len() != self.inner.description.key_len {
            return Err(SetKeyError::Length);
        }
        self.try_key(key).map(|(key, _)| key).map_err(SetKeyError::from)
    }
}

impl fmt::Debug for LoadedCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedCipher").field("name", &self.inner.description.name).finish_non_exhaustive()
    }
}
