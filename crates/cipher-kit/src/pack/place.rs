//! The place of an installed cipher: its files are written beside it, and take its place as a whole.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::PackError;

/// A cipher that was installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The path of its manifest.
    pub manifest: PathBuf,
    /// The lines of the configuration that name it.
    pub configuration: String,
}

/// Where a cipher goes, and the folder beside it in which its files are written. That folder goes with this value.
pub struct Place {
    target: PathBuf,
    staged: PathBuf,
}

impl Place {
    /// The place of the cipher `name` below `folder`, which is made where it is missing.
    pub fn new(folder: &Path, name: &str) -> Result<Place, PackError> {
        let place = Place {
            target: folder.join(name),
            staged: folder.join(format!(".{name}.{}", std::process::id())),
        };
        let made = DirBuilder::new().recursive(true).mode(0o755).create(folder);
        made.map_err(|source| PackError::File { path: folder.to_owned(), source })?;
        let _ = fs::remove_dir_all(&place.staged);
        let made = DirBuilder::new().mode(0o755).create(&place.staged);
        made.map_err(|source| PackError::File { path: place.staged.clone(), source })?;
        Ok(place)
    }

    /// The folder that the cipher will have.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// The folder in which its files are until then.
    pub fn staged(&self) -> &Path {
        &self.staged
    }

    /// Write the files, so that they are on the disk.
    pub fn write(&self, files: &[(String, Vec<u8>)]) -> Result<(), PackError> {
        for (name, content) in files {
            let path = self.staged.join(name);
            self.write_one(&path, content).map_err(|source| PackError::File { path, source })?;
        }
        File::open(&self.staged)
            .and_then(|folder| folder.sync_all())
            .map_err(|source| PackError::File { path: self.staged.clone(), source })
    }

    fn write_one(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut file = File::options().write(true).create_new(true).mode(0o644).open(path)?;
        // Whatever the mask of the process is.
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
        file.write_all(content)?;
        file.sync_all()
    }

    /// Put the folder in its place. One that is there must have the same files, unless it is to be replaced.
    pub fn exchange(&self, files: &[(String, Vec<u8>)], replace: bool) -> Result<(), PackError> {
        let fault = |path: &Path| {
            let path = path.to_owned();
            move |source| PackError::File { path, source }
        };
        if self.target.exists() {
            let same = files
                .iter()
                .all(|(name, content)| fs::read(self.target.join(name)).is_ok_and(|there| there == *content));
            if !same && !replace {
                return Err(PackError::There(self.target.clone()));
            }
            // In one step, so that there is always a whole cipher.
            let swapped = rustix::fs::renameat_with(
                rustix::fs::CWD,
                &self.staged,
                rustix::fs::CWD,
                &self.target,
                rustix::fs::RenameFlags::EXCHANGE,
            );
            swapped.map_err(io::Error::from).map_err(fault(&self.target))?;
        } else {
            fs::rename(&self.staged, &self.target).map_err(fault(&self.target))?;
        }
        fs::set_permissions(&self.target, fs::Permissions::from_mode(0o755)).map_err(fault(&self.target))?;
        let above = self.target.parent().unwrap_or(Path::new("/"));
        File::open(above).and_then(|folder| folder.sync_all()).map_err(fault(above))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.staged);
    }
}
