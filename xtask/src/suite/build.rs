//! Building the test programs, with clippy in the compiler's place.

use crate::house::{House, Level, Room};
use crate::process::linting_cargo;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A test program that Cargo has built.
pub struct Program {
    /// The name in the table: the room, with the target where it has another name, such as `wire` or `wire::suite`.
    pub title: String,
    pub path: PathBuf,
    pub room: Room,
}

/// Rooms for developers that compute and touch nothing of the machine.
const COMPUTE: [&str; 2] = ["fuzz-corpora", "readers"];

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

/// What a build came to.
#[derive(Default)]
pub struct Built {
    /// Test programs in the order of the levels, so that the first failure is the deepest one. What could not be built
    /// is not among them.
    pub programs: Vec<Program>,
    /// Warnings and errors of the compiler and of clippy.
    pub complaints: u32,
}

/// Build all test programs, or those of one room; whether all could be built.
pub fn programs(only: Option<&str>, built: &mut Built) -> Result<bool> {
    let house = House::survey()?;
    let mut cargo = linting_cargo();
    // A build from nothing keeps no record of its parts, which only a next build would use. Whoever builds again and
    // again has such a folder, from `cargo build` or `cargo test`.
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    if !std::path::Path::new(&target).join("debug/incremental").is_dir() {
        cargo.env("CARGO_INCREMENTAL", "0");
    }
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
    cargo.args(["--message-format", "json"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut running = cargo.spawn().context("cannot run `cargo test`")?;
    let messages = running.stdout.take().context("`cargo test` has no output")?;
    let programs = &mut built.programs;
    for line in BufReader::new(messages).lines() {
        let message = serde_json::from_str(&line?).context("Cargo printed a line that is not JSON")?;
        built.complaints += u32::from(is_complaint(&message));
        programs.extend(program(&house, &message)?);
    }
    programs.retain(|program| only.is_none_or(|only| program.room.name == only));
    programs.sort_by(|a: &Program, b: &Program| (a.room.level, &a.title).cmp(&(b.room.level, &b.title)));
    Ok(running.wait()?.success())
}

/// Whether one of Cargo's messages is a warning or an error about a place in the code, which is printed.
fn is_complaint(message: &Value) -> bool {
    let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
    if text("/reason") != Some("compiler-message") {
        return false;
    }
    eprintln!("{}", text("/message/rendered").unwrap_or_default());
    let has_place =
        message.pointer("/message/spans").and_then(Value::as_array).is_some_and(|spans| !spans.is_empty());
    has_place && matches!(text("/message/level"), Some("warning" | "error"))
}

/// The test program that one of Cargo's messages announces.
fn program(house: &House, message: &Value) -> Result<Option<Program>> {
    let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
    let is_test = message.pointer("/profile/test") == Some(&Value::Bool(true));
    let (true, Some(path), Some(manifest)) = (is_test, text("/executable"), text("/manifest_path")) else {
        return Ok(None);
    };
    let room = house.rooms.iter().find(|room| room.folder.join("Cargo.toml").as_os_str() == manifest);
    let room = room.with_context(|| format!("{manifest} is not a room of this workspace"))?.clone();
    let target = text("/target/name").unwrap_or_default();
    let title = if target == room.name { target.to_string() } else { format!("{}::{target}", room.name) };
    Ok(Some(Program { title, path: path.into(), room }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn clippy_complains_where_the_compiler_does_not() {
        let folder = std::env::temp_dir().join(format!("rvl-xtask-lint-{}", std::process::id()));
        fs::create_dir_all(folder.join("src")).unwrap();
        let manifest = "[package]\nname = \"linted\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        // A needless return: the compiler is content with it.
        fs::write(folder.join("src/lib.rs"), "pub fn one() -> u8 {\n    return 1;\n}\n").unwrap();
        let complaints = |mut cargo: Command| {
            cargo.args(["build", "--offline", "--quiet", "--message-format", "json"]).current_dir(&folder);
            let output = cargo.env_remove("CARGO_TARGET_DIR").output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let lines = output.stdout.split(|octet| *octet == b'\n').filter(|line| !line.is_empty());
            lines.filter(|line| is_complaint(&serde_json::from_slice(line).unwrap())).count()
        };
        assert_eq!(complaints(linting_cargo()), 1);
        // It is said again when nothing is compiled.
        assert_eq!(complaints(linting_cargo()), 1);
        assert_eq!(complaints(Command::new(crate::process::cargo())), 0);
        fs::remove_dir_all(&folder).unwrap();
    }
}
