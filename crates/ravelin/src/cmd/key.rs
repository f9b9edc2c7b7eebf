//! `ravelin key`: one-time key files for tokens (docs/design/0039), and the options of `sa add` that open them.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use api::{Keymat, SaAdd};
use clap::{Args, Subcommand, ValueEnum};
use crypto::Suites;
use key_token::{KeyFile, OaepHash, Opening, Pin, PublicKey, TokenError, TokenUri, UsedBook};

use crate::catalogue::Catalogue;
use crate::exit::{Failure, Kind};
use crate::output;

/// Keying material in files that only a token opens, each of them once.
#[derive(Debug, Subcommand)]
pub enum Key {
    Wrap(Wrap),
    Show(Show),
}

impl Key {
    pub fn execute(self) -> anyhow::Result<()> {
        match self {
            Key::Wrap(wrap) => wrap.execute(),
            Key::Show(show) => show.execute(),
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Oaep {
    Sha256,
    Sha1,
}

/// Seal fresh keying material to the public keys of tokens: one file for one association, the same file for both ends.
#[derive(Debug, Args)]
pub struct Wrap {
    /// The suite that the keying material is for.
    #[arg(long, value_name = "NAME")]
    suite: String,
    /// A token whose public key seals, as a PKCS#11 URI (RFC 7512) with module-path; once for each end. No PIN is needed.
    #[arg(long, value_name = "URI", required_unless_present = "public_key")]
    token: Vec<String>,
    /// A token's public key in a file, PEM or DER, where the token is elsewhere; once for each end.
    #[arg(long, value_name = "FILE")]
    public_key: Vec<PathBuf>,
    /// The file to write; it must not be there. With --count the files are called FILE.1, FILE.2 ...
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Write so many files, each with keying material of its own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    count: Option<u16>,
    /// The hash function of RSA-OAEP: sha1 for tokens that have no other (SoftHSM).
    #[arg(long, value_enum, value_name = "HASH", default_value = "sha256")]
    oaep: Oaep,
    #[command(flatten)]
    catalogue: Catalogue,
}

impl Wrap {
    fn execute(self) -> anyhow::Result<()> {
        let suite = self
            .catalogue
            .suites()?
            .find(&self.suite)
            .map_err(|error| Failure::bad_input(error.to_string()))?;
        let mut keys = Vec::new();
        for uri in &self.token {
            let uri = TokenUri::parse(uri).map_err(refused)?;
            keys.push(key_token::public_key_of(&uri).map_err(refused)?);
        }
        for path in &self.public_key {
            keys.push(public_key(path)?);
        }
        let oaep = match self.oaep {
            Oaep::Sha256 => OaepHash::Sha256,
            Oaep::Sha1 => OaepHash::Sha1,
        };
        key_token::keep_out_of_dumps().map_err(refused)?;
        let paths = match self.count {
            None => vec![self.output.clone()],
            Some(count) => (1..=count).map(|number| numbered(&self.output, number)).collect(),
        };
        let mut text = String::new();
        for path in &paths {
            let file =
                key_token::seal(&suite.to_string(), suite.keymat_len(), &keys, oaep).map_err(refused)?;
            write(path, &file)?;
            let _ = write!(text, "{}", described(path, &file));
        }
        output::text(&text)
    }
}

/// Print what a key file says of itself: its id, its suite, the keys that it is sealed to. Nothing of it is proved.
#[derive(Debug, Args)]
pub struct Show {
    /// The key files to show.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Show {
    fn execute(self) -> anyhow::Result<()> {
        let mut text = String::new();
        for path in &self.files {
            text.push_str(&described(path, &KeyFile::read(path).map_err(refused)?));
        }
        output::text(&text)
    }
}

/// The options of `sa add` for a key file.
#[derive(Debug, Args)]
pub struct KeyFileOptions {
    /// A key file that `ravelin key wrap` made: it gives suite and keying material, and counts as used from then on.
    #[arg(long, value_name = "FILE", requires = "token", conflicts_with = "key_fd")]
    key_file: Option<PathBuf>,
    /// The token that opens the key file, as a PKCS#11 URI (RFC 7512) with module-path.
    #[arg(long, value_name = "URI", requires = "key_file")]
    token: Option<String>,
    /// Descriptor that gives the token's PIN. Not needed for a token with a keypad of its own.
    #[arg(long, value_name = "N", requires = "key_file")]
    pin_fd: Option<u32>,
    /// Another book of used key files [default: /var/lib/ravelin/used-key-files].
    #[arg(long, value_name = "FILE", requires = "key_file")]
    key_book: Option<PathBuf>,
}

/// A key file that has been read, and is to be opened.
#[derive(Debug)]
pub struct SealedKeyFile {
    file: KeyFile,
    path: PathBuf,
    token: TokenUri,
    pin_fd: Option<u32>,
    book: UsedBook,
}

impl KeyFileOptions {
    /// Read the key file, if one is named. Nothing is opened yet.
    pub fn read(self) -> anyhow::Result<Option<SealedKeyFile>> {
        let (Some(path), Some(token)) = (self.key_file, self.token) else { return Ok(None) };
        let token = TokenUri::parse(&token).map_err(refused)?;
        // A PIN in the place of the number is not repeated.
        if self.pin_fd.is_some_and(|fd| fd > 1023) {
            return Err(Failure::bad_input(
                "--pin-fd takes the number of a descriptor, 0 to 1023, and never the PIN itself, which every user of this \
                 host could read among the arguments; give it as in: --pin-fd 3 3<PINFILE",
            ));
        }
        let file = KeyFile::read(&path).map_err(refused)?;
        let book = match self.key_book {
            Some(path) => UsedBook::at(path),
            None => UsedBook::at(UsedBook::PATH).that_lasts(),
        };
        Ok(Some(SealedKeyFile { file, path, token, pin_fd: self.pin_fd, book }))
    }
}

impl SealedKeyFile {
    /// Put the file's suite into a request, and octets that stand for its key, so that all the rest can be checked
    /// before the file is used up.
    pub fn stand_in(&self, request: &mut SaAdd) -> anyhow::Result<()> {
        if request.suite.is_empty() {
            request.suite = self.file.suite().to_owned();
        }
        let standard = Suites::standard().find(&request.suite);
        let (name, len) = match standard {
            Ok(suite) => (suite.to_string(), suite.keymat_len()),
            // How long the key of a cipher of one's own is, the daemon knows.
            Err(_) => (request.suite.clone(), self.file.keymat_len()),
        };
        self.file.check_suite(&name, len).map_err(|error| self.refused(error))?;
        let octets: Vec<u8> = (0..len).map(|at| (at * 7 + 1) as u8).collect();
        request.keymat = Keymat::from_octets(&octets);
        Ok(())
    }

    /// Open the file, which is then used up.
    pub fn open(&self) -> anyhow::Result<Keymat> {
        let pin = self.pin_fd.map(Pin::from_fd).transpose().map_err(refused)?;
        key_token::keep_out_of_dumps().map_err(refused)?;
        let with = Opening { token: &self.token, pin: pin.as_ref(), book: &self.book };
        let keymat = key_token::open_once(&self.file, &with).map_err(|error| self.refused(error))?;
        Ok(Keymat::from_octets(keymat.expose()))
    }

    /// Say that the file cannot be tried again, where the daemon did not take its key.
    pub fn used_up(&self) {
        eprintln!(
            "ravelin: the key file {} ({}) is used up all the same; make a new one with `ravelin key wrap`",
            self.path.display(),
            self.file.id()
        );
    }

    fn refused(&self, error: TokenError) -> anyhow::Error {
        let place = self.path.display().to_string();
        let text = error.to_string();
        let text = if text.contains(&place) { text } else { format!("{place}: {text}") };
        Failure::with_remedy(kind(&error), text, error.remedy())
    }
}

fn kind(error: &TokenError) -> Kind {
    if error.fault().is_bad_input() { Kind::BadInput } else { Kind::Failed }
}

fn refused(error: TokenError) -> anyhow::Error {
    Failure::with_remedy(kind(&error), error.to_string(), error.remedy())
}

fn public_key(path: &Path) -> anyhow::Result<PublicKey> {
    use std::io::Read;
    let failed = |error: std::io::Error| Failure::bad_input(format!("{}: {error}", path.display()));
    let mut octets = zeroize::Zeroizing::new(Vec::with_capacity(PublicKey::MOST_OCTETS + 1));
    let file = File::open(path).map_err(failed)?;
    file.take(PublicKey::MOST_OCTETS as u64 + 1).read_to_end(&mut octets).map_err(failed)?;
    PublicKey::parse(&octets).map_err(|error| {
        Failure::with_remedy(Kind::BadInput, format!("{}: {error}", path.display()), error.remedy())
    })
}

fn numbered(path: &Path, number: u16) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// Write a key file that was not there before.
fn write(path: &Path, file: &KeyFile) -> anyhow::Result<()> {
    let failed = |error: std::io::Error| {
        Failure::with_remedy(
            Kind::Failed,
            format!("{}: the key file cannot be written: {error}", path.display()),
            "name a file that is not there yet, in a folder that can be written",
        )
    };
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    out.write_all(&file.octets()).and_then(|()| out.sync_all()).map_err(|error| {
        // A part of a file would only be refused later.
        let _ = std::fs::remove_file(path);
        failed(error)
    })
}

fn described(path: &Path, file: &KeyFile) -> String {
    let mut text = format!("{}  id {}  suite {}\n", path.display(), file.id(), file.suite());
    for recipient in file.recipients() {
        let _ = writeln!(text, "  sealed to {}  {}", recipient.key, recipient.method.name());
    }
    text
}
