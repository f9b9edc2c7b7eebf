//! The policy that a start puts in force: the file's, or the last good one where the file is broken.

use std::path::Path;

use crypto::Suites;

use super::error::RunError;
use crate::classes::ClassCatalogue;
use crate::last_policy;
use crate::policy_store::{Candidate, PolicyStore};

/// What a start puts in force.
pub(super) struct First {
    pub(super) store: PolicyStore,
    pub(super) candidate: Candidate,
    /// Why it is not what the policy file says, if it is not.
    pub(super) instead: Option<String>,
}

impl First {
    /// Read the policy file; where it is broken and `fall_back` is asked for, the text that was last in force without an error.
    ///
    /// # Errors
    /// If there is neither, or what an earlier daemon wrote down cannot be read.
    pub(super) fn read(
        file: &Path,
        suites: &Suites,
        classes: &ClassCatalogue,
        run_dir: &Path,
        fall_back: bool,
    ) -> Result<First, RunError> {
        let read = |error: crate::policy_store::Unreadable| RunError::Policy(error.to_string());
        let store = PolicyStore::new(file, Some(run_dir), suites, classes).map_err(read)?;
        let (candidate, instead) = choose(&store, fall_back)?;
        if candidate.compiled.applications.is_empty() {
            tracing::warn!("{} names no application: nothing is protected", candidate.compiled.file);
        }
        if !candidate.diagnostics.is_empty() {
            tracing::warn!(
                "what the policy says may not be what was meant:\n{}",
                candidate.diagnostics.trim_end()
            );
        }
        Ok(First { store, candidate, instead })
    }

    /// The policy may be on trial. The daemon before can have ended the trial until the lock was ours; from here on it is this one's.
    pub(super) fn settle_trial(&mut self, fall_back: bool) -> Result<(), RunError> {
        let before = self.store.trial.is_some();
        self.store.look_again().map_err(|error| RunError::Policy(error.to_string()))?;
        if !before && self.store.trial.is_none() {
            return Ok(());
        }
        self.store.settle(netio::clock::monotonic()).map_err(|source| RunError::System {
            doing: "putting the policy file right after a policy on trial",
            source,
        })?;
        // What was read before may have come to its end since.
        (self.candidate, self.instead) = choose(&self.store, fall_back)?;
        Ok(())
    }
}

fn choose(store: &PolicyStore, fall_back: bool) -> Result<(Candidate, Option<String>), RunError> {
    let broken = match sound(store) {
        Ok(candidate) => return Ok((candidate, None)),
        Err(broken) => broken,
    };
    match fall_back.then(|| last_good(store)).flatten() {
        Some(candidate) => {
            let text = format!(
                "the policy file is broken; {}, the text that was last in force without an error, is in force in its place:\n{broken}",
                candidate.compiled.file
            );
            tracing::error!("{text}");
            Ok((candidate, Some(text)))
        }
        None => Err(broken),
    }
}

/// At the start, a block with an error has no last good version to fall back to: its program would go out in clear.
fn sound(store: &PolicyStore) -> Result<Candidate, RunError> {
    let candidate = store.read().map_err(|error| RunError::Policy(error.to_string()))?;
    if candidate.errors > 0 || !candidate.refused.is_empty() {
        let file = store.file().display();
        return Err(RunError::Policy(format!(
            "{}\nthe policy {file} has errors; what it protects would be in clear, so it is not put in force",
            candidate.diagnostics.trim_end()
        )));
    }
    Ok(candidate)
}

/// What was kept of the last policy in force, if that can still be put in force whole.
fn last_good(store: &PolicyStore) -> Option<Candidate> {
    let path = last_policy::path(store.file());
    let octets = match std::fs::read(&path) {
        Ok(octets) => octets,
        Err(error) => {
            tracing::debug!("{}: {error}", path.display());
            return None;
        }
    };
    match store.read_text(&path.display().to_string(), &octets) {
        Ok(candidate) if candidate.is_sound() => Some(candidate),
        Ok(candidate) => {
            tracing::warn!("the last good policy is not one any more:\n{}", candidate.diagnostics.trim_end());
            None
        }
        Err(error) => {
            tracing::warn!("the last good policy: {error}");
            None
        }
    }
}
