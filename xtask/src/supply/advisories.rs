//! The advisory database: one file for each advisory, whose front matter names the crate and the versions that are not affected.

use super::{Advisories, Package, target};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The database's archive on a machine without the network: below `RAVELIN_SHARED`, or `../shared` beside the checkout.
const ARCHIVE: &str = "advisory-db/advisory-db.tar.gz";
/// The repository that the database is fetched from if there is no archive.
const NETWORK: &str = "https://github.com/rustsec/advisory-db";
/// Seconds that fetching may take.
const PATIENCE: &str = "60";

/// A database in a folder.
pub struct Database {
    folder: PathBuf,
    name: String,
}

#[derive(Deserialize)]
struct Front {
    advisory: Advisory,
    #[serde(default)]
    versions: Versions,
}

#[derive(Deserialize)]
struct Advisory {
    id: String,
    package: String,
    /// `unmaintained`, `unsound`, `notice`; without, it is a vulnerability.
    informational: Option<String>,
    withdrawn: Option<toml::Value>,
}

#[derive(Default, Deserialize)]
struct Versions {
    #[serde(default)]
    patched: Vec<String>,
    #[serde(default)]
    unaffected: Vec<String>,
}

impl Database {
    /// The one in the shared folder, else the network's as it is now.
    pub fn find() -> Result<Database> {
        let folder = target().join("advisory-db");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let shared =
            std::env::var_os("RAVELIN_SHARED").map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
        let archive = shared.join(ARCHIVE);
        if archive.is_file() {
            done(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&folder))?;
            let about = archive.with_file_name("README.md");
            let date = fs::read_to_string(about).ok().and_then(|text| date(&text));
            let date = date.unwrap_or_else(|| "an unknown day".to_owned());
            return Ok(Database { folder, name: format!("{date} ({})", archive.display()) });
        }
        let mut clone = Command::new("timeout");
        clone.args([PATIENCE, "git", "clone", "--quiet", "--depth", "1", NETWORK]).arg(&folder);
        clone.env("GIT_TERMINAL_PROMPT", "0");
        done(&mut clone)
            .with_context(|| format!("no advisory database: neither {} nor {NETWORK}", archive.display()))?;
        let said = Command::new("git").arg("-C").arg(&folder).args(["log", "-1", "--format=%cs"]).output()?;
        let date = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        Ok(Database { folder, name: format!("{date} ({NETWORK})") })
    }

    /// The date of the database, and where it is from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is known of these crates, and which exceptions were of use. One that is of none is a finding: it would hide another.
    pub(super) fn judge(
        &self,
        packages: &[Package],
        wanted: &Advisories,
    ) -> Result<(Vec<String>, BTreeSet<String>)> {
        ensure!(wanted.unmaintained == "all", "[advisories] unmaintained is not \"all\"");
        let root = self.folder.join("crates");
        ensure!(root.is_dir(), "{} has no folder of crates", self.folder.display());
        let (mut findings, mut used) = (Vec::new(), BTreeSet::new());
        for package in packages.iter().filter(|package| package.source.is_some()) {
            for entry in fs::read_dir(root.join(&package.name)).into_iter().flatten() {
                let path = entry?.path();
                let text = fs::read_to_string(&path)?;
                let front = front(&text).with_context(|| path.display().to_string())?;
                if !concerns(&front, package).with_context(|| path.display().to_string())? {
                    continue;
                }
                let id = front.advisory.id;
                if wanted.ignore.iter().any(|known| known.id == id) {
                    used.insert(id);
                    continue;
                }
                let kind = front.advisory.informational.unwrap_or_else(|| "vulnerability".to_owned());
                let title = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default();
                findings.push(format!("{} {}: {kind}: {id}: {title}", package.name, package.version));
            }
        }
        let idle = wanted.ignore.iter().filter(|known| !used.contains(&known.id));
        findings
            .extend(idle.map(|known| format!("{}: no crate is affected: take the exception out", known.id)));
        Ok((findings, used))
    }
}

