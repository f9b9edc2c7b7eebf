//! The Unix sockets of an instance, and who may have them.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// What a socket that is not yet in its place has in place of an extension, before the number of its process.
const ASIDE: &str = "new";

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
    /// Another daemon of this instance is running.
    #[error("a daemon of this instance runs already{}", pid.as_ref().map_or(String::new(), |pid| format!(" (pid {pid})")))]
    Taken {
        /// Its process, if it said so.
        pid: Option<String>,
    },
    /// Something else lies where the lock must be.
    #[error("{}: not a plain file, but a link, a pipe or a device; remove it", path.display())]
    NotPlain {
        /// The path of what lies there.
        path: PathBuf,
    },
    /// The operating system refused a call.
    #[error("{}: {source}", path.display())]
    System {
        /// What it was about.
        path: PathBuf,
        /// The error that the system gave.
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

/// Open the file of a lock: through no link, and without waiting for a pipe's other end.
fn open_lock(path: &Path, options: &mut OpenOptions) -> Result<File, SocketError> {
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
    let not_plain = || SocketError::NotPlain { path: path.to_owned() };
    let opened = options.read(true).mode(0o600).custom_flags(flags.cast_signed()).open(path);
    let file =
        opened.map_err(|error| match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => not_plain(),
            _ => system(path)(error),
        })?;
    if file.metadata().map_err(system(path))?.is_file() { Ok(file) } else { Err(not_plain()) }
}

/// Become the daemon of the instance with this folder.
///
/// # Errors
/// [`SocketError::Taken`] if another lives, [`SocketError::NotPlain`] if a link or a pipe lies where the lock must be.
pub fn lock(folder: &Path) -> Result<Lock, SocketError> {
    let path = folder.join("lock");
    let mut file = open_lock(&path, OpenOptions::new().write(true).create(true).truncate(false))?;
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
    let file = open_lock(&folder.join("lock"), &mut OpenOptions::new());
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// A socket that listens beside its place, where an earlier daemon may still have its own. It is removed if it is not placed.
#[derive(Debug)]
pub struct Prepared {
    listener: Option<UnixListener>,
    aside: PathBuf,
    path: PathBuf,
}

/// Listen beside `path`, mode 0600 from the first moment.
///
/// # Errors
/// If the system refuses.
pub fn prepare(path: &Path) -> Result<Prepared, SocketError> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    // A socket is put in the place of a socket or of nothing.
    if fs::symlink_metadata(path).is_ok_and(|about| about.is_dir()) {
        return Err(system(path)(io::ErrorKind::IsADirectory.into()));
    }
    remove_stale(path);
    // Two that start at once have one each.
    let aside = path.with_extension(format!("{ASIDE}{}", std::process::id()));
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(system(&aside)(error)),
        _ => {}
    }
    let listener = private_listener(&aside).map_err(|error| system(&aside)(error.into()))?;
    let prepared = Prepared { listener: Some(listener), aside, path: path.to_owned() };
    // Where the umask took something from the owner.
    fs::set_permissions(&prepared.aside, fs::Permissions::from_mode(0o600))
        .map_err(system(&prepared.aside))?;
    Ok(prepared)
}

/// Remove what processes left beside `path` that were killed before they placed their socket. Somebody who starts at
/// this moment loses nothing: his process lives, and where it does not seem to, in another PID namespace, his socket
/// listens.
fn remove_stale(path: &Path) {
    let Some(folder) = path.parent() else { return };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let stale = entry.path();
        let name = stale.extension().and_then(|word| word.to_str()).unwrap_or_default();
        let Some(pid) = name.strip_prefix(ASIDE).and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        if path.with_extension(name) == stale && !is_alive(pid) && is_own_socket(&stale) && is_deaf(&stale) {
            match fs::remove_file(&stale) {
                Ok(()) => tracing::info!("removed {}, which a process left that was killed", stale.display()),
                Err(error) => tracing::debug!("{} stays: {error}", stale.display()),
            }
        }
    }
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists() || !Path::new("/proc/self").exists()
}

