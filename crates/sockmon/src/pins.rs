//! Executables that policy knows by what is in them: which files are to be hashed, and what the kernel half hears of it.
//!
//! What enters: paths with digests, the files there. What leaves: for every file whose digest is one of those, its change time
//! in `executables`. The kernel half compares that with the file at each exec, so what was changed since is refused, however
//! late it is noticed here (docs/design/0012).

use crate::abi::{Executable, Identity};
use crate::adopt;
use crate::digest::{self, Stat};
use crate::error::SockmonError;
use crate::foreign;
use crate::identities::{self, Wanted};
use crate::lists::Lists;
use crate::monitor::Sockmon;
use crate::places::Place;
use crate::programs::Maps;
use policy::{Digest, Subjects};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A clock that ticks 100 times a second, twice: what changes later than this has another change time.
const TICKS: Duration = Duration::from_millis(20);
/// How long ago a file must have been changed to be hashed, where change times are whole seconds (or every second one).
const SECONDS: Duration = Duration::from_secs(3);

/// What is known of the file at a pinned path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PinState {
    /// There is no file at the path.
    Missing,
    /// The file is to be hashed. With a reason, that must wait.
    Unverified(Option<&'static str>),
    /// The file has a digest that policy asks for.
    Verified(Digest),
    /// The file has this digest, which policy does not ask for.
    Differs(Digest),
    /// The digest of the file cannot be known, for this reason.
    Unknown(String),
}

impl PinState {
    /// Whether its processes have the policy that names them.
    pub fn is_verified(&self) -> bool {
        matches!(self, PinState::Verified(_))
    }
}

impl fmt::Display for PinState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PinState::Missing => f.write_str("there is no file"),
            PinState::Unverified(None) => f.write_str("not verified yet"),
            PinState::Unverified(Some(reason)) => write!(f, "not verified yet: {reason}"),
            PinState::Verified(_) => f.write_str("digest verified"),
            PinState::Differs(found) => write!(f, "digest differs: the file has {found}"),
            PinState::Unknown(reason) => write!(f, "cannot be verified: {reason}"),
        }
    }
}

/// A path of the policy in force that must have a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The path, without symbolic links in its directory.
    pub path: PathBuf,
    /// The digests that it may have.
    pub wanted: Vec<Digest>,
    /// What is known of the file at the path.
    pub state: PinState,
}

/// A path that must have a digest, with the file that is there.
#[derive(Clone, Debug)]
pub struct Pinned {
    path: PathBuf,
    digests: BTreeSet<Digest>,
    file: Option<(Identity, Arc<OwnedFd>)>,
    /// The change time of the file that `state` speaks of, in nanoseconds since 1970; 0: none.
    version: u64,
    state: PinState,
}

/// A file that is to be hashed, by whatever thread.
#[derive(Debug)]
pub struct Suspect {
    identity: Identity,
    file: Arc<OwnedFd>,
    stat: Stat,
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

/// What was found in a file.
#[derive(Debug)]
pub struct Finding {
    identity: Identity,
    version: u64,
    found: Result<Digest, String>,
}

/// The pinned places of a policy.
pub fn of(places: &[Place], held: &[Arc<OwnedFd>]) -> Vec<Pinned> {
    let pinned = |place: &Place| {
        let descriptor = place.held.and_then(|at| held.get(at)).cloned();
        let file = place.file.zip(descriptor);
        let state = if file.is_some() { PinState::Unverified(None) } else { PinState::Missing };
        Some(Pinned { path: place.path.clone(), digests: place.digests.clone()?, file, version: 0, state })
    };
    places.iter().filter_map(pinned).collect()
}

/// The pinned files, with what was known before of the same ones.
pub fn carried(mut pinned: Vec<Pinned>, before: &[Pinned]) -> Vec<Pinned> {
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
    wanted: &Wanted,
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

/// Symbolic links among the pinned paths: what they lead to later is not known at once.
pub fn links<'l>(
    subjects: &'l Subjects,
    links: &'l [(PathBuf, PathBuf)],
) -> impl Iterator<Item = &'l (PathBuf, PathBuf)> {
    let is_pinned = |path: &Path| path.to_str().is_some_and(|path| subjects.pins().contains_key(path));
    links.iter().filter(move |(path, _)| is_pinned(path))
}

/// Why the state of a file is not known.
const NO_ANSWER: &str = "the file system there does not answer";

