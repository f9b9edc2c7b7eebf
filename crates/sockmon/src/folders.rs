//! The folders of pins, which nobody but root may have made. A BPF file system mounted without `mode=` is anybody's to write in, as
//! /tmp is, and who owns a folder removes the pins in it: with the daemon dead, that takes the programs off their hooks.

use crate::error::SockmonError;
use crate::sys;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

/// The permissions of a folder: root's alone.
const MODE: u32 = 0o700;
/// The number of attempts to make a folder while somebody else is quicker.
const TURNS: usize = 100;
/// The depth to which a stranger's folder is emptied, and the number of its entries that are removed. What is beyond is
/// out of his reach, and stays.
const DEPTH: usize = 32;
const ENTRIES: usize = 10_000;

/// Make `folder` and those above it, below the BPF file system's root; each is root's alone from its first moment. What another user
/// made in a folder's place goes, with all that is in it.
pub(crate) fn make(folder: &Path) -> Result<(), SockmonError> {
    make_below(Path::new(sys::BPFFS), folder)
}

fn make_below(root: &Path, folder: &Path) -> Result<(), SockmonError> {
    let fail = |path: &Path| SockmonError::system(format!("create {}", path.display()));
    let below = folder.strip_prefix(root).map_err(|_| fail(folder)(io::ErrorKind::InvalidInput.into()))?;
    let mut path = root.to_owned();
    for name in below {
        path.push(name);
        let mut turns = 0;
        // Another daemon makes the folder of all instances at the same moment, or takes it away behind its last one.
        while let Err(error) = make_one(&path) {
            let raced = matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound);
            turns += 1;
            if !raced || turns == TURNS {
                return Err(fail(&path)(error));
            }
        }
    }
    Ok(())
}

fn make_one(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(there) if there.is_dir() && there.uid() == 0 => {
            return match there.mode() & 0o777 {
                MODE => Ok(()),
                _ => std::fs::set_permissions(path, Permissions::from_mode(MODE)),
            };
        }
        Ok(there) => {
            if there.is_dir() {
                tracing::warn!("{} was made by user {}: taken and emptied", path.display(), there.uid());
                return take_and_empty(path);
            }
            tracing::warn!("{} was made by user {}: removed", path.display(), there.uid());
            std::fs::remove_file(path)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    DirBuilder::new().mode(MODE).create(path)
}

/// Make a stranger's folder root's, so that nobody adds to it any more, and then empty it. He would go on filling one that is removed,
/// and make another in its place.
fn take_and_empty(path: &Path) -> io::Result<()> {
    take(path)?;
    let mut left = ENTRIES;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            std::fs::remove_file(entry.path())?;
        } else if let Err(error) = remove(&entry.path(), DEPTH, &mut left) {
            // By this name nobody looks for it. An instance's name has no dot.
            let aside = path.join(format!("left.{}", entry.metadata()?.ino()));
            std::fs::rename(entry.path(), &aside)?;
            tracing::warn!("{} stays: {error}", aside.display());
        }
    }
    Ok(())
}

