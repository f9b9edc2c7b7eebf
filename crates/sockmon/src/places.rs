//! Where the executables are that a policy names.
//!
//! What enters: the images of its subjects. What leaves: for each a place, a file name in a directory, whether or not there is a
//! file now; and the kernel's numbers of directory and file. A symbolic link counts twice, as the place of the link and as that
//! of the file it leads to. All that were opened stay open, so that no other file gets their numbers.

use crate::abi::{self, Identity};
use crate::adopt;
use crate::error::SockmonError;
use crate::foreign;
use crate::model::LoadWarning;
use crate::pins;
use crate::programs::Loaded;
use crate::sys;
use policy::{Digest, Executables, Image, Subjects};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One place.
#[derive(Clone, Debug)]
pub struct Place {
    /// Without symbolic links in its directory.
    pub path: PathBuf,
    /// The images that policy means by the file there.
    pub images: BTreeSet<Image>,
    /// As the kernel looks it up; `None`: its file name is too long.
    pub key: Option<abi::Place>,
    /// The file there now.
    pub file: Option<Identity>,
    /// The digests that it must have one of; `None`: it may be any file.
    pub digests: Option<BTreeSet<Digest>>,
    /// Which of the descriptors is the file's.
    pub held: Option<usize>,
}

/// Every place of a policy.
#[derive(Debug, Default)]
pub struct Places {
    /// By path.
    pub list: Vec<Place>,
    /// Descriptors of the files and directories.
    pub held: Vec<Arc<OwnedFd>>,
    /// What is odd.
    pub warnings: Vec<LoadWarning>,
    /// For a later look that has no answer.
    pub found: Found,
}

/// Every image that subjects name, those of `from` included, in order.
pub fn images(subjects: &Subjects) -> BTreeSet<Image> {
    let named = subjects.iter().filter_map(|(selector, _)| match &selector.executables {
        Executables::Named(image) => Some(image.clone()),
        Executables::Anonymous | Executables::Any => None,
    });
    named.chain(ancestors(subjects)).collect()
}

/// The images of `from`.
pub fn ancestors(subjects: &Subjects) -> BTreeSet<Image> {
    subjects.iter().filter_map(|(selector, _)| selector.from.clone()).collect()
}

/// Look for every image. Where a path does not answer, what was found there before counts.
pub fn find(
    loaded: &Loaded,
    subjects: &Subjects,
    directories: &[PathBuf],
    before: &Found,
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
    let answers = foreign::each(&paths, Look::taker());
    for (path, answer) in paths.into_iter().zip(answers) {
        let answer = answer.unwrap_or_else(|| {
            search.warnings.push(LoadWarning::NoAnswer { path: path.clone() });
            before.get(&path).cloned().unwrap_or_else(|| Err("it did not answer".to_owned()))
        });
        search.answers.insert(path, answer);
    }
    for (image, paths) in asked {
        search.image(&image, &paths);
    }
    search.identify(loaded, subjects)
}

fn candidates(image: &Image, directories: &[PathBuf]) -> Vec<PathBuf> {
    match image {
        Image::Path(path) => vec![path.into()],
        Image::Name(name) => directories.iter().map(|directory| directory.join(name)).collect(),
    }
}

/// What was found at the paths of a policy.
pub type Found = BTreeMap<PathBuf, Answer>;
/// What is at a path, or why nothing can be there.
type Answer = Result<Look, String>;

/// A path as it was when it was looked at.
#[derive(Clone, Debug)]
pub struct Look {
    /// Without symbolic links in its directory.
    own: At,
    /// Where it leads, if it is a symbolic link.
    end: Option<At>,
    /// What the first line of a `#!` script names.
    interpreter: Option<String>,
    /// Why no process can run it now.
    fault: Option<String>,
}

/// A file name in a directory.
#[derive(Clone, Debug)]
struct At {
    path: PathBuf,
    directory: Arc<OwnedFd>,
    /// The executable file there.
    file: Option<Arc<OwnedFd>>,
}

/// A directory without symbolic links, open, or why there is none.
type Directory = Result<(PathBuf, Arc<OwnedFd>), String>;

