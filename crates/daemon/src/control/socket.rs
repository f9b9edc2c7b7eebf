//! The Unix sockets of an instance, and who may have them.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// The right to be the daemon of an instance. Held by the kernel for the process, so it ends with it.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why a lock or a socket was not to be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// Another daemon lives.
    #[error("a daemon of this instance runs already{}", pid.as_ref().map_or(String::new(), |pid| format!(" (pid {pid})")))]
    Taken {
        /// Its process, if it said so.
        pid: Option<String>,
    },
    /// The system refused.
    #[error("{}: {source}", path.display())]
    System {
        /// What it was about.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
}

fn system(path: &Path) -> impl FnOnce(io::Error) -> SocketError + '_ {
    move |source| SocketError::System { path: path.to_owned(), source }
}

/// Make an instance's folder (0700).
///
/// # Errors
/// If the system refuses.
pub fn make_folder(folder: &Path) -> Result<(), SocketError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(system(folder))
}

/// Become the daemon of the instance with this folder.
///
/// # Errors
/// [`SocketError::Taken`] if another lives.
pub fn lock(folder: &Path) -> Result<Lock, SocketError> {
    let path = folder.join("lock");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(system(&path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let _ = (&file).take(16).read_to_string(&mut pid);
            let pid = Some(pid.trim().to_owned()).filter(|pid| !pid.is_empty());
            return Err(SocketError::Taken { pid });
        }
        Err(TryLockError::Error(source)) => return Err(SocketError::System { path, source }),
    }
    let written =
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    written.map_err(system(&path))?;
    Ok(Lock { _file: file })
}

/// Whether somebody holds the lock of the instance with this folder; takes nothing and writes nothing.
pub fn is_locked(folder: &Path) -> bool {
    let file = File::open(folder.join("lock"));
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Listen at `path`, mode 0600 from the first moment. What an earlier daemon left there is replaced in one step; call it
/// only with the instance's [`Lock`] held.
///
/// # Errors
/// If the system refuses.
pub fn bind(path: &Path) -> Result<UnixListener, SocketError> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    let aside = path.with_extension("new");
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(system(&aside)(error)),
        _ => {}
    }
    let listener = private_listener(&aside).map_err(|error| system(&aside)(error.into()))?;
    // Where the umask took something from the owner.
    fs::set_permissions(&aside, fs::Permissions::from_mode(0o600)).map_err(system(&aside))?;
    fs::rename(&aside, path).map_err(system(path))?;
    listener.set_nonblocking(true).map_err(system(path))?;
    Ok(listener)
}

/// Linux makes the file with the mode of the socket: no umask, which is every thread's, has to change.
fn private_listener(path: &Path) -> rustix::io::Result<UnixListener> {
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(0o600))?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("ravelin-socket-{}-{name}", std::process::id()))
    }

    #[test]
    fn only_one_daemon_of_an_instance() {
        let folder = folder("lock");
        make_folder(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(!is_locked(&folder));
        let first = lock(&folder).unwrap();
        assert!(is_locked(&folder));
        let second = lock(&folder).unwrap_err();
        assert!(second.to_string().contains(&format!("pid {}", std::process::id())), "{second}");
        drop(first);
        lock(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_stale_socket_is_replaced_and_only_root_may_use_the_new_one() {
        let folder = folder("bind");
        let path = folder.join("control.sock");
        let stale = bind(&path).unwrap();
        drop(stale);
        assert_eq!(UnixStream::connect(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let _listener = bind(&path).unwrap();
        UnixStream::connect(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_dir_all(&folder).unwrap();
    }
}
