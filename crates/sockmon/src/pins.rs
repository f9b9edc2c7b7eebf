//! Executables that policy knows by what is in them: which files are to be hashed, and what the kernel half hears of it.
//!
//! What enters: paths with digests, the files there. What leaves: for every file whose digest is one of those, its change time
//! in `executables`. The kernel half compares that with the file at each exec, so what was changed since is refused, however
//! late it is noticed here (docs/design/0012).

use crate::abi::{Executable, Identity};
use crate::digest::{self, Stat};
use crate::error::SockmonError;
use crate::identities::{self, IdentityTables};
use crate::lists::Lists;
use crate::places::Place;
use crate::programs::Maps;
use host_files::{PinState, foreign};
use policy::Digest;
use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A clock that ticks 100 times a second, twice: what changes later than this has another change time.
pub(crate) const TICKS: Duration = Duration::from_millis(20);
/// The least age of a file's change before the file is hashed, on file systems whose change times are whole seconds (or
/// every second one).
pub(crate) const SECONDS: Duration = Duration::from_secs(3);

/// A path that must have a digest, with the file that is there.
#[derive(Clone, Debug)]
pub struct PinnedFile {
    pub(crate) path: PathBuf,
    pub(crate) digests: BTreeSet<Digest>,
    pub(crate) file: Option<(Identity, Arc<OwnedFd>)>,
    /// The change time of the file that `state` speaks of, in nanoseconds since 1970; 0: none.
    pub(crate) version: u64,
    pub(crate) state: PinState,
}

/// A file that is to be hashed, by whatever thread.
#[derive(Debug)]
pub struct Suspect {
    pub(crate) identity: Identity,
    pub(crate) file: Arc<OwnedFd>,
    pub(crate) stat: Stat,
}

impl Suspect {
    /// The size of the file in octets.
    pub fn size(&self) -> u64 {
        self.stat.size
    }

    /// Hash the file, which takes as long as reading it.
    pub fn examine(&self) -> Finding {
        let found = digest::of_version(self.file.as_fd(), &self.stat);
        Finding { identity: self.identity, version: self.stat.version, found }
    }
}

/// The result of hashing one file.
#[derive(Debug)]
pub struct Finding {
    pub(crate) identity: Identity,
    pub(crate) version: u64,
    pub(crate) found: Result<Digest, String>,
}

/// The pinned places of a policy.
pub fn of(places: &[Place], held: &[Arc<OwnedFd>]) -> Vec<PinnedFile> {
    let pinned = |place: &Place| {
        let descriptor = place.held.and_then(|at| held.get(at)).cloned();
        let file = place.file.zip(descriptor);
        let state = if file.is_some() { PinState::Unverified(None) } else { PinState::Missing };
        Some(PinnedFile {
            path: place.path.clone(),
            digests: place.digests.clone()?,
            file,
            version: 0,
            state,
        })
    };
    places.iter().filter_map(pinned).collect()
}

/// The pinned files, with what was known before of the same ones.
pub fn carried(mut pinned: Vec<PinnedFile>, before: &[PinnedFile]) -> Vec<PinnedFile> {
    for pin in &mut pinned {
        let Some((identity, _)) = &pin.file else { continue };
        let old = before.iter().find(|old| old.file.as_ref().is_some_and(|(known, _)| known == identity));
        if let Some(old) = old
            && let PinState::Differs(digest) = &old.state
            && !pin.digests.contains(digest)
        {
            (pin.version, pin.state) = (old.version, old.state.clone());
        }
    }
    pinned
}

/// Files that were verified, and whose digest is none of those that the next policy has for their list.
pub fn stale(
    known: &[(Identity, Executable)],
    wanted: &IdentityTables,
    lists: &Lists,
    places: &[Place],
) -> Vec<Identity> {
    let digests: HashMap<u32, &BTreeSet<Digest>> = places
        .iter()
        .filter_map(|place| Some((*lists.places.get(&place.path)?, place.digests.as_ref()?)))
        .collect();
    let is_stale = |(identity, executable): &&(Identity, Executable)| {
        let list = wanted.executables.get(identity).unwrap_or(&executable.list);
        let unwanted = |digests: &&BTreeSet<Digest>| !digests.contains(&Digest(executable.digest));
        executable.version != 0 && digests.get(list).is_some_and(unwanted)
    };
    known.iter().filter(is_stale).map(|(identity, _)| *identity).collect()
}

/// The file is not what policy says: nobody who runs it has the policy that names it.
pub fn doubt(maps: &Maps, identity: &Identity) -> Result<(), SockmonError> {
    let Some(known) = identities::known(maps, identity)? else { return Ok(()) };
    maps.write("executables", identity, &Executable { version: 0, digest: [0; 32], ..known })
}

/// The reason that is given if the state of a file is not known.
pub(crate) const NO_ANSWER: &str = "the file system there does not answer";

/// The files as they are, by their paths.
pub(crate) fn stats(pinned: &[PinnedFile]) -> HashMap<PathBuf, Result<Stat, String>> {
    let files: HashMap<PathBuf, Arc<OwnedFd>> =
        pinned.iter().filter_map(|pin| Some((pin.path.clone(), Arc::clone(&pin.file.as_ref()?.1)))).collect();
    let paths: Vec<PathBuf> = files.keys().cloned().collect();
    let look = move |path: &Path| {
        let file = files.get(path).ok_or_else(|| NO_ANSWER.to_owned())?;
        Stat::of(file.as_fd()).map_err(|error| error.to_string())
    };
    let answers = foreign::each(&paths, look);
    paths.into_iter().zip(answers).filter_map(|(path, answer)| Some((path, answer?))).collect()
}
