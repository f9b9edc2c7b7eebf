//! Executables that policy names by their digests: hashed by a thread of its own, told of when something about them changes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use api::{PinnedFile, Problem};
use host_files::{Pin, PinState, pinned_file};
use policy::Digest;
use sockmon::{Finding, Suspect};
use tokio::sync::mpsc::{Receiver, channel};

use super::PolicyInForce;
use crate::audit_log::Auditor;
use crate::monitor::Monitor;

impl PolicyInForce {
    /// Begin: what the thread finds comes out of the receiver.
    pub(in crate::plane) fn begin_pins(&mut self) -> Receiver<Vec<Finding>> {
        let (found, findings) = channel(1);
        self.pins.found = Some(found);
        self.pins.again = true;
        findings
    }

    /// Look for files that are to be hashed, and have that done; now and then, or when there is reason to.
    pub(in crate::plane) fn follow_pins(&mut self, round: bool, monitor: &Monitor, auditor: &Auditor) {
        if self.pins.busy || !(round || self.pins.again) {
            return;
        }
        let suspects = match monitor.get().unverified(netio::clock::wall()) {
            Ok(suspects) => suspects,
            Err(error) => {
                tracing::warn!("files with digests cannot be looked at, so they stay refused: {error}");
                return;
            }
        };
        self.pins.again = !suspects.is_empty();
        if let Some(found) = self.pins.found.clone().filter(|_| !suspects.is_empty()) {
            let hash = move || {
                control::privileges::keep_reading();
                let findings = suspects.iter().map(Suspect::examine).collect();
                // The daemon may have ended meanwhile.
                let _ = found.blocking_send(findings);
            };
            match std::thread::Builder::new().name("rvl-digest".to_owned()).spawn(hash) {
                Ok(_) => self.pins.busy = true,
                Err(error) => tracing::warn!("no thread to hash files, which stay refused: {error}"),
            }
        }
        self.tell_pins(monitor, auditor);
    }

    /// What the thread found. Processes that waited for it have their policy from now on.
    pub(in crate::plane) fn judge_pins(
        &mut self,
        findings: Vec<Finding>,
        monitor: &Monitor,
        auditor: &Auditor,
    ) {
        self.pins.busy = false;
        let mut kernel_half = monitor.get();
        for finding in findings {
            if let Err(error) = kernel_half.judge(finding) {
                tracing::warn!("the kernel half does not hear of a digest: {error}");
            }
        }
        match kernel_half.adopt() {
            Ok(adopted) => super::report(&adopted),
            Err(error) => {
                tracing::warn!("open sockets of files that were verified stay as they are: {error}")
            }
        }
        drop(kernel_half);
        self.tell_pins(monitor, auditor);
    }

    fn tell_pins(&mut self, monitor: &Monitor, auditor: &Auditor) {
        let pins = monitor.get().pins();
        self.pins.again |= pins.iter().any(|pin| matches!(pin.state, PinState::Unverified(_)));
        let before = std::mem::take(&mut self.pins.told);
        for pin in pins {
            if before.get(&pin.path) != Some(&pin.state) {
                let (path, state) = (pin.path.display(), &pin.state);
                match event(state) {
                    Some(event) if state.is_verified() => {
                        tracing::info!("{path}: {state}");
                        auditor.executable(event, &path.to_string(), &state.to_string());
                    }
                    Some(event) => {
                        tracing::error!("{}", message(&pin));
                        auditor.executable(event, &path.to_string(), &message(&pin));
                    }
                    None => tracing::info!("{path}: {state}; refused until it is verified"),
                }
            }
            self.pins.told.insert(pin.path, pin.state);
        }
    }

    /// The pinned files, for an answer.
    pub(super) fn pinned_files(&self, monitor: &Monitor) -> Vec<PinnedFile> {
        monitor.get().pins().iter().map(pinned_file).collect()
    }

