//! Where the executables are that a policy names.
//!
//! What enters: the images of its subjects. What leaves: for each a place, a file name in a directory, whether or not there is a
//! file now; and the kernel's numbers of directory and file. A symbolic link counts twice, as the place of the link and as that
//! of the file it leads to. All that were opened stay open, so that no other file gets their numbers.

use crate::abi::{self, Identity};
use crate::adopt;
use crate::error::SockmonError;
use crate::model::LoadWarning;
use crate::pins;
use crate::programs::Loaded;
use crate::sys;
use policy::{Digest, Executables, Image, Subjects};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
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

/// Look for every image.
pub fn find(loaded: &Loaded, subjects: &Subjects, directories: &[PathBuf]) -> Result<Places, SockmonError> {
    let mut search = Search::default();
    for image in images(subjects) {
        search.image(&image, directories);
    }
    search.identify(loaded, subjects)
}

#[derive(Default)]
struct Search {
    found: BTreeMap<PathBuf, BTreeSet<Image>>,
    /// Directories without symbolic links, by how they were asked for.
    directories: HashMap<PathBuf, Option<PathBuf>>,
    warnings: Vec<LoadWarning>,
    /// Paths that are symbolic links, and where they lead.
    links: Vec<(PathBuf, PathBuf)>,
}

impl Search {
    fn image(&mut self, image: &Image, directories: &[PathBuf]) {
        match image {
            Image::Path(path) => {
                let path = Path::new(path);
                if let Err(error) = self.candidate(image, path) {
                    self.warnings
                        .push(LoadWarning::Missing { path: path.to_owned(), reason: error.to_string() });
                }
            }
            Image::Name(name) => {
                let mut found = false;
                for directory in directories {
                    found |= self.candidate(image, &directory.join(name)).is_ok();
                }
                if !found {
                    self.warnings.push(LoadWarning::Nowhere { name: name.clone() });
                }
            }
        }
    }

    /// The error says why no process can run it now; if its directory is there, it counts all the same.
    fn candidate(&mut self, image: &Image, path: &Path) -> io::Result<()> {
        let nowhere = || io::Error::from(io::ErrorKind::NotFound);
        let (directory, name) = path.parent().zip(path.file_name()).ok_or_else(nowhere)?;
        let directory = self.directory(directory).ok_or_else(nowhere)?;
        let own = directory.join(name);
        self.found.entry(own.clone()).or_default().insert(image.clone());
        let last = fs::canonicalize(&own)?;
        if last != own {
            self.links.push((path.to_owned(), last.clone()));
            if last.file_name() != Some(name) {
                self.warnings.push(LoadWarning::Link { path: path.to_owned(), file: last.clone() });
            }
            self.found.entry(last.clone()).or_default().insert(image.clone());
        }
        if let Some(interpreter) = interpreter(&last) {
            self.warnings.push(LoadWarning::Script { path: path.to_owned(), interpreter });
        }
        is_program(&last)
    }

    fn directory(&mut self, path: &Path) -> Option<PathBuf> {
        let known = self.directories.entry(path.to_owned());
        known.or_insert_with(|| fs::canonicalize(path).ok()).clone()
    }

    fn identify(mut self, loaded: &Loaded, subjects: &Subjects) -> Result<Places, SockmonError> {
        let mut held: Vec<Arc<OwnedFd>> = Vec::new();
        let mut directories: HashMap<PathBuf, usize> = HashMap::new();
        let mut open = Vec::new();
        for (path, images) in std::mem::take(&mut self.found) {
            let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { continue };
            let at = match directories.get(directory) {
                Some(at) => *at,
                None => {
                    // It may be gone by now.
                    let Ok(fd) = sys::open_path(directory) else { continue };
                    held.push(Arc::new(fd));
                    directories.insert(directory.to_owned(), held.len() - 1);
                    held.len() - 1
                }
            };
            let file = match is_program(&path).and_then(|()| sys::open_path(&path)) {
                Ok(fd) => {
                    held.push(Arc::new(fd));
                    Some(held.len() - 1)
                }
                Err(_) => None,
            };
            open.push((path.clone(), images, at, name.as_bytes().to_vec(), file));
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
        Ok(Places { list, held, warnings: self.warnings })
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

/// Whether a process can run the file.
fn is_program(path: &Path) -> io::Result<()> {
    let file = fs::metadata(path)?;
    if !file.is_file() || file.permissions().mode() & 0o111 == 0 {
        return Err(io::Error::other("not an executable file"));
    }
    Ok(())
}

/// What the first line of a `#!` script names.
fn interpreter(path: &Path) -> Option<String> {
    let mut start = [0u8; 128];
    let n = File::open(path).ok()?.read(&mut start).ok()?;
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
