//! Units of systemd, as their files say: which are enabled, and which file of a unit is in force (systemd.unit(5)).

use std::collections::BTreeSet;

use crate::tree::{ReadError, Tree};

/// The folders of unit files, from the strongest.
const FOLDERS: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// The names of all units that another unit wants or requires by a link.
pub(crate) fn enabled(tree: &Tree) -> Result<BTreeSet<String>, ReadError> {
    let mut units = BTreeSet::new();
    for (at, folder) in FOLDERS.iter().enumerate() {
        // A host without the first folder is none of systemd's.
        let names = if at == 0 { tree.names(folder)? } else { tree.names_if_there(folder)? };
        for name in names.iter().filter(|name| name.ends_with(".wants") || name.ends_with(".requires")) {
            units.extend(tree.names_if_there(format!("{folder}/{name}"))?);
        }
    }
    units.retain(|unit| !is_masked(tree, unit));
    Ok(units)
}

/// Whether a unit is kept from starting by a link to nothing.
fn is_masked(tree: &Tree, unit: &str) -> bool {
    FOLDERS.iter().take(2).any(|folder| {
        tree.link(format!("{folder}/{unit}")).is_some_and(|target| target.as_os_str() == "/dev/null")
    })
}

/// The path of the file of a unit that is in force.
pub(crate) fn file(tree: &Tree, unit: &str) -> Result<Option<String>, ReadError> {
    for folder in FOLDERS {
        let path = format!("{folder}/{unit}");
        if tree.has(&path)? {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// The paths of the drop-ins of a unit, in the order in which they are read.
pub(crate) fn drop_ins(tree: &Tree, unit: &str) -> Result<Vec<String>, ReadError> {
    let mut found: Vec<(String, String)> = Vec::new();
    for folder in FOLDERS {
        for name in tree.names_if_there(format!("{folder}/{unit}.d"))? {
            if name.ends_with(".conf") && !found.iter().any(|(known, _)| *known == name) {
                found.push((name.clone(), format!("{folder}/{unit}.d/{name}")));
            }
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// The value of a key of a unit: the last one that its file and its drop-ins give.
pub(crate) fn setting(tree: &Tree, unit: &str, key: &str) -> Result<Option<String>, ReadError> {
    let mut found = None;
    let own = file(tree, unit)?;
    for path in own.into_iter().chain(drop_ins(tree, unit)?) {
        found = last_value(&tree.text(path)?, key).or(found);
    }
    Ok(found)
}

/// The last value of a key in a text of lines `KEY=VALUE`, where `#` and `;` begin comments.
pub(crate) fn last_value(text: &str, key: &str) -> Option<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    let pairs = lines.filter_map(|line| line.split_once('='));
    let mut values =
        pairs.filter(|(name, _)| name.trim_end() == key).map(|(_, value)| value.trim().to_owned());
    values.next_back()
}
