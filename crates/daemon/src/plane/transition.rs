//! The control plane's verbs for a change of policy: reload; apply, perhaps on trial; confirm; back to the one before.

use std::time::Duration;

use api::{MAX_CONFIRM_SECONDS, MissingProgram, PolicyApplied, PolicyApply, PolicyReload};

use super::Plane;
use super::policy::Files;
use crate::policy_store::{self, Candidate};
use config::Config;
use documents::api_error::{ApiError, Blame};

/// What a change of policy may do that looks like a mistake.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allow {
    /// Name no application any more.
    pub empty: bool,
    /// Have subjects that no program of this host matches.
    pub missing: bool,
}

/// Subjects of a policy that no program of this host matches; an error, unless they are allowed.
fn missing(candidate: &Candidate, allowed: bool, verb: &str) -> Result<Vec<MissingProgram>, ApiError> {
    let executables = policy_store::executables(&candidate.compiled);
    let missing = policy_store::missing(&candidate.compiled, &executables);
    if missing.is_empty() || allowed {
        return Ok(missing);
    }
    let each =
        missing.iter().map(|one| format!("{}: {}: {} ({})", one.at, one.code, one.message, one.remedy));
    let text = each.collect::<Vec<_>>().join("\n");
    Err(ApiError::new(Blame::Conflict, text).remedy(format!(
        "the policy in force stays; correct the names, or, for programs that come later, `ravelin policy {verb} --allow-missing`"
    )))
}

/// What a reload says of a configuration file that is not what the daemon runs with.
fn configuration_note(config: &Config) -> Option<String> {
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
    /// Read the policy file again and put it in force; a file that cannot be read changes nothing, a broken block keeps its
    /// last good version. A file without any application is refused, as one that was cut off looks like that, unless
    /// that is meant ([`Allow::empty`]) or there was none before; so is one with subjects that no program of this host matches,
    /// unless [`Allow::missing`].
    ///
    /// # Errors
    /// If the file cannot be read or takes every policy away, or data path or kernel do not take the tables.
    pub async fn reload(&mut self, allow: Allow) -> Result<PolicyReload, ApiError> {
        let outcome = self.try_reload(allow).await;
        if let Err(refused) = &outcome {
            self.policy.note_error(refused.message.clone());
        }
        outcome
    }

    async fn try_reload(&mut self, allow: Allow) -> Result<PolicyReload, ApiError> {
        self.policy.not_on_trial()?;
        let candidate = self.policy.read()?;
        let lost = self.policy.losing(&candidate, allow.empty, "`ravelin policy reload --allow-empty`")?;
        let missing = missing(&candidate, allow.missing, "reload")?;
        let mut answer = PolicyReload {
            applied: true,
            kernel: None,
            generation: candidate.compiled.spd.generation,
            applications: candidate.compiled.applications.len(),
            changed: self.policy.changed(&candidate),
            refused_blocks: candidate.refused.clone(),
            diagnostics: candidate.diagnostics.clone(),
            lost,
            missing,
            notes: configuration_note(&self.config).into_iter().collect(),
        };
        for note in &answer.notes {
            tracing::warn!("{note}");
        }
        self.change_policy(candidate, Files::Stay).await?;
        answer.kernel = self.policy.state(&self.monitor).kernel;
        if !answer.lost.is_empty() {
            tracing::warn!("no policy any more, in clear from now on: {}", answer.lost.join(", "));
        }
        Ok(answer)
    }

    /// Put a policy in force: that of the request, else the policy file as it is now. Without a trial the policy file has its
    /// text from now on; with one, when it is confirmed.
    ///
    /// # Errors
    /// If it has errors, or does not go with what is in force; nothing is changed then.
    pub async fn apply(&mut self, asked: PolicyApply) -> Result<PolicyApplied, ApiError> {
        self.policy.not_on_trial()?;
        if asked.confirm_within_seconds.is_some_and(|seconds| !(1..=MAX_CONFIRM_SECONDS).contains(&seconds)) {
            let text = format!("a policy is on trial for 1 to {MAX_CONFIRM_SECONDS} seconds");
            return Err(ApiError::new(Blame::BadRequest, text));
        }
        let name = self.policy.file().display().to_string();
        let on_disk = std::fs::read(self.policy.file());
        let octets = match (asked.text, &on_disk) {
            (Some(text), _) => text.into_bytes(),
            (None, Ok(octets)) => octets.clone(),
            (None, Err(error)) => return Err(ApiError::new(Blame::NotFound, format!("{name}: {error}"))),
        };
        let in_place = on_disk.as_ref().is_ok_and(|on_disk| *on_disk == octets);
        let candidate = self.policy.read_sound(&name, &octets)?;
        let lost =
            self.policy.losing(&candidate, asked.allow_empty, "`ravelin policy apply --allow-empty`")?;
        let answer = PolicyApplied {
            missing: missing(&candidate, asked.allow_missing, "apply")?,
            changed: self.policy.changed(&candidate),
            diagnostics: candidate.diagnostics.clone(),
            lost,
            ..PolicyApplied::default()
        };
        let files = match asked.confirm_within_seconds {
            Some(seconds) => {
                let source = (asked.file.unwrap_or(name), in_place);
                Files::Trial(self.policy.trial_of(&candidate, source, Duration::from_secs(seconds))?)
            }
            None => Files::Install(octets),
        };
        let done = self.change_policy(candidate, files).await?;
        Ok(self.policy.applied(done, answer))
    }

    /// What is on trial stays.
    ///
    /// # Errors
    /// If nothing is, or the policy file cannot be written: the trial then goes on.
    pub fn confirm(&mut self) -> Result<PolicyApplied, ApiError> {
        let done = self.policy.confirm()?;
        Ok(self.policy.applied(done, PolicyApplied::default()))
    }

    /// The policy before is in force again, and in the policy file.
    ///
    /// # Errors
    /// If there is none, or it cannot be put in force; the one in force then stays.
    pub async fn roll_back(&mut self) -> Result<PolicyApplied, ApiError> {
        let candidate = self.policy.previous()?;
        let answer = PolicyApplied {
            changed: self.policy.changed(&candidate),
            lost: self.policy.lost(&candidate),
            ..PolicyApplied::default()
        };
        let text = candidate.text.clone();
        self.change_policy(candidate, Files::Later).await?;
        let done = self.policy.finish_roll_back(&text)?;
        Ok(self.policy.applied(done, answer))
    }

    /// Take back what was not confirmed in time; what went wrong, if it did not succeed.
    pub async fn end_trial(&mut self) -> Option<String> {
        let source = self.policy.overdue()?;
        match self.roll_back().await {
            Ok(_) => {
                let detail =
                    format!("{source} was not confirmed in time: the policy before is in force again");
                self.audit(control::asker::Asker::myself(), "policy_rolled_back", detail);
                None
            }
            Err(refused) => Some(format!("a policy that was not confirmed cannot be taken back: {refused}")),
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
