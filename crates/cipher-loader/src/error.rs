//! The errors of loading: where, why, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use cipher_manifest::{Digest, DocumentError, Manifest};
use crypto::custom::DescriptionError;

use crate::elf::ElfError;
use crate::trial_error::TrialError;

/// The reason why a file, or a folder above it, is not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileFault {
    /// The path is not absolute, or it has `..` in it.
    #[error("the path is not absolute, or goes back by `..`")]
    Path,
    /// Somebody else than root owns it.
    #[error("user {0} owns it, and not root")]
    Owner(u32),
    /// The group or others may write it.
    #[error("its mode {0:04o} lets the group or others write it")]
    Writable(u32),
    /// It is a symbolic link.
    #[error("it is a symbolic link")]
    Link,
    /// It is no regular file.
    #[error("it is no regular file")]
    Kind,
    /// It is too long.
    #[error("it has more than {0} octets")]
    Length(usize),
    /// The system refuses to open or read it.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// The part of a library's description that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AbiError {
    /// The library does not have the one symbol.
    #[error("it does not export ravelin_cipher_v1")]
    Symbol,
    /// The library describes no cipher, or none with the manifest's name.
    #[error("none of its {count} ciphers has the manifest's name {name}")]
    Name {
        /// The name in the manifest.
        name: String,
        /// The number of descriptions.
        count: u32,
    },
    /// The library has more descriptions than a library has.
    #[error("it describes more than 64 ciphers, or its list has no end")]
    Endless,
    /// The description was made for another ABI.
    #[error("it was made for ABI {major}.{minor}, and this host has 1.0")]
    Version {
        /// The major number of the library's.
        major: u32,
        /// The minor number of the library's.
        minor: u32,
    },
    /// The size of the description does not fit its version.
    #[error("its struct_size is {got}, and ABI version 1.0 has {want} octets")]
    Size {
        /// What the library says.
        got: u32,
        /// What the version has.
        want: u32,
    },
    /// A pointer leads out of the library.
    #[error("its {0} points out of the library")]
    Outside(&'static str),
    /// A text has no end, or is not UTF-8.
    #[error("its {0} has no end, or is no UTF-8")]
    Text(&'static str),
    /// A number has no meaning.
    #[error("its {what} is {got}: {want}")]
    Number {
        /// The field that is wrong.
        what: &'static str,
        /// What it is in the library.
        got: u64,
        /// What it may be.
        want: &'static str,
    },
    /// The description is none that Ravelin can use.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// Library and manifest differ.
    #[error("its {what} is {got}, and the manifest says {want}")]
    Manifest {
        /// The field of the description.
        what: &'static str,
        /// The value in the library.
        got: String,
        /// The value in the manifest.
        want: String,
    },
    /// A function that this kind must have is NULL.
    #[error("its function {0} is NULL, and a cipher of its kind must have it")]
    Missing(&'static str),
    /// A function that this kind cannot have is there.
    #[error("its function {0} is not NULL, and a cipher of its kind or block length has none")]
    Surplus(&'static str),
}

/// The reason why a cipher was not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A file or a folder cannot be trusted or read.
    #[error("{}: {why}", path.display())]
    File {
        /// The file or the folder.
        path: PathBuf,
        /// What is wrong with it.
        why: FileFault,
    },
    /// A file has another content than was configured.
    #[error("{}: its SHA-256 is {got}, and {from} says {want}", file.display())]
    Digest {
        /// The path of the file.
        file: PathBuf,
        /// The digest that was expected.
        want: Digest,
        /// The digest of what was read.
        got: Digest,
        /// Where the expected one stands.
        from: &'static str,
    },
    /// A daemon is to load a cipher whose manifest nobody has pinned.
    #[error("{}: no SHA-256 of it is configured", file.display())]
    NoDigest {
        /// The path of the manifest.
        file: PathBuf,
    },
    /// A document cannot be understood.
    #[error("{}: {why}", file.display())]
    Document {
        /// The path of the file.
        file: PathBuf,
        /// The place in it, and the reason.
        why: DocumentError,
    },
    /// The library breaks a rule that needs none of its code.
    #[error("{}: {why}", file.display())]
    Elf {
        /// The path of the file.
        file: PathBuf,
        /// The rule that it breaks.
        why: ElfError,
    },
    /// The dynamic loader refuses the library.
    #[error("{library}: the dynamic loader refuses it: {why}")]
    Link {
        /// The file name in the manifest.
        library: String,
        /// What the dynamic loader says.
        why: String,
    },
    /// The description in the library cannot be used.
    #[error("{library}: {why}")]
    Abi {
        /// The file name in the manifest.
        library: String,
        /// What is wrong with it.
        why: AbiError,
    },
    /// The cipher did not pass the trial.
    #[error("{library}: {why}")]
    Trial {
        /// The file name in the manifest.
        library: String,
        /// What happened in the trial.
        why: TrialError,
    },
    /// This system cannot do what is needed.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
}

impl LoadError {
    pub(crate) fn document(file: &Path, why: DocumentError) -> LoadError {
        LoadError::Document { file: file.to_owned(), why }
    }

    pub(crate) fn trial(manifest: &Manifest, why: TrialError) -> LoadError {
        LoadError::Trial { library: manifest.library.file.clone(), why }
    }

    pub(crate) fn abi(manifest: &Manifest, why: AbiError) -> LoadError {
        LoadError::Abi { library: manifest.library.file.clone(), why }
    }

    /// What an administrator or an author can do.
    pub fn remedy(&self) -> &'static str {
        match self {
            LoadError::File { why, .. } => match why {
                FileFault::Path => "write the whole path, from / on",
                FileFault::Owner(_) => {
                    "have root copy the file to a folder of root's own, or `chown root` it"
                }
                FileFault::Writable(_) => {
                    "install it below folders that only root can write, as /etc/ravelin; its own files need `chmod go-w`"
                }
                FileFault::Link => "write the path that the link leads to",
                FileFault::Kind => "name a file; devices, pipes and folders are not read",
                FileFault::Length(_) => "see that it is the right file; make it shorter",
                FileFault::System(_) => "see that the file is there and can be read",
            },
            LoadError::Digest { from, .. } if *from == "the manifest" => {
                "if the file is the right one, write its digest into the manifest (`sha256sum`), else copy the file again"
            }
            LoadError::Digest { .. } => {
                "if the file is the right one, write its digest into the configuration (`sha256sum`)"
            }
            LoadError::NoDigest { .. } => "write the digest that `sha256sum` prints into the configuration",
            LoadError::Document { why, .. } => why.remedy(),
            LoadError::Elf { why, .. } => why.remedy(),
            LoadError::Link { .. } => {
                "link the library against libc alone, and see that no symbol is undefined"
            }
            LoadError::Abi { .. } => {
                "correct the library's description or the manifest; include/ravelin_cipher.h says how"
            }
            LoadError::Trial { .. } => {
                "the author corrects the library; examples/ciphers/try.py runs its vectors where a debugger can be used"
            }
            LoadError::System(..) => {
                "see what the system's log says; the loader needs memfd, seccomp and locked memory"
            }
        }
    }
}
