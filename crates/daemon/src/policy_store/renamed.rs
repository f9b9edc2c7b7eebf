//! Applications that have left the policy while their executables went on under another name (`curl`, then `/usr/bin/curl`).
//!
//! Sockets have the old number until they are stamped anew, a few for longer (connections without a process, descriptors on
//! their way), and so has a process of a file that was replaced before. The old number therefore gets the policy of the new
//! name for as long as that is in the policy: nothing that has it is in clear.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use wire::AppId;

/// The file in the instance's run directory that keeps them.
pub(super) const FILE: &str = "renamed.json";

/// From the application that left to those that have its executables.
pub type Renamed = BTreeMap<AppId, BTreeSet<AppId>>;

pub(super) fn read(path: &Path) -> io::Result<Renamed> {
    let octets = match fs::read(path) {
        Ok(octets) => octets,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Renamed::new()),
        Err(error) => return Err(error),
    };
    let entries: BTreeMap<u16, Vec<u16>> = serde_json::from_slice(&octets).map_err(|error| {
        let text = format!("damaged ({error}); `ravelin detach` starts afresh");
        io::Error::new(io::ErrorKind::InvalidData, text)
    })?;
    Ok(entries.into_iter().map(|(from, to)| (AppId(from), to.into_iter().map(AppId).collect())).collect())
}

/// Write aside and rename: never half a table.
pub(super) fn write(path: &Path, renamed: &Renamed) -> io::Result<()> {
    let entries: BTreeMap<u16, Vec<u16>> =
        renamed.iter().map(|(from, to)| (from.0, to.iter().map(|app| app.0).collect())).collect();
    let aside = path.with_extension("new");
    fs::write(&aside, serde_json::to_vec_pretty(&entries)?)?;
    fs::rename(aside, path)
}
