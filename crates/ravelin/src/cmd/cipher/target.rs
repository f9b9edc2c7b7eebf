//! The cipher that a command is about: a manifest, or a name that is compiled in.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cipher_loader::{Examined, Loaded, Trial, Trust, examine};
use crypto::custom::CustomCipher;
use crypto_maes::Maes512;
use documents::ciphers::TRIAL_COMMAND;

use super::check::unusable;

/// A cipher of the command line.
pub enum Target {
    /// The cipher is in a library.
    Library(PathBuf),
    /// The cipher is mAES-512, compiled in.
    Maes512,
}

impl Target {
    /// What the argument names: `maes512` alone is the cipher that is compiled in, everything else a file.
    pub fn of(argument: &Path) -> Target {
        match argument.to_str() {
            Some(Maes512::NAME) => Target::Maes512,
            _ => Target::Library(argument.to_owned()),
        }
    }

    /// The cipher, ready to make keys in this process: a library passed its trial and its vectors before.
    pub fn load(&self) -> anyhow::Result<Arc<dyn CustomCipher>> {
        match self {
            Target::Maes512 => Ok(Arc::new(Maes512::new())),
            Target::Library(manifest) => {
                let examined = examined(manifest)?;
                let loaded = Loaded::after_trial(examined, &trial()).map_err(|error| unusable(&error))?;
                Ok(loaded.cipher)
            }
        }
    }
}

/// The files of a library. Whoever calls answers for them.
pub fn examined(manifest: &Path) -> anyhow::Result<Examined> {
    examine(manifest, None, Trust::Caller).map_err(|error| unusable(&error))
}

/// This program, for a trial.
pub fn trial() -> Trial {
    Trial::own([TRIAL_COMMAND])
}
