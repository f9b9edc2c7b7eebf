//! The configuration file of Ravelin, as far as these checks need it. [`crate::checks`] reads files of a host that may
//! be another one, so the file is not judged as `ravelin run` would judge it; `ravelin doctor --config` does that.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::tree::{ReadError, Tree};

/// The name of the instance of a host whose administrator chose no other.
const INSTANCE: &str = "main";
/// The seconds between two heartbeats, unless the configuration says otherwise.
const HEARTBEAT: u64 = 60;

/// The configuration file, and what it says.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The path of the file.
    pub(crate) file: PathBuf,
    /// What the file says, or why that is not known.
    pub(crate) table: Result<Table, SettingsError>,
}

/// The reason why the configuration is not known.
#[derive(Clone, Debug)]
pub(crate) enum SettingsError {
    /// The file cannot be read.
    Read(ReadError),
    /// The file is no TOML, for this reason.
    Malformed(String),
}

impl std::fmt::Display for SettingsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SettingsError::Read(error) => error.fmt(f),
            SettingsError::Malformed(why) => f.write_str(why),
        }
    }
}

impl Settings {
    /// Reads the configuration file.
    pub(crate) fn read(tree: &Tree, file: &Path) -> Settings {
        let table = tree.text(file).map_err(SettingsError::Read).and_then(|text| {
            // The message alone: a line of the file may hold what nobody should read.
            text.parse::<Table>().map_err(|error| {
                SettingsError::Malformed(format!("{} is no TOML: {}", file.display(), error.message()))
            })
        });
        Settings { file: file.to_owned(), table }
    }

    /// A value, by the names of the tables that lead to it.
    pub(crate) fn get(&self, names: &[&str]) -> Option<&Value> {
        let (first, rest) = names.split_first()?;
        let value = self.table.as_ref().ok()?.get(*first)?;
        rest.iter().try_fold(value, |value, name| value.as_table()?.get(*name))
    }

    /// A path, by the names of the tables that lead to it; a relative one starts at the folder of the file.
    pub(crate) fn path(&self, names: &[&str]) -> Option<PathBuf> {
        Some(self.beside(self.get(names)?.as_str()?))
    }

    /// A path that the file says.
    pub(crate) fn beside(&self, path: &str) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("/")).join(path)
    }

    /// The path of the policy file.
    pub(crate) fn policy(&self) -> Option<PathBuf> {
        self.path(&["policy"])
    }

    /// The name of the instance.
    pub(crate) fn instance(&self) -> &str {
        self.get(&["instance"]).and_then(Value::as_str).unwrap_or(INSTANCE)
    }

    /// The path of the control socket.
    pub(crate) fn control_socket(&self) -> PathBuf {
        let usual = || Path::new("/run/ravelin").join(self.instance()).join("control.sock");
        self.path(&["control_socket"]).unwrap_or_else(usual)
    }

    /// The folder of what `[audit.remote]` sent and nobody is known to have read.
    pub(crate) fn audit_spool(&self) -> PathBuf {
        let usual = || Path::new("/var/lib/ravelin").join(self.instance()).join("audit-spool");
        self.path(&["audit", "remote", "spool"]).unwrap_or_else(usual)
    }

    /// The seconds between two messages of `[audit.remote]` that say no more than that it is there.
    pub(crate) fn heartbeat(&self) -> u64 {
        let seconds = self.get(&["audit", "remote", "heartbeat"]).and_then(Value::as_integer);
        seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(HEARTBEAT)
    }

    /// Whether the host is a gateway for networks behind it.
    pub(crate) fn is_gateway(&self) -> bool {
        self.get(&["gateway"]).is_some()
    }
}
