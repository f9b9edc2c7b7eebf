//! The way of a cipher from files to calls: examined, tried, loaded.

use std::path::PathBuf;
use std::sync::Arc;

use cipher_manifest::vectors::{Counts, run};
use cipher_manifest::{Digest, Manifest, Vectors};

use crate::error::LoadError;
use crate::examined::{Digests, Examined, examine};
use crate::files::Trust;
use crate::library::LoadedCipher;
use crate::trial::{self, Trial};
use crate::trial_error::TrialError;

/// What is to be loaded.
#[derive(Clone, Debug)]
pub struct Request {
    /// The path of the manifest; library and vectors are beside it.
    pub manifest: PathBuf,
    /// The digest of the manifest, from the configuration. `None` goes with [`Trust::Caller`] alone: nothing is compared.
    pub sha256: Option<Digest>,
    /// Who may have written the files.
    pub trust: Trust,
    /// The program that [`trial::child_main`] runs in.
    pub trial: Trial,
}

/// A cipher that passed everything.
#[derive(Debug)]
pub struct Loaded {
    /// The cipher, ready to make keys.
    pub cipher: Arc<LoadedCipher>,
    /// The manifest of the cipher.
    pub manifest: Manifest,
    /// The digests of what was read.
    pub digests: Digests,
    /// The vectors, for the known answers that are repeated.
    pub vectors: Vectors,
    /// The vectors that it passed.
    pub counts: Counts,
}

impl Loaded {
    /// Try the library in a process apart, and load it into this one.
    ///
    /// # Errors
    /// [`LoadError`]: the first rule that is broken, with a remedy.
    pub fn after_trial(examined: Examined, trial: &Trial) -> Result<Loaded, LoadError> {
        trial::run(trial, &examined).map_err(|why| LoadError::trial(&examined.manifest, why))?;
        let Examined { manifest, vectors, digests, texts: _, library } = examined;
        let cipher = LoadedCipher::open(library, &manifest)?;
        // Once more in this process: the library that answers here is the one that answered there.
        let counts =
            run(&vectors, &cipher).map_err(|error| LoadError::trial(&manifest, TrialError::Vector(error)))?;
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
    Loaded::after_trial(examine(&request.manifest, request.sha256, request.trust)?, &request.trial)
}
