//! Programs of this host by the names that a policy has for them: whether there is one, whether it is a script, and which one may
//! have been meant.
//!
//! The kernel half knows a process by the file that it executes. A name without a file, or with a script's, therefore matches no
//! process, and the program that was meant sends as if it had no policy.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};

use policy::{ProgramFile, STANDARD_DIRECTORIES};

/// Slips of the fingers between a name and the one that is proposed.
const SLIPS: usize = 2;
/// Entries of directories that are looked at for a proposal.
const LOOKED_AT: usize = 50_000;
/// Where programs are that scripts in the standard directories start.
const BEHIND: [&str; 3] = ["usr/lib", "usr/libexec", "opt"];
/// The number of levels of directories that are looked through below [`BEHIND`].
const DEPTH: usize = 4;
/// Octets of a script that are read for what it starts.
const SCRIPT: u64 = 64 << 10;

/// Whether somebody may execute the file.
pub fn is_executable(file: &Metadata) -> bool {
    file.is_file() && file.permissions().mode() & 0o111 != 0
}

/// The interpreter that the first line of a script names; `None`: it is no script, or cannot be read.
pub fn interpreter(path: &Path) -> Option<String> {
    let text = head(path, 256).ok()?;
    let line = text.strip_prefix(b"#!")?.split(|octet| *octet == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    Some(line.split_whitespace().next()?.to_owned())
}

/// The first octets of a regular file; nothing of anything else. The file is held before it is asked what it is, and what was asked is
/// what is opened: whoever owns its directory may put a pipe or a device in its place at any moment, and opening a device does something.
fn head(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let held = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let mut out = Vec::new();
    let own = format!("/proc/self/fd/{}", held.as_raw_fd());
    if fs::metadata(&own)?.is_file() {
        File::open(own)?.take(most).read_to_end(&mut out)?;
    }
    Ok(out)
}

/// The names in the standard directories, read once for all questions about one policy: each name of a program that is
/// not there is compared with all of them.
#[derive(Debug, Default)]
pub struct Listings(Mutex<BTreeMap<String, Arc<[String]>>>);

impl Listings {
    /// The names in a directory of the host whose files are under `root`.
    fn names(&self, root: &Path, dir: &str) -> Arc<[String]> {
        let read = || {
            let entries =
                fs::read_dir(root.join(dir.trim_start_matches('/'))).into_iter().flatten().flatten();
            entries.take(LOOKED_AT).map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        if !STANDARD_DIRECTORIES.contains(&dir) {
            return read();
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(dir.to_owned()).or_insert_with(read))
    }
}

/// The programs of the host whose files are under `root`.
pub struct Programs<'r> {
    pub root: &'r Path,
    pub listings: &'r Listings,
}

impl Programs<'_> {
    fn place(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The paths that a name stands for.
    fn paths(name: &str) -> Vec<String> {
        match name.starts_with('/') {
            true => vec![name.to_owned()],
            false => STANDARD_DIRECTORIES.iter().map(|dir| format!("{dir}/{name}")).collect(),
        }
    }

    /// What is under one path.
    fn file(&self, path: &str) -> ProgramFile {
        let place = self.place(path);
        match fs::metadata(&place) {
            Ok(file) if is_executable(&file) => match interpreter(&place) {
                Some(interpreter) => ProgramFile::Script { path: path.to_owned(), interpreter },
                None => ProgramFile::Executable,
            },
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => ProgramFile::NotKnown,
            Ok(_) | Err(_) => ProgramFile::Missing,
        }
    }

    /// What is under a path or a bare name: an executable, if one of its paths has one.
    pub fn look_up(&self, name: &str) -> ProgramFile {
        let mut found = ProgramFile::Missing;
        for path in Self::paths(name) {
            match self.file(&path) {
                ProgramFile::Executable => return ProgramFile::Executable,
                ProgramFile::Missing => {}
                other if found == ProgramFile::Missing => found = other,
                _ => {}
            }
        }
        found
    }

    /// The program that may be meant: the one behind a script, or the one whose name is one or two slips away.
    pub fn near(&self, name: &str) -> Option<String> {
        match self.look_up(name) {
            ProgramFile::Missing => self.nearest(name),
            ProgramFile::Script { path, interpreter } => self.behind(&path, &interpreter),
            ProgramFile::Executable | ProgramFile::NotKnown => None,
        }
    }

    fn nearest(&self, name: &str) -> Option<String> {
        let (own, file) = name.rsplit_once('/').unwrap_or(("", name));
        let characters = file.chars().count();
        let slips = match characters {
            0..=2 => 0,
            3 => 1,
            _ => SLIPS,
        };
        let directories = STANDARD_DIRECTORIES.iter().copied().filter(|dir| *dir != own);
        let mut near: Vec<(usize, usize, String)> = Vec::new();
        for (order, dir) in std::iter::once(own).filter(|own| !own.is_empty()).chain(directories).enumerate()
        {
            for other in self.listings.names(self.root, dir).iter() {
                // Each slip changes the number of characters by one at most, and a character has at most four octets.
                if other.len().abs_diff(file.len()) > 4 * slips
                    || other.chars().count().abs_diff(characters) > slips
                {
                    continue;
                }
                let distance = policy::distance(file, other);
                if distance <= slips {
                    near.push((distance, order, format!("{dir}/{other}")));
                }
            }
        }
        near.sort();
        let found = near.into_iter().find(|(_, _, path)| self.file(path) == ProgramFile::Executable)?.2;
        let bare = !name.starts_with('/');
        Some(if bare { found.rsplit('/').next().unwrap_or(&found).to_owned() } else { found })
    }

    /// The program that a script starts: one that its text names, else one of the same name where programs behind scripts are.
    fn behind(&self, script: &str, interpreter: &str) -> Option<String> {
        let file = script.rsplit('/').next().unwrap_or(script);
        let text = head(&self.place(script), SCRIPT).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let apart = |c: char| c.is_whitespace() || "\"'`()$;,&|=".contains(c);
        let named = text.split(apart).filter(|word| word.starts_with('/') && *word != interpreter);
        let named = named.filter(|word| word.rsplit('/').next().is_some_and(|own| own.contains(file)));
        let mut named = named.filter(|word| self.file(word) == ProgramFile::Executable);
        named.next().map(ToOwned::to_owned).or_else(|| self.of_that_name(file))
    }

    /// The program of this name in the directories of [`BEHIND`]; of several versions the last one in the order of
    /// their paths.
    fn of_that_name(&self, file: &str) -> Option<String> {
        let mut found = Vec::new();
        let mut room = LOOKED_AT;
        let mut next: Vec<String> = BEHIND.map(ToOwned::to_owned).into();
        for _ in 0..=DEPTH {
            for dir in std::mem::take(&mut next) {
                for entry in fs::read_dir(self.place(&dir)).into_iter().flatten().flatten() {
                    room = room.saturating_sub(1);
                    let Ok(kind) = entry.file_type() else { continue };
                    let name = entry.file_name().to_string_lossy().into_owned();
                    match kind.is_dir() {
                        true => next.push(format!("{dir}/{name}")),
                        false if name == file => found.push(format!("/{dir}/{name}")),
                        false => {}
                    }
                    if room == 0 {
                        break;
                    }
                }
            }
        }
        found.sort();
        found.into_iter().rfind(|path| self.file(path) == ProgramFile::Executable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Host(PathBuf, Listings);

    impl Host {
        fn new(name: &str) -> Host {
            let root = std::env::temp_dir().join(format!("ravelin-programs-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            let host = Host(root, Listings::default());
            for (path, text, mode) in [
                ("usr/bin/curl", "\x7fELF", 0o755),
                ("usr/sbin/nginx", "\x7fELF", 0o755),
                ("usr/bin/notes", "text", 0o644),
                ("usr/share/pg/pg_wrapper", "#! /usr/bin/perl -w\nexec \"$bin/psql\";\n", 0o755),
                ("usr/lib/postgresql/15/bin/psql", "\x7fELF", 0o755),
                ("usr/lib/postgresql/16/bin/psql", "\x7fELF", 0o755),
                ("usr/bin/tool", "#!/bin/sh\nexec '/opt/tool/tool-bin' \"$@\"\n", 0o755),
                ("opt/tool/tool-bin", "\x7fELF", 0o755),
                ("usr/bin/alone", "#!/bin/sh\necho\n", 0o755),
            ] {
                let path = host.0.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, text).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            }
            std::os::unix::fs::symlink("../share/pg/pg_wrapper", host.0.join("usr/bin/psql")).unwrap();
            host
        }

        fn programs(&self) -> Programs<'_> {
            Programs { root: &self.0, listings: &self.1 }
        }
    }

    impl Drop for Host {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_name_is_an_executable_a_script_or_nothing_and_what_is_near_is_proposed() {
        let host = Host::new("names");
        let script = |path: &str, interpreter: &str| ProgramFile::Script {
            path: path.to_owned(),
            interpreter: interpreter.to_owned(),
        };
        for (name, is, near) in [
            ("/usr/bin/curl", ProgramFile::Executable, None),
            ("curl", ProgramFile::Executable, None),
            ("/usr/bin/crul", ProgramFile::Missing, Some("/usr/bin/curl")),
            ("crul", ProgramFile::Missing, Some("curl")),
            ("/usr/bin/nginx", ProgramFile::Missing, Some("/usr/sbin/nginx")),
            ("/opt/nowhere/curll", ProgramFile::Missing, Some("/usr/bin/curl")),
            ("notes", ProgramFile::Missing, None),
            ("/usr/bin/something-else", ProgramFile::Missing, None),
            ("/usr/bin", ProgramFile::Missing, None),
            ("psql", script("/usr/bin/psql", "/usr/bin/perl"), Some("/usr/lib/postgresql/16/bin/psql")),
            ("/usr/bin/tool", script("/usr/bin/tool", "/bin/sh"), Some("/opt/tool/tool-bin")),
            ("alone", script("/usr/bin/alone", "/bin/sh"), None),
        ] {
            assert_eq!(host.programs().look_up(name), is, "{name}");
            assert_eq!(host.programs().near(name).as_deref(), near, "{name}");
        }
    }

    #[test]
    fn a_pipe_under_the_name_of_a_program_is_not_waited_for() {
        let host = Host::new("pipe");
        let path = host.0.join("usr/bin/pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o755.into(), 0).unwrap();
        assert_eq!(host.programs().look_up("pipe"), ProgramFile::Missing);
        assert_eq!(interpreter(&path), None);
    }
}
