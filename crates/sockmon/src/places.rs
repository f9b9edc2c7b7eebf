//! The places of the executables that a policy names.
//!
//! The images of a policy's subjects enter. For each of them leaves a place, which is a file name in a directory
//! whether or not the file exists now, with the kernel's numbers of directory and file. A symbolic link counts twice:
//! as the place of the link, and as that of the file it leads to. All files and directories that were opened stay open,
//! so that no other file gets their numbers.

use crate::abi::{self, Identity};
use crate::adopt;
use crate::error::SockmonError;
use crate::model::LoadWarning;
use crate::programs::Loaded;
use crate::walk::{self, Link, Step, Walk};
use host_files::foreign;
use policy::{Digest, Executables, Image, Subjects};
use rustix::fs::{FileType, Stat};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A path at which policy means whatever executable is there.
#[derive(Clone, Debug)]
pub struct Place {
    /// The path of the file, without symbolic links in its directory.
    pub path: PathBuf,
    /// The images that policy means by the file there.
    pub images: BTreeSet<Image>,
    /// The place as the kernel looks it up; `None`: its file name is too long.
    pub key: Option<abi::Place>,
    /// The identity of the file that is there now, if any.
    pub file: Option<Identity>,
    /// The digests of which the file must have one; `None` if any file will do.
    pub digests: Option<BTreeSet<Digest>>,
    /// The index of the file's descriptor in [`Places::held`].
    pub held: Option<usize>,
}

/// Every place of a policy.
#[derive(Debug, Default)]
pub struct Places {
    /// The places of the policy, in order of their paths.
    pub list: Vec<Place>,
    /// The open descriptors of the files and directories.
    pub held: Vec<Arc<OwnedFd>>,
    /// The findings that the user may not have meant.
    pub warnings: Vec<LoadWarning>,
    /// The answers for the paths, for a later search in which one does not answer.
    pub found: PathAnswers,
}

/// Every image that subjects name, those of `from` included, in order.
pub fn images(subjects: &Subjects) -> BTreeSet<Image> {
    let named = subjects.iter().filter_map(|(selector, _)| match &selector.executables {
        Executables::Named(image) => Some(image.clone()),
        Executables::Anonymous | Executables::Any => None,
    });
    named.chain(ancestors(subjects)).collect()
}

/// The images that subjects name as ancestors (`from`).
pub fn ancestors(subjects: &Subjects) -> BTreeSet<Image> {
    subjects.iter().filter_map(|(selector, _)| selector.from.clone()).collect()
}

/// A function that gives the kernel's numbers of open files.
pub type Numbers<'n> = &'n dyn Fn(&[&OwnedFd]) -> Result<Vec<Option<Identity>>, SockmonError>;

/// Search for every image. For a path that does not answer, the earlier answer counts.
pub fn find(
    loaded: &Loaded,
    subjects: &Subjects,
    directories: &[PathBuf],
    before: &PathAnswers,
) -> Result<Places, SockmonError> {
    find_by(&|files| adopt::identities(loaded, files), subjects, directories, before)
}

/// Search as [`find`] does, with `numbers` to give the kernel's numbers of files, so that no programs need to be
/// loaded.
pub fn find_by(
    numbers: Numbers<'_>,
    subjects: &Subjects,
    directories: &[PathBuf],
    before: &PathAnswers,
) -> Result<Places, SockmonError> {
    let mut search = Search::default();
    let asked: Vec<(Image, Vec<PathBuf>)> = images(subjects)
        .into_iter()
        .map(|image| {
            let paths = candidates(&image, directories);
            (image, paths)
        })
        .collect();
    let paths: BTreeSet<PathBuf> = asked.iter().flat_map(|(_, paths)| paths.iter().cloned()).collect();
    let paths: Vec<PathBuf> = paths.into_iter().collect();
    let answers = foreign::each(&paths, PathState::taker());
    for (path, answer) in paths.into_iter().zip(answers) {
        let answer = answer.unwrap_or_else(|| {
            search.warnings.push(LoadWarning::NoAnswer { path: path.clone() });
            before
                .get(&path)
                .cloned()
                .unwrap_or_else(|| Err(PlaceError::Nowhere("it did not answer".to_owned())))
        });
        search.answers.insert(path, answer);
    }
    for (image, paths) in asked {
        search.image(&image, &paths);
    }
    search.identify(numbers, subjects)
}

