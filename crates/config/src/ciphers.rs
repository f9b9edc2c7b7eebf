//! The `[[cipher]]` tables of the configuration: ciphers of one's own, and the catalogue of suites with theirs (paper
//! 004 section 7, its CONFIG line).
//!
//! The manifest of a cipher is enough to know its suites, so policy is checked without the cipher's library. A manifest
//! that cannot be read, or is not the one that the configuration means, takes its cipher out of the catalogue and is
//! no fault of the configuration: the daemon starts, and refuses what needs the cipher.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cipher_manifest::{Digest, Manifest};
use crypto::Suites;
use crypto::custom::CustomDescription;
use toml::de::{DeTable, DeValue};

use super::read::{Reader, Value};
use crate::suggestion::suggestion;

const CIPHER: [&str; 6] = ["builtin", "manifest", "sha256", "alone", "isolation", "deadline"];
/// The time that a worker has for a batch, in milliseconds, unless told otherwise.
const DEADLINE: u64 = 2;
/// The ciphers of one's own that are compiled in.
const BUILT_IN: [&str; 1] = [crypto_maes::Maes512::NAME];

/// The ciphers of one's own, and every suite that policy may name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CiphersConfig {
    /// The ciphers that are named, in the order of the file.
    pub tables: Vec<CipherConfig>,
    /// The catalogue: the standard suites, and those of the ciphers whose description is known.
    pub suites: Suites,
    /// The ciphers that are not in the catalogue.
    pub refused: Vec<RefusedCipher>,
}

/// One cipher of one's own, from its table `[[cipher]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CipherConfig {
    /// The place that the cipher comes from.
    pub source: CipherSource,
    /// Whether suites may be used that rest on the cipher alone, also for integrity.
    pub alone: bool,
}

/// The place that a cipher of one's own comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CipherSource {
    /// The cipher is compiled in: the `y` of the paper's CONFIG line.
    BuiltIn {
        /// The name of the cipher.
        name: &'static str,
    },
    /// The cipher is in a shared library: the `m` of the paper's CONFIG line.
    Library {
        /// The path of the manifest.
        manifest: PathBuf,
        /// The digest that the manifest must have.
        sha256: Digest,
        /// The name of the cipher, where the manifest could be read.
        name: Option<String>,
        /// The place where its code runs.
        isolation: Isolation,
        /// The time that its worker has for a batch of packets.
        deadline: Duration,
    },
}

/// The place where the code of a library runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// The library has a process of its own, which can compute and nothing else.
    #[default]
    Worker,
    /// The library is code of the daemon, and can do what the daemon can.
    None,
}

/// A cipher that is not in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCipher {
    /// The path of the cipher's manifest.
    pub manifest: PathBuf,
    /// The reason why the cipher is not there, without a full stop.
    pub why: String,
    /// The text that says what to do.
    pub remedy: String,
}

impl fmt::Display for RefusedCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.manifest.display(), self.why, self.remedy)
    }
}

impl CiphersConfig {
    /// Whether the configuration names the compiled-in cipher of this name.
    pub fn has_built_in(&self, name: &str) -> bool {
        self.tables
            .iter()
            .any(|table| matches!(&table.source, CipherSource::BuiltIn { name: known } if *known == name))
    }
}

/// A cipher's description with the first of its transform ids.
type Description = (CustomDescription, u16);

