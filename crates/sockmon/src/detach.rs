//! Taking everything down: the only way in which the kernel half ends.

use crate::error::SockmonError;
use crate::links;
use crate::programs::Pins;
use crate::sys;
use std::io;
use std::path::Path;

/// The numbers of pins that [`detach`] removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detached {
    /// The number of links, each of which was also taken off its hook.
    pub links: usize,
    /// The number of pinned maps.
    pub maps: usize,
}

/// The instances that have pins.
pub fn instances() -> Result<Vec<String>, SockmonError> {
    match std::fs::read_dir(Pins::all()) {
        Ok(list) => {
            let mut names: Vec<String> =
                list.filter_map(Result::ok).map(|e| e.file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            Ok(names)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(SockmonError::system("list the instances")(e)),
    }
}

/// Remove every pin of an instance and its directories. Its programs stop at once, unless a daemon still runs: that one
/// keeps its maps and the tracepoints that tell it who a process is, but nothing that refuses. Nothing there: nothing done.
pub fn detach(instance: &str) -> Result<Detached, SockmonError> {
    let pins = Pins::of(instance)?;
    let mut out = Detached::default();
    // Links that redirect go last: what still passes until then is refused rather than let out.
    let mut list = links::pinned(&pins)?;
    list.sort_by_key(|(name, _)| (name.starts_with("uplink_egress"), name == "guard"));
    for (_, path) in list {
        links::remove(&path)?;
        out.links += 1;
    }
    remove_directory(&pins.links())?;
    if let Ok(list) = std::fs::read_dir(&pins.root) {
        for entry in list.filter_map(Result::ok) {
            sys::unpin(&entry.path())?;
            out.maps += 1;
        }
    }
    remove_directory(&pins.root)?;
    // The last one closes the door; others may still be there.
    let _ = std::fs::remove_dir(Pins::all());
    Ok(out)
}

fn remove_directory(path: &Path) -> Result<(), SockmonError> {
    match std::fs::remove_dir(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(SockmonError::system(format!("remove {}", path.display()))(e))
        }
        _ => Ok(()),
    }
}
