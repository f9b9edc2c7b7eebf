//! The control plane's verbs for a change of policy: apply, perhaps on trial; confirm; back to the one before.

use std::time::Duration;

use api::{MAX_CONFIRM_SECONDS, MissingProgram, PolicyApplied, PolicyApply, Waiting};

use super::Plane;
use super::transaction::Files;
use crate::config::Config;
use crate::policy_store::{self, Candidate, Exchanged, Trial};
use crate::refused::{Fault, Refused};

/// What a change of policy may do that looks like a mistake.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allow {
    /// Name no application any more.
    pub empty: bool,
    /// Have subjects that no program of this host matches.
    pub missing: bool,
}

/// Subjects of a policy that no program of this host matches; an error, unless they are allowed.
pub(super) fn missing(
    candidate: &Candidate,
    allowed: bool,
    verb: &str,
) -> Result<Vec<MissingProgram>, Refused> {
    let executables = policy_store::executables(&candidate.compiled);
    let missing = policy_store::missing(&candidate.compiled, &executables);
    if missing.is_empty() || allowed {
        return Ok(missing);
    }
    let each =
        missing.iter().map(|one| format!("{}: {}: {} ({})", one.at, one.code, one.message, one.remedy));
    let text = each.collect::<Vec<_>>().join("\n");
    Err(Refused::new(Fault::Conflict, text).remedy(format!(
        "the policy in force stays; correct the names, or, for programs that come later, `ravelin policy {verb} --allow-missing`"
    )))
}

/// What a reload says of a configuration file that is not what the daemon runs with.
pub(super) fn configuration_note(config: &Config) -> Option<String> {
    let file = config.file.display();
    match Config::load(&config.file) {
        Ok(now) if now == *config => None,
        Ok(now) if now.marks != config.marks => Some(format!(
            "{file} was changed and was not read: a reload reads the policy alone; sockets have their marks where mark_mask \
             was, so the new one needs a stop, `ravelin detach` (traffic is unprotected until the daemon runs) and a new \
             start"
        )),
        Ok(now)
            if (&now.instance, &now.tun.name, now.esp.port)
                != (&config.instance, &config.tun.name, config.esp.port) =>
        {
            Some(format!(
                "{file} was changed and was not read: a reload reads the policy alone; another instance, TUN or port of ESP in UDP \
                 needs a stop, `ravelin detach` (traffic is unprotected until the daemon runs) and a new start"
            ))
        }
        Ok(_) => Some(format!(
            "{file} was changed and was not read: a reload reads the policy alone; `ravelin run --take-over` goes on with the new settings \
             and keeps the associations"
        )),
        Err(error) => Some(format!("{file} was changed, was not read, and would be refused: {error}")),
    }
}

impl Plane {
    /// Put a policy in force: that of the request, else the policy file as it is now. Without a trial the policy file has its
    /// text from now on; with one, when it is confirmed.
    ///
    /// # Errors
    /// If it has errors, or does not go with what is in force; nothing is changed then.
    pub async fn apply(&mut self, asked: PolicyApply) -> Result<PolicyApplied, Refused> {
        self.not_on_trial()?;
        if asked.confirm_within_seconds.is_some_and(|seconds| !(1..=MAX_CONFIRM_SECONDS).contains(&seconds)) {
            let text = format!("a policy is on trial for 1 to {MAX_CONFIRM_SECONDS} seconds");
            return Err(Refused::new(Fault::BadRequest, text));
        }
        let on_disk = std::fs::read(self.policy.file());
        let octets = match (asked.text, &on_disk) {
            (Some(text), _) => text.into_bytes(),
            (None, Ok(octets)) => octets.clone(),
            (None, Err(error)) => {
                let text = format!("{}: {error}", self.policy.file().display());
                return Err(Refused::new(Fault::NotFound, text));
            }
        };
        let in_place = on_disk.as_ref().is_ok_and(|on_disk| *on_disk == octets);
        let name = self.policy.file().display().to_string();
        let candidate = self.candidate(&name, &octets)?;
        let lost = self.losing(&candidate, asked.allow_empty, "`ravelin policy apply --allow-empty`")?;
        let missing = missing(&candidate, asked.allow_missing, "apply")?;
        let mut answer = PolicyApplied {
            missing,
            changed: self.policy.changed(&candidate.compiled),
            diagnostics: candidate.diagnostics.clone(),
            lost,
            ..PolicyApplied::default()
        };
        match asked.confirm_within_seconds {
            Some(seconds) => {
                let source = asked.file.unwrap_or(name);
                self.apply_on_trial(candidate, (source, in_place), Duration::from_secs(seconds)).await?
            }
            None => {
                let done = self.change_policy(candidate, Files::Install(octets)).await?;
                self.say_exchanged(done, &mut answer);
            }
        }
        Ok(self.in_force(answer))
    }

