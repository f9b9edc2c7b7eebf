//! `ravelin sa export`: keys for Wireshark.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use api::{Spi, path};
use clap::Args;
use clap_complete::ArgValueCandidates;

use crate::client::Connect;
use crate::complete;
use crate::exit::Failure;

/// Write the keys of associations as Wireshark's `esp_sa` table, so that it decrypts captures. The daemon logs who asked.
///
/// Put the file into Wireshark's folder (`~/.config/wireshark/esp_sa`) and enable "Attempt to detect/decode encrypted ESP
/// payloads" (`esp.enable_encryption_decode`). Who has the file reads what these associations protect, also from captures made
/// before.
#[derive(Debug, Args)]
pub struct Export {
    #[command(flatten)]
    connect: Connect,
    /// The format; there is only this one.
    #[arg(long, required = true)]
    wireshark: bool,
    /// Only associations with this SPI [default: all].
    #[arg(long, add = ArgValueCandidates::new(complete::spis))]
    spi: Option<Spi>,
    /// Yes, keys in clear are meant.
    #[arg(long)]
    show_keys: bool,
    /// The file, made with mode 0600; one that is there already is left alone [default: standard output].
    #[arg(short = 'w', long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Write to a terminal, too.
    #[arg(long)]
    force: bool,
}

impl Export {
    pub fn execute(self) -> anyhow::Result<()> {
        if !self.show_keys {
            return Err(Failure::bad_input(
                "the export holds keys in clear, and the daemon will log that you asked; if that is meant, add --show-keys",
            ));
        }
        let to_file = self.write.as_ref().filter(|path| path.as_os_str() != "-");
        if to_file.is_none() && std::io::stdout().is_terminal() && !self.force {
            return Err(Failure::bad_input(
                "a terminal remembers what it shows; write to a file with -w FILE, or add --force",
            ));
        }
        let spi = self.spi.map_or_else(String::new, |spi| format!("&spi={spi}"));
        let question = format!("{}?show_keys=true{spi}", path::SA_EXPORT);
        let Some(path) = to_file else {
            let rows = self.connect.get_secret(&question)?;
            let mut out = std::io::stdout().lock();
            out.write_all(&rows)?;
            return Ok(out.flush()?);
        };
        // First: no key leaves the daemon for a file that cannot be.
        let mut file = make(path, "keys")?;
        let written = self
            .connect
            .get_secret(&question)
            .and_then(|rows| file.write_all(&rows).with_context(|| format!("writing {}", path.display())));
        if written.is_err() {
            // Half a file is of no use to anybody, and was made here.
            let _ = std::fs::remove_file(path);
        }
        written
    }
}

/// Make a new file of mode 0600 for `what`. It refuses a file that exists, which somebody else may own or have open,
/// and it follows no link.
pub fn make(path: &Path, what: &str) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    match options.open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Failure::bad_input(format!(
            "{} is there already, and {what} go into a new file only; name another one, or remove it first",
            path.display()
        ))),
        made => made.with_context(|| format!("making {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn keys_go_into_a_new_file_of_the_user_alone() {
        let folder = std::env::temp_dir().join(format!("ravelin-export-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (file, link, target) = (folder.join("keys"), folder.join("link"), folder.join("target"));
        make(&file, "keys").unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
        std::os::unix::fs::symlink(&target, &link).unwrap();
        for there in [&file, &link] {
            let refused = make(there, "keys").unwrap_err().to_string();
            assert!(refused.contains("name another one"), "{refused}");
        }
        assert!(!target.exists());
        assert!(make(&folder.join("no/keys"), "keys").is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
