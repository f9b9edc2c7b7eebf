//! A policy or a graph of classes on trial: in force, and taken back unless somebody confirms it in time. And the text before,
//! to go back to by hand.
//!
//! The state is in the run directory, so that a daemon that crashes, restarts or hands over leaves it to the next one:
//!
//! | file of a policy | of a graph | what |
//! |---|---|---|
//! | `trial.json` | `trial-graph.json` | until when (monotonic clock, and of which boot), and how far the end of the trial got |
//! | `trial.policy` | `trial.graph` | the text on trial |
//! | `previous.policy` | `previous.graph` | the text before |
//!
//! The file of the policy, or of the graph, gets the text when it is confirmed, not before: after a reboot, which forgets the run
//! directory, the confirmed one is loaded. Where the administrator changed the file itself and put that on trial, the file gets
//! the text before when the trial fails, and what was in it is kept as `FILE.rejected`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wire::Time;

use crate::whole_file::{remove, with_suffix, write_whole};

/// The names of the files of one kind of trial.
#[derive(Clone, Copy, Debug)]
struct Names {
    record: &'static str,
    text: &'static str,
    previous: &'static str,
    subject: &'static str,
}

const POLICY: Names =
    Names { record: "trial.json", text: "trial.policy", previous: "previous.policy", subject: "policy" };
const GRAPH: Names =
    Names { record: "trial-graph.json", text: "trial.graph", previous: "previous.graph", subject: "graph" };

/// Another one after each boot: monotonic time starts again then.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// How far a trial is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The trial is running: it was not confirmed, and has not failed.
    Waiting,
    /// It was confirmed; the policy file may not have the text yet.
    Confirmed,
    /// It failed; the policy file may not have the text before again.
    Rejected,
}

/// A policy, or a graph, that is in force on trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// The path of the file that gets the text when it is confirmed.
    pub policy: PathBuf,
    /// Where the text on trial is from.
    pub source: String,
    /// It was in that file already.
    pub in_place: bool,
    /// The end, nanoseconds of the monotonic clock.
    pub until: u64,
    /// The ID of the boot that `until` counts from.
    pub boot: String,
    /// How far it is.
    pub stage: Stage,
}

impl Trial {
    /// One that ends at `until`.
    pub fn new(policy: &Path, source: String, in_place: bool, until: Time) -> Trial {
        let policy = policy.to_owned();
        Trial { policy, source, in_place, until: until.0, boot: boot(), stage: Stage::Waiting }
    }

    /// Whether the text on trial is to be in force.
    pub fn holds(&self, now: Time) -> bool {
        match self.stage {
            Stage::Waiting => self.boot == boot() && now.0 < self.until,
            Stage::Confirmed => true,
            Stage::Rejected => false,
        }
    }

    /// The number of seconds until the trial's end, rounded up.
    pub fn seconds_left(&self, now: Time) -> u64 {
        self.until.saturating_sub(now.0).div_ceil(1_000_000_000)
    }
}

