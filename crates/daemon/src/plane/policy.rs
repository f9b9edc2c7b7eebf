//! The policy in force, with all that follows from it.
//!
//! What enters: candidates that were read and compiled, answers about host names, digests of files, executables that were exchanged.
//! What leaves: tables for the kernel half, answers about the policy. Which policy is in force is decided above
//! ([`super::transaction`]): that takes the data threads too.

mod files;
mod hosts;
mod kernel_load;
mod load;
mod names;
mod pinned;
mod pins;
mod plan;
mod process;
pub(super) mod rival_suite;
mod translation;

use std::path::Path;

use api::{PolicyApplied, PolicyState, Position, RefusedBlock, Waiting};
use policy::Compiled;
use sadb::spd::{RuleId, Spd};
use wire::{AppId, Flow};

use crate::classes::ClassCatalogue;
use crate::monitor::Monitor;
use crate::policy_store::{self, Candidate, Executable, PolicyStore};
use crate::translation::Translator;
use crate::trial::{Exchanged, Trial};
use documents::api_error::{ApiError, Blame};

pub(super) use files::Files;
pub use hosts::Hosts;
pub(crate) use load::{load_kernel, report};
use pinned::Pins;
pub(crate) use rival_suite::Rivals;

/// The policy in force.
pub struct PolicyInForce {
    store: PolicyStore,
    /// Executables of its applications, as the kernel half knows them.
    executables: Vec<Executable>,
    /// The kernel half has the policy, but not everything that belongs to it: to be loaded once more.
    unfinished: bool,
    /// The executables that it names by their digests.
    pins: Pins,
    /// The host names in it.
    hosts: Hosts,
    /// Who translates what sockets do; `None`: policy is compiled.
    translator: Option<Translator>,
}

impl PolicyInForce {
    /// The policy of this store, of which the kernel half has nothing yet.
    pub(crate) fn new(store: PolicyStore, hosts: Hosts) -> PolicyInForce {
        PolicyInForce {
            store,
            executables: Vec::new(),
            unfinished: false,
            pins: Pins::default(),
            hosts,
            translator: None,
        }
    }

    /// The classes that the policy may name.
    pub(super) fn classes(&self) -> &ClassCatalogue {
        self.store.classes()
    }

    /// The path of the policy file.
    pub(crate) fn file(&self) -> &Path {
        self.store.file()
    }

    /// The policy as it was compiled.
    pub(crate) fn compiled(&self) -> &Compiled {
        &self.store.compiled
    }

    /// The tables by which is decided.
    pub(crate) fn spd(&self) -> &Spd {
        &self.store.compiled.spd
    }

    /// The number of the policy, one more with each change.
    pub(crate) fn generation(&self) -> u64 {
        self.spd().generation
    }

    /// An application's number, if it has a block.
    pub(crate) fn app(&self, name: &str) -> Option<AppId> {
        self.store.app(name)
    }

    /// An application's name for people.
    pub(crate) fn app_name(&self, id: AppId) -> String {
        self.store.app_name(id)
    }

    /// Where an application's block stands.
    pub(crate) fn block(&self, id: AppId) -> Option<Position> {
        self.store.block(id)
    }

    /// What the policy says of a flow.
    pub(crate) fn decision(&self, id: AppId, flow: &Flow) -> api::Decision {
        self.store.decision(id, flow)
    }

    /// Where a rule stands.
    pub(crate) fn rule_position(&self, rule: RuleId) -> Option<Position> {
        documents::decision::rule_position(self.compiled(), rule)
    }

    /// Blocks that did not compile.
    pub(crate) fn refused_blocks(&self) -> &[RefusedBlock] {
        &self.store.refused
    }

    /// Why the last attempt at another policy failed, if it did.
    pub(crate) fn last_error(&self) -> Option<&str> {
        self.store.last_error.as_deref()
    }

    /// Subjects that no program of this host matches.
    pub(crate) fn missing(&self) -> Vec<api::MissingProgram> {
        policy_store::missing(self.compiled(), &self.executables)
    }

    /// Whether what sockets do is translated, in the place of a policy that is compiled.
    pub(crate) fn is_translated(&self) -> bool {
        self.translator.is_some()
    }

