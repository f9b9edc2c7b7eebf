//! Ways to run other programs.

use anyhow::{Context, Result};
use std::ffi::OsString;
use std::process::{Command, Stdio};

/// The Cargo that runs us, else the one in the path.
pub fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Cargo, with clippy in the compiler's place for the workspace's own packages: one pass compiles and lints, where `cargo clippy` beside
/// `cargo test` would read every dependency twice. What it builds is another artefact to Cargo than what `cargo build` does.
pub fn linting_cargo() -> Command {
    let mut command = Command::new(cargo());
    let beside = std::path::PathBuf::from(cargo()).with_file_name("clippy-driver");
    let driver = if beside.is_file() { beside.into() } else { OsString::from("clippy-driver") };
    command.env("RUSTC_WORKSPACE_WRAPPER", driver);
    command
}

/// Run it without standard input, its output going where ours goes; whether it ended well.
pub fn passes(command: &mut Command) -> Result<bool> {
    let status = command.stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot run {}", command.get_program().display()))?;
    Ok(status.success())
}
