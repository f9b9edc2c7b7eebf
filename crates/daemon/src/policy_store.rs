//! The policy in force: from a file to tables, and what stays in force when the file breaks.
//!
//! What enters: the policy file. What leaves: a [`policy::Compiled`] in which a broken block has its last good version
//! (docs/design/0004), the executables behind each application, and how the applications compare. Numbers of applications are
//! written down beside the sockets, since marks and pinned maps of an earlier daemon hold them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::{Decision, Position, RefusedBlock};
use crypto::Suites;
use policy::{AppTable, Compiled, Executables, Image, Parsed};
use sadb::spd::{Order, RuleId};
use wire::{AppId, Flow};

use crate::classes::ClassCatalogue;
use crate::trial::{Trial, TrialFiles};
use crate::{last_policy, names};
use documents::decision::{block_position, decision, rule_position};
use host_files::HostFiles;

/// The file in the instance's run directory that keeps the applications' numbers.
pub(crate) const NUMBERS: &str = "applications.json";

mod candidate;
mod closed;
mod missing;
mod renamed;
mod transition;

pub use candidate::follow::moved_paths;
pub use candidate::{Candidate, Executable};
pub use closed::{closed, closed_by};
pub use missing::missing;
pub use renamed::Renamed;
pub use transition::is_same;

/// A policy that was in force, to go back to.
pub struct Previous {
    /// The text of that policy.
    pub text: Arc<[u8]>,
    /// Its tables, if this daemon had them in force.
    candidate: Option<Box<Candidate>>,
}

/// The policy in force.
pub struct PolicyStore {
    file: PathBuf,
    /// The suites that a policy may name.
    suites: Suites,
    /// The classes that a policy may name.
    classes: ClassCatalogue,
    numbers: Option<PathBuf>,
    table: AppTable,
    renamed: Renamed,
    files: TrialFiles,
    /// The policy that is in force on trial.
    pub trial: Option<Trial>,
    /// The policy before the one in force.
    pub previous: Option<Previous>,
    /// The text of what is in force, and whether no block of it was broken.
    text: Arc<[u8]>,
    sound: bool,
    /// What is in force.
    pub compiled: Compiled,
    /// Applications that run on their last good version.
    pub kept: BTreeSet<AppId>,
    /// Blocks that did not compile.
    pub refused: Vec<RefusedBlock>,
    /// Warnings of the last load.
    pub warnings: usize,
    /// When it was loaded, seconds since 1970.
    pub loaded: u64,
    /// What the last attempt said, if it failed.
    pub last_error: Option<String>,
}

/// Why a policy cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct Unreadable {
    path: PathBuf,
    source: io::Error,
}

impl PolicyStore {
    /// An empty store for this file; numbers of applications are kept in `run_dir`, if given.
    ///
    /// # Errors
    /// If the numbers of an earlier daemon are there and cannot be read: its marks would then change their meaning.
    pub fn new(
        file: &Path,
        run_dir: Option<&Path>,
        suites: &Suites,
        classes: &ClassCatalogue,
    ) -> Result<PolicyStore, Unreadable> {
        let numbers = run_dir.map(|dir| dir.join(NUMBERS));
        let table = match &numbers {
            Some(path) => read_numbers(path).map_err(|source| Unreadable { path: path.clone(), source })?,
            None => AppTable::new(),
        };
        let renamed = match &numbers {
            Some(path) => {
                let path = path.with_file_name(renamed::FILE);
                renamed::read(&path).map_err(|source| Unreadable { path, source })?
            }
            None => Renamed::new(),
        };
        let files = TrialFiles::of_policy(run_dir);
        let unreadable = |source| Unreadable { path: run_dir.unwrap_or(Path::new("")).to_owned(), source };
        let trial = files.read().map_err(unreadable)?;
        let previous = files.previous().map_err(unreadable)?;
        let empty = policy::parse(&file.display().to_string(), "");
        let mut compiled = policy::compile(&empty, &mut AppTable::new(), 0);
        // What an earlier daemon knew of names is better than nothing.
        compiled.resolve(&run_dir.map(names::read).unwrap_or_default());
        Ok(PolicyStore {
            files,
            trial,
            previous: previous.map(|text| Previous { text: text.into(), candidate: None }),
            text: Arc::default(),
            sound: true,
            file: file.to_owned(),
            suites: suites.clone(),
            classes: classes.clone(),
            numbers,
            compiled,
            table,
            renamed,
            kept: BTreeSet::new(),
            refused: Vec::new(),
            warnings: 0,
            loaded: 0,
            last_error: None,
        })
    }

