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
//! | [`subject`] | the cipher in such a child, for the checks of other rooms |
//! | `abi` | the description that the library gives, compared with the manifest |
//! | `context` | the memory of a key |
//! | `library` | calls |
//! | [`confined`] | a process that runs a library and can do nothing else |
//! | [`cycles`] | the time stamp counter, for those who measure |
//! | [`shared`] | a library that is no cipher, under the same rules of files, memory and trial: for other rooms |
//! | [`valgrind`] | which octets count as never written, for the check of constant time |
//!
//! A library that was loaded is code of this process, and can do what the process can. The trial finds mistakes, and it
//! is no border against an author who means harm.

mod abi;
mod checks;
pub mod confined;
mod context;
pub mod cycles;
mod elf;
mod error;
mod examined;
mod files;
mod library;
mod load;
mod maps;
mod registers;
mod sealed;
pub mod shared;
pub mod subject;
pub mod trial;
mod trial_error;
pub mod valgrind;

pub use elf::ElfError;
pub use error::{AbiError, FileFault, LoadError};
pub use examined::{Digests, Examined, examine};
pub use files::Trust;
pub use library::{Form, LoadedCipher};
pub use load::{Loaded, Request, load};
pub use trial::Trial;
pub use trial_error::{Place, TrialError};
