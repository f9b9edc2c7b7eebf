//! The loader of ciphers from shared libraries (issue 23 items 3 and 5): ABI version 1, `include/ravelin_cipher.h`.
//!
//! What enters: the path and the digest of a manifest. What leaves: a [`LoadedCipher`], which is a
//! [`crypto::custom::CustomCipher`], or an error that says which rule was broken. On the way:
//!
//! | module | is |
//! |---|---|
//! | `files` | the files that nobody but root can change, each read once; the library goes into sealed memory |
//! | `elf` | the rules for the library that need none of its code |
//! | [`trial`] | a child process under a filter of system calls runs constructors, vectors and short checks first |
//! | `abi` | the description that the library gives, compared with the manifest |
//! | `context` | the memory of a key |
//! | `library` | calls |
//!
//! A library that was loaded is code of this process, and can do what the process can. The trial finds mistakes, and it
//! is no border against an author who means harm.

mod abi;
mod checks;
mod context;
mod elf;
mod error;
mod files;
mod library;
mod maps;
mod sealed;
pub mod trial;

pub use elf::ElfError;
pub use error::{AbiError, FileFault, LoadError};
pub use files::Trust;
pub use library::LoadedCipher;
pub use trial::{Trial, TrialError};

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cipher_manifest::{Digest, Manifest, Vectors};

/// What is to be loaded.
#[derive(Clone, Debug)]
pub struct Request {
    /// The path of the manifest; library and vectors are beside it.
    pub manifest: PathBuf,
    /// The digest of the manifest, from the configuration. `None` is for the command line alone: nothing is compared.
    pub sha256: Option<Digest>,
    /// Who may have written the files.
    pub trust: Trust,
    /// The program that [`trial::child_main`] runs in.
    pub trial: Trial,
}

/// A cipher that passed everything.
#[derive(Debug)]
pub struct Loaded {
    /// The cipher.
    pub cipher: Arc<LoadedCipher>,
    /// Its manifest.
    pub manifest: Manifest,
    /// What was read.
    pub digests: Digests,
    /// The vectors, for the known answers that are repeated.
    pub vectors: Vectors,
    /// The vectors that it passed.
    pub counts: cipher_manifest::vectors::Counts,
}

/// The digests of the three files, of what was read and not of what is on the disk now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digests {
    /// The manifest.
    pub manifest: Digest,
    /// The shared library.
    pub library: Digest,
    /// The test vectors.
    pub vectors: Digest,
}

/// Everything that is known of a cipher before any instruction of it has run.
#[derive(Debug)]
pub struct Examined {
    /// The manifest.
    pub manifest: Manifest,
    /// The test vectors.
    pub vectors: Vectors,
    /// What was read.
    pub digests: Digests,
    pub(crate) texts: Texts,
    pub(crate) library: sealed::Sealed,
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
    let (folder, name) = files::Folder::of(manifest, trust)?;
    let text = folder.read(&name, Manifest::MOST_OCTETS)?;
    let got = sealed::digest(&text);
    if let Some(want) = sha256.filter(|want| *want != got) {
        return Err(LoadError::Digest { file: manifest.to_owned(), want, got, from: "the configuration" });
    }
    let parsed = Manifest::parse(&text).map_err(|error| LoadError::document(manifest, error))?;
    let same = |file: &str, want: Digest, got: Digest| {
        let file = folder.path(file);
        if want == got { Ok(got) } else { Err(LoadError::Digest { file, want, got, from: "the manifest" }) }
    };
    let vector_text = folder.read(parsed.vectors.file.as_ref(), Vectors::MOST_OCTETS)?;
    let vectors_digest = same(&parsed.vectors.file, parsed.vectors.sha256, sealed::digest(&vector_text))?;
    let vectors = Vectors::parse(&vector_text)
        .map_err(|error| LoadError::document(&folder.path(&parsed.vectors.file), error))?;
    let library = folder.seal(parsed.library.file.as_ref())?;
    let octets = library.octets().map_err(|error| LoadError::System("cannot read sealed memory", error))?;
    let library_digest = same(&parsed.library.file, parsed.library.sha256, sealed::digest(&octets))?;
    elf::check(&octets).map_err(|why| LoadError::Elf { file: folder.path(&parsed.library.file), why })?;
    Ok(Examined {
        digests: Digests { manifest: got, library: library_digest, vectors: vectors_digest },
        manifest: parsed,
        vectors,
        texts: Texts { manifest: text, vectors: vector_text },
        library,
    })
}

impl Examined {
    /// Try the library in a process apart, and load it into this one.
    ///
    /// # Errors
    /// [`LoadError`]: the first rule that is broken, with a remedy.
    pub fn load(self, trial: &Trial) -> Result<Loaded, LoadError> {
        trial::run(trial, &self).map_err(|why| LoadError::trial(&self.manifest, why))?;
        let Examined { manifest, vectors, digests, texts: _, library } = self;
        let cipher = LoadedCipher::open(library, &manifest)?;
        // Once more in this process: the library that answers here is the one that answered there.
        let counts = cipher_manifest::vectors::run(&vectors, &cipher)
            .map_err(|error| LoadError::trial(&manifest, TrialError::Vector(error)))?;
        Ok(Loaded { cipher: Arc::new(cipher), manifest, digests, vectors, counts })
    }
}

/// Read, examine, try and load a cipher.
///
/// The trial starts a program, so this comes before a process forbids itself to do so.
///
/// # Errors
/// [`LoadError`]: the first rule that is broken, with a remedy.
pub fn load(request: &Request) -> Result<Loaded, LoadError> {
    examine(&request.manifest, request.sha256, request.trust)?.load(&request.trial)
}
