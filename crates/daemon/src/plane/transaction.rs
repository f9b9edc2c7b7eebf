//! A change of policy as one transaction: the files, the numbers of applications, both halves of the engine, the kernel half. Every
//! way to another policy (reload, apply, a trial, the way back) is this one.
//!
//! The engine comes before the kernel half, so that no packet is redirected under a policy that the engine does not know. Each step
//! that was done is undone if a later one fails, and undoing waits for its turn instead of failing. With the kernel half the new
//! policy is in force: what cannot be done after that is logged.

use std::sync::Arc;

use super::Plane;
use super::halves::by_policy;
use crate::policy_store::{Candidate, Exchanged, Trial};
use crate::refused::{Fault, Refused};

/// What becomes of the files with a change.
pub(super) enum Files {
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
enum Done {
    Nothing,
    /// The policy file had this text, if there was one.
    Installed(Exchanged, Option<Vec<u8>>),
    Trial,
}

impl Plane {
    /// Put a policy in force, everywhere or nowhere.
    ///
    /// # Errors
    /// If a step fails; the policy before is in force everywhere then, and the files are as they were.
    pub(super) async fn change_policy(
        &mut self,
        mut candidate: Candidate,
        files: Files,
    ) -> Result<Exchanged, Refused> {
        let before = (!matches!(files, Files::Later)).then(|| self.policy.to_go_back_to()).flatten();
        let done = self.begin_files(files, &candidate)?;
        let executables = match self.prepare(&mut candidate) {
            Ok(executables) => executables,
            Err(refused) => return Err(self.undo_files(done, refused)),
        };
        let old = Arc::new(self.policy.compiled.spd.clone());
        let loaded = match self
            .halves
            .change(by_policy(&Arc::new(candidate.compiled.spd.clone())), by_policy(&old))
            .await
        {
            Ok(()) => match self.load_kernel(&candidate) {
                Ok(unfinished) => Ok(unfinished),
                Err(refused) => {
                    Err(self.halves.insist(by_policy(&old)).await.map_or_else(Refused::from, |()| refused))
                }
            },
            Err(unanswered) => Err(unanswered.into()),
        };
        let unfinished = match loaded {
            Ok(unfinished) => unfinished,
            Err(refused) => {
                self.policy.withdraw_numbers();
                return Err(self.undo_files(done, refused));
            }
        };
        self.adopt(candidate, executables, unfinished);
        if let Err(error) = self.policy.keep_previous(before) {
            tracing::warn!(
                "a daemon after this one does not know the way back to the policy before: {error}"
            );
        }
        Ok(match done {
            Done::Installed(exchanged, _) => exchanged,
            Done::Nothing | Done::Trial => Exchanged::default(),
        })
    }

    fn begin_files(&mut self, files: Files, candidate: &Candidate) -> Result<Done, Refused> {
        match files {
            Files::Stay | Files::Later => Ok(Done::Nothing),
            Files::Install(text) => {
                let had = std::fs::read(self.policy.file()).ok();
                let exchanged = self.policy.install(&text).map_err(|error| unwritten(&error))?;
                Ok(Done::Installed(exchanged, had))
            }
            Files::Trial(trial) => {
                if let Err(error) = self.policy.begin_trial(trial, &candidate.text) {
                    self.policy.call_trial_off();
                    return Err(unwritten(&error));
                }
                Ok(Done::Trial)
            }
        }
    }

    /// The refusal comes back.
    fn undo_files(&mut self, done: Done, refused: Refused) -> Refused {
        match done {
            Done::Installed(exchanged, Some(had)) if exchanged.installed => {
                if let Err(error) = self.policy.install_again(&had) {
                    let file = self.policy.file().display();
                    tracing::error!("{file} has a text that is not in force, and cannot be written: {error}");
                }
            }
            Done::Trial => self.policy.call_trial_off(),
            Done::Installed(..) | Done::Nothing => {}
        }
        refused
    }
}

pub(super) fn unwritten(error: &dyn std::fmt::Display) -> Refused {
    Refused::new(Fault::Failed, format!("a file of the policy cannot be written: {error}"))
}

#[cfg(test)]
mod tests;
