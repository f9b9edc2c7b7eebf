//! Building the test programs.

use crate::house::{House, Level, Room};
use crate::process::cargo;
use anyhow::{Context, Result, ensure};
use std::io::BufRead;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A test program that Cargo has built.
pub struct Program {
    /// `wire`, `wire::suite`.
    pub title: String,
    pub path: PathBuf,
    pub room: Room,
}

/// Rooms for developers that compute and touch nothing of the machine.
const COMPUTE: [&str; 1] = ["readers"];

impl Program {
    /// Whether its tests touch the kernel, so that each is a process of its own.
    pub fn has_effects(&self) -> bool {
        match self.room.level {
            Some(Level::At(level)) => level > 4,
            Some(Level::Dev) | None => !COMPUTE.contains(&self.room.name.as_str()),
        }
    }

    /// What runs it: in the folder of its room, as `cargo test` does.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.room.folder).env("CARGO_MANIFEST_DIR", &self.room.folder);
        command
    }
}

/// Build all test programs, or those of one room; whether all could be built. Those that could are in the order of the
/// levels, so that the first failure is the deepest one.
pub fn programs(only: Option<&str>, programs: &mut Vec<Program>) -> Result<bool> {
    let house = House::survey()?;
    let mut cargo = Command::new(cargo());
    cargo.args(["test", "--locked", "--no-run", "--no-fail-fast"]);
    match only {
        None => cargo.arg("--workspace"),
        Some(only) => {
            let known = house.rooms.iter().any(|room| room.name == only);
            let names: Vec<_> = house.rooms.iter().map(|room| room.name.as_str()).collect();
            ensure!(known, "there is no room `{only}`; there are {}", names.join(", "));
            // The cross-room tests run the daemon, which nothing of theirs builds.
            cargo.args(["--package", only, "--package", "ravelin"])
        }
    };
    cargo.args(["--message-format", "json-render-diagnostics"]);
    let output =
        cargo.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("cannot run `cargo test`")?;
    for line in output.stdout.lines() {
        programs.extend(program(&house, &line?)?);
    }
    programs.retain(|program| only.is_none_or(|only| program.room.name == only));
    programs.sort_by(|a: &Program, b: &Program| (a.room.level, &a.title).cmp(&(b.room.level, &b.title)));
    Ok(output.status.success())
}

/// The test program that one line of Cargo's messages announces.
fn program(house: &House, line: &str) -> Result<Option<Program>> {
    let message: serde_json::Value =
        serde_json::from_str(line).context("Cargo printed a line that is not JSON")?;
    let text = |pointer: &str| message.pointer(pointer).and_then(serde_json::Value::as_str);
    let is_test = message.pointer("/profile/test") == Some(&serde_json::Value::Bool(true));
    let (true, Some(path), Some(manifest)) = (is_test, text("/executable"), text("/manifest_path")) else {
        return Ok(None);
    };
    let room = house.rooms.iter().find(|room| room.folder.join("Cargo.toml").as_os_str() == manifest);
    let room = room.with_context(|| format!("{manifest} is not a room of this workspace"))?.clone();
    let target = text("/target/name").unwrap_or_default();
    let title = if target == room.name { target.to_string() } else { format!("{}::{target}", room.name) };
    Ok(Some(Program { title, path: path.into(), room }))
}