fn boot() -> String {
    fs::read_to_string(BOOT).map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// The trial's files in the run directory; without one nothing is kept (tests of the control API).
#[derive(Clone, Debug)]
pub struct TrialFiles {
    run_dir: Option<PathBuf>,
    names: Names,
}

impl TrialFiles {
    /// The files of a policy on trial.
    pub fn of_policy(run_dir: Option<&Path>) -> TrialFiles {
        TrialFiles { run_dir: run_dir.map(Path::to_owned), names: POLICY }
    }

    /// The files of a graph on trial.
    pub fn of_graph(run_dir: Option<&Path>) -> TrialFiles {
        TrialFiles { run_dir: run_dir.map(Path::to_owned), names: GRAPH }
    }

    fn at(&self, name: &str) -> Option<PathBuf> {
        self.run_dir.as_ref().map(|dir| dir.join(name))
    }

    /// The trial that an earlier daemon left. One whose record cannot be read has failed: its text is not loaded.
    pub fn read(&self) -> io::Result<Option<Trial>> {
        let Some(octets) = self.at(self.names.record).map_or(Ok(None), |path| read(&path))? else {
            return Ok(None);
        };
        serde_json::from_slice(&octets).map(Some).map_err(|error| {
            let Names { subject, record, .. } = self.names;
            let text = format!("the record of a {subject} on trial is damaged ({error}); remove {record} to go on with the {subject} file");
            io::Error::new(io::ErrorKind::InvalidData, text)
        })
    }

    /// The text on trial.
    pub fn text(&self) -> io::Result<Option<Vec<u8>>> {
        self.at(self.names.text).map_or(Ok(None), |path| read(&path))
    }

    /// The text from before the trial, if it is kept.
    pub fn previous(&self) -> io::Result<Option<Vec<u8>>> {
        self.at(self.names.previous).map_or(Ok(None), |path| read(&path))
    }

    /// Keep the text before, or none.
    pub fn keep_previous(&self, text: Option<&[u8]>) -> io::Result<()> {
        match (self.at(self.names.previous), text) {
            (Some(path), Some(text)) => write_whole(&path, text, None),
            (Some(path), None) => remove(&path),
            (None, _) => Ok(()),
        }
    }

    /// Begin: the texts first, so that no record is without them.
    pub fn begin(&self, trial: &Trial, text: &[u8]) -> io::Result<()> {
        let Some(path) = self.at(self.names.text) else { return Ok(()) };
        write_whole(&path, text, None)?;
        self.note(trial)
    }

    /// Write how far it is.
    fn note(&self, trial: &Trial) -> io::Result<()> {
        let Some(path) = self.at(self.names.record) else { return Ok(()) };
        write_whole(&path, &serde_json::to_vec_pretty(trial)?, None)
    }

    /// Note that a trial has come this far. Where that cannot be written, it has not.
    pub fn note_stage(&self, trial: &mut Trial, stage: Stage) -> io::Result<()> {
        let noted = Trial { stage, ..trial.clone() };
        self.note(&noted)?;
        *trial = noted;
        Ok(())
    }

    /// The trial is over.
    pub fn forget(&self) -> io::Result<()> {
        // The record first: without it the text means nothing.
        [self.names.record, self.names.text]
            .into_iter()
            .filter_map(|name| self.at(name))
            .try_for_each(|path| remove(&path))
    }
}

/// What became of the policy file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchanged {
    /// It has another text.
    pub installed: bool,
    /// Where the text is that it had.
    pub kept_as: Option<PathBuf>,
}

/// Give the policy file a text; the one that it had is kept beside it as `FILE.KEEP`.
pub fn install(policy: &Path, text: &[u8], keep: &str) -> io::Result<Exchanged> {
    let mut out = Exchanged::default();
    // A link stays a link.
    let policy = fs::canonicalize(policy).unwrap_or_else(|_| policy.to_owned());
    let before = read(&policy)?;
    if before.as_deref() == Some(text) {
        return Ok(out);
    }
    let like = fs::metadata(&policy).ok();
    if let Some(before) = before {
        let beside = with_suffix(&policy, keep);
        write_whole(&beside, &before, like.as_ref())?;
        out.kept_as = Some(beside);
    }
    write_whole(&policy, text, like.as_ref())?;
    out.installed = true;
    Ok(out)
}

/// What an instance that is taken off the host leaves: a trial that was not confirmed has failed.
pub fn abandon(run_dir: &Path) -> io::Result<()> {
    [TrialFiles::of_policy(Some(run_dir)), TrialFiles::of_graph(Some(run_dir))]
        .iter()
        .try_for_each(abandon_one)
}

