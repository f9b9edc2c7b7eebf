//! `ravelin cipher report`: what is known of a cipher, on one page.

use std::path::{Path, PathBuf};

use anyhow::Context;
use api::{CipherChecked, CipherCt, CipherStats};
use cipher_stats::html::{Page, compilers};
use clap::Args;
use serde::de::DeserializeOwned;

use super::target::examined;
use crate::exit::Failure;

/// Write one page of HTML about a cipher: verdicts, controls, drawings and provenance.
///
/// The page needs no other file and has no script. It is made of the documents that `check`, `stats` and `ct` print with
/// `--json`; what is not given is named as missing. Passing proves nothing about strength.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ravelin cipher check my.json --json > check.json
  ravelin cipher stats my.json --json > stats.json
  ravelin cipher report my.json --check check.json --stats stats.json --output my.html")]
pub struct Report {
    /// The manifest of the cipher; library and vectors are beside it.
    manifest: PathBuf,
    /// The document of `ravelin cipher check --json`.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// The document of `ravelin cipher stats --json`.
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// The document of `ravelin cipher ct --json`.
    #[arg(long, value_name = "FILE")]
    ct: Option<PathBuf>,
    /// The file to write.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

impl Report {
    pub fn execute(self) -> anyhow::Result<()> {
        let examined = examined(&self.manifest)?;
        let manifest = &examined.manifest;
        let name = manifest.description.name.clone();
        let check: Option<CipherChecked> = document(self.check.as_deref())?;
        let stats: Option<CipherStats> = document(self.stats.as_deref())?;
        let ct: Option<CipherCt> = document(self.ct.as_deref())?;
        let names = [
            check.as_ref().map(|check| &check.cipher),
            stats.as_ref().map(|stats| &stats.cipher),
            ct.as_ref().map(|ct| &ct.cipher),
        ];
        if let Some(other) = names.into_iter().flatten().find(|other| **other != name) {
            let text = format!(
                "a document is about the cipher {other}, and the manifest about {name}; give those of one"
            );
            return Err(Failure::bad_input(text));
        }
        let library = self.manifest.with_file_name(&manifest.library.file);
        let octets = std::fs::read(&library).with_context(|| format!("reading {}", library.display()))?;
        let compilers = compilers(&octets);
        let compilers =
            if compilers.is_empty() { "the library names none".to_owned() } else { compilers.join("; ") };
        let line = |name: &str, value: String| (name.to_owned(), value);
        let provenance = vec![
            line("Version", manifest.description.version.clone()),
            line("Vendor", manifest.description.vendor.clone()),
            line("Source", manifest.source.clone()),
            line("Licence", manifest.licence.clone()),
            line("Compiler, as the library says", compilers),
            line("SHA-256 of the manifest", examined.digests.manifest.to_string()),
            line("SHA-256 of the library", examined.digests.library.to_string()),
            line("SHA-256 of the vectors", examined.digests.vectors.to_string()),
            line("Made by", format!("ravelin {}", env!("CARGO_PKG_VERSION"))),
        ];
        let page = Page { cipher: name, provenance, check, stats, ct }.html();
        std::fs::write(&self.output, page).with_context(|| format!("writing {}", self.output.display()))
    }
}

/// A document of another command.
fn document<T: DeserializeOwned>(path: Option<&Path>) -> anyhow::Result<Option<T>> {
    let Some(path) = path else { return Ok(None) };
    let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let document = serde_json::from_slice(&text).map_err(|error| {
        let text = format!("{}: {error}; give what the command prints with --json", path.display());
        Failure::bad_input(text)
    })?;
    Ok(Some(document))
}
