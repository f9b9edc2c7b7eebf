//! Resolves a path component by component, without the kernel following a link, so that whose each symbolic link is can be told, and
//! nothing can be exchanged between a look at it and its use.
//!
//! What enters: an absolute path that policy names. What leaves: the directory and name of its last component, the directory, name and
//! file that it leads to, and the links on the way with their owners. Descriptors are O_PATH: nothing is opened for reading.

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, fstatfs, openat, readlinkat};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

/// `FUSE_SUPER_MAGIC` of the kernel's fs/fuse/inode.c.
const FUSE: i64 = 0x6573_5546;

/// Links that are followed for one path; path_resolution(7) has the same.
const MOST_LINKS: usize = 40;

/// A symbolic link on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The path, without symbolic links in its directory.
    pub path: PathBuf,
    /// The owner of the link, a user of the initial namespace.
    pub owner: u32,
    /// The device of the file system that it is on.
    pub device: u64,
    /// Whether the file system is FUSE, where the serving process says who the owner is.
    pub is_served: bool,
    /// Whether the link is the last component of a path, and not a directory on the way.
    pub is_last: bool,
}

/// A file name in a directory.
#[derive(Clone, Debug)]
pub struct Step {
    /// The path, without symbolic links in its directory.
    pub path: PathBuf,
    /// The directory that holds the name.
    pub directory: Rc<OwnedFd>,
    /// The result of fstat(2) for the directory.
    pub about: Stat,
}

/// A path that was walked.
#[derive(Debug)]
pub struct Walk {
    /// The last component of the path itself.
    pub own: Step,
    /// The file that the path leads to, or the reason why it leads nowhere.
    pub end: io::Result<End>,
    /// The place of that file, or the place where it would be; `None` if a directory on the way is missing.
    pub last: Option<Step>,
    /// The links on the way, in the order in which they were met.
    pub links: Vec<Link>,
}

/// The file at the end.
#[derive(Debug)]
pub struct End {
    /// The directory and name of the file.
    pub at: Step,
    /// The file, whatever it is.
    pub file: OwnedFd,
    /// The result of fstat(2) for the file.
    pub about: Stat,
}

/// The position of the walk.
struct Position {
    /// Directories from the root on, with their names.
    directories: Vec<(OsString, Rc<OwnedFd>)>,
    root: Rc<OwnedFd>,
}

impl Position {
    fn directory(&self) -> &Rc<OwnedFd> {
        self.directories.last().map_or(&self.root, |(_, directory)| directory)
    }

    fn path(&self, name: &OsStr) -> PathBuf {
        let names = self.directories.iter().map(|(name, _)| name.as_os_str());
        std::iter::once(OsStr::new("/")).chain(names).chain([name]).collect()
    }

    fn step(&self, name: &OsStr) -> io::Result<Step> {
        let directory = Rc::clone(self.directory());
        let about = fstat(&*directory)?;
        Ok(Step { path: self.path(name), directory, about })
    }
}

/// Walk an absolute path.
///
/// # Errors
/// If its directory cannot be reached; the path is not absolute or names no file.
pub fn walk(path: &Path) -> io::Result<Walk> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = Rc::new(openat(CWD, "/", flags | OFlags::DIRECTORY, Mode::empty())?);
    let mut at = Position { directories: Vec::new(), root };
    let mut left = components(path);
    if !path.is_absolute() || path.file_name().is_none() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let (mut own, mut last, mut links) = (None, None, Vec::new());
    // Behind the last component of the path the walk goes on where that leads.
    let end = loop {
        let Some(name) = left.pop_front() else { break Err(io::ErrorKind::IsADirectory.into()) };
        if own.is_none() && left.is_empty() {
            own = Some(at.step(&name)?);
        }
        last = None;
        if name == ".." {
            at.directories.pop();
            continue;
        }
        if left.is_empty() {
            last = Some(at.step(&name)?);
        }
        match next(&mut at, &mut left, &mut links, name, own.is_some()) {
            Ok(Some(end)) => break Ok(end),
            Ok(None) => {}
            Err(error) => break Err(error),
        }
    };
    match own {
        Some(own) => Ok(Walk { own, end, last, links }),
        None => Err(end.err().unwrap_or_else(|| io::ErrorKind::NotFound.into())),
    }
}

