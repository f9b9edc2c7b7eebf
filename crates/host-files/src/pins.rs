//! Executables that policy knows by what is in them: what is known of the file at each path.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use api::{PinnedFile, PinnedState};
use policy::Digest;

use crate::digest::sha256;

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

/// The document that says what is known of a pinned path.
pub fn pinned_file(pin: &Pin) -> PinnedFile {
    let (state, found) = match &pin.state {
        PinState::Missing => (PinnedState::Missing, None),
        PinState::Unverified(_) => (PinnedState::Unverified, None),
        PinState::Verified(digest) => (PinnedState::Verified, Some(digest)),
        PinState::Differs(digest) => (PinnedState::Differs, Some(digest)),
        PinState::Unknown(_) => (PinnedState::Unknown, None),
    };
    PinnedFile {
        path: pin.path.display().to_string(),
        state,
        text: pin.state.to_string(),
        found: found.map(ToString::to_string),
        wanted: pin.wanted.iter().map(ToString::to_string).collect(),
    }
}

/// The files at the pinned paths of a policy that need not be in force, hashed now.
pub fn on_this_host(pins: &policy::Pins) -> Vec<PinnedFile> {
    let look = |(path, digests): (&String, &BTreeSet<Digest>)| {
        let path = PathBuf::from(path);
        let state = match sha256(&path) {
            Ok(digest) if digests.contains(&digest) => PinState::Verified(digest),
            Ok(digest) => PinState::Differs(digest),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => PinState::Missing,
            Err(error) => PinState::Unknown(error.to_string()),
        };
        pinned_file(&Pin { path, wanted: digests.iter().copied().collect(), state })
    };
    pins.iter().map(look).collect()
}
