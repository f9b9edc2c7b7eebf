//! `ravelin sa export`: keys for Wireshark.

use std::fs::OpenOptions;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

use anyhow::Context;
use api::{Spi, path};
use clap::Args;

use crate::client::Connect;
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
    #[arg(long)]
    spi: Option<Spi>,
    /// Yes, keys in clear are meant.
    #[arg(long)]
    show_keys: bool,
    /// The file, made with mode 0600 [default: standard output].
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
        let rows = self.connect.get_secret(&format!("{}?show_keys=true{spi}", path::SA_EXPORT))?;
        match to_file {
            None => {
                let mut out = std::io::stdout().lock();
                out.write_all(&rows)?;
                out.flush()?;
            }
            Some(path) => {
                let mut file = OpenOptions::new();
                let file = file.write(true).create(true).truncate(true).mode(0o600).open(path);
                let mut file = file.with_context(|| format!("making {}", path.display()))?;
                // A file that was there keeps its mode otherwise.
                file.set_permissions(PermissionsExt::from_mode(0o600))?;
                file.write_all(&rows).with_context(|| format!("writing {}", path.display()))?;
            }
        }
        Ok(())
    }
}