fn candidates(image: &Image, directories: &[PathBuf]) -> Vec<PathBuf> {
    match image {
        Image::Path(path) => vec![path.into()],
        Image::Name(name) => directories.iter().map(|directory| directory.join(name)).collect(),
    }
}

/// The answers for the paths of a policy.
pub type PathAnswers = BTreeMap<PathBuf, Answer>;
/// The state of a path, or the reason why it is no place.
type Answer = Result<PathState, PlaceError>;

/// The reason why the file at a path is not what policy means by the path.
#[derive(Clone, Debug)]
pub enum PlaceError {
    /// No file can be at the path; the text says why.
    Nowhere(String),
    /// The path leads, by a name of one user, to a file of another.
    Foreign(Box<Foreign>),
}

/// A path that leads, by a name of one user, to a file of another.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// The name that leads astray, and its owner.
    reason: String,
    /// The place of the path itself, for a file that appears there later; `None` if a link on the way to it leads
    /// astray already.
    own: Option<FileInDirectory>,
    /// The place of the file, if it is another one. The kernel half refuses a process that executes a hard link there.
    end: Option<FileInDirectory>,
}

impl Foreign {
    fn at(reason: String, own: Option<FileInDirectory>, end: Option<FileInDirectory>) -> PlaceError {
        PlaceError::Foreign(Box::new(Foreign { reason, own, end }))
    }
}

/// The state of a path at the time of the search.
#[derive(Clone, Debug)]
pub struct PathState {
    /// The place of the path, without symbolic links in its directory.
    own: FileInDirectory,
    /// The place that the path leads to, if it is a symbolic link.
    end: Option<FileInDirectory>,
    /// Whether policy also means a file that appears at `end` later.
    end_is_place: bool,
    /// What the first line of a `#!` script names.
    interpreter: Option<String>,
    /// The reason why no process can run the file now.
    fault: Option<String>,
}

/// A file name in a directory.
#[derive(Clone, Debug)]
struct FileInDirectory {
    path: PathBuf,
    directory: Arc<OwnedFd>,
    /// The device and inode of the directory. They are asked for by the thread for which nobody waits, since the file
    /// system may not answer later.
    number: (u64, u64),
    /// The executable file there.
    file: Option<Arc<OwnedFd>>,
}

/// The open directories, by device and inode.
type Directories = HashMap<(u64, u64), Arc<OwnedFd>>;

impl PathState {
    /// Makes a function that examines paths and opens each directory once.
    fn taker() -> impl FnMut(&Path) -> Answer + Clone + Send + 'static {
        let mut directories = Directories::new();
        move |path| PathState::at(path, &mut directories)
    }

    fn at(path: &Path, directories: &mut Directories) -> Answer {
        let walk = walk::walk(path);
        let walk =
            walk.map_err(|_| PlaceError::Nowhere(io::Error::from(io::ErrorKind::NotFound).to_string()))?;
        // Where it leads, if it is a symbolic link.
        let last = walk.last.as_ref().filter(|last| last.path != walk.own.path);
        let last_is_place = last.is_some_and(|last| end_is_place(&walk.links, last));
        if let Some(reason) = foreign_link(&walk) {
            let own =
                (!is_misplaced(&walk)).then(|| FileInDirectory::of(&walk.own, directories).ok()).flatten();
            return Err(Foreign::at(reason, own, None));
        }
        if let Some(reason) = foreign_file(&walk) {
            let own = FileInDirectory::of(&walk.own, directories).ok();
            let end =
                last.filter(|_| last_is_place).and_then(|last| FileInDirectory::of(last, directories).ok());
            return Err(Foreign::at(reason, own, end));
        }
        let own = FileInDirectory::of(&walk.own, directories)
            .map_err(|error| PlaceError::Nowhere(error.to_string()))?;
        let end = last.and_then(|last| FileInDirectory::of(last, directories).ok());
        let mut look = PathState { own, end, end_is_place: last_is_place, interpreter: None, fault: None };
        let end = match walk.end {
            Ok(end) => end,
            Err(error) => {
                look.fault = Some(error.to_string());
                return Ok(look);
            }
        };
        match Program::of(end.file) {
            Ok(program) => {
                look.interpreter = program.interpreter;
                let file = Some(Arc::new(program.file));
                if let Some(end) = &mut look.end {
                    end.file.clone_from(&file);
                }
                look.own.file = file;
            }
            Err(error) => look.fault = Some(error.to_string()),
        }
        Ok(look)
    }
}

