//! The folder of an instance's state: lock, hand-over socket, numbers of applications, the book of used keys, a policy
//! on trial, what was changed on the host. It must live as long as the kernel half does, so it is not in
//! `/run/ravelin`, which a unit of systemd with `RuntimeDirectory=ravelin` removes with each end of the daemon. The
//! control socket is there.
//!
//! Earlier versions had all of it in `/run/ravelin/INSTANCE`. A daemon of this version moves it at its start, even
//! while an earlier version runs and is about to hand over; that one's paths then lead to the new folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use config::{control_dir, run_dir};
use control::socket::{self, SocketError};

/// Make the folder of an instance's state, and move into it what an earlier version has.
///
/// # Errors
/// [`SocketError::Taken`]: a daemon of an earlier version runs and is not to hand over. Otherwise the system refused.
pub fn make(instance: &str, takes_over: bool) -> Result<PathBuf, SocketError> {
    let (folder, earlier) = (run_dir(instance), control_dir(instance));
    adopt(&folder, &earlier, takes_over)?;
    socket::make_folder(&folder)?;
    Ok(folder)
}

/// The folder of an instance's state, made by this version or an earlier one.
pub fn find(instance: &str) -> PathBuf {
    let (folder, earlier) = (run_dir(instance), control_dir(instance));
    if !folder.exists() && is_state(&earlier) { earlier } else { folder }
}

/// Remove the state of an instance that is off the host, and the folder of its control socket if nothing else is in it.
///
/// # Errors
/// The state cannot be removed.
pub fn remove(instance: &str, folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let control = control_dir(instance);
    if control.is_symlink() {
        return fs::remove_file(control);
    }
    // Somebody else's files are none of our business.
    let _ = fs::remove_dir(control);
    Ok(())
}

/// Whether a folder is that of an instance: it has a lock, which exists from the first start on.
fn is_state(folder: &Path) -> bool {
    folder.join("lock").exists()
}

fn adopt(folder: &Path, earlier: &Path, takes_over: bool) -> Result<(), SocketError> {
    if folder.exists() || earlier.is_symlink() || !is_state(earlier) {
        return Ok(());
    }
    if !takes_over {
        // A daemon that lives needs its files where they are.
        drop(socket::lock(earlier)?);
    }
    if let Some(parent) = folder.parent() {
        socket::make_folder(parent)?;
    }
    let move_it = || {
        fs::rename(earlier, folder)?;
        std::os::unix::fs::symlink(folder, earlier)
    };
    move_it().map_err(|source| {
        let text = format!(
            "what an earlier version left cannot be moved to {} ({source}); with no daemon running, do so by hand (mv)",
            folder.display()
        );
        SocketError::System { path: earlier.to_owned(), source: io::Error::new(source.kind(), text) }
    })?;
    tracing::info!("the state of an earlier version is in {} now", folder.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(name: &str) -> (PathBuf, PathBuf, PathBuf) {
        let base = std::env::temp_dir().join(format!("ravelin-state-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&base);
        (base.join("state/main"), base.join("run/main"), base)
    }

    #[test]
    fn what_an_earlier_version_left_is_moved_and_its_paths_lead_there() {
        let (folder, earlier, base) = folders("moved");
        fs::create_dir_all(&earlier).unwrap();
        drop(socket::lock(&earlier).unwrap());
        fs::write(earlier.join("used-keys"), "book").unwrap();
        adopt(&folder, &earlier, false).unwrap();
        assert_eq!(fs::read_to_string(folder.join("used-keys")).unwrap(), "book");
        assert_eq!(fs::read_to_string(earlier.join("used-keys")).unwrap(), "book");
        // Once is enough, and a folder with nothing but a control socket is no state.
        adopt(&folder, &earlier, false).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        fs::remove_file(&earlier).unwrap();
        fs::create_dir_all(&earlier).unwrap();
        fs::write(earlier.join("control.sock"), "").unwrap();
        adopt(&folder, &earlier, false).unwrap();
        assert!(!folder.exists());
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn a_daemon_of_an_earlier_version_keeps_its_files_unless_it_hands_over() {
        let (folder, earlier, base) = folders("living");
        fs::create_dir_all(&earlier).unwrap();
        let lock = socket::lock(&earlier).unwrap();
        assert!(matches!(adopt(&folder, &earlier, false), Err(SocketError::Taken { .. })));
        assert!(!folder.exists() && earlier.join("lock").exists());
        adopt(&folder, &earlier, true).unwrap();
        assert!(socket::is_locked(&folder) && socket::is_locked(&earlier));
        drop(lock);
        fs::remove_dir_all(base).unwrap();
    }
}
