//! `ravelin policy digest`: what to write for a file that is to be named by its digest.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use api::{PinnedFile, PinnedState};
use clap::Args;

use crate::exit::Failure;
use crate::output;

/// Print paths with the SHA-256 digests of their files, as a policy names them: `PATH sha256 HEX`.
#[derive(Debug, Args)]
pub struct Print {
    /// The executables to read. A symbolic link is followed: the path of the file is printed.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

impl Print {
    pub fn execute(self) -> anyhow::Result<()> {
        let mut out = String::new();
        for path in &self.paths {
            let failed = |error: std::io::Error| Failure::bad_input(format!("{}: {error}", path.display()));
            let file = std::fs::canonicalize(path).map_err(failed)?;
            let digest = host_files::sha256(&file).map_err(failed)?;
            let name = quoted(&file).ok_or_else(|| {
                Failure::bad_input(format!(
                    "{}: the path is not UTF-8: no policy can name it",
                    path.display()
                ))
            })?;
            let _ = writeln!(out, "{name} sha256 {digest}");
        }
        output::text(&out)
    }
}

fn quoted(path: &Path) -> Option<String> {
    Some(policy::ast::quoted(path.to_str()?))
}

/// What to know about the files of a policy on this host.
pub fn warnings(pins: &[PinnedFile]) -> String {
    let wrong = pins.iter().filter(|pin| pin.state != PinnedState::Verified);
    let mut out = String::new();
    for pin in wrong {
        let _ = writeln!(
            out,
            "warning: {}: {}; on this host its processes are refused every peer\n  wanted: {}",
            pin.path,
            pin.text,
            pin.wanted.join(" or ")
        );
        if pin.state == PinnedState::Differs {
            let _ = writeln!(
                out,
                "  help: `ravelin policy digest {}` prints what to write, if this file is meant",
                pin.path
            );
        }
    }
    out
}

/// The same for one program, where all is well too.
pub fn lines(pins: &[PinnedFile]) -> String {
    pins.iter()
        .fold(String::new(), |out, pin| format!("{out}  pinned {}: {} on this host\n", pin.path, pin.text))
}
