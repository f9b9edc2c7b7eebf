//! From one policy to the next and back: what is loaded while one is on trial, and what becomes of the files at its end.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use policy::Compiled;
use sadb::spd::AppPolicy;
use wire::{AppId, Time};

use super::{Candidate, PolicyStore, Previous, Unreadable};
use crate::trial::{Exchanged, Stage, Trial, install};

/// What the policy file's text is kept as that a confirmed one takes the place of.
const PREVIOUS: &str = "previous";
/// That of a policy whose trial failed.
const REJECTED: &str = "rejected";

impl PolicyStore {
    /// What a daemon has to load: the policy file, or what is on trial, or, where a trial in the policy file itself is over, what
    /// was before.
    pub(super) fn text_to_load(&self, now: Time) -> io::Result<Vec<u8>> {
        let kept = match &self.trial {
            Some(trial) if trial.holds(now) => self.files.text()?,
            Some(trial) if trial.in_place => self.files.previous()?,
            _ => None,
        };
        kept.map_or_else(|| std::fs::read(&self.file), Ok)
    }

    /// Look again at what another daemon may have done meanwhile.
    ///
    /// # Errors
    /// If the files cannot be read.
    pub fn look_again(&mut self) -> Result<(), Unreadable> {
        let unreadable = |source| Unreadable { path: self.file.clone(), source };
        let trial = self.files.read().map_err(unreadable)?;
        let previous = self.files.previous().map_err(unreadable)?;
        self.previous = previous.map(|text| Previous { text: text.into(), candidate: None });
        self.trial = trial;
        Ok(())
    }

    /// Do what the end of a trial still needs that an earlier daemon did not get to; this daemon loaded what belongs to it.
    ///
    /// # Errors
    /// If the policy file cannot be written.
    pub fn settle(&mut self, now: Time) -> io::Result<()> {
        match &self.trial {
            Some(trial) if trial.stage == Stage::Confirmed => self.finish_confirm().map(drop),
            Some(trial) if !trial.holds(now) => self.finish_reject().map(drop),
            _ => Ok(()),
        }
    }

    /// Whether what is in force was loaded without a broken block.
    pub fn is_sound(&self) -> bool {
        self.sound
    }

    /// The text in force.
    pub fn text(&self) -> &Arc<[u8]> {
        &self.text
    }

    /// What is in force, to go back to it; `None` if a block of it is broken.
    pub fn to_go_back_to(&self) -> Option<Previous> {
        let candidate = Box::new(self.in_force());
        self.sound.then(|| Previous { text: Arc::clone(&self.text), candidate: Some(candidate) })
    }

    /// Another policy took the place of this one. That of the same text did not.
    ///
    /// # Errors
    /// If it cannot be written down.
    pub fn keep_previous(&mut self, before: Option<Previous>) -> io::Result<()> {
        let Some(before) = before.filter(|before| before.text != self.text) else { return Ok(()) };
        let text = Arc::clone(&before.text);
        self.previous = Some(before);
        self.files.keep_previous(Some(&text))
    }

    /// The policy before, to be put in force.
    ///
    /// # Errors
    /// If its text cannot be compiled any more.
    pub fn previous_candidate(&self) -> Result<Option<Candidate>, Unreadable> {
        let Some(previous) = &self.previous else { return Ok(None) };
        let Some(had) = &previous.candidate else {
            return self.read_text(&self.file.display().to_string(), &previous.text).map(Some);
        };
        let mut compiled = had.compiled.clone();
        compiled.spd.generation = self.compiled.spd.generation + 1;
        Ok(Some(Candidate {
            compiled,
            kept: had.kept.clone(),
            refused: Vec::new(),
            diagnostics: String::new(),
            errors: 0,
            warnings: had.warnings,
            // Numbers that were given since stay given.
            renamed: self.renamed.clone(),
            text: Arc::clone(&had.text),
            table: self.table.clone(),
        }))
    }

    /// A trial begins; before the policy is put in force.
    ///
    /// # Errors
    /// If it cannot be written down.
    pub fn begin_trial(&mut self, trial: Trial, text: &[u8]) -> io::Result<()> {
        self.files.keep_previous(Some(&self.text))?;
        self.files.begin(&trial, text)?;
        self.trial = Some(trial);
        Ok(())
    }

    /// It did not begin after all.
    pub fn call_trial_off(&mut self) {
        self.trial = None;
        let previous = self.previous.as_ref().map(|previous| &*previous.text);
        if let Err(error) = self.files.keep_previous(previous).and_then(|()| self.files.forget()) {
            tracing::warn!("the record of a policy on trial stays: {error}");
        }
    }