    /// The classes that a policy may name, which rules and associations may name too.
    pub fn classes(&self) -> &ClassCatalogue {
        &self.classes
    }

    /// The path of the policy file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The folder in which a daemon after this one finds what it must know; `None`: nothing is written down.
    pub fn run_dir(&self) -> Option<&Path> {
        self.numbers.as_ref().and_then(|path| path.parent())
    }

    /// Read and compile the file, or what is on trial in its place; nothing in force changes. [`Candidate::follow`] comes next,
    /// before it is put in force.
    ///
    /// # Errors
    /// If the file cannot be read, or if its own tests speak against it.
    pub fn read(&self) -> Result<Candidate, Unreadable> {
        let text = self.text_to_load(netio::clock::monotonic());
        let octets = text.map_err(|source| Unreadable { path: self.file.clone(), source })?;
        self.read_text(&self.file.display().to_string(), &octets)
    }

    /// Compile a text that is called `name`, as [`PolicyStore::read`] does with the file; nothing in force changes.
    ///
    /// # Errors
    /// If the text's own tests speak against it.
    pub fn read_text(&self, name: &str, octets: &[u8]) -> Result<Candidate, Unreadable> {
        let unreadable = |text| Unreadable { path: name.into(), source: io::Error::other(text) };
        let host = HostFiles::here(&self.suites, &self.classes.get());
        let parsed = policy::parse_over(name, octets, &host, &self.compiled);
        if parsed.tests_failed() {
            let text = format!("its tests fail, so nothing of it is loaded\n{}", parsed.render(false));
            return Err(unreadable(text));
        }
        // Held once with the places of the rules, unless it is no text.
        let text = match parsed.text.as_bytes() == octets {
            true => Arc::clone(&parsed.text).into(),
            false => octets.into(),
        };
        Ok(self.candidate(&parsed, text))
    }

    fn candidate(&self, parsed: &Parsed, text: Arc<[u8]>) -> Candidate {
        let mut table = self.table.clone();
        let generation = self.compiled.spd.generation + 1;
        let mut compiled = policy::compile_over(parsed, &mut table, generation, &self.compiled);
        let known: HashMap<&str, &policy::Application> =
            self.compiled.applications.iter().rev().map(|app| (app.name.as_str(), app)).collect();
        // The policy in force goes on for an application whose block is broken.
        let broken = self.broken(parsed, &compiled);
        let had = broken.iter().filter_map(|(application, _)| known.get(application.as_str()).copied());
        let kept = compiled.keep_applications(&self.compiled, had);
        let file = compiled.file.clone();
        let mut refused: Vec<RefusedBlock> = broken
            .into_iter()
            .map(|(application, line)| RefusedBlock {
                kept_last_good: known.get(application.as_str()).is_some_and(|app| kept.contains(&app.id)),
                at: Position { file: file.clone(), line, column: None, text: String::new() },
                application,
            })
            .collect();
        let guard_stays = compiled.keep_guard(&self.compiled);
        for block in refused.iter_mut().filter(|block| block.application == policy::GUARD) {
            block.kept_last_good |= guard_stays;
        }
        if !kept.is_empty() {
            compiled.find_subjects();
        }
        compiled.resolve(&self.compiled.named.names);
        compiled.spd.share(&self.compiled.spd);
        let count = |severity| parsed.diagnostics.iter().filter(|d| d.severity == severity).count();
        Candidate {
            errors: count(policy::Severity::Error),
            warnings: count(policy::Severity::Warning),
            diagnostics: parsed.render(false),
            compiled,
            kept,
            refused,
            renamed: self.renamed.clone(),
            text,
            table,
        }
    }

    /// Applications whose block is broken, with its line. An error can also hide that a block is there at all (a quote or a
    /// comment without end), so in a file with errors no application that has a policy is taken to have lost it.
    fn broken(&self, parsed: &Parsed, compiled: &Compiled) -> Vec<(String, usize)> {
        let mut broken: Vec<(String, usize)> =
            compiled.left_out.iter().map(|left| (left.name.clone(), left.line)).collect();
        let first = parsed.diagnostics.iter().find(|d| d.is_error());
        if let Some(first) = first {
            let named = compiled.applications.iter().map(|app| app.name.as_str());
            let known: HashSet<&str> =
                named.chain(compiled.left_out.iter().map(|left| left.name.as_str())).collect();
            let lost = self.compiled.applications.iter().filter(|app| !known.contains(app.name.as_str()));
            broken.extend(lost.map(|app| (app.name.clone(), first.line)));
        }
        broken
    }