    /// The policy for people, but for what chooses its applications.
    pub(crate) fn state(&self, monitor: &Monitor) -> PolicyState {
        PolicyState {
            file: self.file().display().to_string(),
            generation: self.generation(),
            applications: self.compiled().applications.len(),
            loaded_unix_seconds: self.store.loaded,
            warnings: self.store.warnings,
            refused_blocks: self.store.refused.clone(),
            last_error: self.store.last_error.clone(),
            waiting: self.waiting(),
            pins: self.pinned_files(monitor),
            missing: self.missing(),
            subjects: Default::default(),
            kernel: Some(kernel_load::kernel_load(monitor)),
        }
    }

    /// Remember why the policy in force is not the one that was asked for.
    pub(crate) fn note_error(&mut self, text: String) {
        self.store.last_error = Some(text);
    }

    /// A file came to a place that the policy names: it is to be loaded once more.
    pub(super) fn note_new_file(&mut self) {
        self.unfinished = true;
    }

    /// A file was executed whose digest is not known: it is to be looked at before the next round.
    pub(super) fn note_unverified_file(&mut self) {
        self.pins.look_soon();
    }

    /// Read and compile the policy file, or what is on trial in its place; nothing in force changes.
    ///
    /// # Errors
    /// If the file cannot be read, or if its own tests speak against it.
    pub(super) fn read(&self) -> Result<Candidate, ApiError> {
        self.store.read().map_err(|error| {
            ApiError::new(Blame::BadRequest, error.to_string())
                .remedy("the policy in force stays; correct the file and reload again")
        })
    }

    /// Compile a text without errors; nothing in force changes.
    ///
    /// # Errors
    /// If it has errors, or if its own tests speak against it.
    pub(super) fn read_sound(&self, name: &str, octets: &[u8]) -> Result<Candidate, ApiError> {
        let remedy = "the policy in force stays; correct the text and apply it again";
        let refused = |text: String| ApiError::new(Blame::BadRequest, text).remedy(remedy);
        let candidate = self.store.read_text(name, octets).map_err(|error| refused(error.to_string()))?;
        if !candidate.is_sound() {
            let text = candidate.diagnostics.trim_end();
            return Err(refused(format!("the policy has errors, so nothing of it is applied\n{text}")));
        }
        Ok(candidate)
    }

    /// Applications whose tables the candidate changes, by name.
    pub(super) fn changed(&self, candidate: &Candidate) -> Vec<String> {
        self.store.changed(&candidate.compiled)
    }

    /// Applications that the candidate takes their policy from, by name.
    pub(super) fn lost(&self, candidate: &Candidate) -> Vec<String> {
        self.store.lost(candidate)
    }

    /// Applications that the candidate takes their policy from; all of them only if that is meant, as `meant` says it.
    ///
    /// # Errors
    /// If it takes the policy of all, and `allow_empty` does not say that this is meant.
    pub(super) fn losing(
        &self,
        candidate: &Candidate,
        allow_empty: bool,
        meant: &str,
    ) -> Result<Vec<String>, ApiError> {
        let lost = self.lost(candidate);
        if candidate.compiled.applications.is_empty() && !lost.is_empty() && !allow_empty {
            let text = format!(
                "{} names no application any more; {} would lose their policy and send in clear",
                candidate.compiled.file,
                lost.join(", ")
            );
            let remedy =
                format!("the policy in force stays; correct the file, or, if that is meant, {meant}");
            return Err(ApiError::new(Blame::Conflict, text).remedy(remedy));
        }
        Ok(lost)
    }

    /// The trial of this policy, if it may be put on trial.
    ///
    /// # Errors
    /// If there would be nothing to go back to, or it is in force already.
    pub(super) fn trial_of(
        &self,
        candidate: &Candidate,
        (source, in_place): (String, bool),
        within: std::time::Duration,
    ) -> Result<Trial, ApiError> {
        if !self.store.is_sound() {
            let text = "blocks of the policy in force are broken and run on their last good version: there is no policy to go back to";
            return Err(ApiError::new(Blame::Conflict, text).remedy("apply without --confirm-within"));
        }
        if candidate.text == *self.store.text() {
            let text = "this very text is in force already: there is nothing to put on trial";
            return Err(ApiError::new(Blame::Conflict, text));
        }
        let until = netio::clock::monotonic() + within;
        Ok(Trial::new(self.file(), source, in_place, until))
    }