fn is_own_socket(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(|about| about.file_type().is_socket() && about.uid() == own)
}

/// Whether nobody listens there; never waits.
fn is_deaf(path: &Path) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let connected = SocketAddrUnix::new(path).and_then(|to| {
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        net::connect(&socket, &to)
    });
    connected == Err(rustix::io::Errno::CONNREFUSED)
}

impl Prepared {
    /// Put it in its place. What an earlier daemon left there is replaced in one step; call it only with the instance's [`Lock`] held.
    ///
    /// # Errors
    /// If the system refuses.
    ///
    /// # Panics
    /// Never: it is placed once.
    pub fn place(mut self) -> Result<UnixListener, SocketError> {
        fs::rename(&self.aside, &self.path).map_err(system(&self.path))?;
        let listener = self.listener.take().expect("placed once");
        listener.set_nonblocking(true).map_err(system(&self.path))?;
        Ok(listener)
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if self.listener.is_some() {
            let _ = fs::remove_file(&self.aside);
        }
    }
}

/// Listen at `path`: [`prepare`] and [`Prepared::place`].
///
/// # Errors
/// If the system refuses.
pub fn bind(path: &Path) -> Result<UnixListener, SocketError> {
    prepare(path)?.place()
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

    /// The folder is root's, but an administrator's script may have put anything there.
    #[test]
    fn a_pipe_or_a_link_as_lock_is_refused_and_holds_nobody_up() {
        let folder = folder("lock-kinds");
        make_folder(&folder).unwrap();
        let path = folder.join("lock");
        let elsewhere = folder.join("elsewhere");
        fs::write(&elsewhere, "kept").unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        let makers: [&dyn Fn(); 3] = [
            &|| rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, Mode::RWXU, 0).unwrap(),
            &|| std::os::unix::fs::symlink(&elsewhere, &path).unwrap(),
            &|| drop(UnixListener::bind(&path).unwrap()),
        ];
        for make in makers {
            make();
            assert!(!is_locked(&folder));
            let error = lock(&folder).unwrap_err();
            assert!(matches!(error, SocketError::NotPlain { .. }), "{error}");
            assert!(error.to_string().contains("remove it"), "{error}");
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "kept");
        lock(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Who is killed before the socket is placed leaves it beside.
    #[test]
    fn what_a_killed_process_left_beside_is_removed_and_nothing_else() {
        let folder = folder("stale");
        make_folder(&folder).unwrap();
        let path = folder.join("control.sock");
        // A process that has ended and was waited for.
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let dead = ended.id();
        let leave = |name: String| drop(UnixListener::bind(folder.join(name)).unwrap());
        leave(format!("control.new{dead}"));
        // These names have the number of a process that lives (the parent), are another socket's, or have no number.
        leave(format!("control.new{}", std::os::unix::process::parent_id()));
        leave(format!("handover.new{dead}"));
        leave("control.newer".to_owned());
        fs::write(folder.join("control.new4194305"), "no socket").unwrap();
        // No process of this PID namespace, and yet it listens.
        let listens = UnixListener::bind(folder.join("control.new4194306")).unwrap();
        drop(prepare(&path).unwrap());
        let mut left: Vec<String> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let parent = format!("control.new{}", std::os::unix::process::parent_id());
        let mut expected = vec![
            parent,
            format!("handover.new{dead}"),
            "control.newer".to_owned(),
            "control.new4194305".to_owned(),
            "control.new4194306".to_owned(),
        ];
        expected.sort();
        assert_eq!(left, expected);
        drop(listens);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_socket_is_not_prepared_for_the_place_of_a_folder() {
        let folder = folder("dir");
        make_folder(&folder.join("control.sock")).unwrap();
        let error = prepare(&folder.join("control.sock")).unwrap_err();
        assert!(error.to_string().contains("directory"), "{error}");
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
