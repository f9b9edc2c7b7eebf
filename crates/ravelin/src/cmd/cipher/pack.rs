//! `ravelin cipher pack` and `ravelin cipher install`: a cipher as one file, and that file on a host.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use api::{CipherInstalled, CipherPacked};
use cipher_kit::pack::{self, PackError, Packed};
use cipher_loader::Trial;
use clap::Args;

use crate::exit::{Failure, Kind};
use crate::output;

/// Pack a cipher: its manifest, library and vectors as one file. Equal files give equal octets.
#[derive(Debug, Args)]
pub struct Pack {
    /// The manifest of the cipher.
    manifest: PathBuf,
    /// Make a Debian package instead of a bundle.
    #[arg(long)]
    deb: bool,
    /// The folder that the file goes to.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    to: PathBuf,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

/// Install a bundle: the cipher is tried, its files are put below /etc/ravelin/ciphers as a whole, and the lines for the
/// configuration are printed.
#[derive(Debug, Args)]
pub struct Install {
    /// The bundle, as `ravelin cipher pack` makes it.
    bundle: PathBuf,
    /// The folder that has a folder for each cipher.
    #[arg(long, value_name = "FOLDER", default_value = pack::FOLDER)]
    to: PathBuf,
    /// Take the place of a cipher of the same name with other files.
    #[arg(long)]
    replace: bool,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

/// The longest bundle, in octets.
const MOST: u64 = 96 << 20;

fn refused(error: PackError) -> anyhow::Error {
    let kind = match error {
        PackError::File { .. } | PackError::There(_) => Kind::Failed,
        _ => Kind::BadInput,
    };
    let remedy = match &error {
        PackError::Load(why) => format!("; {}", why.remedy()),
        _ => String::new(),
    };
    Failure::of(kind, format!("{error}{remedy}"))
}

impl Pack {
    pub fn execute(self) -> anyhow::Result<()> {
        let packed = if self.deb { pack::debian(&self.manifest) } else { pack::bundle(&self.manifest) };
        let Packed { file, content } = packed.map_err(refused)?;
        let path = self.to.join(&file);
        fs::write(&path, &content)
            .map_err(|error| Failure::of(Kind::Failed, format!("{}: {error}", path.display())))?;
        let sha256 = cipher_manifest::Digest::of(&content).to_string();
        let packed = CipherPacked { file: path.display().to_string(), octets: content.len(), sha256 };
        if self.json {
            return output::json(&packed);
        }
        output::text(&format!("{}  {}\n", packed.sha256, packed.file))
    }
}

impl Install {
    pub fn execute(self) -> anyhow::Result<()> {
        let bundle = read(&self.bundle)?;
        let trial = Trial::own([OsString::from(documents::ciphers::TRIAL_COMMAND)]);
        let done = pack::install(&bundle, &self.to, self.replace, &trial).map_err(refused)?;
        // The daemon believes no folder that others can write.
        if let Err(why) = cipher_loader::examine(&done.manifest, None, cipher_loader::Trust::Root) {
            eprintln!("ravelin: warning: a daemon will not load it from there: {why}; {}", why.remedy());
        }
        let installed = CipherInstalled {
            manifest: done.manifest.display().to_string(),
            configuration: done.configuration,
        };
        if self.json {
            return output::json(&installed);
        }
        output::text(&format!(
            "installed {}; the lines for ravelin.toml:\n\n{}",
            installed.manifest, installed.configuration
        ))
    }
}

/// A bundle, if it is not too long to be one.
fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let fault = |error: std::io::Error| Failure::bad_input(format!("{}: {error}", path.display()));
    if fs::metadata(path).map_err(fault)?.len() > MOST {
        let text = format!("{} has more than {MOST} octets, and no bundle has", path.display());
        return Err(Failure::bad_input(text));
    }
    fs::read(path).map_err(fault)
}
