//! The product as this program meets it: the command beside it, and the daemon inside it.

use anyhow::{Context, bail, ensure};
use config::Config;
use crypto::Registry;
use daemon::start::RunOptions;
use documents::crypto_units;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tracing_subscriber::filter::LevelFilter;

/// The argument behind `bench run --config FILE` that exchanges every cipher for [`crate::null::Null`].
pub const NULL: [&str; 2] = ["--provider", "null"];

/// The `ravelin` program of this build: brought up to date by the Cargo that started us, if one did.
///
/// # Errors
/// If it cannot be built, or is not there.
pub fn ravelin() -> anyhow::Result<PathBuf> {
    let own = own()?;
    let folder = own.parent().context("this program is in no folder")?;
    if let Some(cargo) = std::env::var_os("CARGO") {
        build(Path::new(&cargo), folder)?;
    }
    let path = folder.join("ravelin");
    ensure!(path.is_file(), "{} is missing: cargo build --release --package ravelin", path.display());
    Ok(path)
}

/// A `ravelin` program without AES instructions: the portable code of its ciphers alone. It is built in a folder of its
/// own by the Cargo that started us.
///
/// # Errors
/// If it cannot be built, or no Cargo started us.
pub fn without_aes_instructions() -> anyhow::Result<PathBuf> {
    let own = own()?;
    let target = own.parent().and_then(Path::parent).context("this program is in no target folder")?;
    let folder = target.join("bench-soft");
    let cargo = std::env::var_os("CARGO").context("`cargo run` or `make bench-paper-004` can build it")?;
    let mut command = plain(Path::new(&cargo));
    command
        .args(["build", "--quiet", "--locked", "--release", "--package", "ravelin", "--target-dir"])
        .arg(&folder);
    command.env("RUSTFLAGS", "--cfg aes_backend=\"soft\"");
    let status = command.stdin(Stdio::null()).status().context("running cargo")?;
    ensure!(status.success(), "the program without AES instructions cannot be built");
    Ok(folder.join("release/ravelin"))
}

/// The path of this very program.
///
/// # Errors
/// If the system does not say where it is.
pub fn own() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe().context("finding this program")?;
    // A build of both packages may have put the same program in its place since it was started.
    let path = match path.to_str().and_then(|path| path.strip_suffix(" (deleted)")) {
        Some(path) => PathBuf::from(path),
        None => path,
    };
    path.canonicalize().with_context(|| format!("finding {}", path.display()))
}

/// Into `folder`, which is `TARGET/release` or `TARGET/debug`.
fn build(cargo: &Path, folder: &Path) -> anyhow::Result<()> {
    let target = folder.parent().context("this program is in no target folder")?;
    let mut command = plain(cargo);
    // Both packages, though this one is done: the dependencies then have the features that they were just built with.
    command.args(["build", "--quiet", "--locked", "--package", "bench", "--package", "ravelin"]);
    command.arg("--target-dir").arg(target);
    if folder.ends_with("release") {
        command.arg("--release");
    }
    let status = command.stdin(Stdio::null()).status().context("running cargo")?;
    ensure!(status.success(), "the ravelin program cannot be built");
    Ok(())
}

/// A command without what Cargo tells the programs that it runs: to build scripts it would look like a change, and everything
/// be built again.
pub fn plain(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text == "CARGO" || text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Be a daemon: `--config FILE`, as `ravelin run`, and possibly [`NULL`].
///
/// # Errors
/// As `ravelin run`.
pub fn run(args: &[String]) -> anyhow::Result<()> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (config, null) = match args.as_slice() {
        ["--config", config] => (config, false),
        ["--config", config, rest @ ..] if rest == NULL => (config, true),
        _ => bail!("usage: bench run --config FILE [{}]", NULL.join(" ")),
    };
    let config = Config::load(Path::new(config))?;
    let registry = if null {
        Registry::new().with(crate::null::Null)
    } else {
        crypto_units::registry(&config, &mut |_, _| Err("no worker is measured here".to_owned()))?
    };
    tracing_subscriber::fmt().with_max_level(LevelFilter::WARN).with_writer(std::io::stderr).init();
    Ok(daemon::run::run_with(config, RunOptions::default(), registry)?)
}