impl Reader<'_> {
    pub(super) fn ciphers(&mut self, root: &DeTable<'_>) -> CiphersConfig {
        let mut out = CiphersConfig::default();
        let Some(value) = root.get("cipher") else { return out };
        let DeValue::Array(tables) = value.get_ref() else {
            let remedy = "write [[cipher]], in two brackets: there may be several";
            self.fault(value.span(), "`cipher` must be a list of tables", remedy);
            return out;
        };
        for value in tables.iter() {
            let Some(table) = self.table(Some(value), "cipher", &CIPHER) else { continue };
            if let Some(cipher) = self.cipher(value.span(), table, &mut out) {
                out.tables.push(cipher);
            }
        }
        out
    }

    /// Read a table, and put what it describes into the catalogue of `out`.
    fn cipher(
        &mut self,
        at: Range<usize>,
        table: &DeTable<'_>,
        out: &mut CiphersConfig,
    ) -> Option<CipherConfig> {
        let alone = self.alone(table.get("alone"))?;
        let (source, described) = match (table.get("builtin"), table.get("manifest")) {
            (Some(builtin), None) => self.built_in(builtin, table)?,
            (None, Some(manifest)) => self.library(at.clone(), manifest, table, out)?,
            (both, _) => {
                let (span, message) = match both {
                    Some(builtin) => (builtin.span(), "a cipher is compiled in or loaded, not both"),
                    None => (at, "[[cipher]] says neither `builtin` nor `manifest`"),
                };
                let remedy = "write builtin = \"maes512\" for the cipher that is compiled in, or manifest = \"FILE\" and sha256 = \
                              \"...\" for a library";
                self.fault(span, message, remedy);
                return None;
            }
        };
        if let Some((description, transform_id)) = described
            && let Err(error) = out.suites.register(&description, transform_id, alone)
        {
            let remedy =
                "each cipher needs a name and transform ids of its own; remove the table that is not needed";
            self.fault(at, error.to_string(), remedy);
            return None;
        }
        Some(CipherConfig { source, alone })
    }

    fn alone(&mut self, value: Option<&Value<'_>>) -> Option<bool> {
        let Some(value) = value else { return Some(false) };
        let said = value.get_ref().as_bool();
        if said.is_none() {
            let remedy =
                "write: alone = true to allow suites that rest on this cipher alone, also for integrity";
            self.fault(value.span(), "`alone` must be true or false", remedy);
        }
        said
    }

    fn built_in(
        &mut self,
        value: &Value<'_>,
        table: &DeTable<'_>,
    ) -> Option<(CipherSource, Option<Description>)> {
        for (word, remedy) in [
            ("sha256", "leave it out: it is the digest of a manifest"),
            ("isolation", "leave it out: a compiled-in cipher runs in the daemon"),
            ("deadline", "leave it out: a compiled-in cipher has no worker"),
        ] {
            if let Some(value) = table.get(word) {
                self.fault(value.span(), format!("`{word}` does not go with `builtin`"), remedy);
                return None;
            }
        }
        let word = self.string(value, "builtin")?;
        let Some(name) = BUILT_IN.into_iter().find(|name| *name == word) else {
            let remedy = match suggestion(word, &BUILT_IN) {
                Some(near) => format!("did you mean {near:?}?"),
                None => {
                    format!("compiled in: {}; another one needs `manifest` and `sha256`", BUILT_IN.join(", "))
                }
            };
            self.fault(value.span(), format!("no cipher that is compiled in is called {word:?}"), remedy);
            return None;
        };
        let description = (crypto_maes::description(), crypto_maes::TRANSFORM_ID);
        Some((CipherSource::BuiltIn { name }, Some(description)))
    }

    fn library(
        &mut self,
        at: Range<usize>,
        value: &Value<'_>,
        table: &DeTable<'_>,
        out: &mut CiphersConfig,
    ) -> Option<(CipherSource, Option<Description>)> {
        let isolation = self.isolation(table.get("isolation"));
        let why = "milliseconds that a worker has for a batch; a busy machine needs more, and waits longer for a worker that hangs";
        let deadline = table.get("deadline").and_then(|value| self.integer(value, "deadline", 1..=1000, why));
        let deadline =
            Duration::from_millis(deadline.and_then(|n| u64::try_from(n).ok()).unwrap_or(DEADLINE));
        let manifest = self.path(value, "manifest");
        let Some(pinned) = table.get("sha256") else {
            let remedy = "add sha256 = \"...\", the digest that `sha256sum FILE` prints for the manifest: it pins what may run in \
                          the daemon";
            self.fault(at, "a cipher that is loaded needs the digest of its manifest", remedy);
            return None;
        };
        let digest = self.string(pinned, "sha256")?.parse::<Digest>();
        if let Err(error) = &digest {
            self.fault(
                pinned.span(),
                error.to_string(),
                "write what `sha256sum FILE` prints for the manifest",
            );
        }
        let (Some(isolation), Some(manifest), Ok(sha256)) = (isolation, manifest, digest) else {
            return None;
        };
        let (name, described) = match read(&manifest, sha256) {
            Ok(read) => (Some(read.description.name.clone()), Some((read.description, read.transform_id))),
            Err((why, remedy)) => {
                out.refused.push(RefusedCipher { manifest: manifest.clone(), why, remedy });
                (None, None)
            }
        };
        Some((CipherSource::Library { manifest, sha256, name, isolation, deadline }, described))
    }

    /// Read where the code of a library runs.
    fn isolation(&mut self, value: Option<&Value<'_>>) -> Option<Isolation> {
        let Some(value) = value else { return Some(Isolation::default()) };
        match self.string(value, "isolation")? {
            "worker" => Some(Isolation::Worker),
            "none" => Some(Isolation::None),
            other => {
                let remedy = "write isolation = \"worker\" for a process of its own, which is the default, or isolation = \"none\" for \
                              code of the daemon, which can do what the daemon can";
                self.fault(value.span(), format!("no isolation is called {other:?}"), remedy);
                None
            }
        }
    }
}

/// The manifest at this path, if its digest is this one; else the reason and the remedy.
fn read(path: &Path, sha256: Digest) -> Result<Manifest, (String, String)> {
    let mut octets = Vec::new();
    // A folder, a pipe or a device in the place of the file must not hold the reader up.
    let metadata = std::fs::metadata(path);
    if metadata.as_ref().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(("this is no regular file".to_owned(), "name the manifest of a cipher".to_owned()));
    }
    let bound = u64::try_from(Manifest::MOST_OCTETS).unwrap_or(u64::MAX).saturating_add(1);
    let opened = metadata.and_then(|_| File::open(path));
    let read = opened.and_then(|file| file.take(bound).read_to_end(&mut octets));
    if let Err(error) = read {
        let remedy = "install the cipher's files again, or remove its [[cipher]] table";
        return Err((format!("the manifest cannot be read: {error}"), remedy.to_owned()));
    }
    let got = Digest::of(&octets);
    if got != sha256 {
        let why = format!("the manifest has the digest {got}, and the configuration wants {sha256}");
        let remedy = "if the new manifest is the one that is meant, write its digest into the configuration; else install the cipher's \
                      files again";
        return Err((why, remedy.to_owned()));
    }
    Manifest::parse(&octets).map_err(|error| (error.to_string(), error.remedy().to_owned()))
}