/// The first day that a text names.
fn date(text: &str) -> Option<String> {
    let is_date = |word: &&str| {
        let digits =
            |part: &str, n: usize| part.len() == n && part.bytes().all(|octet| octet.is_ascii_digit());
        let parts: Vec<&str> = word.split('-').collect();
        matches!(parts[..], [year, month, day] if digits(year, 4) && digits(month, 2) && digits(day, 2))
    };
    let mut words = text.split(|c: char| !(c.is_ascii_digit() || c == '-'));
    words.find(is_date).map(ToOwned::to_owned)
}

fn front(text: &str) -> Result<Front> {
    let Some(front) = text.strip_prefix("```toml\n").and_then(|rest| rest.split_once("\n```")) else {
        bail!("no front matter");
    };
    Ok(toml::from_str(front.0)?)
}

fn concerns(front: &Front, package: &Package) -> Result<bool> {
    if front.advisory.package != package.name || front.advisory.withdrawn.is_some() {
        return Ok(false);
    }
    for fine in front.versions.patched.iter().chain(&front.versions.unaffected) {
        if semver::VersionReq::parse(fine).with_context(|| fine.clone())?.matches(&package.version) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn done(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).status()?;
    ensure!(status.success(), "{} failed: {status}", command.get_program().display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supply::Ignored;

    fn package(version: &str) -> Package {
        Package {
            name: "leaky".to_owned(),
            version: version.parse().unwrap(),
            license: None,
            source: Some("registry".to_owned()),
            dependencies: Vec::new(),
        }
    }

    fn advisory(more: &str, versions: &str) -> String {
        format!(
            "```toml\n[advisory]\nid = \"RUSTSEC-2030-0001\"\npackage = \"leaky\"\ndate = \"2030-01-01\"\n{more}\n\n\
             [versions]\n{versions}\n```\n\n# It leaks\n\nMuch.\n"
        )
    }

    fn found(name: &str, text: &str, version: &str, ignore: Vec<Ignored>) -> Vec<String> {
        let folder = std::env::temp_dir().join(format!("ravelin-advisories-{}-{name}", std::process::id()));
        fs::create_dir_all(folder.join("crates/leaky")).unwrap();
        fs::write(folder.join("crates/leaky/RUSTSEC-2030-0001.md"), text).unwrap();
        let database = Database { folder: folder.clone(), name: String::new() };
        let wanted = Advisories { unmaintained: "all".to_owned(), ignore };
        let found = database.judge(&[package(version)], &wanted).unwrap().0;
        fs::remove_dir_all(folder).unwrap();
        found
    }

    #[test]
    fn a_version_is_affected_unless_it_is_patched_or_never_was() {
        let text = advisory("", "patched = [\">= 1.2.3\"]\nunaffected = [\"< 1.0.0\"]");
        for (version, affected) in [("0.9.0", false), ("1.0.0", true), ("1.2.2", true), ("1.2.3", false)] {
            assert_eq!(found("range", &text, version, Vec::new()).len(), usize::from(affected), "{version}");
        }
        let one = found("text", &text, "1.0.0", Vec::new());
        assert_eq!(one, ["leaky 1.0.0: vulnerability: RUSTSEC-2030-0001: It leaks"]);
        let withdrawn = advisory("withdrawn = \"2030-02-01\"", "patched = []");
        assert_eq!(found("withdrawn", &withdrawn, "1.0.0", Vec::new()), [] as [String; 0]);
    }

    #[test]
    fn what_nobody_maintains_is_found_and_an_exception_must_be_of_use() {
        let text = advisory("informational = \"unmaintained\"", "patched = []");
        assert_eq!(found("kind", &text, "1.0.0", Vec::new()).len(), 1);
        let ignore = |id: &str| vec![Ignored { id: id.to_owned(), reason: String::new() }];
        assert_eq!(found("ignored", &text, "1.0.0", ignore("RUSTSEC-2030-0001")), [] as [String; 0]);
        let two = found("idle", &text, "1.0.0", ignore("RUSTSEC-2030-0009"));
        assert_eq!(two.len(), 2, "{two:?}");
    }

    #[test]
    fn a_day_is_found_in_a_text() {
        assert_eq!(date("db at bf5c0d2-11, 2026-08-20; x").as_deref(), Some("2026-08-20"));
        assert_eq!(date("of 2026-8-20"), None);
    }
}