    /// Applications that have a policy now and would have none with this one.
    pub fn lost(&self, candidate: &Candidate) -> Vec<String> {
        let stays = |id: AppId| candidate.compiled.spd.get(id).is_some();
        let lost = self.compiled.applications.iter().filter(|app| !stays(app.id));
        let mut lost: Vec<String> = lost.map(|app| app.name.clone()).collect();
        let has_guard = |spd: &sadb::spd::Spd| !spd.guard.networks().is_empty();
        if has_guard(&self.compiled.spd) && !has_guard(&candidate.compiled.spd) {
            lost.push(policy::GUARD.to_owned());
        }
        lost
    }

    /// Write the numbers of its applications down; before the kernel hears of them.
    ///
    /// # Errors
    /// If they cannot be written: a later daemon would give them to others.
    pub fn commit_numbers(&mut self, candidate: &Candidate) -> Result<(), Unreadable> {
        if let Some(path) = &self.numbers
            && self.table != candidate.table
        {
            write_numbers(path, &candidate.table)
                .map_err(|source| Unreadable { path: path.clone(), source })?;
        }
        if let Some(path) = &self.numbers
            && !(self.renamed.is_empty() && candidate.renamed.is_empty())
        {
            let path = path.with_file_name(renamed::FILE);
            renamed::write(&path, &candidate.renamed).map_err(|source| Unreadable { path, source })?;
        }
        if let Some(run_dir) = self.run_dir() {
            closed::note(run_dir, &candidate.compiled)
                .map_err(|source| Unreadable { path: run_dir.to_owned(), source })?;
        }
        self.table = candidate.table.clone();
        Ok(())
    }

    /// A candidate whose numbers were written down is not in force after all. Numbers that were given stay given; who goes on under
    /// which other name, and which programs are closed without a daemon, is what it was.
    pub fn withdraw_numbers(&self) {
        let Some(path) = &self.numbers else { return };
        if let Err(error) = renamed::write(&path.with_file_name(renamed::FILE), &self.renamed) {
            tracing::warn!("a daemon after this one may keep names of a policy that was not loaded: {error}");
        }
        if let Some(Err(error)) = path.parent().map(|run_dir| closed::note(run_dir, &self.compiled)) {
            tracing::warn!(
                "without a daemon, programs of a policy that was not loaded may be named closed: {error}"
            );
        }
    }

    /// The candidate is in force from now on.
    pub fn adopt(&mut self, candidate: Candidate, now_unix: u64) {
        self.sound = candidate.is_sound();
        if self.sound && self.trial.is_none() {
            self.keep_for_boot(&candidate.text);
        }
        self.text = Arc::clone(&candidate.text);
        self.table = candidate.table;
        self.renamed = candidate.renamed;
        self.compiled = candidate.compiled;
        self.kept = candidate.kept;
        self.refused = candidate.refused;
        self.warnings = candidate.warnings;
        self.loaded = now_unix;
        self.last_error = None;
    }

    /// The next boot begins with this text ([`crate::start::boot`]).
    fn keep_for_boot(&self, text: &[u8]) {
        if let Err(error) = last_policy::keep(&self.file, text) {
            tracing::warn!("the policy is not kept for the next boot (`ravelin boot`): {error}");
        }
    }

    /// The names of the policy have other addresses from now on.
    pub fn adopt_names(&mut self, candidate: Candidate) {
        self.compiled = candidate.compiled;
        self.renamed = candidate.renamed;
    }

    /// What is in force, to be loaded into the kernel once more.
    pub fn in_force(&self) -> Candidate {
        Candidate {
            compiled: self.compiled.clone(),
            kept: self.kept.clone(),
            refused: self.refused.clone(),
            diagnostics: String::new(),
            errors: 0,
            warnings: self.warnings,
            renamed: self.renamed.clone(),
            text: Arc::clone(&self.text),
            table: self.table.clone(),
        }
    }

    /// An application's number, if it has a block.
    pub fn app(&self, name: &str) -> Option<AppId> {
        self.compiled.find(name).map(|a| a.id)
    }

    /// An application's name, also of one that has left the policy.
    pub fn app_name(&self, id: AppId) -> String {
        match self.table.name(id) {
            Some(name) => name.to_owned(),
            None if id == sockmon::REFUSED => "(executable that is not verified)".to_owned(),
            None => format!("application {}", id.0),
        }
    }