/// The folder at `path` is root's alone from here on, also for who has it open.
fn take(path: &Path) -> io::Result<()> {
    let folder: File =
        OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)?;
    fchown(&folder, Some(0), Some(0))?;
    folder.set_permissions(Permissions::from_mode(MODE))?;
    let (taken, there) = (folder.metadata()?, path.symlink_metadata()?);
    // Its owner has put another one in its place before it was taken.
    if (taken.dev(), taken.ino()) == (there.dev(), there.ino()) {
        Ok(())
    } else {
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

/// Remove a folder in one that is root's, each folder taken before it is looked into.
fn remove(path: &Path, depth: usize, left: &mut usize) -> io::Result<()> {
    if depth == 0 {
        return Err(io::Error::other(format!("it is more than {DEPTH} folders deep")));
    }
    take(path)?;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        *left = left
            .checked_sub(1)
            .ok_or_else(|| io::Error::other(format!("it has more than {ENTRIES} entries")))?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path(), depth - 1, left)?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    std::fs::remove_dir(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_user_made_goes() {
        let root = std::env::temp_dir().join(format!("ravelin-folders-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir(&root).unwrap();
        std::fs::create_dir_all(root.join("ravelin/one")).unwrap();
        std::fs::write(root.join("ravelin/one/pin"), "").unwrap();
        std::os::unix::fs::chown(root.join("ravelin"), Some(65534), Some(65534)).expect("root is needed");
        make_below(&root, &root.join("ravelin/one/links")).unwrap();
        for folder in ["ravelin", "ravelin/one", "ravelin/one/links"] {
            let there = root.join(folder).symlink_metadata().unwrap();
            assert_eq!((there.uid(), there.mode() & 0o777), (0, 0o700), "{folder}");
        }
        assert!(!root.join("ravelin/one/pin").exists());

        // Of an earlier version: closed, and what is in it stays.
        std::fs::set_permissions(root.join("ravelin/one"), Permissions::from_mode(0o755)).unwrap();
        std::fs::write(root.join("ravelin/one/pin"), "").unwrap();
        make_below(&root, &root.join("ravelin/one/links")).unwrap();
        assert_eq!(root.join("ravelin/one").symlink_metadata().unwrap().mode() & 0o777, 0o700);
        assert!(root.join("ravelin/one/pin").exists());
        // A link leads nowhere.
        std::fs::remove_dir_all(root.join("ravelin")).unwrap();
        std::os::unix::fs::symlink("/etc", root.join("ravelin")).unwrap();
        std::os::unix::fs::lchown(root.join("ravelin"), Some(65534), None).unwrap();
        make_below(&root, &root.join("ravelin/two")).unwrap();
        assert!(root.join("ravelin").symlink_metadata().unwrap().is_dir());
        std::fs::remove_dir_all(&root).unwrap();
    }

    /// A Python script that runs as user 65534: it fills a folder and what is in it, as fast as it goes, and makes it
    /// again where it is gone.
    const FILL: &str = r#"
import os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
root = sys.argv[1]
held = []
number = 0
while True:
    number += 1
    for base in [None, *held[-8:]]:
        try:
            if base is None:
                os.mkdir(root)
            else:
                os.mkdir(str(number), dir_fd=base)
                held.append(os.open(str(number), os.O_RDONLY, dir_fd=base))
        except OSError:
            pass
    if number == 1 or not held:
        try:
            held.append(os.open(root, os.O_RDONLY))
            print("fills", flush=True)
        except OSError:
            pass
    for old in held[:-64]:
        os.close(old)
    held = held[-64:]
"#;

    #[test]
    fn who_goes_on_filling_the_folder_delays_nobody() {
        use std::io::Read;
        let root = std::env::temp_dir().join(format!("ravelin-folders-filled-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir(&root).unwrap();
        std::fs::set_permissions(&root, Permissions::from_mode(0o1777)).unwrap();
        for round in 0..5 {
            let mut filler = std::process::Command::new("python3")
                .args(["-c", FILL])
                .arg(root.join("ravelin"))
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            filler.stdout.take().unwrap().read_exact(&mut [0; 6]).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(100));
            let made = make_below(&root, &root.join("ravelin/one/links"));
            let list = std::fs::read_dir(root.join("ravelin")).unwrap().map(|entry| entry.unwrap());
            let list: Vec<_> = list.filter(|entry| entry.file_name() != "one").collect();
            filler.kill().unwrap();
            filler.wait().unwrap();
            made.unwrap();
            assert!(
                list.iter().all(|entry| entry.file_name().to_string_lossy().starts_with("left.")),
                "{round}: {list:?}"
            );
            for folder in ["ravelin", "ravelin/one", "ravelin/one/links"] {
                let there = root.join(folder).symlink_metadata().unwrap();
                assert_eq!((there.uid(), there.mode() & 0o777), (0, 0o700), "{round}: {folder}");
            }
            std::fs::remove_dir_all(root.join("ravelin")).unwrap();
        }
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn many_at_once_make_the_same_folder() {
        let root = std::env::temp_dir().join(format!("ravelin-folders-once-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        for round in 0..50 {
            let start = std::sync::Barrier::new(4);
            std::fs::create_dir_all(&root).unwrap();
            std::thread::scope(|scope| {
                for number in 0..4 {
                    let (root, start) = (&root, &start);
                    scope.spawn(move || {
                        start.wait();
                        make_below(root, &root.join(format!("ravelin/{number}/links"))).unwrap();
                    });
                }
            });
            assert_eq!(std::fs::read_dir(root.join("ravelin")).unwrap().count(), 4, "{round}");
            std::fs::remove_dir_all(&root).unwrap();
        }
    }
}
