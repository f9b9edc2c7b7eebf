//! Peers that come from a package registry: built once, into `target/peers/NAME-VERSION`.

use crate::product;
use anyhow::{Context, bail, ensure};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A program in a package registry.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// What it is called in figures.
    pub name: &'static str,
    /// The package: a Go module, or a crate.
    package: &'static str,
    version: &'static str,
    /// The program that is made.
    program: &'static str,
    registry: Registry,
}

#[derive(Clone, Copy, Debug)]
enum Registry {
    Go,
    Crates,
}

/// WireGuard's own, in Go: super-packets at the TUN, UDP_SEGMENT and UDP_GRO at the wire.
pub const WIREGUARD_GO: Tool = Tool {
    name: "wireguard-go",
    package: "golang.zx2c4.com/wireguard",
    version: "v0.0.0-20260522210424-ecfc5a8d5446",
    program: "wireguard",
    registry: Registry::Go,
};

/// The WireGuard of Mullvad, in Rust.
pub const GOTATUN: Tool = Tool {
    name: "gotatun",
    package: "gotatun-cli",
    version: "0.10.2",
    program: "gotatun",
    registry: Registry::Crates,
};

/// The WireGuard of Cloudflare, in Rust.
pub const BORINGTUN: Tool = Tool {
    name: "boringtun",
    package: "boringtun-cli",
    version: "0.7.1",
    program: "boringtun-cli",
    registry: Registry::Crates,
};

impl Tool {
    /// The program, built if it is not there yet.
    ///
    /// # Errors
    /// With the last line of the build, if it cannot be had.
    pub fn install(&self) -> anyhow::Result<PathBuf> {
        let root = root()?.join(format!("{}-{}", self.name, self.version));
        let program = root.join("bin").join(self.program);
        if program.is_file() {
            return Ok(program);
        }
        eprintln!("peers: building {} {} (once, some minutes)", self.name, self.version);
        fs::create_dir_all(&root).with_context(|| format!("making {}", root.display()))?;
        let mut command = match self.registry {
            Registry::Go => {
                let mut go = product::plain(&go()?);
                go.args(["install", &format!("{}@{}", self.package, self.version)]);
                go.env("GOBIN", root.join("bin")).env("CGO_ENABLED", "0");
                go
            }
            Registry::Crates => {
                let cargo = std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from);
                let mut cargo = product::plain(&cargo);
                cargo
                    .args(["install", "--locked", "--version", self.version, self.package])
                    .arg("--root")
                    .arg(&root);
                cargo.arg("--target-dir").arg(root.join("build"));
                cargo
            }
        };
        let path = root.join("log");
        let log = File::create(&path).with_context(|| format!("making {}", path.display()))?;
        let command = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let status = command.status().with_context(|| format!("building {}", self.name))?;
        // Hundreds of megabytes; nothing is lost if they stay.
        let _ = fs::remove_dir_all(root.join("build"));
        if !status.success() || !program.is_file() {
            bail!("{} cannot be built: {} (all of it in {})", self.package, last_line(&path), path.display());
        }
        Ok(program)
    }
}

/// The folder of the peers: `target/peers`, beside the profile's folder.
fn root() -> anyhow::Result<PathBuf> {
    let own = product::own()?;
    let target = own.parent().and_then(Path::parent).context("this program is in no target folder")?;
    Ok(target.join("peers"))
}

fn go() -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/local/go/bin".into(), "/usr/lib/go/bin".into()]);
    let found = folders.map(|folder| folder.join("go")).find(|path| path.is_file());
    found.context("no Go toolchain; Debian's package is golang-go")
}

/// What a tool said at the end.
fn last_line(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it says nothing").trim().to_owned()
}

/// A program of a Debian package.
pub(super) fn debian(program: &str, package: &str) -> anyhow::Result<PathBuf> {
    let found = crate::stage::program(program);
    ensure!(found.is_ok(), "{program} is not installed; Debian's package is {package}");
    found
}
