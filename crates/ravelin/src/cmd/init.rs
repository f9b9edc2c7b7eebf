//! `ravelin init`: the first files of a host.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use crate::exit::{Failure, Kind};

/// Write a configuration, a policy to start from, and units for systemd.
///
/// Nothing that is there is changed. The policy names no program yet, so nothing changes on the host before you write one.
#[derive(Debug, Args)]
pub struct Init {
    /// Folder of the configuration.
    #[arg(long, value_name = "DIR", default_value = "/etc/ravelin")]
    dir: PathBuf,
    /// Folder for the units ravelin-boot.service and ravelin.service, which `systemctl enable` then starts at each boot.
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "/etc/systemd/system")]
    systemd: Option<PathBuf>,
}

const CONFIG: &str = include_str!("init/ravelin.toml");
const POLICY: &str = include_str!("init/main.policy");
const BOOT: &str = include_str!("init/ravelin-boot.service");
const DAEMON: &str = include_str!("init/ravelin.service");

impl Init {
    pub fn execute(self) -> anyhow::Result<()> {
        let config = self.dir.join("ravelin.toml");
        let policy = self.dir.join("main.policy");
        make(&self.dir)?;
        let mut written =
            vec![(config.clone(), put(&config, CONFIG)?), (policy.clone(), put(&policy, POLICY)?)];
        if let Some(units) = &self.systemd {
            make(units)?;
            let program = std::env::current_exe().context("looking for this program")?;
            for (name, text) in [("ravelin-boot.service", BOOT), ("ravelin.service", DAEMON)] {
                let path = units.join(name);
                let text = text
                    .replace("@PROGRAM@", &argument(&program)?)
                    .replace("@FOLDER@", &argument(&fs::canonicalize(&self.dir)?)?)
                    .replace("@CONFIG@", &argument(&fs::canonicalize(&config)?)?);
                written.push((path.clone(), put(&path, &text)?));
            }
        }
        for (path, new) in &written {
            println!("{} {}", if *new { "wrote" } else { "left as it is:" }, path.display());
        }
        let (config, policy) = (config.display(), policy.display());
        println!(
            "\nnext:\n  ravelin doctor                     what this host lacks, if anything\n  \
             edit {policy}\n  ravelin policy check {policy}\n  ravelin run --config {config}"
        );
        if self.systemd.is_some() {
            println!("  or: systemctl daemon-reload && systemctl enable --now ravelin-boot ravelin");
        }
        Ok(())
    }
}

fn make(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).map_err(|error| {
        let text = format!("cannot make {}: {error}; run as root, or name another folder", folder.display());
        Failure::of(Kind::Failed, text)
    })
}

/// Write a file that is not there yet; whether it was not.
fn put(path: &Path, text: &str) -> anyhow::Result<bool> {
    let opened = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(path);
    match opened {
        Ok(mut file) => {
            file.write_all(text.as_bytes()).with_context(|| format!("writing {}", path.display()))?;
            Ok(true)
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(Failure::of(Kind::Failed, format!("cannot write {}: {error}", path.display()))),
    }
}

/// A path as an argument in a unit file (systemd.service(5)).
fn argument(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().filter(|text| !text.contains(['\n', '"', '\\'])).ok_or_else(|| {
        Failure::bad_input(format!("{:?} cannot stand in a unit file; move it to a plain path", path))
    })?;
    let escaped = text.replace('%', "%%").replace('$', "$$");
    Ok(if escaped.contains(' ') { format!("\"{escaped}\"") } else { escaped })
}
