//! The text of the graph of classes: what is loaded at a start, what is in force, what is on trial, and what was before.
//!
//! A graph that `[qos]` names by `file` is kept in that file. One that it names by `preset` has no file: what is applied
//! in its place is kept in the run directory, as `applied-PRESET.graph`, through restarts and hand-overs, and forgotten
//! at a reboot.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::QosOrigin;
use config::{Config, GraphSource};
use netio::clock;
use qos::graph::PRESETS;
use wire::Time;

use crate::trial::{Exchanged, Stage, Trial, TrialFiles, install, read};

/// The suffix of the text that a confirmed one takes the place of.
const PREVIOUS: &str = "previous";
/// The suffix of a text whose trial failed.
const REJECTED: &str = "rejected";

/// A text with the name that messages give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphText {
    /// The name in messages: the path of a file, or `preset voice`.
    pub source: String,
    /// The octets of the text, as they were read.
    pub octets: Arc<[u8]>,
}

impl GraphText {
    fn new(source: impl Into<String>, octets: impl Into<Arc<[u8]>>) -> GraphText {
        GraphText { source: source.into(), octets: octets.into() }
    }
}

/// The texts of the graph of an instance.
#[derive(Debug)]
pub struct GraphStore {
    /// The file that a confirmed text is kept in.
    file: PathBuf,
    /// The preset that `[qos]` names, if it names one.
    preset: Option<&'static str>,
    files: TrialFiles,
    trial: Option<Trial>,
    previous: Option<GraphText>,
    in_force: Option<GraphText>,
    /// The file that has the text which was taken back last.
    rejected: Option<PathBuf>,
}

impl GraphStore {
    /// The texts of the graph that a configuration names, with what an earlier daemon left in the run directory; `None`
    /// without `[qos]`.
    ///
    /// # Errors
    /// The files cannot be read, or the record of a trial is damaged.
    pub fn open(config: &Config, run_dir: &Path) -> io::Result<Option<GraphStore>> {
        let Some(qos) = &config.qos else { return Ok(None) };
        let (file, preset) = match &qos.graph {
            GraphSource::File(file) => (file.clone(), None),
            GraphSource::Preset(name) => (run_dir.join(format!("applied-{name}.graph")), Some(*name)),
        };
        let files = TrialFiles::of_graph(Some(run_dir));
        let (previous, in_force, rejected) = (None, None, None);
        let mut store = GraphStore { file, preset, files, trial: None, previous, in_force, rejected };
        store.look_again()?;
        Ok(Some(store))
    }

    /// Look again at what another daemon may have done meanwhile.
    ///
    /// # Errors
    /// The files cannot be read.
    pub fn look_again(&mut self) -> io::Result<()> {
        // A trial of another graph than this configuration names is none of it.
        self.trial = self.files.read()?.filter(|trial| trial.policy == self.file);
        let name = self.file.display().to_string();
        self.previous = self.files.previous()?.map(|octets| GraphText::new(name, octets));
        Ok(())
    }

