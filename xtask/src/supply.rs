//! What comes from others: no crate with a known vulnerability or without a maintainer, none under a licence, from a source or by a
//! name that deny.toml refuses.
//!
//! What enters: Cargo.lock as Cargo reads it, deny.toml, the advisory database of rustsec.org with its date. What leaves: findings,
//! one line each. `cargo deny check`, where somebody has it, reads the same deny.toml; this is the part of it that builds with the
//! automation itself, in a second instead of minutes.

mod advisories;
mod licences;

use crate::process::cargo;
use advisories::Database;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// The platforms that Ravelin runs on, as in deny.toml.
const PLATFORMS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];
/// What Cargo calls crates.io.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The part of deny.toml that is checked here.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Deny {
    licenses: Licenses,
    bans: Bans,
    advisories: Advisories,
    sources: Sources,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    wildcards: String,
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Deserialize)]
struct Advisories {
    unmaintained: String,
    #[serde(default)]
    ignore: Vec<Ignored>,
}

/// An advisory that does not count, and why.
#[derive(Deserialize)]
struct Ignored {
    id: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    unknown_registry: String,
    unknown_git: String,
}

/// What `cargo metadata` says, as far as it is asked for.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// A crate, as `cargo metadata` tells it.
#[derive(Clone, Debug, Deserialize)]
struct Package {
    name: String,
    version: semver::Version,
    license: Option<String>,
    /// The registry that the crate comes from; `None` if it is of this workspace.
    source: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Clone, Debug, Deserialize)]
struct Dependency {
    name: String,
    req: String,
    path: Option<String>,
}

/// What a run came to.
pub enum Outcome {
    /// Whether everything was fine.
    Checked(bool),
    /// Everything that was checked was fine, but advisories were not; the text says why.
    WithoutAdvisories(String),
}

/// Check licences, bans and sources, and advisories if there is a database.
pub fn run() -> Result<Outcome> {
    let deny: Deny = toml::from_str(&std::fs::read_to_string("deny.toml")?).context("deny.toml")?;
    let packages = packages()?;
    let foreign = packages.iter().filter(|package| package.source.is_some()).count();
    let mut findings = judge(&deny, &packages);
    let database = Database::find();
    let why = match &database {
        Ok(database) => {
            let (found, used) = database.judge(&packages, &deny.advisories)?;
            findings.extend(found);
            println!("{foreign} crates against the advisories of {}", database.name());
            for Ignored { id, reason } in
                deny.advisories.ignore.iter().filter(|known| used.contains(&known.id))
            {
                println!("left out: {id}: {reason}");
            }
            None
        }
        Err(why) => Some(format!("{why:#}")),
    };
    findings.iter().for_each(|finding| println!("error: {finding}"));
    println!("{foreign} crates: {} findings about advisories, bans, licences, sources", findings.len());
    Ok(match why {
        Some(why) if findings.is_empty() => Outcome::WithoutAdvisories(why),
        _ => Outcome::Checked(findings.is_empty()),
    })
}

/// Every crate that is built for a platform of ours.
fn packages() -> Result<Vec<Package>> {
    let mut command = Command::new(cargo());
    command.args(["metadata", "--locked", "--format-version", "1", "--all-features"]);
    for platform in PLATFORMS {
        command.args(["--filter-platform", platform]);
    }
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("cargo metadata")?;
    anyhow::ensure!(output.status.success(), "cargo metadata failed");
    Ok(serde_json::from_slice::<Metadata>(&output.stdout).context("what cargo metadata says")?.packages)
}

/// Find what is wrong with licences, bans and sources.
fn judge(deny: &Deny, packages: &[Package]) -> Vec<String> {
    let banned: BTreeMap<&str, &str> =
        deny.bans.deny.iter().map(|ban| (ban.name.as_str(), ban.reason.as_str())).collect();
    let strict = deny.sources.unknown_registry == "deny" && deny.sources.unknown_git == "deny";
    let mut findings = Vec::new();
    for package in packages {
        let mut find = |text: String| findings.push(format!("{} {}: {text}", package.name, package.version));
        if let Some(reason) = banned.get(package.name.as_str()) {
            find(format!("banned: {reason}"));
        }
        let wild = |dependency: &&Dependency| dependency.req == "*" && dependency.path.is_none();
        if deny.bans.wildcards == "deny"
            && package.source.is_none()
            && let Some(dependency) = package.dependencies.iter().find(wild)
        {
            find(format!("takes any version of {}", dependency.name));
        }
        let Some(source) = &package.source else { continue };
        if strict && source != REGISTRY {
            find(format!("comes from {source}"));
        }
        match package.license.as_deref().map(|text| licences::allows(text, &deny.licenses.allow)) {
            Some(Ok(true)) => {}
            Some(Ok(false)) => find(format!("licence {:?} is not allowed", package.license)),
            Some(Err(error)) => find(format!("licence {:?}: {error:#}", package.license)),
            None => find("names no licence".to_owned()),
        }
    }
    findings
}

/// A folder of this run.
fn target() -> &'static Path {
    Path::new("target")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENY: &str = r#"
        [licenses]
        allow = ["MIT", "Apache-2.0"]
        [bans]
        wildcards = "deny"
        deny = [{ crate = "openssl-sys", reason = "ring is there" }]
        [advisories]
        unmaintained = "all"
        ignore = [{ id = "RUSTSEC-2024-0001", reason = "no way to it" }]
        [sources]
        unknown-registry = "deny"
        unknown-git = "deny"
    "#;

    fn package(name: &str, license: Option<&str>, source: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            version: semver::Version::new(1, 2, 3),
            license: license.map(ToOwned::to_owned),
            source: source.map(ToOwned::to_owned),
            dependencies: Vec::new(),
        }
    }

    #[test]
    fn each_kind_of_crate_that_is_not_wanted_is_found() {
        let deny: Deny = toml::from_str(DENY).unwrap();
        let mut own = package("ours", None, None);
        own.dependencies = vec![Dependency { name: "any".to_owned(), req: "*".to_owned(), path: None }];
        let packages = [
            package("fine", Some("MIT OR GPL-3.0"), Some(REGISTRY)),
            package("openssl-sys", Some("MIT"), Some(REGISTRY)),
            package("gpl", Some("GPL-3.0"), Some(REGISTRY)),
            package("none", None, Some(REGISTRY)),
            package("git", Some("MIT"), Some("git+https://example.org/x")),
            own,
        ];
        let found = judge(&deny, &packages);
        let names: Vec<&str> = found.iter().filter_map(|text| text.split(' ').next()).collect();
        assert_eq!(names, ["openssl-sys", "gpl", "none", "git", "ours"], "{found:?}");
    }

    #[test]
    fn this_house_passes_but_for_what_only_the_database_knows() {
        std::env::set_current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()).unwrap();
        let deny: Deny = toml::from_str(&std::fs::read_to_string("deny.toml").unwrap()).unwrap();
        assert_eq!(deny.advisories.unmaintained, "all");
        assert_eq!(judge(&deny, &packages().unwrap()), [] as [String; 0]);
    }
}
