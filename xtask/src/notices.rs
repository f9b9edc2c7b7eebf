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

/// The file to write, and the kind of program that it is about.
#[derive(clap::Args)]
pub struct Options {
    /// The file, which is replaced
    file: PathBuf,
    /// The program has its C libraries inside: their licences belong to it too
    #[arg(long = "static")]
    is_static: bool,
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

/// The words above the list of libraries in C.
const LIBRARIES: &str = "\
Libraries in C that are linked in: libbpf (LGPL-2.1-only OR BSD-2-Clause).
";

/// The same for a static program.
const STATIC_LIBRARIES: &str = "\
Libraries in C that are linked in: libbpf (LGPL-2.1-only OR BSD-2-Clause), libelf of elfutils (GPL-2.0-or-later OR
LGPL-3.0-or-later), zlib (Zlib), the GNU C library (LGPL-2.1-or-later), libgcc (GPL-3.0-or-later with the runtime
library exception). Their sources are those of the Debian release that the program was built on; whoever has this
program may build it again with others, by `make static` in its repository. Their licences are below.
";

/// The crate that carries libbpf, and its files of licences.
const LIBBPF: (&str, [&str; 2]) = ("libbpf-sys", ["libbpf/LICENSE.BSD-2-Clause", "libbpf/LICENSE.LGPL-2.1"]);

/// The C libraries of a static program: what they are called, and where Debian has their licences.
const DEBIAN: [(&str, &str); 8] = [
    ("libelf", "/usr/share/doc/libelf-dev/copyright"),
    ("zlib", "/usr/share/doc/zlib1g-dev/copyright"),
    ("the GNU C library", "/usr/share/doc/libc6-dev/copyright"),
    ("GNU General Public License, version 2", "/usr/share/common-licenses/GPL-2"),
    ("GNU General Public License, version 3", "/usr/share/common-licenses/GPL-3"),
    ("GNU Lesser General Public License, version 2.1", "/usr/share/common-licenses/LGPL-2.1"),
    ("GNU Lesser General Public License, version 3", "/usr/share/common-licenses/LGPL-3"),
    ("Apache License, version 2.0", "/usr/share/common-licenses/Apache-2.0"),
];

/// Write the licences of what is linked in.
pub fn run(options: &Options) -> Result<bool> {
    let linked = linked()?;
    let mut packages = metadata()?.packages;
    packages.retain(|package| {
        package.source.is_some() && linked.contains(&(package.name.clone(), package.version.clone()))
    });
    ensure!(!packages.is_empty(), "`cargo tree` names no crate of `cargo metadata`");
    let mut text = text(&packages, if options.is_static { STATIC_LIBRARIES } else { LIBRARIES })?;
    let (name, files) = LIBBPF;
    let libbpf = packages.iter().find(|package| package.name == name);
    let folder = libbpf.and_then(|package| package.manifest_path.parent());
    let folder = folder.with_context(|| format!("no crate {name} is linked in: who brings libbpf now?"))?;
    for file in files {
        text.push_str(&section("libbpf", &licence(&folder.join(file))?));
    }
    for (name, file) in DEBIAN.iter().filter(|_| options.is_static) {
        text.push_str(&section(name, &licence(Path::new(file))?));
    }
    fs::write(&options.file, text).with_context(|| format!("writing {}", options.file.display()))?;
    Ok(true)
}

/// The text of a file that states a licence.
fn licence(file: &Path) -> Result<String> {
    let text = fs::read(file).with_context(|| {
        format!("reading {}; a static program is packaged on a Debian that has its documents", file.display())
    })?;
    Ok(String::from_utf8_lossy(&text).replace("\r\n", "\n").trim().to_owned())
}

/// One licence below the names of what has it.
fn section(names: &str, text: &str) -> String {
    format!("\n{}\n{names}:\n\n{text}\n", "-".repeat(78))
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

/// The libraries in C, the crates, and the licence of each crate.
fn text(packages: &[Package], libraries: &str) -> Result<String> {
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
    let mut out = format!("{libraries}\nCrates that are linked in:\n\n{list}");
    for (text, mut names) in texts {
        names.dedup();
        out.push_str(&section(&names.join(", "), &text));
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
        let out = text(&packages, LIBRARIES).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(out.contains("a 1.0.0: MIT\nb 1.0.0: MIT\nc 1.0.0: MIT\n"), "{out}");
        assert!(out.contains("a 1.0.0, b 1.0.0:\n\nthe same\n"), "{out}");
        assert_eq!((out.matches("the same").count(), out.contains("no licence")), (1, false), "{out}");
    }

    #[test]
    fn a_static_program_has_the_licences_of_its_c_libraries() {
        let file = std::env::temp_dir().join(format!("rvl-xtask-notices-static-{}", std::process::id()));
        let notices = |is_static| {
            run(&Options { file: file.clone(), is_static }).unwrap();
            fs::read_to_string(&file).unwrap()
        };
        let (plain, with_libraries) = (notices(false), notices(true));
        fs::remove_file(&file).unwrap();
        assert!(plain.contains("\nlibbpf:\n") && !plain.contains("\nlibelf:\n"));
        // Words of the licences themselves: of libbpf, elfutils, zlib, glibc.
        for words in ["Redistributions of source code must", "elfutils", "Jean-loup Gailly", "GNU C Library"]
        {
            assert!(with_libraries.contains(words), "{words}");
        }
        assert!(with_libraries.len() > plain.len() + 100_000, "the GNU licences are long");
    }

    #[test]
    fn lines_of_cargo_tree_name_crates() {
        let of = |name: &str, version: &str| Some((name.to_owned(), version.to_owned()));
        assert_eq!(name_and_version("serde v1.0.0 (proc-macro)"), of("serde", "1.0.0"));
        assert_eq!(name_and_version("ravelin v0.1.0 (/a/b) (*)"), of("ravelin", "0.1.0"));
        assert_eq!(name_and_version(""), None);
    }
}
