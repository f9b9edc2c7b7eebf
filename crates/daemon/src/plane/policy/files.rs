//! What a change of policy does with the files, and how that is undone.

use std::fmt::Display;

use super::PolicyInForce;
use crate::policy_store::{Candidate, Previous};
use crate::trial::{Exchanged, Trial};
use documents::api_error::{ApiError, Blame};

/// What becomes of the files with a change.
pub(in crate::plane) enum Files {
    /// The policy file has the text.
    Stay,
    /// The policy file gets this text.
    Install(Vec<u8>),
    /// They tell of a trial, at whose end the policy file may get the text.
    Trial(Trial),
    /// The caller does what is to be done with them afterwards: what is in force is no policy to go back to.
    Later,
}

/// What was done with the files, to be undone.
pub(in crate::plane) enum FileChange {
    /// The files are as they were.
    Nothing,
    /// The policy file had this text, if there was one.
    Installed(Exchanged, Option<Vec<u8>>),
    /// A trial was written down.
    Trial,
}

impl FileChange {
    /// What became of the policy file.
    pub(in crate::plane) fn exchanged(self) -> Exchanged {
        match self {
            FileChange::Installed(exchanged, _) => exchanged,
            FileChange::Nothing | FileChange::Trial => Exchanged::default(),
        }
    }
}

impl PolicyInForce {
    /// What a change with these files makes the policy to go back to; `None`: it stays as it is.
    pub(in crate::plane) fn to_go_back_to(&self, files: &Files) -> Option<Previous> {
        if matches!(files, Files::Later) { None } else { self.store.to_go_back_to() }
    }

    /// Do what a change does with the files; it comes first.
    ///
    /// # Errors
    /// If a file cannot be written: all are as they were then.
    pub(in crate::plane) fn begin_files(
        &mut self,
        files: Files,
        candidate: &Candidate,
    ) -> Result<FileChange, ApiError> {
        match files {
            Files::Stay | Files::Later => Ok(FileChange::Nothing),
            Files::Install(text) => {
                let had = std::fs::read(self.store.file()).ok();
                let exchanged = self.store.install(&text).map_err(|error| unwritten(&error))?;
                Ok(FileChange::Installed(exchanged, had))
            }
            Files::Trial(trial) => {
                if let Err(error) = self.store.begin_trial(trial, &candidate.text) {
                    self.store.call_trial_off();
                    return Err(unwritten(&error));
                }
                Ok(FileChange::Trial)
            }
        }
    }

    /// The change did not come about: the files are as they were.
    pub(in crate::plane) fn undo_files(&mut self, done: FileChange) {
        match done {
            FileChange::Installed(exchanged, Some(had)) if exchanged.installed => {
                if let Err(error) = self.store.install_again(&had) {
                    let file = self.store.file().display();
                    tracing::error!("{file} has a text that is not in force, and cannot be written: {error}");
                }
            }
            FileChange::Trial => self.store.call_trial_off(),
            FileChange::Installed(..) | FileChange::Nothing => {}
        }
    }

    /// Remember the policy before the one in force, to go back to it.
    pub(in crate::plane) fn keep_previous(&mut self, before: Option<Previous>) {
        if let Err(error) = self.store.keep_previous(before) {
            tracing::warn!(
                "a daemon after this one does not know the way back to the policy before: {error}"
            );
        }
    }
}

fn unwritten(error: &dyn Display) -> ApiError {
    ApiError::new(Blame::Failed, format!("a file of the policy cannot be written: {error}"))
}
