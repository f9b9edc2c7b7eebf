//! What a program is run as: an entry of `drill/programs/*.toml`.
//!
//! Scripts are `/bin/sh`, run with `-eu` in a folder of their own (`$DIR`). They know `$FAMILY` (4 or 6), the addresses `$ALICE` and `$BOB`,
//! the same as a URL has them (`$ALICE_URL`, `$BOB_URL`), `$MARK`, a word that must never be seen on the wire, and `$PAYLOAD`, a file that is
//! full of it. What a client received goes to `$GOT`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use lab::{Side, Transport};
use serde::Deserialize;

/// The files of entries: a kind of programs each.
const FILES: &[(&str, &str)] = &[
    ("data", include_str!("../programs/data.toml")),
    ("files", include_str!("../programs/files.toml")),
    ("languages", include_str!("../programs/languages.toml")),
    ("messages", include_str!("../programs/messages.toml")),
    ("names", include_str!("../programs/names.toml")),
    ("network", include_str!("../programs/network.toml")),
    ("shell", include_str!("../programs/shell.toml")),
    ("web", include_str!("../programs/web.toml")),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    /// Files that several of its entries need.
    #[serde(default)]
    files: BTreeMap<String, String>,
    case: Vec<Case>,
}

/// A program, or two that speak with each other.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Names it; letters, digits and dashes.
    pub name: String,
    /// What is run, in a few words.
    pub what: String,
    /// The Debian packages that it needs.
    pub packages: Vec<String>,
    /// What the policy names, on both hosts: paths, in which `*` stands for a part of a name.
    pub protect: Vec<String>,
    /// The address families in which it is run.
    #[serde(default = "both_families")]
    pub families: Vec<u8>,
    /// Why it is not run in the other family.
    pub one_family: Option<String>,
    /// A script that must succeed before, without a network of interest: makes keys, compiles.
    pub prepare: Option<String>,
    /// A script whose failure means that this host cannot run the case; its output says why.
    pub possible: Option<String>,
    /// Files in `$DIR`, by name; `${NAME}` in them is replaced. Those of the document are there too.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Programs that wait for others.
    #[serde(default)]
    pub server: Vec<Server>,
    /// What alice runs; it must succeed.
    pub client: String,
    /// What it must print, `$MARK` replaced; else `$GOT` must be the same as `$PAYLOAD`.
    pub says: Option<String>,
    /// Whether nobody sends again what is lost, so that only events that lose nothing may happen meanwhile.
    #[serde(default)]
    pub loses: bool,
    /// Seconds that the client may take.
    #[serde(default = "usual_seconds")]
    pub seconds: u64,
}

/// A program that waits for others.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// The host on which the server runs.
    #[serde(default)]
    pub on: Host,
    /// The script that is the server; it goes on as long as the server does, or leaves the server behind.
    pub run: String,
    /// The place where the server listens when it is ready, as `tcp/PORT` or `udp/PORT`.
    pub listen: Option<String>,
    /// A script that succeeds when the server is ready.
    pub ready: Option<String>,
}

/// A host, as entries name it.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Host {
    /// The host of the clients.
    Alice,
    /// The host of the servers.
    #[default]
    Bob,
}

impl From<Host> for Side {
    fn from(host: Host) -> Side {
        match host {
            Host::Alice => Side::Alice,
            Host::Bob => Side::Bob,
        }
    }
}

impl Server {
    /// The transport and port on which the server listens, if the entry says so.
    ///
    /// # Errors
    /// If the entry does not say it in the usual form.
    pub fn listens(&self) -> anyhow::Result<Option<(Transport, u16)>> {
        let Some(text) = &self.listen else { return Ok(None) };
        let wrong = || format!("`listen = \"{text}\"` is not tcp/PORT or udp/PORT");
        let (transport, port) = text.split_once('/').with_context(wrong)?;
        let transport = match transport {
            "tcp" => Transport::Tcp,
            "udp" => Transport::Udp,
            _ => anyhow::bail!(wrong()),
        };
        Ok(Some((transport, port.parse().with_context(wrong)?)))
    }
}

fn both_families() -> Vec<u8> {
    vec![4, 6]
}

fn usual_seconds() -> u64 {
    120
}

/// Every entry, in the order of the files.
///
/// # Errors
/// If one of them cannot be read; a test reads all of them.
pub fn all() -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (name, text) in FILES {
        let document: Document =
            toml::from_str(text).with_context(|| format!("drill/programs/{name}.toml"))?;
        for mut case in document.case {
            for (name, text) in &document.files {
                case.files.entry(name.clone()).or_insert_with(|| text.clone());
            }
            cases.push(case);
        }
    }
    let mut names = BTreeSet::new();
    for case in &cases {
        let name = &case.name;
        let fine = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        ensure!(fine && !name.is_empty(), "`{name}` cannot name a program");
        ensure!(names.insert(name), "two programs are called {name}");
        ensure!(!case.protect.is_empty(), "{name} protects nothing");
        let (both, one) = (case.families == [4, 6], matches!(case.families[..], [4 | 6]));
        ensure!(both || one && case.one_family.is_some(), "{name}: one family needs `one_family`, why");
        for server in &case.server {
            server.listens().with_context(|| name.clone())?;
        }
    }
    Ok(cases)
}

/// The files that a path with `*` in its parts leads to, links followed.
///
/// # Errors
/// If there is none.
pub fn expand(pattern: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::from("/")];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let mut next = Vec::new();
        for folder in found {
            match part.split_once('*') {
                None => next.push(folder.join(part)),
                Some(ends) => next.extend(matching(&folder, ends)),
            }
        }
        found = next;
    }
    found.retain(|path| path.is_file());
    ensure!(!found.is_empty(), "{pattern} is not there");
    let real = found.iter().map(|path| Ok(path.canonicalize()?)).collect::<anyhow::Result<BTreeSet<_>>>()?;
    Ok(real.into_iter().collect())
}

fn matching(folder: &Path, (head, tail): (&str, &str)) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let fits =
        |name: &str| name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail);
    entries.filter(|entry| entry.file_name().to_str().is_some_and(fits)).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_can_be_read() {
        let cases = all().unwrap();
        assert!(cases.len() >= 30, "the drill is about at least 30 programs, not {}", cases.len());
    }

    #[test]
    fn paths_with_a_star() {
        assert_eq!(expand("/bin/sh").unwrap(), [Path::new("/bin/sh").canonicalize().unwrap()]);
        assert_eq!(expand("/proc/sel*/stat*s").unwrap().len(), 1);
        assert!(expand("/bin/no-such-*").is_err());
        assert!(expand("/proc/se*elf/status").is_err(), "head and tail must not overlap");
    }
}
