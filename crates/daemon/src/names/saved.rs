//! What is known of names, beside the sockets of the instance: a daemon that starts anew, perhaps without a resolver yet, begins with
//! what the one before knew.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use policy::{Names, Source};

const FILE: &str = "names.json";

/// The names of an earlier daemon. A file that cannot be read is as none: what it said is asked for anew.
pub fn read(run_dir: &Path) -> Names {
    let mut out = Names::default();
    let Ok(octets) = fs::read(run_dir.join(FILE)) else { return out };
    let saved: BTreeMap<String, BTreeMap<IpAddr, bool>> = match serde_json::from_slice(&octets) {
        Ok(saved) => saved,
        Err(error) => {
            tracing::warn!("{}: {error}; names are asked for anew", run_dir.join(FILE).display());
            return out;
        }
    };
    for (name, addresses) in saved {
        for (addr, observed) in addresses {
            out.insert(&name, addr, if observed { Source::Observed } else { Source::Resolver });
        }
    }
    out
}

/// Write them aside and rename: never half of them.
///
/// # Errors
/// If the file cannot be written.
pub fn write<'n>(run_dir: &Path, names: &Names, hosts: impl Iterator<Item = &'n str>) -> io::Result<()> {
    let of = |host| names.of(host).map(|(addr, source)| (addr, source == Source::Observed)).collect();
    let saved: BTreeMap<&str, BTreeMap<IpAddr, bool>> = hosts.map(|host| (host, of(host))).collect();
    let aside = run_dir.join(FILE).with_extension("new");
    fs::write(&aside, serde_json::to_vec(&saved)?)?;
    fs::rename(aside, run_dir.join(FILE))
}

/// Remove them with the instance.
///
/// # Errors
/// If the file is there and cannot be removed.
pub fn forget(run_dir: &Path) -> io::Result<()> {
    match fs::remove_file(run_dir.join(FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