impl FileInDirectory {
    fn of(step: &Step, directories: &mut Directories) -> io::Result<FileInDirectory> {
        let number = (step.about.st_dev, step.about.st_ino);
        let directory = match directories.entry(number) {
            Entry::Occupied(known) => Arc::clone(known.get()),
            Entry::Vacant(place) => Arc::clone(place.insert(Arc::new(step.directory.try_clone()?))),
        };
        Ok(FileInDirectory { path: step.path.clone(), directory, number, file: None })
    }
}

/// Whether a link leads, by its owner's word, to a file that is not the owner's. On FUSE the serving process says who
/// the owner is, so a link there may lead to nothing of another file system.
fn leads_astray(link: &Link, about: &Stat) -> bool {
    (link.owner != 0 && link.owner != about.st_uid) || (link.is_served && link.device != about.st_dev)
}

/// Whether a link on the way to the last name leads astray, so that its directory is not what policy means.
fn is_misplaced(walk: &Walk) -> bool {
    walk.links.iter().any(|link| !link.is_last && leads_astray(link, &walk.own.about))
}

/// The reason why a link on the way leads astray, if one does. The owner of a symbolic link says where it leads, and
/// must not lend the policy of its name to somebody else's program. So each link on the way must belong to root, or to
/// the owner of what it leads to.
fn foreign_link(walk: &Walk) -> Option<String> {
    let end = walk.end.as_ref().ok();
    let is_foreign = |link: &&Link| {
        (!link.is_last && leads_astray(link, &walk.own.about))
            || end.is_some_and(|end| leads_astray(link, &end.about))
    };
    let link = walk.links.iter().find(is_foreign)?;
    let (path, owner) = (link.path.display(), link.owner);
    Some(if link.is_served {
        format!(
            "{path} is a symbolic link on a file system in user space (FUSE), whose server chooses the owner, and leads to another \
             file system"
        )
    } else {
        let user = end.map_or(walk.own.about.st_uid, |end| end.about.st_uid);
        format!("{path} is a symbolic link of user {owner}, and what it leads to is of user {user}")
    })
}

/// A name in a directory of somebody's that is another name (a hard link) of a file which is not his; kernels with
/// `fs.protected_hardlinks` let nobody make one. subject.h asks the same of files that come later.
fn foreign_file(walk: &Walk) -> Option<String> {
    let end = walk.end.as_ref().ok()?;
    let (about, directory) = (&end.about, &end.at.about);
    let is_anybodys = directory.st_uid != 0 || directory.st_mode & 0o022 != 0;
    let is_foreign =
        about.st_nlink > 1 && is_anybodys && about.st_uid != directory.st_uid && !is_directory(about);
    is_foreign.then(|| {
        format!(
            "{} is one of {} names (hard links) of a file of user {}, in a directory that others may write to (user {}, mode {:o}); what \
             executes it by this name is refused",
            end.at.path.display(),
            about.st_nlink,
            about.st_uid,
            directory.st_uid,
            directory.st_mode & 0o7777
        )
    })
}

/// Whether a file that comes later to where links lead is what policy means, too. Whoever owns a link may only say so of his own directory:
/// in another one somebody else's program may come to have that name.
fn end_is_place(links: &[Link], end: &Step) -> bool {
    !links.iter().any(|link| leads_astray(link, &end.about))
}

fn is_directory(about: &Stat) -> bool {
    FileType::from_raw_mode(about.st_mode) == FileType::Directory
}

/// A file that a process can run.
struct Program {
    file: OwnedFd,
    interpreter: Option<String>,
}

impl Program {
    /// Examine an open file. Only regular files are read, because opening a pipe waits and opening a device has
    /// effects.
    fn of(file: OwnedFd) -> io::Result<Program> {
        let own = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let about = fs::metadata(&own)?;
        if !about.is_file() || about.permissions().mode() & 0o111 == 0 {
            return Err(io::Error::other("not an executable file"));
        }
        let interpreter = interpreter(&own);
        Ok(Program { file, interpreter })
    }
}

