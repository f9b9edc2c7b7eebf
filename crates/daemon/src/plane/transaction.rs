//! A change of policy as one transaction: the files, the numbers of applications, both halves of the engine, the kernel half. Every
//! way to another policy (reload, apply, a trial, the way back) is this one.
//!
//! The engine comes before the kernel half, so that no packet is redirected under a policy that the engine does not know. Each step
//! that was done is undone if a later one fails, and undoing waits for its turn instead of failing. With the kernel half the new
//! policy is in force: what cannot be done after that is logged.

use std::sync::Arc;

use super::Plane;
use super::halves::by_policy;
use super::policy::{Files, rival_suite};
use crate::policy_store::{Candidate, Executable};
use crate::trial::Exchanged;
use documents::api_error::ApiError;

impl Plane {
    /// Put a policy in force, everywhere or nowhere.
    ///
    /// # Errors
    /// If a step fails; the policy before is in force everywhere then, and the files are as they were.
    pub(super) async fn change_policy(
        &mut self,
        mut candidate: Candidate,
        files: Files,
    ) -> Result<Exchanged, ApiError> {
        let before = self.policy.to_go_back_to(&files);
        let done = self.policy.begin_files(files, &candidate)?;
        match self.change_tables(&mut candidate).await {
            Ok((executables, unfinished)) => {
                self.policy.adopt(candidate, executables, unfinished, &self.monitor);
                self.policy.keep_previous(before);
                self.refresh_graph().await;
                Ok(done.exchanged())
            }
            Err(refused) => {
                self.policy.undo_files(done);
                Err(refused)
            }
        }
    }

    /// The numbers are written down, both halves of the engine decide by the candidate, and the kernel half has it; or all have what
    /// they had. The answer is its executables, and whether something is left to do.
    async fn change_tables(
        &mut self,
        candidate: &mut Candidate,
    ) -> Result<(Vec<Executable>, bool), ApiError> {
        let executables = self.policy.prepare(candidate, &self.monitor)?;
        let old = Arc::new(self.policy.spd().clone());
        let new = Arc::new(candidate.compiled.spd.clone());
        let checked = rival_suite::check_all(&candidate.compiled, &new, &self.halves).await;
        let changed = match checked {
            Ok(()) => self.halves.change(by_policy(&new), by_policy(&old)).await.map_err(ApiError::from),
            Err(refused) => Err(refused),
        };
        let loaded = match changed {
            Ok(()) => match self.policy.load(candidate, &self.monitor) {
                Ok(unfinished) => Ok((executables, unfinished)),
                Err(refused) => {
                    let undone = self.halves.insist(by_policy(&old)).await;
                    Err(undone.err().map_or(refused, ApiError::from))
                }
            },
            Err(refused) => Err(refused),
        };
        if loaded.is_err() {
            self.policy.withdraw();
        }
        loaded
    }
}

#[cfg(test)]
mod tests;
