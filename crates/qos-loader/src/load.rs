//! The way of a library from its file to calls: examined, tried, mapped.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cipher_loader::shared::SharedLibrary;
use cipher_loader::{Trial, Trust};
use cipher_manifest::Digest;
use qos::behaviour::foreign::{Instance, Library, LibraryState, Maker, SharedMaker};

use crate::abi::{self, Description, SYMBOL};
use crate::attached::Attached;
use crate::error::LoadError;
use crate::trial::{self, Order};

/// The library that is to be loaded, with what is known of it.
#[derive(Clone, Debug)]
pub struct Request {
    /// The path of the library.
    pub path: PathBuf,
    /// The digest of the library, from the configuration. `None` goes with [`Trust::Caller`] alone: nothing is compared.
    pub sha256: Option<Digest>,
    /// Who may have written the file.
    pub trust: Trust,
    /// The program that [`trial::child_main`] runs in.
    pub trial: Trial,
}

/// A library that passed everything, from which components are attached.
#[derive(Debug)]
pub struct Component {
    description: Description,
    digest: Digest,
    path: PathBuf,
}

impl Component {
    /// The name that the library gives itself.
    pub fn name(&self) -> &str {
        &self.description.name
    }

    /// The version that the library gives itself.
    pub fn version(&self) -> &str {
        &self.description.version
    }

    /// The digest of what was read, and not of what is on the disk now.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The path that the library was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Load a library that the configuration names, as a daemon does: the file and the folders above it are root's, and the
/// program that runs now has the hidden command [`trial::COMMAND`].
///
/// # Errors
/// [`LoadError`]: the first rule that is broken, with a remedy.
pub fn load_named(name: &str, path: &Path, sha256: Digest) -> Result<Library, LoadError> {
    let loaded = load(&Request {
        path: path.to_owned(),
        sha256: Some(sha256),
        trust: Trust::Root,
        trial: Trial::own([trial::COMMAND]),
    })?;
    let state = LibraryState::Loaded(SharedMaker(Arc::new(loaded)));
    Ok(Library { name: name.to_owned(), state })
}

impl Maker for Component {
    fn make(
        &self,
        parameters: &str,
        ports: u32,
        secret: u64,
        budget_ns: u64,
    ) -> Result<Box<dyn Instance>, String> {
        let made = Attached::new(self.description.functions, parameters, ports, secret, budget_ns)?;
        Ok(Box::new(made))
    }
}

/// Read, examine, try and map a library.
///
/// The trial starts a program and mapping makes memory executable, so this comes before a process forbids itself both.
///
/// # Errors
/// [`LoadError`]: the first rule that is broken, with a remedy.
pub fn load(request: &Request) -> Result<Component, LoadError> {
    let library = SharedLibrary::examine(&request.path, request.sha256, request.trust, SYMBOL)?;
    trial::run(&request.trial, &library, &Order::at_loading())
        .map_err(|why| LoadError::Trial { path: request.path.clone(), why })?;
    let digest = library.digest();
    let mapped = library.map()?;
    let path = request.path.clone();
    let description = abi::describe(&mapped).map_err(|why| LoadError::Abi { path: path.clone(), why })?;
    Ok(Component { description, digest, path })
}
