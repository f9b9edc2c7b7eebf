//! The files of a cipher under every rule that needs no code of the library.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use cipher_manifest::{Digest, Manifest, Vectors};

use crate::elf;
use crate::error::LoadError;
use crate::files::{Folder, Trust};
use crate::sealed::Sealed;

/// The digests of the three files, of what was read and not of what is on the disk now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digests {
    /// The manifest of the cipher.
    pub manifest: Digest,
    /// The digest of the shared library.
    pub library: Digest,
    /// The test vectors of the cipher.
    pub vectors: Digest,
}

/// Everything that is known of a cipher before any instruction of it has run.
#[derive(Debug)]
pub struct Examined {
    /// The manifest of the cipher.
    pub manifest: Manifest,
    /// The test vectors of the cipher.
    pub vectors: Vectors,
    /// The digests of what was read.
    pub digests: Digests,
    pub(crate) texts: Texts,
    pub(crate) library: Sealed,
}

impl Examined {
    /// The library in sealed memory.
    pub fn library(&self) -> BorrowedFd<'_> {
        self.library.as_fd()
    }

    /// The manifest in sealed memory, as it was read.
    ///
    /// # Errors
    /// The system gives no such memory.
    pub fn sealed_manifest(&self) -> io::Result<OwnedFd> {
        Sealed::new("ravelin-manifest", &self.texts.manifest).map(OwnedFd::from)
    }
}

/// The octets of the manifest and of the vectors, which the trial reads again.
#[derive(Debug)]
pub(crate) struct Texts {
    pub(crate) manifest: Vec<u8>,
    pub(crate) vectors: Vec<u8>,
}

/// Read the files and apply every rule that needs no code of the library.
///
/// # Errors
/// [`LoadError`]: the first rule that is broken.
pub fn examine(manifest: &Path, sha256: Option<Digest>, trust: Trust) -> Result<Examined, LoadError> {
    if trust == Trust::Root && sha256.is_none() {
        return Err(LoadError::NoDigest { file: manifest.to_owned() });
    }
    let (folder, name) = Folder::of(manifest, trust)?;
    let text = folder.read(&name, Manifest::MOST_OCTETS)?;
    let got = Digest::of(&text);
    if let Some(want) = sha256.filter(|want| *want != got) {
        return Err(LoadError::Digest { file: manifest.to_owned(), want, got, from: "the configuration" });
    }
    let parsed = Manifest::parse(&text).map_err(|error| LoadError::document(manifest, error))?;
    let same = |file: &str, want: Digest, got: Digest| {
        let file = folder.path(file);
        if want == got { Ok(got) } else { Err(LoadError::Digest { file, want, got, from: "the manifest" }) }
    };
    let vector_text = folder.read(parsed.vectors.file.as_ref(), Vectors::MOST_OCTETS)?;
    let vectors_digest = same(&parsed.vectors.file, parsed.vectors.sha256, Digest::of(&vector_text))?;
    let vectors = Vectors::parse(&vector_text)
        .map_err(|error| LoadError::document(&folder.path(&parsed.vectors.file), error))?;
    let library = folder.seal(parsed.library.file.as_ref())?;
    let octets = library.octets().map_err(|error| LoadError::System("cannot read sealed memory", error))?;
    let library_digest = same(&parsed.library.file, parsed.library.sha256, Digest::of(&octets))?;
    elf::check(&octets, elf::SYMBOL)
        .map_err(|why| LoadError::Elf { file: folder.path(&parsed.library.file), why })?;
    Ok(Examined {
        digests: Digests { manifest: got, library: library_digest, vectors: vectors_digest },
        manifest: parsed,
        vectors,
        texts: Texts { manifest: text, vectors: vector_text },
        library,
    })
}
