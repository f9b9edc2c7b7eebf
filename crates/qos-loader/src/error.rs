//! The errors of loading: where, why, and what to do.

use std::path::PathBuf;

use cipher_loader::TrialError;

/// The part of a library's description that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AbiError {
    /// The library does not have the one symbol.
    #[error("it does not export the function ravelin_qos_v1")]
    Symbol,
    /// The description was made for another ABI.
    #[error("it was made for ABI {major}.{minor}, and this host has 1.0")]
    Version {
        /// The major number of the library's ABI.
        major: u32,
        /// The minor number of the library's ABI.
        minor: u32,
    },
    /// The size of the description does not fit its version.
    #[error("its struct_size is {got}, and ABI version 1.0 has {want} octets")]
    Size {
        /// The size that the library says, in octets.
        got: u32,
        /// The size that a description of this version has, in octets.
        want: u32,
    },
    /// The component is of a kind that this host does not attach.
    #[error("it is a component of kind {0}, and this host attaches behaviours (kind 1) alone")]
    Kind(u32),
    /// A pointer leads out of the library.
    #[error("its {0} points out of the library")]
    Outside(&'static str),
    /// A text has no end, is empty, or is not UTF-8.
    #[error("its {0} is empty, has no end within 64 octets, or is no plain UTF-8")]
    Text(&'static str),
    /// A function that a component must have is NULL.
    #[error("its function {0} is NULL")]
    Missing(&'static str),
}

/// The reason why a library was not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A rule that needs none of its code is broken, or the dynamic loader refuses it.
    #[error(transparent)]
    Library(#[from] cipher_loader::LoadError),
    /// The description in the library cannot be used.
    #[error("{}: {why}", path.display())]
    Abi {
        /// The path of the library.
        path: PathBuf,
        /// What is wrong with the description.
        why: AbiError,
    },
    /// The library did not pass its trial.
    #[error("{}: {}", path.display(), trial_text(why))]
    Trial {
        /// The path of the library.
        path: PathBuf,
        /// What happened in the trial.
        why: TrialError,
    },
}

/// What happened in a trial. A refused call is told in words for a component.
pub(crate) fn trial_text(why: &TrialError) -> String {
    why.to_string().replace("which no cipher may", "which no component may")
}

impl LoadError {
    /// What an administrator or an author can do.
    pub fn remedy(&self) -> &'static str {
        match self {
            LoadError::Library(why) => why.remedy(),
            LoadError::Abi { .. } => "build the library against this version's include/ravelin-qos.h",
            LoadError::Trial { .. } => {
                "the author corrects the library; `ravelin qos component check FILE` says more of it"
            }
        }
    }
}
