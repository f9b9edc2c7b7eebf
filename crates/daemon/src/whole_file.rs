//! Files that are there whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Aside, to the disk, and in its place: never half a file. Owner and permissions as those of `like`, else for us alone.
pub(crate) fn write_whole(path: &Path, octets: &[u8], like: Option<&fs::Metadata>) -> io::Result<()> {
    let aside = with_suffix(path, "new");
    remove(&aside)?;
    let written = || -> io::Result<()> {
        let mut file: File = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
        file.write_all(octets)?;
        if let Some(like) = like {
            std::os::unix::fs::fchown(&file, Some(like.uid()), Some(like.gid()))?;
            file.set_permissions(fs::Permissions::from_mode(like.mode() & 0o7777))?;
        }
        file.sync_all()?;
        fs::rename(&aside, path)?;
        // The name, too.
        File::open(folder_of(path))?.sync_all()
    };
    written().inspect_err(|_| drop(fs::remove_file(&aside)))
}

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Where a file is. That of a bare name has no words.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_is_in_the_folder_where_we_are() {
        for (path, folder) in
            [("main.policy", "."), ("./main.policy", "."), ("a/main.policy", "a"), ("/m", "/")]
        {
            assert_eq!(folder_of(Path::new(path)), Path::new(folder));
        }
        // Also as a whole: the text is there, and there is no error about the folder.
        let name = format!("ravelin-bare-{}", std::process::id());
        write_whole(Path::new(&name), b"text", None).unwrap();
        assert_eq!(fs::read(&name).unwrap(), b"text");
        fs::remove_file(&name).unwrap();
    }
}