/// Walk one component of the path. The answer is the file at the end, or nothing, and the walk goes on.
fn next(
    at: &mut Position,
    left: &mut VecDeque<OsString>,
    links: &mut Vec<Link>,
    name: OsString,
    is_last: bool,
) -> io::Result<Option<End>> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = openat(&**at.directory(), &*name, flags, Mode::empty())?;
    let about = fstat(&file)?;
    if FileType::from_raw_mode(about.st_mode) == FileType::Symlink {
        if links.len() == MOST_LINKS {
            return Err(rustix::io::Errno::LOOP.into());
        }
        let is_served = fstatfs(&file)?.f_type == FUSE;
        let (owner, device) = (about.st_uid, about.st_dev);
        links.push(Link { path: at.path(&name), owner, device, is_served, is_last });
        let target = readlinkat(&file, "", Vec::new())?;
        let target = Path::new(OsStr::from_bytes(target.as_bytes()));
        if target.is_absolute() {
            at.directories.clear();
        }
        for component in components(target).into_iter().rev() {
            left.push_front(component);
        }
        return Ok(None);
    }
    if left.is_empty() {
        return Ok(Some(End { at: at.step(&name)?, file, about }));
    }
    if FileType::from_raw_mode(about.st_mode) != FileType::Directory {
        return Err(rustix::io::Errno::NOTDIR.into());
    }
    at.directories.push((name, Rc::new(file)));
    Ok(None)
}

/// The names of a path; `..` stays, for it is taken where the walk is then.
fn components(path: &Path) -> VecDeque<OsString> {
    let name = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("ravelin-walk-{name}-{}", std::process::id()));
            fs::create_dir_all(path.join("real/below")).unwrap();
            fs::write(path.join("real/below/file"), "x").unwrap();
            Folder(fs::canonicalize(path).unwrap())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn it_arrives_where_the_kernel_does_and_knows_whose_each_link_is() {
        let folder = Folder::new("arrives");
        let base = &folder.0;
        symlink("real", base.join("relative")).unwrap();
        symlink(base.join("relative/below/../below"), base.join("absolute")).unwrap();
        symlink("absolute/file", base.join("link")).unwrap();
        lchown(base.join("relative"), Some(65534), None).unwrap();
        for path in [
            "real/below/file",
            "relative/below/file",
            "absolute/file",
            "link",
            "real/../link",
            "real/./below//file",
        ] {
            let walk = walk(&base.join(path)).unwrap();
            let end = walk.end.unwrap();
            assert_eq!(end.at.path, fs::canonicalize(base.join(path)).unwrap(), "{path}");
            let about = fs::metadata(base.join(path)).unwrap();
            assert_eq!((end.about.st_dev, end.about.st_ino), (about.dev(), about.ino()), "{path}");
            let folder = fs::metadata(end.at.path.parent().unwrap()).unwrap();
            assert_eq!(end.at.about.st_ino, folder.ino(), "{path}");
        }
        let link = walk(&base.join("link")).unwrap();
        assert_eq!(link.own.path, base.join("link"));
        let met: Vec<_> =
            link.links.iter().map(|link| (link.path.clone(), link.owner, link.is_last)).collect();
        let on = |name: &str, owner| (base.join(name), owner, true);
        assert_eq!(met, [on("link", 0), on("absolute", 0), on("relative", 65534)]);
        let below = walk(&base.join("relative/below/file")).unwrap();
        assert_eq!(below.own.path, base.join("real/below/file"));
        let met: Vec<_> =
            below.links.iter().map(|link| (link.path.clone(), link.owner, link.is_last)).collect();
        assert_eq!(met, [(base.join("relative"), 65534, false)]);
        let same = |link: &Link| link.device == fs::metadata(base).unwrap().dev() && !link.is_served;
        assert!(below.links.iter().all(same));
    }

    #[test]
    fn what_leads_nowhere_says_why() {
        let folder = Folder::new("nowhere");
        let base = &folder.0;
        symlink("loop", base.join("loop")).unwrap();
        symlink("missing", base.join("dangling")).unwrap();
        let kind = |path: &str| walk(&base.join(path)).unwrap().end.unwrap_err().kind();
        assert_eq!(kind("missing"), io::ErrorKind::NotFound);
        assert_eq!(kind("dangling"), io::ErrorKind::NotFound);
        let last = |path: &str| walk(&base.join(path)).unwrap().last.map(|step| step.path);
        assert_eq!(last("dangling"), Some(base.join("missing")));
        symlink("nowhere/missing", base.join("lost")).unwrap();
        assert_eq!(last("lost"), None);
        assert_eq!(walk(&base.join("loop")).unwrap().end.unwrap_err().raw_os_error(), Some(40));
        let directory = walk(&base.join("real/below")).unwrap().end.unwrap();
        assert_eq!(FileType::from_raw_mode(directory.about.st_mode), FileType::Directory);
        assert_eq!(walk(&base.join("missing/file")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(walk(&base.join("real/below/file/x")).unwrap_err().kind(), io::ErrorKind::NotADirectory);
        assert!(walk(Path::new("relative/file")).is_err() && walk(Path::new("/")).is_err());
    }
}