    async fn apply_on_trial(
        &mut self,
        candidate: Candidate,
        (source, in_place): (String, bool),
        within: Duration,
    ) -> Result<(), Refused> {
        if !self.policy.is_sound() {
            let text = "blocks of the policy in force are broken and run on their last good version: there is no policy to go back to";
            return Err(Refused::new(Fault::Conflict, text).remedy("apply without --confirm-within"));
        }
        if candidate.text == *self.policy.text() {
            let text = "this very text is in force already: there is nothing to put on trial";
            return Err(Refused::new(Fault::Conflict, text));
        }
        let until = netio::clock::monotonic() + within;
        let trial = Trial::new(self.policy.file(), source, in_place, until);
        self.change_policy(candidate, Files::Trial(trial)).await.map(drop)
    }

    /// What is on trial stays.
    ///
    /// # Errors
    /// If nothing is, or the policy file cannot be written: the trial then goes on.
    pub async fn confirm(&mut self) -> Result<PolicyApplied, Refused> {
        let now = netio::clock::monotonic();
        match &self.policy.trial {
            None => {
                return Err(Refused::new(Fault::NotFound, "no policy waits for a confirmation").remedy(
                    "`ravelin status` says what is in force; it is taken back already, or was never on trial",
                ));
            }
            // The next tick takes it back.
            Some(trial) if !trial.holds(now) => {
                return Err(Refused::new(Fault::Conflict, "too late: the time to confirm is over")
                    .remedy("apply the policy again"));
            }
            Some(_) => {}
        }
        let done = self.policy.confirm().map_err(|error| {
            Refused::new(Fault::Failed, format!("{}: {error}", self.policy.file().display()))
                .remedy("the policy is still on trial; confirm again when the file can be written")
        })?;
        let mut answer = PolicyApplied::default();
        self.say_exchanged(done, &mut answer);
        Ok(self.in_force(answer))
    }

    /// The policy before is in force again, and in the policy file.
    ///
    /// # Errors
    /// If there is none, or it cannot be put in force; the one in force then stays.
    pub async fn roll_back(&mut self) -> Result<PolicyApplied, Refused> {
        let previous = self.policy.previous_candidate();
        let previous = previous.map_err(|error| Refused::new(Fault::Failed, error.to_string()))?;
        let candidate = previous.ok_or_else(|| {
            Refused::new(Fault::NotFound, "there is no policy before this one")
                .remedy("write the policy that you want and `ravelin policy apply` it")
        })?;
        let mut answer = PolicyApplied {
            changed: self.policy.changed(&candidate.compiled),
            lost: self.policy.lost(&candidate),
            ..PolicyApplied::default()
        };
        let text = candidate.text.clone();
        self.change_policy(candidate, Files::Later).await?;
        let done = match self.policy.trial {
            Some(_) => self.policy.reject(),
            None => self.policy.install_again(&text).and_then(|done| {
                self.policy.forget_previous()?;
                Ok(done)
            }),
        };
        let done = done.map_err(|error| {
            let file = self.policy.file().display();
            let text = format!("the policy before is in force again, but {file} has another text: {error}");
            Refused::new(Fault::Failed, text).remedy("put the text right before the daemon starts again")
        })?;
        self.say_exchanged(done, &mut answer);
        Ok(self.in_force(answer))
    }