impl Look {
    /// Looks at paths; it remembers directories for as long as it lives.
    fn taker() -> impl FnMut(&Path) -> Answer + Clone + Send + 'static {
        let mut directories: HashMap<PathBuf, Directory> = HashMap::new();
        move |path| Look::at(path, &mut directories)
    }

    fn at(path: &Path, directories: &mut HashMap<PathBuf, Directory>) -> Answer {
        let nowhere = || io::Error::from(io::ErrorKind::NotFound).to_string();
        let mut open = |path: &Path| -> Directory {
            let known = directories.entry(path.to_owned());
            known.or_insert_with(|| directory(path).map_err(|error| error.to_string())).clone()
        };
        let (folder, name) = path.parent().zip(path.file_name()).ok_or_else(nowhere)?;
        let (folder, held) = open(folder).map_err(|_| nowhere())?;
        let own = folder.join(name);
        let mut look = Look {
            own: At { path: own.clone(), directory: held, file: None },
            end: None,
            interpreter: None,
            fault: None,
        };
        let last = match fs::canonicalize(&own) {
            Ok(last) => last,
            Err(error) => {
                look.fault = Some(error.to_string());
                return Ok(look);
            }
        };
        let program = Program::open(&last).map_err(|error| error.to_string());
        look.interpreter = program.as_ref().ok().and_then(|program| program.interpreter.clone());
        look.fault = program.as_ref().err().cloned();
        let file = program.ok().map(|program| Arc::new(program.file));
        if last != own
            && let Some((_, directory)) = last.parent().and_then(|folder| open(folder).ok())
        {
            look.end = Some(At { path: last, directory, file: file.clone() });
        }
        look.own.file = file;
        Ok(look)
    }
}

fn directory(path: &Path) -> io::Result<(PathBuf, Arc<OwnedFd>)> {
    let path = fs::canonicalize(path)?;
    let fd = sys::open_path(&path)?;
    Ok((path, Arc::new(fd)))
}

/// A file that a process can run.
struct Program {
    file: OwnedFd,
    interpreter: Option<String>,
}

impl Program {
    /// Nothing is read of what is no regular file: opening a pipe waits, opening a device does something.
    fn open(path: &Path) -> io::Result<Program> {
        let file = sys::open_path(path)?;
        let own = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let about = fs::metadata(&own)?;
        if !about.is_file() || about.permissions().mode() & 0o111 == 0 {
            return Err(io::Error::other("not an executable file"));
        }
        let interpreter = interpreter(&own);
        Ok(Program { file, interpreter })
    }
}

/// Whether a directory of the policy's paths has come since they were looked at, or stands in the place of another. Until the next look
/// a file in it is no place of a policy, and the process that executes it is whose it would be without one.
pub fn directories_changed(found: &Found) -> bool {
    let number = |about: fs::Metadata| (about.dev(), about.ino());
    let known: BTreeMap<&Path, Option<(u64, u64)>> = found
        .iter()
        .filter_map(|(path, answer)| {
            let directory = answer.as_ref().ok().and_then(|look| look.own.directory.try_clone().ok());
            let number = directory.and_then(|fd| fs::File::from(fd).metadata().ok()).map(number);
            Some((path.parent()?, number))
        })
        .collect();
    let paths: Vec<PathBuf> = known.keys().map(|path| path.to_path_buf()).collect();
    let look = move |path: &Path| fs::metadata(path).ok().filter(fs::Metadata::is_dir).map(number);
    let now = foreign::each(&paths, look);
    // One that is gone, or does not answer, counts as it was.
    known.values().zip(now).any(|(before, now)| now.flatten().is_some_and(|now| *before != Some(now)))
}

#[derive(Default)]
struct Search {
    answers: Found,
    found: BTreeMap<PathBuf, (BTreeSet<Image>, At)>,
    warnings: Vec<LoadWarning>,
    /// Paths that are symbolic links, and where they lead.
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

    /// The error says why no process can run it now; if its directory is there, it counts all the same.
    fn candidate(&mut self, image: &Image, path: &Path) -> Result<(), String> {
        let look =
            self.answers.get(path).cloned().unwrap_or_else(|| Err("it was not looked at".to_owned()))?;
        for at in std::iter::once(&look.own).chain(&look.end) {
            let entry = self.found.entry(at.path.clone());
            entry.or_insert_with(|| (BTreeSet::new(), at.clone())).0.insert(image.clone());
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

    fn identify(mut self, loaded: &Loaded, subjects: &Subjects) -> Result<Places, SockmonError> {
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
        let numbers = adopt::identities(loaded, &held.iter().map(Arc::as_ref).collect::<Vec<_>>())?;
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
        let links = pins::links(subjects, &self.links).cloned();
        self.warnings.extend(links.map(|(path, file)| LoadWarning::PinnedLink { path, file }));
        Ok(Places { list, held, warnings: self.warnings, found: self.answers })
    }
}

/// One file at several places (hard links, the end of a symbolic link) is everything that is meant by any of them.
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