    /// The text that a start loads: what is on trial, or what is kept. `asked` is the time of the start.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn to_load(&self, now: Time) -> io::Result<GraphText> {
        match &self.trial {
            Some(trial) if trial.holds(now) => {
                if let Some(octets) = self.files.text()? {
                    return Ok(GraphText::new(trial.source.clone(), octets));
                }
            }
            Some(trial) if trial.in_place => {
                if let Some(previous) = &self.previous {
                    return Ok(previous.clone());
                }
            }
            _ => {}
        }
        self.configured()
    }

    /// The text that is kept: of the file, or of the preset where nothing took its place.
    ///
    /// # Errors
    /// The file cannot be read, or there is no such preset.
    pub fn configured(&self) -> io::Result<GraphText> {
        if let Some(octets) = read(&self.file)? {
            return Ok(GraphText::new(self.file.display().to_string(), octets));
        }
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let preset = self.preset.ok_or_else(missing)?;
        let (_, text) = PRESETS.iter().find(|(name, _)| *name == preset).ok_or_else(missing)?;
        Ok(GraphText::new(format!("preset {preset}"), text.as_bytes()))
    }

    /// The name of the text that is kept, for messages.
    pub fn name(&self) -> String {
        match &self.preset {
            Some(preset) if !self.file.exists() => format!("preset {preset}"),
            _ => self.file.display().to_string(),
        }
    }

    /// Where the text in force is from.
    pub fn origin(&self) -> QosOrigin {
        let configured = match &self.preset {
            Some(preset) => format!("preset {preset}"),
            None => self.file.display().to_string(),
        };
        let applied = self.in_force.as_ref().is_some_and(|text| text.source != configured);
        let rejected = self.rejected.as_ref().map(|path| path.display().to_string());
        QosOrigin { configured, applied, rejected }
    }

    /// Do what the end of a trial still needs that an earlier daemon did not get to; this daemon loaded what belongs to
    /// it.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn settle(&mut self, now: Time) -> io::Result<()> {
        match &self.trial {
            Some(trial) if trial.stage == Stage::Confirmed => self.finish_confirm().map(drop),
            Some(trial) if !trial.holds(now) => self.finish_reject().map(drop),
            _ => Ok(()),
        }
    }

    /// This text is in force.
    pub fn adopt(&mut self, text: GraphText) {
        self.in_force = Some(text);
    }

    /// The text that is in force.
    pub fn in_force(&self) -> Option<&GraphText> {
        self.in_force.as_ref()
    }

    /// The text before the one in force.
    pub fn previous(&self) -> Option<&GraphText> {
        self.previous.as_ref()
    }

    /// The trial of the graph in force.
    pub fn trial(&self) -> Option<&Trial> {
        self.trial.as_ref()
    }

    /// A text took the place of `before` without a trial: it is kept, and the one before to go back to.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn install(&mut self, text: &GraphText, before: Option<GraphText>) -> io::Result<Exchanged> {
        let done = install(&self.file, &text.octets, PREVIOUS)?;
        self.keep_previous(text, before)?;
        self.rejected = None;
        Ok(done)
    }

    /// A trial begins, before the text is put in force. The answer is the record of it.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn begin_trial(&mut self, text: &GraphText, within: Duration) -> io::Result<()> {
        let in_place = read(&self.file)?.is_some_and(|octets| *octets == *text.octets);
        let until = clock::monotonic() + within;
        let trial = Trial::new(&self.file, text.source.clone(), in_place, until);
        self.keep_previous(text, self.in_force.clone())?;
        self.files.begin(&trial, &text.octets)?;
        self.trial = Some(trial);
        self.rejected = None;
        Ok(())
    }

    /// A trial did not begin after all.
    pub fn call_trial_off(&mut self, previous: Option<GraphText>) {
        self.trial = None;
        let kept = self.files.keep_previous(previous.as_ref().map(|text| &*text.octets));
        self.previous = previous;
        if let Err(error) = kept.and_then(|()| self.files.forget()) {
            tracing::warn!("the record of a graph on trial stays: {error}");
        }
    }

    /// The trial has succeeded: the file gets the text.
    ///
    /// # Errors
    /// It cannot be written; the trial goes on.
    pub fn confirm(&mut self) -> io::Result<Exchanged> {
        self.at_stage(Stage::Confirmed)?;
        self.finish_confirm().inspect_err(|_| {
            if let Err(error) = self.at_stage(Stage::Waiting) {
                tracing::error!("a graph on trial counts as confirmed, but is not in its file: {error}");
            }
        })
    }

    /// The text before is in force again: the file has it, and there is nothing to go back to any more.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn went_back(&mut self, text: &GraphText) -> io::Result<Exchanged> {
        if self.trial.is_some() {
            self.at_stage(Stage::Rejected)?;
            return self.finish_reject();
        }
        let done = self.take_back(text)?;
        self.forget_previous()?;
        Ok(done)
    }

    /// The name of the text on trial whose time to confirm is over.
    pub fn overdue(&self, now: Time) -> Option<&str> {
        self.trial.as_ref().filter(|trial| !trial.holds(now)).map(|trial| trial.source.as_str())
    }

    fn finish_confirm(&mut self) -> io::Result<Exchanged> {
        let Some(trial) = &self.trial else { return Ok(Exchanged::default()) };
        let mut done = Exchanged::default();
        if !trial.in_place
            && let Some(text) = self.files.text()?
        {
            done = install(&self.file, &text, PREVIOUS)?;
        }
        self.files.forget()?;
        self.trial = None;
        Ok(done)
    }

    fn finish_reject(&mut self) -> io::Result<Exchanged> {
        let Some(trial) = &self.trial else { return Ok(Exchanged::default()) };
        let mut done = Exchanged::default();
        if trial.in_place
            && let Some(before) = self.previous.clone()
        {
            done = self.take_back(&before)?;
        }
        self.forget_previous()?;
        self.files.forget()?;
        self.trial = None;
        Ok(done)
    }

    /// Give the file the text before; the one that it had is kept as `FILE.rejected`.
    fn take_back(&mut self, before: &GraphText) -> io::Result<Exchanged> {
        let done = install(&self.file, &before.octets, REJECTED)?;
        self.rejected.clone_from(&done.kept_as);
        Ok(done)
    }

    /// Keep a text to go back to, unless it is the new one.
    fn keep_previous(&mut self, new: &GraphText, before: Option<GraphText>) -> io::Result<()> {
        let Some(before) = before.filter(|before| before.octets != new.octets) else { return Ok(()) };
        self.files.keep_previous(Some(&before.octets))?;
        self.previous = Some(before);
        Ok(())
    }

    fn forget_previous(&mut self) -> io::Result<()> {
        self.previous = None;
        self.files.keep_previous(None)
    }

    fn at_stage(&mut self, stage: Stage) -> io::Result<()> {
        self.trial.as_mut().map_or(Ok(()), |trial| self.files.note_stage(trial, stage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[class.one]\nmatch = \"rest\"\n";
    const TWO: &str = "[class.two]\nmatch = \"rest\"\n";

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("ravelin-graphs-{}-{name}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        /// The store of a daemon that starts now, with the text that it loads.
        fn start(&self, qos: &str) -> (GraphStore, GraphText) {
            let text = format!("policy = \"/etc/ravelin/policy\"\n[qos]\n{qos}\n");
            let file = self.0.join("ravelin.toml");
            std::fs::write(&file, text).unwrap();
            let config = Config::load(&file).unwrap();
            let mut store = GraphStore::open(&config, &self.0).unwrap().unwrap();
            let text = store.to_load(clock::monotonic()).unwrap();
            store.adopt(text.clone());
            store.settle(clock::monotonic()).unwrap();
            (store, text)
        }

        fn graph(&self) -> PathBuf {
            self.0.join("qos.toml")
        }

        fn of_file(&self) -> String {
            format!("file = {:?}", self.graph().display().to_string())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn text(octets: &str) -> GraphText {
        GraphText::new("/tmp/new.toml", octets.as_bytes())
    }

    #[test]
    fn what_takes_the_place_of_a_preset_is_kept_over_a_restart_and_by_its_name() {
        let folder = Folder::new("preset");
        let (mut store, first) = folder.start("preset = \"voice\"");
        assert_eq!(first.source, "preset voice");
        store.adopt(text(ONE));
        store.install(&text(ONE), Some(first.clone())).unwrap();
        let (again, loaded) = folder.start("preset = \"voice\"");
        assert_eq!(&*loaded.octets, ONE.as_bytes());
        assert_eq!(again.previous().unwrap().octets, first.octets);
        // Another preset in the configuration is another graph.
        assert_eq!(folder.start("preset = \"fair\"").1.source, "preset fair");
    }

    #[test]
    fn a_trial_holds_over_a_restart_and_its_end_leaves_the_file_alone() {
        let folder = Folder::new("trial");
        std::fs::write(folder.graph(), ONE).unwrap();
        let (mut store, _) = folder.start(&folder.of_file());
        store.begin_trial(&text(TWO), Duration::from_secs(60)).unwrap();
        let (mut store, loaded) = folder.start(&folder.of_file());
        assert_eq!((&*loaded.octets, loaded.source.as_str()), (TWO.as_bytes(), "/tmp/new.toml"));
        assert!(store.trial().is_some() && store.overdue(clock::monotonic()).is_none());
        assert_eq!(std::fs::read_to_string(folder.graph()).unwrap(), ONE);
        let before = store.previous().unwrap().clone();
        assert!(!store.went_back(&before).unwrap().installed);
        assert_eq!((store.trial(), store.previous()), (None, None));
        assert_eq!(&*folder.start(&folder.of_file()).1.octets, ONE.as_bytes());
    }

    #[test]
    fn a_trial_whose_time_is_over_at_a_start_has_failed() {
        let folder = Folder::new("late");
        std::fs::write(folder.graph(), ONE).unwrap();
        let (mut store, _) = folder.start(&folder.of_file());
        store.begin_trial(&text(TWO), Duration::ZERO).unwrap();
        let (store, loaded) = folder.start(&folder.of_file());
        assert_eq!((&*loaded.octets, store.trial()), (ONE.as_bytes(), None));
        // One that was in the file already gives the file back what was before.
        let (mut store, _) = folder.start(&folder.of_file());
        std::fs::write(folder.graph(), TWO).unwrap();
        store.begin_trial(&text(TWO), Duration::ZERO).unwrap();
        let (_, loaded) = folder.start(&folder.of_file());
        assert_eq!(&*loaded.octets, ONE.as_bytes());
        assert_eq!(std::fs::read_to_string(folder.graph()).unwrap(), ONE);
        assert_eq!(std::fs::read_to_string(folder.0.join("qos.toml.rejected")).unwrap(), TWO);
    }

    #[test]
    fn a_confirmed_graph_is_in_the_file_with_the_one_before_beside_it() {
        let folder = Folder::new("confirmed");
        std::fs::write(folder.graph(), ONE).unwrap();
        let (mut store, _) = folder.start(&folder.of_file());
        store.begin_trial(&text(TWO), Duration::from_secs(60)).unwrap();
        store.adopt(text(TWO));
        assert!(store.confirm().unwrap().installed);
        assert_eq!(std::fs::read_to_string(folder.graph()).unwrap(), TWO);
        assert_eq!(std::fs::read_to_string(folder.0.join("qos.toml.previous")).unwrap(), ONE);
        let (mut store, _) = folder.start(&folder.of_file());
        let before = store.previous().unwrap().clone();
        assert!(store.went_back(&before).unwrap().installed);
        assert_eq!(std::fs::read_to_string(folder.graph()).unwrap(), ONE);
    }
}
