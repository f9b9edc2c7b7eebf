//! Pins: the digests that the files of a policy's subjects must have.

use std::collections::{BTreeMap, BTreeSet};

use crate::ast::{Subject, executables};
use crate::digest::Digest;

/// The digests that files may have, by their paths. A path that one subject pins is pinned for all.
pub type Pins = BTreeMap<String, BTreeSet<Digest>>;

/// The pins of one subject: those of its program and of its `from`.
pub(crate) fn pins(subject: &Subject) -> Pins {
    let mut out = Pins::new();
    executables(subject).filter(|executable| !executable.digests.is_empty()).for_each(|executable| {
        join(
            &mut out,
            &executable.name.text,
            &executable.digests.iter().map(|(digest, _)| *digest).collect(),
        );
    });
    out
}

/// Adds the digests of a path. Where a path has some already, only those in both sets stay.
pub(crate) fn join(pins: &mut Pins, path: &str, digests: &BTreeSet<Digest>) {
    match pins.get_mut(path) {
        Some(known) => known.retain(|digest| digests.contains(digest)),
        None => drop(pins.insert(path.into(), digests.clone())),
    }
}
