//! Running other programs.

use anyhow::{Context, Result};
use std::ffi::OsString;
use std::process::{Command, Stdio};

/// The Cargo that runs us, else the one in the path.
pub fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Run it without standard input, its output going where ours goes; whether it ended well.
pub fn passes(command: &mut Command) -> Result<bool> {
    let status = command.stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot run {}", command.get_program().display()))?;
    Ok(status.success())
}
