//! The workspace as `cargo metadata` tells it: rooms, their levels, the edges between them.

use crate::process;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The level of a room in the house.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A product room, 0 (bytes) to 9 (the command).
    At(u8),
    /// A room that is never shipped: test kit, tests, figures, this one.
    Dev,
}

/// How one room uses another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Used in what is shipped, or in the build script that makes it.
    Normal,
    /// Used in its tests and benches only.
    Dev,
}

/// One package of the workspace.
#[derive(Clone, Debug)]
pub struct Room {
    /// Package name, which is the folder's name.
    pub name: String,
    /// `None`: the manifest does not say, or says something else than 0 to 9 or "dev".
    pub level: Option<Level>,
    /// The folder that holds the manifest.
    pub folder: PathBuf,
    /// The rooms that it uses, and how.
    pub uses: Vec<(String, Use)>,
    /// The root files of its library and its programs.
    pub roots: Vec<PathBuf>,
}

/// The workspace with all its rooms.
#[derive(Debug)]
pub struct House {
    /// Every package, in Cargo's order.
    pub rooms: Vec<Room>,
    /// The folder of the workspace.
    pub root: PathBuf,
    /// The folder where Cargo builds.
    pub target: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    #[serde(default)]
    metadata: serde_json::Value,
    dependencies: Vec<Dependency>,
    #[serde(default)]
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: PathBuf,
}

/// The kinds of target that are no test, bench, example or build script.
const KINDS: [&str; 3] = ["lib", "bin", "proc-macro"];

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    path: Option<PathBuf>,
}

impl House {
    /// Ask Cargo for the workspace of the current folder.
    pub fn survey() -> Result<House> {
        let mut cargo = Command::new(process::cargo());
        cargo.args(["metadata", "--no-deps", "--format-version", "1"]);
        let output = cargo.output().context("cannot run `cargo metadata`")?;
        if !output.status.success() {
            bail!("`cargo metadata` failed:\n{}", String::from_utf8_lossy(&output.stderr).trim_end());
        }
        House::read(&output.stdout)
    }

    /// Read what `cargo metadata --no-deps` prints.
    pub fn read(json: &[u8]) -> Result<House> {
        let metadata: Metadata =
            serde_json::from_slice(json).context("`cargo metadata` printed something new")?;
        let rooms = metadata.packages.into_iter().map(Room::from).collect();
        Ok(House { rooms, root: metadata.workspace_root, target: metadata.target_directory })
    }
}

impl From<Package> for Room {
    fn from(package: Package) -> Room {
        let level = package.metadata.pointer("/ravelin/level").and_then(Level::from_json);
        let uses = package.dependencies.into_iter().filter(|dependency| dependency.path.is_some());
        let uses = uses.map(|dependency| match dependency.kind.as_deref() {
            Some("dev") => (dependency.name, Use::Dev),
            _ => (dependency.name, Use::Normal),
        });
        let folder = package.manifest_path.parent().unwrap_or(Path::new(".")).to_path_buf();
        let targets = package.targets.into_iter();
        let roots = targets.filter(|target| target.kind.iter().any(|kind| KINDS.contains(&kind.as_str())));
        let roots = roots.map(|target| target.src_path).collect();
        Room { name: package.name, level, folder, uses: uses.collect(), roots }
    }
}

impl Level {
    /// `0` to `9`, or `"dev"`.
    fn from_json(value: &serde_json::Value) -> Option<Level> {
        match value {
            serde_json::Value::String(word) if word == "dev" => Some(Level::Dev),
            number => number.as_u64().and_then(|n| u8::try_from(n).ok()).filter(|n| *n <= 9).map(Level::At),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_metadata_becomes_rooms() {
        let json = br#"{"workspace_root": "/h", "target_directory": "/h/target", "packages": [
            {"name": "ipsec", "manifest_path": "/h/crates/ipsec/Cargo.toml",
             "targets": [{"kind": ["lib"], "src_path": "/h/crates/ipsec/src/lib.rs"},
                {"kind": ["bin"], "src_path": "/h/crates/ipsec/src/bin/tool.rs"},
                {"kind": ["test"], "src_path": "/h/crates/ipsec/tests/suite/main.rs"}],
             "metadata": {"ravelin": {"level": 2}}, "dependencies": [
                {"name": "wire", "kind": null, "path": "/h/crates/wire"},
                {"name": "ring", "kind": null},
                {"name": "lab", "kind": "dev", "path": "/h/crates/lab"},
                {"name": "api", "kind": "build", "path": "/h/crates/api"}]},
            {"name": "tests", "manifest_path": "/h/tests/Cargo.toml",
             "metadata": {"ravelin": {"level": "dev"}}, "dependencies": []},
            {"name": "bare", "manifest_path": "/h/crates/bare/Cargo.toml", "metadata": null, "dependencies": []},
            {"name": "wrong", "manifest_path": "/h/crates/wrong/Cargo.toml",
             "metadata": {"ravelin": {"level": 10}}, "dependencies": []}]}"#;
        let house = House::read(json).expect("the sample is well formed");
        let room = |name: &str| house.rooms.iter().find(|room| room.name == name).expect("listed");
        let ipsec = room("ipsec");
        assert_eq!(ipsec.level, Some(Level::At(2)));
        assert_eq!(ipsec.folder, Path::new("/h/crates/ipsec"));
        let uses = [("wire", Use::Normal), ("lab", Use::Dev), ("api", Use::Normal)];
        assert_eq!(ipsec.uses, uses.map(|(name, kind)| (name.to_string(), kind)), "ring is not a room");
        let roots = ["/h/crates/ipsec/src/lib.rs", "/h/crates/ipsec/src/bin/tool.rs"].map(PathBuf::from);
        assert_eq!(ipsec.roots, roots, "a test is no root of what is shipped");
        assert_eq!(room("tests").level, Some(Level::Dev));
        assert_eq!(room("bare").level, None);
        assert_eq!(room("wrong").level, None);
    }
}
