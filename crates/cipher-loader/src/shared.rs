//! A shared library that is no cipher, under the rules that hold for each one: a file that nobody but root can change,
//! with the digest that the configuration has, read once into sealed memory, without code that anything else brings in.
//!
//! What enters: a path, a digest, and the symbol that the library must export. What leaves: the library in this
//! process's memory, in which addresses are numbers until they are known to lead into it. [`crate::trial::run_library`]
//! runs it in a process apart first.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use cipher_manifest::Digest;

use crate::elf;
use crate::error::LoadError;
use crate::files::{Folder, Trust};
use crate::library::Mapped;
use crate::maps::Maps;
use crate::sealed::Sealed;

/// A library under every rule that needs none of its code.
#[derive(Debug)]
pub struct SharedLibrary {
    path: PathBuf,
    digest: Digest,
    sealed: Sealed,
}

impl SharedLibrary {
    /// Read a library, and apply every rule that needs none of its code. `sha256` is its digest from the configuration;
    /// `None` goes with [`Trust::Caller`] alone: nothing is compared.
    ///
    /// # Errors
    /// [`LoadError`]: the first rule that is broken.
    pub fn examine(
        path: &Path,
        sha256: Option<Digest>,
        trust: Trust,
        symbol: &'static CStr,
    ) -> Result<SharedLibrary, LoadError> {
        if trust == Trust::Root && sha256.is_none() {
            return Err(LoadError::NoDigest { file: path.to_owned() });
        }
        let (folder, name) = Folder::of(path, trust)?;
        let sealed = folder.seal(&name)?;
        let octets =
            sealed.octets().map_err(|error| LoadError::System("cannot read sealed memory", error))?;
        let got = Digest::of(&octets);
        if let Some(want) = sha256.filter(|want| *want != got) {
            return Err(LoadError::Digest { file: path.to_owned(), want, got, from: "the configuration" });
        }
        elf::check(&octets, symbol).map_err(|why| LoadError::Elf { file: path.to_owned(), why })?;
        Ok(SharedLibrary { path: path.to_owned(), digest: got, sealed })
    }

    /// The path that it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The digest of what was read, and not of what is on the disk now.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Map the library into this process, for good; its constructors run.
    ///
    /// # Errors
    /// [`LoadError`]: the dynamic loader refuses it, or the system does not say where it is.
    pub fn map(self) -> Result<MappedLibrary, LoadError> {
        let maps = Maps::open().map_err(|error| LoadError::System("cannot open /proc/self/maps", error))?;
        let name = self.path.display().to_string();
        Mapped::open(self.sealed, &name, &maps).map(MappedLibrary)
    }
}

impl AsFd for SharedLibrary {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sealed.as_fd()
    }
}

/// A library in the memory of this process, where it stays until the process ends.
pub struct MappedLibrary(pub(crate) Mapped);

impl MappedLibrary {
    /// The address of a symbol, if it is code of the library.
    pub fn code(&self, symbol: &CStr) -> Option<usize> {
        self.0.code(symbol)
    }

    /// Whether an address is code of the library.
    pub fn is_code(&self, address: usize) -> bool {
        self.0.ranges().is_code(address)
    }

    /// So many octets from this address on; `None` if they do not all lie in the library.
    pub fn read<const N: usize>(&self, address: usize) -> Option<[u8; N]> {
        if address == 0 || self.0.ranges().readable(address) < N {
            return None;
        }
        let mut octets = [0; N];
        // SAFETY: so many octets of the library's own mapping can be read from here on, and the library stays mapped.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, octets.as_mut_ptr(), N) };
        Some(octets)
    }
}

impl std::fmt::Debug for MappedLibrary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MappedLibrary").finish_non_exhaustive()
    }
}
