//! The state of files that policy names by their digests, between two looks at them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use host_files::PinState;
use sockmon::Finding;
use tokio::sync::mpsc::Sender;

/// Octets that are hashed while policy is loaded, so that programs of usual size are refused for no moment: some milliseconds.
pub(super) const AT_ONCE: u64 = 16 << 20;

/// What is going on.
#[derive(Default)]
pub(super) struct Pins {
    /// Where findings go; `None`: nobody reads them.
    pub(super) found: Option<Sender<Vec<Finding>>>,
    /// The thread reads files.
    pub(super) busy: bool,
    /// Something is to be looked at before the next round.
    pub(super) again: bool,
    /// What was told last.
    pub(super) told: BTreeMap<PathBuf, PinState>,
}

impl Pins {
    /// Something is to be looked at before the next round.
    pub(super) fn look_soon(&mut self) {
        self.again = true;
    }
}