    /// Where the block of an application is.
    pub fn block(&self, id: AppId) -> Option<Position> {
        self.compiled.application(id).map(|app| block_position(&self.compiled, app))
    }

    /// What a flow of an application gets, and why.
    pub fn decision(&self, id: AppId, flow: &Flow) -> Decision {
        let mut decision = decision(&self.compiled.explain_app(id, flow));
        if self.kept.contains(&id) {
            let note = "the block is broken in the file now: this is its last good version, with the lines it had then";
            decision.notes.push(note.to_owned());
        }
        decision
    }

    /// The place of a rule.
    pub fn rule(&self, id: RuleId) -> Option<Position> {
        rule_position(&self.compiled, id)
    }
}

/// Pairs of applications that do not compare as their tables do ([`sockmon::Sockmon::load_policy`]).
pub fn orders(candidate: &Candidate) -> Vec<((AppId, AppId), Order)> {
    candidate::follow::orders(candidate)
}

/// The executables that the subjects of a policy name, as they are now: a change means that the kernel half should look again. A path
/// is a path; a bare name is every executable of that name in the standard directories. A path that does not answer has none.
pub fn executables(compiled: &Compiled) -> Vec<Executable> {
    let mut wanted: Vec<(AppId, PathBuf)> = Vec::new();
    for app in &compiled.applications {
        let own = match &app.selector.executables {
            Executables::Named(image) => Some((app.id, image)),
            Executables::Anonymous | Executables::Any => None,
        };
        let behind = app.selector.from.as_ref().map(|image| (AppId::NONE, image));
        for (app, image) in own.into_iter().chain(behind) {
            wanted.extend(candidates(image).into_iter().map(|path| (app, path)));
        }
    }
    let paths: BTreeSet<PathBuf> = wanted.iter().map(|(_, path)| path.clone()).collect();
    let paths: Vec<PathBuf> = paths.into_iter().collect();
    let found = host_files::foreign::each(&paths, |path| executable(path).ok());
    let found: HashMap<&PathBuf, (u64, u64)> =
        paths.iter().zip(found).filter_map(|(path, found)| Some((path, found.flatten()?))).collect();
    let mut seen = BTreeSet::new();
    let mut out = Vec::new();
    for (app, path) in wanted {
        let Some(identity) = found.get(&path).copied() else { continue };
        if seen.insert((app, path.clone(), identity)) {
            out.push(Executable { app, path, identity });
        }
    }
    out
}

fn candidates(image: &Image) -> Vec<PathBuf> {
    match image {
        Image::Path(path) => vec![PathBuf::from(path)],
        Image::Name(name) => {
            policy::STANDARD_DIRECTORIES.iter().map(|dir| Path::new(dir).join(name)).collect()
        }
    }
}

/// Device and inode of an executable file; a script is none, as its processes execute the interpreter.
fn executable(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::metadata(path)?;
    if !host_files::is_executable(&file) || host_files::interpreter(path).is_some() {
        return Err(io::Error::other("not an executable file"));
    }
    Ok((file.dev(), file.ino()))
}

fn read_numbers(path: &Path) -> io::Result<AppTable> {
    let octets = match fs::read(path) {
        Ok(octets) => octets,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(AppTable::new()),
        Err(error) => return Err(error),
    };
    let entries: BTreeMap<String, u16> = serde_json::from_slice(&octets).map_err(|error| {
        let text = format!("damaged ({error}); `ravelin detach` starts afresh");
        io::Error::new(io::ErrorKind::InvalidData, text)
    })?;
    Ok(AppTable::from_entries(entries.into_iter().map(|(name, id)| (name, AppId(id)))))
}

/// Write aside and rename: never half a table.
fn write_numbers(path: &Path, table: &AppTable) -> io::Result<()> {
    let entries: BTreeMap<&str, u16> = table.iter().map(|(name, id)| (name, id.0)).collect();
    let aside = path.with_extension("new");
    fs::write(&aside, serde_json::to_vec_pretty(&entries)?)?;
    fs::rename(aside, path)
}

/// Remove the numbers of an instance, after its maps.
pub fn forget_numbers(run_dir: &Path) -> io::Result<()> {
    names::forget(run_dir)?;
    for file in [NUMBERS, renamed::FILE, closed::FILE] {
        match fs::remove_file(run_dir.join(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