    /// The trial has succeeded: the policy file gets its text.
    ///
    /// # Errors
    /// If that cannot be written; the trial goes on.
    pub fn confirm(&mut self) -> io::Result<Exchanged> {
        self.at_stage(Stage::Confirmed)?;
        self.finish_confirm().inspect_err(|_| {
            if let Err(error) = self.at_stage(Stage::Waiting) {
                tracing::error!(
                    "a policy on trial counts as confirmed, but is not in the policy file: {error}"
                );
            }
        })
    }

    fn finish_confirm(&mut self) -> io::Result<Exchanged> {
        let Some(trial) = &self.trial else { return Ok(Exchanged::default()) };
        let mut done = Exchanged::default();
        if !trial.in_place {
            let text = self.files.text()?.unwrap_or_else(|| self.text.to_vec());
            done = install(&self.file, &text, PREVIOUS)?;
        }
        self.files.forget()?;
        self.trial = None;
        if self.sound {
            self.keep_for_boot(&self.text);
        }
        Ok(done)
    }

    /// The trial has failed, and what was before is in force: the policy file has its text, if it had that of the trial.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn reject(&mut self) -> io::Result<Exchanged> {
        self.at_stage(Stage::Rejected)?;
        self.finish_reject()
    }

    fn finish_reject(&mut self) -> io::Result<Exchanged> {
        let Some(trial) = &self.trial else { return Ok(Exchanged::default()) };
        let mut done = Exchanged::default();
        if trial.in_place {
            let before = match &self.previous {
                Some(previous) => Some(previous.text.to_vec()),
                None => self.files.previous()?,
            };
            if let Some(before) = before {
                done = install(&self.file, &before, REJECTED)?;
            }
        }
        self.forget_previous()?;
        self.files.forget()?;
        self.trial = None;
        Ok(done)
    }

    /// There is nothing to go back to any more.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn forget_previous(&mut self) -> io::Result<()> {
        self.previous = None;
        self.files.keep_previous(None)
    }

    /// Give the policy file a text that is not on trial.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn install(&self, text: &[u8]) -> io::Result<Exchanged> {
        install(&self.file, text, PREVIOUS)
    }

    /// Give the policy file back the text before one that is given up.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn install_again(&self, text: &[u8]) -> io::Result<Exchanged> {
        install(&self.file, text, REJECTED)
    }

    fn at_stage(&mut self, stage: Stage) -> io::Result<()> {
        self.trial.as_mut().map_or(Ok(()), |trial| self.files.note_stage(trial, stage))
    }

    /// Applications whose tables are other ones in `after`, by name: added, removed, changed. The others keep what they have.
    pub fn changed(&self, after: &Compiled) -> Vec<String> {
        let before = &self.compiled;
        fn named(compiled: &Compiled) -> BTreeMap<&str, AppId> {
            compiled.applications.iter().rev().map(|app| (app.name.as_str(), app.id)).collect()
        }
        let (had, has) = (named(before), named(after));
        let same = |name: &str| match (had.get(name), has.get(name)) {
            (Some(old), Some(new)) => match (before.spd.shared(*old), after.spd.shared(*new)) {
                (Some(old), Some(new)) => Arc::ptr_eq(old, new) || is_same(old, new),
                _ => false,
            },
            _ => false,
        };
        let names: BTreeSet<&str> = had.keys().chain(has.keys()).copied().collect();
        let guard = (!is_same(&before.spd.guard, &after.spd.guard)).then_some(policy::GUARD);
        names.into_iter().filter(|name| !same(name)).chain(guard).map(ToOwned::to_owned).collect()
    }
}

/// Whether two policies decide alike for every flow. Equal tables, wherever their lines are, need no further look.
pub fn is_same(a: &AppPolicy, b: &AppPolicy) -> bool {
    let networks =
        |policy: &AppPolicy| -> Vec<_> { policy.networks().iter().map(|n| (n.prefix, n.class)).collect() };
    let items = |policy: &AppPolicy| -> Vec<_> {
        let items = policy.protections().iter().map(|items| items.iter());
        items
            .map(|items| {
                items.map(|i| sadb::spd::Item { rule: sadb::spd::RuleId::NONE, ..*i }).collect::<Vec<_>>()
            })
            .collect()
    };
    a.clear_limits() == b.clear_limits()
        && a.accept_limits() == b.accept_limits()
        && ((networks(a) == networks(b) && items(a) == items(b)) || policy::differences(a, b).is_empty())
}