/// Whether a directory of the policy's paths has come since they were looked at, or stands in the place of another, or a name that led to
/// a file of somebody else's does so no more. Until the next look a file in such a directory is no place of a policy, and the process that
/// executes it is whose it would be without one.
pub fn directories_changed(found: &PathAnswers) -> bool {
    let number = |about: fs::Metadata| (about.dev(), about.ino());
    let known: BTreeMap<&Path, Option<(u64, u64)>> = found
        .iter()
        .filter_map(|(path, answer)| {
            let number = match answer {
                Ok(look) => Some(look.own.number),
                // Where a link on the way is foreign, that is looked at, not the directory.
                Err(PlaceError::Foreign(foreign)) => Some(foreign.own.as_ref()?.number),
                Err(PlaceError::Nowhere(_)) => None,
            };
            Some((path.parent()?, number))
        })
        .collect();
    let paths: Vec<PathBuf> = known.keys().map(|path| path.to_path_buf()).collect();
    let look = move |path: &Path| fs::metadata(path).ok().filter(fs::Metadata::is_dir).map(number);
    let now = foreign::each(&paths, look);
    // One that is gone, or does not answer, counts as it was.
    known.values().zip(now).any(|(before, now)| now.flatten().is_some_and(|now| *before != Some(now)))
        || foreign_changed(found)
}

fn foreign_changed(found: &PathAnswers) -> bool {
    let paths: Vec<PathBuf> = foreign_names(found).into_iter().map(|(path, _)| path).collect();
    let now = foreign::each(&paths, PathState::taker());
    now.into_iter().flatten().any(|answer| !matches!(answer, Err(PlaceError::Foreign(_))))
}

/// The paths that lead, by a name of one user, to a file of another, each with the reason.
pub fn foreign_names(found: &PathAnswers) -> Vec<(PathBuf, String)> {
    let foreign = |(path, answer): (&PathBuf, &Answer)| match answer {
        Err(PlaceError::Foreign(foreign)) => Some((path.clone(), foreign.reason.clone())),
        _ => None,
    };
    found.iter().filter_map(foreign).collect()
}

#[derive(Default)]
struct Search {
    answers: PathAnswers,
    found: BTreeMap<PathBuf, (BTreeSet<Image>, FileInDirectory)>,
    warnings: Vec<LoadWarning>,
    /// The paths that are symbolic links, with the places that they lead to.
    links: Vec<(PathBuf, PathBuf)>,
}

impl Search {
    fn image(&mut self, image: &Image, paths: &[PathBuf]) {
        match image {
            Image::Path(path) => {
                let path = Path::new(path);
                if let Err(reason) = self.candidate(image, path) {
                    self.warnings.push(LoadWarning::Missing { path: path.to_owned(), reason });
                }
            }
            Image::Name(name) => {
                let mut found = false;
                for path in paths {
                    found |= self.candidate(image, path).is_ok();
                }
                if !found {
                    self.warnings.push(LoadWarning::Nowhere { name: name.clone() });
                }
            }
        }
    }

    /// Add the place of a path as a candidate for an image. An error says why no process can run the file now; if its
    /// directory exists, the place counts all the same.
    fn candidate(&mut self, image: &Image, path: &Path) -> Result<(), String> {
        let look = match self.answers.get(path).cloned() {
            Some(Ok(look)) => look,
            Some(Err(PlaceError::Nowhere(reason))) => return Err(reason),
            // That is said, and there is a file.
            Some(Err(PlaceError::Foreign(foreign))) => {
                let reason = foreign.reason;
                self.warnings.push(LoadWarning::Foreign { path: path.to_owned(), reason });
                for at in foreign.own.iter().chain(&foreign.end) {
                    self.place(image, at);
                }
                return Ok(());
            }
            None => return Err("it was not looked at".to_owned()),
        };
        for at in std::iter::once(&look.own).chain(look.end.iter().filter(|_| look.end_is_place)) {
            self.place(image, at);
        }
        if let Some(end) = &look.end {
            self.links.push((path.to_owned(), end.path.clone()));
            if end.path.file_name() != path.file_name() {
                self.warnings.push(LoadWarning::Link { path: path.to_owned(), file: end.path.clone() });
            }
        }
        if let Some(interpreter) = look.interpreter {
            self.warnings.push(LoadWarning::Script { path: path.to_owned(), interpreter });
        }
        look.fault.map_or(Ok(()), Err)
    }

    fn place(&mut self, image: &Image, at: &FileInDirectory) {
        let entry = self.found.entry(at.path.clone());
        entry.or_insert_with(|| (BTreeSet::new(), at.clone())).0.insert(image.clone());
    }

