//! The licences of what is linked into the program, which a package has to bring along.
//!
//! What enters: the crates that `cargo tree` says are linked, and the files that they carry. What leaves: one text, each
//! licence once, below the names of the crates that have it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::process::cargo;

/// The file to write.
#[derive(clap::Args)]
pub struct Options {
    /// The file, which is replaced
    file: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    manifest_path: PathBuf,
    source: Option<String>,
}

/// Libraries in C: libbpf is always linked in, the others where the build is a static one.
const LIBRARIES: &str = "\
Libraries in C that are linked in: libbpf (LGPL-2.1-only OR BSD-2-Clause). The static build has these too:
libelf of elfutils (GPL-2.0-or-later OR LGPL-3.0-or-later), zlib (Zlib), the GNU C library (LGPL-2.1-or-later). Their
sources are those of the Debian release that the program was built on; whoever has this program may build it again
with others, by `make static` in its repository.
";

/// Write the licences of what is linked in.
pub fn run(options: &Options) -> Result<bool> {
    let linked = linked()?;
    let mut packages = metadata()?.packages;
    packages.retain(|package| {
        package.source.is_some() && linked.contains(&(package.name.clone(), package.version.clone()))
    });
    ensure!(!packages.is_empty(), "`cargo tree` names no crate of `cargo metadata`");
    let text = text(&packages)?;
    fs::write(&options.file, text).with_context(|| format!("writing {}", options.file.display()))?;
    Ok(true)
}

/// Names and versions of the crates that the program is made of.
fn linked() -> Result<BTreeSet<(String, String)>> {
    let mut tree = Command::new(cargo());
    tree.args(["tree", "--locked", "--package", "ravelin", "--edges", "normal", "--prefix", "none"]);
    let output = tree.args(["--format", "{p}"]).output().context("cannot run `cargo tree`")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(name_and_version).collect())
}

/// `serde v1.0.0 (proc-macro)` is a name and a version.
fn name_and_version(line: &str) -> Option<(String, String)> {
    let mut words = line.split_whitespace();
    let (name, version) = (words.next()?, words.next()?);
    Some((name.to_owned(), version.strip_prefix('v')?.to_owned()))
}

fn metadata() -> Result<Metadata> {
    let mut command = Command::new(cargo());
    let output = command.args(["metadata", "--locked", "--format-version", "1"]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn text(packages: &[Package]) -> Result<String> {
    let mut list = String::new();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages {
        let Package { name, version, license, manifest_path, .. } = package;
        let license = license.as_deref().unwrap_or("see its licence below");
        list.push_str(&format!("{name} {version}: {license}\n"));
        for file in files(manifest_path.parent().unwrap_or(Path::new(".")))? {
            let text = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
            let text = String::from_utf8_lossy(&text).replace("\r\n", "\n").trim().to_owned();
            texts.entry(text).or_default().push(format!("{name} {version}"));
        }
    }
    let mut out = format!("{LIBRARIES}\nCrates that are linked in:\n\n{list}");
    for (text, mut names) in texts {
        names.dedup();
        out.push_str(&format!("\n{}\n{}:\n\n{text}\n", "-".repeat(78), names.join(", ")));
    }
    Ok(out)
}

/// The files of a crate that state its licence, in order.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let begins = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if begins.iter().any(|begin| name.starts_with(begin)) && entry.file_type()?.is_file() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_licence_stands_once_below_its_crates() {
        let folder = std::env::temp_dir().join(format!("rvl-xtask-notices-{}", std::process::id()));
        let package = |name: &str, text: &str| {
            let place = folder.join(name);
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("LICENSE-MIT"), text).unwrap();
            fs::write(place.join("README"), "no licence").unwrap();
            Package {
                name: name.to_owned(),
                version: "1.0.0".to_owned(),
                license: Some("MIT".to_owned()),
                manifest_path: place.join("Cargo.toml"),
                source: Some("registry".to_owned()),
            }
        };
        let packages = [package("a", "the same\n"), package("b", "the same"), package("c", "another")];
        let out = text(&packages).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(out.contains("a 1.0.0: MIT\nb 1.0.0: MIT\nc 1.0.0: MIT\n"), "{out}");
        assert!(out.contains("a 1.0.0, b 1.0.0:\n\nthe same\n"), "{out}");
        assert_eq!((out.matches("the same").count(), out.contains("no licence")), (1, false), "{out}");
    }

    #[test]
    fn lines_of_cargo_tree_name_crates() {
        let of = |name: &str, version: &str| Some((name.to_owned(), version.to_owned()));
        assert_eq!(name_and_version("serde v1.0.0 (proc-macro)"), of("serde", "1.0.0"));
        assert_eq!(name_and_version("ravelin v0.1.0 (/a/b) (*)"), of("ravelin", "0.1.0"));
        assert_eq!(name_and_version(""), None);
    }
}
