//! The text of the last policy in force without errors, kept beside the policy file for the next boot: the file itself may have been
//! broken since.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::whole_file::write_whole;

/// Where it is kept: the policy file's name with `.last` behind it.
pub fn path(policy: &Path) -> PathBuf {
    let mut name = policy.as_os_str().to_owned();
    name.push(".last");
    name.into()
}

/// Keep this text beside the policy file. What was kept before stays if that fails.
///
/// # Errors
/// If it cannot be written.
pub fn keep(policy: &Path, text: &[u8]) -> io::Result<()> {
    let path = path(policy);
    if fs::read(&path).is_ok_and(|kept| kept == text) {
        return Ok(());
    }
    write_whole(&path, text, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_whole_or_not() {
        let folder = std::env::temp_dir().join(format!("ravelin-last-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let policy = folder.join("main.policy");
        keep(&policy, b"one").unwrap();
        keep(&policy, b"two").unwrap();
        assert_eq!(fs::read_to_string(folder.join("main.policy.last")).unwrap(), "two");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert!(keep(&folder.join("none/main.policy"), b"three").is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
