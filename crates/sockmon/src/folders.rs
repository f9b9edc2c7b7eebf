//! The folders of pins, which nobody but root may have made. A BPF file system mounted without `mode=` is anybody's to write in, as
//! /tmp is, and who owns a folder removes the pins in it: with the daemon dead, that takes the programs off their hooks.

use crate::error::SockmonError;
use crate::sys;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// Root alone.
const MODE: u32 = 0o700;
/// How often somebody may be quicker.
const TURNS: usize = 100;

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
            tracing::warn!("{} was made by user {}: removed", path.display(), there.uid());
            if there.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    DirBuilder::new().mode(MODE).create(path)
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