/// The files as they are, by their paths.
fn stats(pinned: &[Pinned]) -> HashMap<PathBuf, Result<Stat, String>> {
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

impl Sockmon {
    /// The pinned paths of the policy, and what is known of their files.
    pub fn pins(&self) -> Vec<Pin> {
        let pin = |pin: &Pinned| Pin {
            path: pin.path.clone(),
            wanted: pin.digests.iter().copied().collect(),
            state: pin.state.clone(),
        };
        self.pinned.iter().map(pin).collect()
    }

    /// The files that are to be hashed now: those that nobody has looked at as they are. `now` is the time of day since 1970: a
    /// file that was changed a moment ago waits, since another change might have the same time; so does one that is open for
    /// writing, since what is written through a mapping does not change its time.
    pub fn unverified(&mut self, now: Duration) -> Result<Vec<Suspect>, SockmonError> {
        let mut out = Vec::new();
        // Each as it is, before it is asked who has it open.
        let mut suspects = Vec::new();
        let stats = stats(&self.pinned);
        for (at, pin) in self.pinned.iter_mut().enumerate() {
            let Some((identity, file)) = &pin.file else { continue };
            let stat = match stats.get(&pin.path).cloned().unwrap_or_else(|| Err(NO_ANSWER.to_owned())) {
                Ok(stat) => stat,
                Err(error) => {
                    // Whatever was known of it: it is to be looked at again when it can be.
                    (pin.version, pin.state) = (0, PinState::Unknown(error));
                    continue;
                }
            };
            let known = identities::known(&self.loaded.maps, identity)?;
            let known = known.filter(|known| known.version == stat.version && stat.version != 0);
            if let Some(digest) = known.map(|known| Digest(known.digest)).filter(|d| pin.digests.contains(d))
            {
                (pin.version, pin.state) = (stat.version, PinState::Verified(digest));
            } else if pin.version != stat.version
                || matches!(pin.state, PinState::Unverified(_) | PinState::Verified(_))
            {
                (pin.version, pin.state) = (stat.version, PinState::Unverified(None));
                suspects.push((at, *identity, Arc::clone(file), stat));
            }
        }
        let files: Vec<&OwnedFd> = suspects.iter().map(|(_, _, file, _)| file.as_ref()).collect();
        let reports = if files.is_empty() { Vec::new() } else { adopt::files(&self.loaded, &files)? };
        for ((at, identity, file, stat), report) in suspects.into_iter().zip(reports) {
            let Some(pin) = self.pinned.get_mut(at) else { continue };
            let granule = if stat.version.is_multiple_of(1_000_000_000) { SECONDS } else { TICKS };
            let settled =
                now.checked_sub(Duration::from_nanos(stat.version)).is_some_and(|age| age >= granule);
            if !stat.is_trusted {
                let reason =
                    "its file system does not say reliably when a file was changed; put it on a local one";
                pin.state = PinState::Unknown(reason.into());
            } else if report.is_none_or(|report| report.writers > 0) {
                pin.state = PinState::Unverified(Some("it is open for writing"));
            } else if !settled {
                let ahead = now < Duration::from_nanos(stat.version);
                let reason = if ahead {
                    "its change time is in the future; `touch` it"
                } else {
                    "it was changed just now"
                };
                pin.state = PinState::Unverified(Some(reason));
            } else {
                out.push(Suspect { identity, file, stat });
            }
        }
        Ok(out)
    }

    /// Take note of what was found. Processes that run it and were refused so far have their policy when
    /// [`Sockmon::adopt`] has looked at them.
    pub fn judge(&mut self, finding: Finding) -> Result<(), SockmonError> {
        let Finding { identity, version, found } = finding;
        let maps = &self.loaded.maps;
        for pin in &mut self.pinned {
            // Another file by now, or another version: that is to be hashed by itself.
            if pin.version != version || pin.file.as_ref().is_none_or(|(known, _)| *known != identity) {
                continue;
            }
            match &found {
                Ok(digest) if pin.digests.contains(digest) => {
                    let Some(known) = identities::known(maps, &identity)? else { continue };
                    maps.write("executables", &identity, &Executable { version, digest: digest.0, ..known })?;
                    pin.state = PinState::Verified(*digest);
                }
                Ok(digest) => {
                    doubt(maps, &identity)?;
                    pin.state = PinState::Differs(*digest);
                }
                Err(reason) => pin.state = PinState::Unknown(reason.clone()),
            }
        }
        Ok(())
    }

    /// Hash what is to be hashed, as many files as have so many octets together, and take note of it. How many files that were.
    pub fn verify(&mut self, now: Duration, octets: u64) -> Result<usize, SockmonError> {
        let (mut looked, mut left) = (0, octets);
        for suspect in self.unverified(now)? {
            let Some(rest) = left.checked_sub(suspect.size()) else { continue };
            let path = PathBuf::from(format!("/proc/self/fd/{}", suspect.file.as_raw_fd()));
            let suspect = Arc::new(suspect);
            // A file that is not read in time is left to whoever hashes the large ones.
            let Some(finding) = foreign::one(&path, move |_| suspect.examine()) else { continue };
            self.judge(finding)?;
            (looked, left) = (looked + 1, rest);
        }
        if looked > 0 {
            adopt::tasks(&self.loaded)?;
        }
        Ok(looked)
    }
}