    fn identify(mut self, numbers: Numbers<'_>, subjects: &Subjects) -> Result<Places, SockmonError> {
        let mut held: Vec<Arc<OwnedFd>> = Vec::new();
        let mut directories: HashMap<PathBuf, usize> = HashMap::new();
        let mut open = Vec::new();
        for (path, (images, at)) in std::mem::take(&mut self.found) {
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { continue };
            let directory = *directories.entry(folder.to_owned()).or_insert_with(|| {
                held.push(at.directory);
                held.len() - 1
            });
            let file = at.file.map(|file| {
                held.push(file);
                held.len() - 1
            });
            open.push((path.clone(), images, directory, name.as_bytes().to_vec(), file));
        }
        let numbers = numbers(&held.iter().map(Arc::as_ref).collect::<Vec<_>>())?;
        let number = |at: usize| {
            numbers.get(at).copied().flatten().ok_or(SockmonError::Answer("identity of an executable"))
        };
        let mut list = Vec::with_capacity(open.len());
        for (path, images, directory, name, file) in open {
            let key = key(number(directory)?, &name);
            if key.is_none() {
                self.warnings.push(LoadWarning::LongName { path: path.clone() });
            }
            let (held, file) = (file, file.map(number).transpose()?);
            list.push(Place { path, images, key, file, digests: None, held });
        }
        merge(&mut list);
        for place in &mut list {
            place.digests = subjects.digests(&place.images);
            if place.key.is_none() && place.digests.is_some() {
                return Err(SockmonError::LongPin { path: place.path.clone() });
            }
        }
        let links = pinned_links(subjects, &self.links).cloned();
        self.warnings.extend(links.map(|(path, file)| LoadWarning::PinnedLink { path, file }));
        Ok(Places { list, held, warnings: self.warnings, found: self.answers })
    }
}

/// Merge the images of one file that has several places (hard links, the end of a symbolic link): at each place it is
/// everything that any of them means.
fn merge(places: &mut [Place]) {
    let mut files: HashMap<Identity, BTreeSet<Image>> = HashMap::new();
    for place in places.iter() {
        if let Some(file) = place.file {
            files.entry(file).or_default().extend(place.images.iter().cloned());
        }
    }
    for place in places {
        if let Some(images) = place.file.and_then(|file| files.get(&file)) {
            place.images = images.clone();
        }
    }
}

fn key(directory: Identity, name: &[u8]) -> Option<abi::Place> {
    let mut out = abi::Place { directory, name: [0; abi::PLACE_NAME] };
    // A zero octet stays behind it.
    let room = out.name.get_mut(..name.len()).filter(|_| name.len() < abi::PLACE_NAME)?;
    room.copy_from_slice(name);
    Some(out)
}

/// What the first line of a `#!` script names.
fn interpreter(path: &Path) -> Option<String> {
    let mut start = [0u8; 128];
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let n = file.read(&mut start).ok()?;
    let line = start.get(..n)?.strip_prefix(b"#!")?;
    let end = line.iter().position(|&b| b == b'\n').unwrap_or(line.len());
    Some(String::from_utf8_lossy(line.get(..end)?).trim().to_owned())
}

/// Symbolic links among the pinned paths: what they lead to later is not known at once.
fn pinned_links<'l>(
    subjects: &'l Subjects,
    links: &'l [(PathBuf, PathBuf)],
) -> impl Iterator<Item = &'l (PathBuf, PathBuf)> {
    let is_pinned = |path: &Path| path.to_str().is_some_and(|path| subjects.pins().contains_key(path));
    links.iter().filter(move |(path, _)| is_pinned(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_must_leave_room_for_its_end() {
        let directory = Identity { inode: 1, device: 2, generation: 3 };
        assert!(key(directory, &[b'a'; abi::PLACE_NAME - 1]).is_some());
        assert!(key(directory, &[b'a'; abi::PLACE_NAME]).is_none());
    }

    #[test]
    fn one_file_is_everything_that_is_meant_by_its_places() {
        let file = |inode| Some(Identity { inode, device: 1, generation: 0 });
        let place = |path: &str, inode| Place {
            path: path.into(),
            images: BTreeSet::from([Image::Path(path.into())]),
            key: None,
            file: file(inode),
            digests: None,
            held: None,
        };
        let mut places = [place("/a", 1), place("/b", 2), place("/c", 1)];
        merge(&mut places);
        assert_eq!(places.map(|p| p.images.len()), [2, 1, 2]);
    }
}