    /// What is on trial stays.
    ///
    /// # Errors
    /// If nothing is, or the policy file cannot be written: the trial then goes on.
    pub(super) fn confirm(&mut self) -> Result<Exchanged, ApiError> {
        let now = netio::clock::monotonic();
        match &self.store.trial {
            None => {
                return Err(ApiError::new(Blame::NotFound, "no policy waits for a confirmation").remedy(
                    "`ravelin status` says what is in force; it is taken back already, or was never on trial",
                ));
            }
            // The next tick takes it back.
            Some(trial) if !trial.holds(now) => {
                return Err(ApiError::new(Blame::Conflict, "too late: the time to confirm is over")
                    .remedy("apply the policy again"));
            }
            Some(_) => {}
        }
        self.store.confirm().map_err(|error| {
            ApiError::new(Blame::Failed, format!("{}: {error}", self.store.file().display()))
                .remedy("the policy is still on trial; confirm again when the file can be written")
        })
    }

    /// The policy before this one.
    ///
    /// # Errors
    /// If there is none, or its text cannot be compiled any more.
    pub(super) fn previous(&self) -> Result<Candidate, ApiError> {
        let previous = self.store.previous_candidate();
        let previous = previous.map_err(|error| ApiError::new(Blame::Failed, error.to_string()))?;
        previous.ok_or_else(|| {
            ApiError::new(Blame::NotFound, "there is no policy before this one")
                .remedy("write the policy that you want and `ravelin policy apply` it")
        })
    }

    /// The policy before is in force again: the policy file gets its `text`, and there is nothing to go back to any more.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn finish_roll_back(&mut self, text: &[u8]) -> Result<Exchanged, ApiError> {
        let done = match self.store.trial {
            Some(_) => self.store.reject(),
            None => self.store.install_again(text).and_then(|done| {
                self.store.forget_previous()?;
                Ok(done)
            }),
        };
        done.map_err(|error| {
            let file = self.file().display();
            let text = format!("the policy before is in force again, but {file} has another text: {error}");
            ApiError::new(Blame::Failed, text).remedy("put the text right before the daemon starts again")
        })
    }

    /// The source of the policy on trial whose time to confirm is over; `None`: there is none.
    pub(super) fn overdue(&self) -> Option<String> {
        let trial = self.store.trial.as_ref()?;
        (!trial.holds(netio::clock::monotonic())).then(|| trial.source.clone())
    }

    /// A change of policy on top of one on trial would leave nothing to go back to.
    ///
    /// # Errors
    /// If one is on trial.
    pub(super) fn not_on_trial(&self) -> Result<(), ApiError> {
        let Some(trial) = &self.store.trial else { return Ok(()) };
        let left = trial.seconds_left(netio::clock::monotonic());
        let text = format!("{} is on trial for another {left} s", trial.source);
        Err(ApiError::new(Blame::Conflict, text)
            .remedy("`ravelin policy confirm` keeps it, `ravelin policy rollback` takes it back"))
    }

    /// The policy on trial.
    pub(super) fn waiting(&self) -> Option<Waiting> {
        let trial = self.store.trial.as_ref()?;
        let seconds_left = trial.seconds_left(netio::clock::monotonic());
        Some(Waiting { file: trial.source.clone(), seconds_left })
    }

    /// The answer to a change of policy, with what is in force now and what became of the files.
    pub(super) fn applied(&self, done: Exchanged, answer: PolicyApplied) -> PolicyApplied {
        PolicyApplied {
            installed: done.installed.then(|| self.file().display().to_string()),
            kept_as: done.kept_as.map(|path| path.display().to_string()),
            generation: self.generation(),
            applications: self.compiled().applications.len(),
            waiting: self.waiting(),
            ..answer
        }
    }

    /// The candidate is in force everywhere from now on, with these executables.
    pub(super) fn adopt(
        &mut self,
        candidate: Candidate,
        executables: Vec<Executable>,
        unfinished: bool,
        monitor: &Monitor,
    ) {
        tracing::info!(
            generation = candidate.compiled.spd.generation,
            applications = candidate.compiled.applications.len(),
            "policy {} is in force",
            candidate.compiled.file
        );
        self.executables = executables;
        self.unfinished = unfinished;
        let first = self.store.loaded == 0;
        self.store.adopt(candidate, netio::clock::wall().as_secs());
        self.watch_names(first, monitor);
    }
}