fn abandon_one(files: &TrialFiles) -> io::Result<()> {
    if let Some(trial) = files.read()?
        && trial.in_place
        && trial.stage != Stage::Confirmed
        && let Some(previous) = files.previous()?
    {
        install(&trial.policy, &previous, "rejected")?;
    }
    files.forget()
}

/// The octets of a file; `None`: it is not there.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(octets) => Ok(Some(octets)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("ravelin-trial-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_text_is_exchanged_and_the_other_one_kept_with_its_permissions() {
        let folder = Folder::new("install");
        let policy = folder.0.join("policy");
        fs::write(&policy, "old").unwrap();
        fs::set_permissions(&policy, fs::Permissions::from_mode(0o640)).unwrap();
        let link = folder.0.join("link");
        std::os::unix::fs::symlink(&policy, &link).unwrap();
        let done = install(&link, b"new", "previous").unwrap();
        assert!(done.installed && fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&policy).unwrap(), b"new");
        assert_eq!(fs::read(done.kept_as.unwrap()).unwrap(), b"old");
        for file in [&policy, &folder.0.join("policy.previous")] {
            assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o640, "{}", file.display());
        }
        assert_eq!(install(&policy, b"new", "previous").unwrap(), Exchanged::default());
        assert_eq!(fs::read(folder.0.join("policy.previous")).unwrap(), b"old");
    }

    #[test]
    fn a_trial_ends_with_its_time_and_with_the_boot() {
        let trial = Trial::new(Path::new("/p"), "f".into(), false, Time::from_secs(100));
        assert!(trial.holds(Time::from_secs(99)) && !trial.holds(Time::from_secs(100)));
        assert_eq!(trial.seconds_left(Time::from_secs(99)), 1);
        assert!(!Trial { boot: "another".into(), ..trial.clone() }.holds(Time::from_secs(1)));
        assert!(Trial { stage: Stage::Confirmed, ..trial.clone() }.holds(Time::from_secs(1000)));
        assert!(!Trial { stage: Stage::Rejected, ..trial }.holds(Time::from_secs(1)));
    }

    #[test]
    fn a_stage_that_cannot_be_written_is_not_reached() {
        let folder = Folder::new("stage");
        let files = TrialFiles::of_graph(Some(&folder.0));
        let mut trial = Trial::new(Path::new("/p"), "f".into(), false, Time::from_secs(100));
        fs::remove_dir(&folder.0).unwrap();
        files.note_stage(&mut trial, Stage::Confirmed).unwrap_err();
        // It still ends with its time.
        assert!(trial.stage == Stage::Waiting && !trial.holds(Time::from_secs(100)));
        fs::create_dir(&folder.0).unwrap();
        files.note_stage(&mut trial, Stage::Confirmed).unwrap();
        assert_eq!((files.read().unwrap(), trial.stage), (Some(trial.clone()), Stage::Confirmed));
    }

    #[test]
    fn what_an_instance_leaves_that_goes_is_not_confirmed() {
        let folder = Folder::new("abandon");
        let policy = folder.0.join("policy");
        fs::write(&policy, "edited").unwrap();
        let files = TrialFiles::of_policy(Some(&folder.0));
        let trial = Trial::new(&policy, "policy".into(), true, Time(u64::MAX));
        files.keep_previous(Some(b"before")).unwrap();
        files.begin(&trial, b"edited").unwrap();
        assert_eq!(files.read().unwrap(), Some(trial.clone()));
        abandon(&folder.0).unwrap();
        assert_eq!(fs::read(&policy).unwrap(), b"before");
        assert_eq!(fs::read(folder.0.join("policy.rejected")).unwrap(), b"edited");
        assert_eq!(files.read().unwrap(), None);
        // A confirmed one is not taken back.
        fs::write(&policy, "edited").unwrap();
        files.begin(&Trial { stage: Stage::Confirmed, ..trial }, b"edited").unwrap();
        abandon(&folder.0).unwrap();
        assert_eq!(fs::read(&policy).unwrap(), b"edited");
    }
}