    /// Those at these paths, or at the end of these links. A path may be that of a file that was deleted, as `/proc` shows it.
    pub(in crate::plane) fn pinned_files_at<'p>(
        &self,
        paths: impl Iterator<Item = &'p str>,
        monitor: &Monitor,
    ) -> Vec<PinnedFile> {
        let ends = |path: &str| {
            let path = path.strip_suffix(" (deleted)").unwrap_or(path);
            let end = host_files::foreign::one(Path::new(path), |path| std::fs::canonicalize(path).ok());
            [Some(PathBuf::from(path)), end.flatten()]
        };
        let asked: Vec<PathBuf> = paths.flat_map(ends).flatten().collect();
        let is_asked = |file: &PinnedFile| asked.iter().any(|path| path == Path::new(&file.path));
        self.pinned_files(monitor).into_iter().filter(is_asked).collect()
    }

    /// What these digests would make of the files, as far as those are known.
    pub(super) fn pins_under(&self, pins: &policy::Pins, monitor: &Monitor) -> Vec<PinnedFile> {
        let known = self.pinned_files(monitor);
        let found = |path: &str| {
            let file = known.iter().find(|file| file.path == path)?;
            Digest::parse(file.found.as_ref()?).ok()
        };
        let judged = |(path, digests): (&String, &BTreeSet<Digest>)| {
            let state = match found(path) {
                Some(digest) if digests.contains(&digest) => PinState::Verified(digest),
                Some(digest) => PinState::Differs(digest),
                None => PinState::Unverified(Some("it is hashed when the policy is loaded")),
            };
            pinned_file(&Pin { path: path.into(), wanted: digests.iter().copied().collect(), state })
        };
        pins.iter().map(judged).collect()
    }

    /// Files that are not what policy says.
    pub(in crate::plane) fn pin_faults(&self, monitor: &Monitor) -> Vec<Problem> {
        let pins = monitor.get().pins().into_iter();
        let is_wrong = |pin: &Pin| event(&pin.state).is_some() && !pin.state.is_verified();
        let problem = |pin: Pin| Problem {
            code: "digest".to_owned(),
            message: message(&pin),
            remedy: Some(remedy(&pin)),
            ..Problem::default()
        };
        pins.filter(is_wrong).map(problem).collect()
    }
}

impl PolicyInForce {
    /// Paths of the policy that lead to a file of somebody else's by a name that its owner may turn: no process matches them.
    pub(in crate::plane) fn foreign_names(&self, monitor: &Monitor) -> Vec<Problem> {
        let names = monitor.get().foreign_names().into_iter();
        let problem = |(path, reason): (PathBuf, String)| {
            Problem {
            code: "foreign_link".to_owned(),
            message: format!("{}: {reason}, so no process matches it", path.display()),
            remedy: Some(
                "write the path of the file itself into the policy, or give the link to root or to the owner of the file (`chown -h`)"
                    .to_owned(),
            ),
            ..Problem::default()
        }
        };
        names.map(problem).collect()
    }
}

/// The word for a state that somebody should hear of.
fn event(state: &PinState) -> Option<&'static str> {
    match state {
        PinState::Verified(_) => Some("digest_verified"),
        PinState::Differs(_) => Some("digest_differs"),
        PinState::Unknown(_) => Some("digest_unknown"),
        PinState::Missing | PinState::Unverified(_) => None,
    }
}

fn list(digests: &[Digest]) -> String {
    let texts: Vec<String> = digests.iter().map(ToString::to_string).collect();
    if texts.is_empty() { "none that all its subjects name".to_owned() } else { texts.join(" or ") }
}

fn message(pin: &Pin) -> String {
    let path = pin.path.display();
    match &pin.state {
        PinState::Differs(found) => format!(
            "{path}: the SHA-256 of the file is {found}, the policy wants {}; its processes are refused every peer",
            list(&pin.wanted)
        ),
        state => format!("{path}: {state}; its processes are refused every peer"),
    }
}

fn remedy(pin: &Pin) -> String {
    let path = pin.path.display();
    match &pin.state {
        PinState::Differs(_) => format!(
            "if this file is the one that is meant, write what `ravelin policy digest {path}` prints into the policy and reload it; else \
             install the right one"
        ),
        _ => "see to what it says, or take the digest out of the policy and reload it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::PinnedState;

    #[test]
    fn what_differs_is_told_with_both_digests_and_what_to_do() {
        let (found, wanted) = (Digest([1; 32]), Digest([2; 32]));
        let pin = Pin { path: "/usr/bin/curl".into(), wanted: vec![wanted], state: PinState::Differs(found) };
        let text = message(&pin);
        assert!(text.contains("/usr/bin/curl") && text.contains(&found.to_string()), "{text}");
        assert!(text.contains(&wanted.to_string()), "{text}");
        assert!(remedy(&pin).contains("ravelin policy digest /usr/bin/curl"), "{}", remedy(&pin));
        let file = pinned_file(&pin);
        assert_eq!((file.state, file.found), (PinnedState::Differs, Some(found.to_string())));
    }
}
