//! The pinned files of the policy in force: what is to be hashed, and what was found.

use super::Sockmon;
use crate::abi::Executable;
use crate::adopt;
use crate::error::SockmonError;
use crate::identities;
use crate::pins::{Finding, NO_ANSWER, PinnedFile, SECONDS, Suspect, TICKS, doubt, stats};
use host_files::{Pin, PinState, foreign};
use policy::Digest;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

impl Sockmon {
    /// The pinned paths of the policy, and what is known of their files.
    pub fn pins(&self) -> Vec<Pin> {
        let pin = |pin: &PinnedFile| Pin {
            path: pin.path.clone(),
            wanted: pin.digests.iter().copied().collect(),
            state: pin.state.clone(),
        };
        self.pinned.iter().map(pin).collect()
    }

    /// The files that are to be hashed now: those that nobody has looked at as they are. `now` is the time of day since 1970: a
    /// file that was changed a moment ago waits, since another change might have the same time; so does one that is open for
    /// writing, since what is written through a mapping does not change its time.
    pub fn unverified(&mut self, now: Duration) -> Result<Vec<Suspect>, SockmonError> {
        let mut out = Vec::new();
        // Each as it is, before it is asked who has it open.
        let mut suspects = Vec::new();
        let stats = stats(&self.pinned);
        for (at, pin) in self.pinned.iter_mut().enumerate() {
            let Some((identity, file)) = &pin.file else { continue };
            let stat = match stats.get(&pin.path).cloned().unwrap_or_else(|| Err(NO_ANSWER.to_owned())) {
                Ok(stat) => stat,
                Err(error) => {
                    // Whatever was known of it: it is to be looked at again when it can be.
                    (pin.version, pin.state) = (0, PinState::Unknown(error));
                    continue;
                }
            };
            let known = identities::known(&self.loaded.maps, identity)?;
            let known = known.filter(|known| known.version == stat.version && stat.version != 0);
            if let Some(digest) = known.map(|known| Digest(known.digest)).filter(|d| pin.digests.contains(d))
            {
                (pin.version, pin.state) = (stat.version, PinState::Verified(digest));
            } else if pin.version != stat.version
                || matches!(pin.state, PinState::Unverified(_) | PinState::Verified(_))
            {
                (pin.version, pin.state) = (stat.version, PinState::Unverified(None));
                suspects.push((at, *identity, Arc::clone(file), stat));
            }
        }
        let files: Vec<&OwnedFd> = suspects.iter().map(|(_, _, file, _)| file.as_ref()).collect();
        let reports = if files.is_empty() { Vec::new() } else { adopt::files(&self.loaded, &files)? };
        for ((at, identity, file, stat), report) in suspects.into_iter().zip(reports) {
            let Some(pin) = self.pinned.get_mut(at) else { continue };
            let granule = if stat.version.is_multiple_of(1_000_000_000) { SECONDS } else { TICKS };
            let settled =
                now.checked_sub(Duration::from_nanos(stat.version)).is_some_and(|age| age >= granule);
            if !stat.is_trusted {
                let reason =
                    "its file system does not say reliably when a file was changed; put it on a local one";
                pin.state = PinState::Unknown(reason.into());
            } else if report.is_none_or(|report| report.writers > 0) {
                pin.state = PinState::Unverified(Some("it is open for writing"));
            } else if !settled {
                let ahead = now < Duration::from_nanos(stat.version);
                let reason = if ahead {
                    "its change time is in the future; `touch` it"
                } else {
                    "it was changed just now"
                };
                pin.state = PinState::Unverified(Some(reason));
            } else {
                out.push(Suspect { identity, file, stat });
            }
        }
        Ok(out)
    }

    /// Take note of what was found. Processes that run it and were refused so far have their policy when
    /// [`Sockmon::adopt`] has looked at them.
    pub fn judge(&mut self, finding: Finding) -> Result<(), SockmonError> {
        let Finding { identity, version, found } = finding;
        let maps = &self.loaded.maps;
        for pin in &mut self.pinned {
            // Another file by now, or another version: that is to be hashed by itself.
            if pin.version != version || pin.file.as_ref().is_none_or(|(known, _)| *known != identity) {
                continue;
            }
            match &found {
                Ok(digest) if pin.digests.contains(digest) => {
                    let Some(known) = identities::known(maps, &identity)? else { continue };
                    maps.write("executables", &identity, &Executable { version, digest: digest.0, ..known })?;
                    pin.state = PinState::Verified(*digest);
                }
                Ok(digest) => {
                    doubt(maps, &identity)?;
                    pin.state = PinState::Differs(*digest);
                }
                Err(reason) => pin.state = PinState::Unknown(reason.clone()),
            }
        }
        Ok(())
    }

    /// Hash what is to be hashed, as many files as have so many octets together, and take note of it. How many files that were.
    pub fn verify(&mut self, now: Duration, octets: u64) -> Result<usize, SockmonError> {
        let (mut looked, mut left) = (0, octets);
        for suspect in self.unverified(now)? {
            let Some(rest) = left.checked_sub(suspect.size()) else { continue };
            let path = PathBuf::from(format!("/proc/self/fd/{}", suspect.file.as_raw_fd()));
            let suspect = Arc::new(suspect);
            // A file that is not read in time is left to whoever hashes the large ones.
            let Some(finding) = foreign::one(&path, move |_| suspect.examine()) else { continue };
            self.judge(finding)?;
            (looked, left) = (looked + 1, rest);
        }
        if looked > 0 {
            adopt::tasks(&self.loaded)?;
        }
        Ok(looked)
    }
}