    /// Take back what was not confirmed in time; what went wrong, if it did not succeed.
    pub async fn end_trial(&mut self) -> Option<String> {
        let trial = self.policy.trial.as_ref()?;
        if trial.holds(netio::clock::monotonic()) {
            return None;
        }
        let source = trial.source.clone();
        match self.roll_back().await {
            Ok(_) => {
                let detail =
                    format!("{source} was not confirmed in time: the policy before is in force again");
                self.audit(crate::audit::Asker::myself(), "policy_rolled_back", detail);
                None
            }
            Err(refused) => Some(format!("a policy that was not confirmed cannot be taken back: {refused}")),
        }
    }

    /// A change of policy on top of one on trial would leave nothing to go back to.
    pub(super) fn not_on_trial(&self) -> Result<(), Refused> {
        let Some(trial) = &self.policy.trial else { return Ok(()) };
        let left = trial.seconds_left(netio::clock::monotonic());
        let text = format!("{} is on trial for another {left} s", trial.source);
        Err(Refused::new(Fault::Conflict, text)
            .remedy("`ravelin policy confirm` keeps it, `ravelin policy rollback` takes it back"))
    }

    /// The policy on trial.
    pub fn waiting(&self) -> Option<Waiting> {
        let trial = self.policy.trial.as_ref()?;
        let seconds_left = trial.seconds_left(netio::clock::monotonic());
        Some(Waiting { file: trial.source.clone(), seconds_left })
    }

    /// A policy without errors.
    fn candidate(&self, name: &str, octets: &[u8]) -> Result<Candidate, Refused> {
        let remedy = "the policy in force stays; correct the text and apply it again";
        let refused = |text: String| Refused::new(Fault::BadRequest, text).remedy(remedy);
        let candidate = self.policy.read_text(name, octets).map_err(|error| refused(error.to_string()))?;
        if !candidate.is_sound() {
            let text = candidate.diagnostics.trim_end();
            return Err(refused(format!("the policy has errors, so nothing of it is applied\n{text}")));
        }
        Ok(candidate)
    }

    fn say_exchanged(&self, done: Exchanged, answer: &mut PolicyApplied) {
        answer.installed = done.installed.then(|| self.policy.file().display().to_string());
        answer.kept_as = done.kept_as.map(|path| path.display().to_string());
    }

    fn in_force(&self, answer: PolicyApplied) -> PolicyApplied {
        let compiled = &self.policy.compiled;
        PolicyApplied {
            generation: compiled.spd.generation,
            applications: compiled.applications.len(),
            waiting: self.waiting(),
            ..answer
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_told_and_no_take_over_is_promised_for_another_mark_mask() {
        let file = std::env::temp_dir().join(format!("ravelin-note-{}.toml", std::process::id()));
        let text = "instance = \"main\"\npolicy = \"/etc/ravelin/policy\"\n";
        std::fs::write(&file, text).unwrap();
        let config = Config::load(&file).unwrap();
        assert_eq!(configuration_note(&config), None);
        std::fs::write(&file, format!("{text}uplinks = [\"eth7\"]\n")).unwrap();
        assert!(configuration_note(&config).unwrap().contains("--take-over` goes on"));
        for more in ["mark_mask = 0x003fffff", "[tun]\nname = \"rvl9\"", "[esp]\nport = 4501"] {
            std::fs::write(&file, format!("{text}{more}\n")).unwrap();
            let note = configuration_note(&config).unwrap();
            assert!(note.contains("ravelin detach") && !note.contains("--take-over"), "{note}");
        }
        std::fs::remove_file(&file).unwrap();
    }
}
