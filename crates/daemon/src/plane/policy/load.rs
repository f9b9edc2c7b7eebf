//! Loading the policy into the kernel half, and what is told of that.

use super::PolicyInForce;
use super::pinned::AT_ONCE;
use crate::monitor::{KernelHalf, Monitor};
use crate::policy_store::{self, Candidate, Executable};
use documents::api_error::{ApiError, Blame};

impl PolicyInForce {
    /// What comes before a candidate is in force anywhere: sockets go on under the numbers that they have, and the numbers of its
    /// applications are written down. The answer is its executables.
    ///
    /// # Errors
    /// If the kernel half does not say which numbers moved, or the numbers cannot be written.
    pub(in crate::plane) fn prepare(
        &mut self,
        candidate: &mut Candidate,
        monitor: &Monitor,
    ) -> Result<Vec<Executable>, ApiError> {
        let executables = policy_store::executables(&candidate.compiled);
        let mut moved = policy_store::moved_paths(&self.executables, &executables);
        moved.extend(monitor.get().moved(&candidate.compiled.subjects)?);
        candidate.follow(&moved);
        self.store
            .commit_numbers(candidate)
            .map_err(|error| ApiError::new(Blame::Failed, error.to_string()))?;
        Ok(executables)
    }

    /// A candidate that was prepared is not in force after all.
    pub(in crate::plane) fn withdraw(&self) {
        self.store.withdraw_numbers();
    }

    /// Load the candidate into the kernel half; whether something is left to do.
    ///
    /// # Errors
    /// If the kernel half does not take it: it has what it had then.
    pub(in crate::plane) fn load(
        &mut self,
        candidate: &Candidate,
        monitor: &Monitor,
    ) -> Result<bool, ApiError> {
        self.pins.look_soon();
        load_kernel(&mut **monitor.get(), candidate, AT_ONCE)
    }

    /// Look whether executables were exchanged (an upgrade gives them new inodes), a directory of theirs has come or was exchanged, or
    /// something was left to do, and load the policy anew if so. Processes that run the old files keep their policy.
    ///
    /// # Errors
    /// If the kernel half does not take it.
    pub(in crate::plane) fn refresh_executables(&mut self, monitor: &Monitor) -> Result<bool, ApiError> {
        let now = policy_store::executables(self.compiled());
        let directories = monitor.get().directories_changed();
        if now == self.executables && !directories && !self.unfinished {
            return Ok(false);
        }
        let candidate = self.store.in_force();
        self.unfinished = self.load(&candidate, monitor)?;
        tracing::info!("the kernel half has the executables of the policy as they are now");
        self.executables = now;
        Ok(true)
    }
}

/// Load the kernel half; whether something is left to do. An error means that it has what it had. So many octets of files with
/// digests are hashed here; larger ones are refused until they are.
pub(crate) fn load_kernel(
    monitor: &mut dyn KernelHalf,
    candidate: &Candidate,
    hashed: u64,
) -> Result<bool, ApiError> {
    let orders = policy_store::orders(candidate);
    let compiled = &candidate.compiled;
    let warnings = monitor.load_policy(&compiled.spd, &compiled.subjects, &orders)?;
    let mut unfinished = false;
    for warning in warnings {
        unfinished |= matches!(warning, sockmon::LoadWarning::Unfinished { .. });
        tracing::warn!("{}", said(&warning, compiled));
    }
    if let Err(error) = monitor.verify(netio::clock::wall(), hashed) {
        tracing::warn!("the policy is in force, but files with digests are not verified yet: {error}");
    }
    // Sockets of programs that the policy names only now were open before.
    match monitor.adopt() {
        Ok(adopted) => report(&adopted),
        Err(error) => {
            unfinished = true;
            tracing::warn!("the policy is in force, but not for all sockets that were open before: {error}");
        }
    }
    Ok(unfinished)
}

/// A warning with applications by their names.
fn said(warning: &sockmon::LoadWarning, compiled: &policy::Compiled) -> String {
    let name = |id| compiled.application(id).map_or("another", |app| app.name.as_str());
    match warning {
        sockmon::LoadWarning::Shadowed { path, app, by } => format!(
            "application {} never decides about {}: every process of it is application {}'s; give one of them a qualifier",
            name(*app),
            path.display(),
            name(*by)
        ),
        other => other.to_string(),
    }
}

pub(crate) fn report(adopted: &sockmon::Adopted) {
    if adopted.unmarked > 0 {
        tracing::warn!("{} sockets could not be marked; they are steered by their storage", adopted.unmarked);
    }
    if adopted.ended > 0 || adopted.unstamped > 0 {
        tracing::warn!(
            "sockets of policed programs had no room for a stamp (net.core.optmem_max): {} connections were ended, \
             {} other sockets cannot send any more",
            adopted.ended,
            adopted.unstamped
        );
    }
    if adopted.listeners_left_out > 0 {
        tracing::warn!(
            "{} listeners had no room: connections that wait behind them to be accepted may have no policy",
            adopted.listeners_left_out
        );
    }
    tracing::debug!(sockets = adopted.sockets, marked = adopted.marked, "open sockets adopted");
}
