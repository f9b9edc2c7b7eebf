//! The format of a key file, version 1 (docs/design/0039), its reader and its writer.
//!
//! All numbers are big-endian. The reader accepts exactly what the writer writes, so that there are no two files with
//! one content:
//!
//! | octets | what |
//! |---|---|
//! | 8 | `rvlkeyfl` |
//! | 1 | version: 1 |
//! | 16 | the file's id, random |
//! | 1, then as many | the suite's name: lower-case letters, digits, `-` |
//! | 2 | octets of keying material |
//! | 1 | recipients |
//! | each: 1, 32, 2, then as many | method, key id, the content key as the method seals it |
//! | octets of keying material + 16 | the keying material under AES-256-GCM, and its tag |
//!
//! The tag authenticates every octet of the file, since all that stands in front is the associated data.

use std::fmt;
use std::io::Read;
use std::path::Path;

use crate::error::{Fault, TokenError};
use crate::names::{hex, quoted};

/// The most octets of keying material in a file.
pub const MAX_KEYMAT_LEN: usize = 512;
/// The most keys that a file is sealed to.
pub const MAX_RECIPIENTS: usize = 8;
/// The longest key file, in octets.
pub const MAX_FILE_LEN: usize =
    FIXED + LONGEST_SUITE + MAX_RECIPIENTS * (1 + 32 + 2 + LONGEST_SEALED) + MAX_KEYMAT_LEN + TAG_LEN;

/// The octets of a tag of AES-256-GCM.
pub(crate) const TAG_LEN: usize = 16;
/// The octets of the content key.
pub(crate) const CONTENT_KEY_LEN: usize = 32;

const MAGIC: &[u8; 8] = b"rvlkeyfl";
const VERSION: u8 = 1;
/// Magic, version, id, three lengths.
const FIXED: usize = 8 + 1 + 16 + 1 + 2 + 1;
const LONGEST_SUITE: usize = 64;
/// RSA of 8192 bits.
const LONGEST_SEALED: usize = 1024;

/// The id of a key file: random, and what the book of used key files knows it by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId(pub [u8; 16]);

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The id of a public key: SHA-256 over its SubjectPublicKeyInfo in DER (RFC 5280 section 4.1.2.7), 32 octets.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId(pub [u8; 32]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The way in which the content key is sealed to a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// RSA-OAEP with SHA-256, also in MGF1, and an empty label (RFC 8017 section 7.1).
    RsaOaepSha256,
    /// RSA-OAEP with SHA-1, also in MGF1, and an empty label, for tokens that have no other.
    RsaOaepSha1,
    /// ECDH with an ephemeral key on P-256, HKDF-SHA-256, AES-256-GCM.
    EcdhP256,
    /// ECDH with an ephemeral key on P-384, HKDF-SHA-256, AES-256-GCM.
    EcdhP384,
}

impl Method {
    const ALL: [(u8, Method); 4] =
        [(1, Method::RsaOaepSha256), (2, Method::RsaOaepSha1), (3, Method::EcdhP256), (4, Method::EcdhP384)];

    pub(crate) fn code(self) -> u8 {
        match self {
            Method::RsaOaepSha256 => 1,
            Method::RsaOaepSha1 => 2,
            Method::EcdhP256 => 3,
            Method::EcdhP384 => 4,
        }
    }

    fn of(code: u8) -> Option<Method> {
        Method::ALL.iter().find(|(number, _)| *number == code).map(|(_, method)| *method)
    }

    /// The octets of an uncompressed point on the method's curve; `None` for RSA.
    pub(crate) const fn point_len(self) -> Option<usize> {
        match self {
            Method::RsaOaepSha256 | Method::RsaOaepSha1 => None,
            Method::EcdhP256 => Some(1 + 2 * 32),
            Method::EcdhP384 => Some(1 + 2 * 48),
        }
    }

    /// Whether the content key, as this method seals it, may have so many octets.
    fn takes(self, len: usize) -> bool {
        match self.point_len() {
            Some(point) => len == point + CONTENT_KEY_LEN + TAG_LEN,
            // RSA of 2048 to 8192 bits.
            None => (256..=LONGEST_SEALED).contains(&len),
        }
    }

    /// The name of it, as people read it.
    pub const fn name(self) -> &'static str {
        match self {
            Method::RsaOaepSha256 => "RSA-OAEP with SHA-256",
            Method::RsaOaepSha1 => "RSA-OAEP with SHA-1",
            Method::EcdhP256 => "ECDH on P-256",
            Method::EcdhP384 => "ECDH on P-384",
        }
    }
}

/// A public key that a file is sealed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient {
    /// The way in which the content key is sealed.
    pub method: Method,
    /// The id of the key.
    pub key: KeyId,
    /// The content key, sealed. With ECDH it stands behind the ephemeral public key, an uncompressed point.
    pub sealed: Vec<u8>,
}

/// A key file that has been read. Nothing of it is proved until it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFile {
    pub(crate) id: FileId,
    pub(crate) suite: String,
    pub(crate) keymat_len: usize,
    pub(crate) recipients: Vec<Recipient>,
    pub(crate) sealed: Vec<u8>,
}

const REMEDY: &str =
    "take a file that `ravelin key wrap` wrote, unchanged; make a new one where none is left";

fn wrong(why: impl Into<String>) -> TokenError {
    TokenError::new(Fault::KeyFile, why, REMEDY)
}

/// The octets of a file that are not read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize, what: &str) -> Result<&'a [u8], TokenError> {
        let (taken, rest) =
            self.0.split_at_checked(len).ok_or_else(|| wrong(format!("the key file ends within {what}")))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], TokenError> {
        let (taken, rest) =
            self.0.split_first_chunk().ok_or_else(|| wrong(format!("the key file ends within {what}")))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn octet(&mut self, what: &str) -> Result<u8, TokenError> {
        let [octet] = self.array(what)?;
        Ok(octet)
    }

    fn number(&mut self, what: &str) -> Result<usize, TokenError> {
        Ok(usize::from(u16::from_be_bytes(self.array(what)?)))
    }
}

impl KeyFile {
    /// Read a key file from its octets.
    ///
    /// # Errors
    /// It is not exactly what the format says. The message repeats at most the suite's name.
    pub fn parse(octets: &[u8]) -> Result<KeyFile, TokenError> {
        if octets.len() > MAX_FILE_LEN {
            return Err(wrong(format!("a key file has at most {MAX_FILE_LEN} octets, and this is longer")));
        }
        let mut rest = Reader(octets);
        if rest.take(MAGIC.len(), "its first word")? != MAGIC {
            return Err(wrong("this is no key file: its first word is another"));
        }
        match rest.octet("its version")? {
            VERSION => {}
            other => {
                let text = format!("the key file is of version {other}, and {VERSION} is known here");
                return Err(TokenError::new(Fault::KeyFile, text, "use the same release at both ends"));
            }
        }
        let id = FileId(rest.array("its id")?);
        let len = usize::from(rest.octet("the suite's name")?);
        let suite = std::str::from_utf8(rest.take(len, "the suite's name")?)
            .ok()
            .filter(|name| is_suite(name))
            .ok_or_else(|| wrong("the key file has no name of a suite"))?
            .to_owned();
        let keymat_len = rest.number("the length of the keying material")?;
        if !(1..=MAX_KEYMAT_LEN).contains(&keymat_len) {
            return Err(wrong(format!("{keymat_len} octets of keying material are not possible")));
        }
        let count = usize::from(rest.octet("the number of recipients")?);
        if !(1..=MAX_RECIPIENTS).contains(&count) {
            return Err(wrong(format!("{count} recipients are not possible")));
        }
        let mut recipients: Vec<Recipient> = Vec::with_capacity(count);
        for _ in 0..count {
            let recipient = recipient(&mut rest)?;
            if recipients.iter().any(|other| other.key == recipient.key) {
                return Err(wrong("the key file is sealed to one key twice"));
            }
            recipients.push(recipient);
        }
        let sealed = rest.take(keymat_len + TAG_LEN, "the keying material")?.to_vec();
        if !rest.0.is_empty() {
            return Err(wrong(format!("{} octets stand behind the end of the key file", rest.0.len())));
        }
        Ok(KeyFile { id, suite, keymat_len, recipients, sealed })
    }

    /// Read the key file at a path.
    ///
    /// # Errors
    /// It cannot be read, or is no key file ([`KeyFile::parse`]).
    pub fn read(path: &Path) -> Result<KeyFile, TokenError> {
        let place = path.display();
        let failed = |error: std::io::Error| {
            TokenError::new(
                Fault::KeyFile,
                format!("{place}: the key file cannot be read: {error}"),
                "name a key file that is there",
            )
        };
        let mut octets = Vec::new();
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(MAX_FILE_LEN as u64 + 1).read_to_end(&mut octets).map_err(failed)?;
        KeyFile::parse(&octets).map_err(|error| error.at(place))
    }

    /// The octets of the file.
    pub fn octets(&self) -> Vec<u8> {
        let mut octets = self.header();
        octets.extend_from_slice(&self.sealed);
        octets
    }

    /// What stands in front of the sealed keying material: the associated data of its seal.
    pub(crate) fn header(&self) -> Vec<u8> {
        let mut octets = Vec::with_capacity(MAX_FILE_LEN);
        octets.extend_from_slice(MAGIC);
        octets.push(VERSION);
        octets.extend_from_slice(&self.id.0);
        octets.push(self.suite.len() as u8);
        octets.extend_from_slice(self.suite.as_bytes());
        octets.extend_from_slice(&(self.keymat_len as u16).to_be_bytes());
        octets.push(self.recipients.len() as u8);
        for recipient in &self.recipients {
            octets.push(recipient.method.code());
            octets.extend_from_slice(&recipient.key.0);
            octets.extend_from_slice(&(recipient.sealed.len() as u16).to_be_bytes());
            octets.extend_from_slice(&recipient.sealed);
        }
        octets
    }

    /// The id of the file.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// The suite that the keying material is for.
    pub fn suite(&self) -> &str {
        &self.suite
    }

    /// The octets of keying material.
    pub fn keymat_len(&self) -> usize {
        self.keymat_len
    }

    /// The keys that the file is sealed to.
    pub fn recipients(&self) -> &[Recipient] {
        &self.recipients
    }

    /// Whether the file is for this suite, which needs so many octets of keying material.
    ///
    /// # Errors
    /// [`Fault::Suite`].
    pub fn check_suite(&self, suite: &str, keymat_len: usize) -> Result<(), TokenError> {
        if self.suite != suite {
            let text = format!("the key file is for {}, and {} is asked for", self.suite, quoted(suite));
            let remedy =
                format!("say --suite {}, or take a file that was made with --suite {suite}", self.suite);
            return Err(TokenError::new(Fault::Suite, text, remedy));
        }
        if self.keymat_len != keymat_len {
            let text = format!(
                "the key file has {} octets of keying material, and {suite} needs {keymat_len} on this host",
                self.keymat_len
            );
            let remedy =
                "let the cipher of this name be the same where the file is made and where it is used";
            return Err(TokenError::new(Fault::Suite, text, remedy));
        }
        Ok(())
    }
}

/// Whether a text may be the name of a suite, known or not.
pub(crate) fn is_suite(name: &str) -> bool {
    (1..=LONGEST_SUITE).contains(&name.len())
        && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
}

fn recipient(rest: &mut Reader<'_>) -> Result<Recipient, TokenError> {
    let code = rest.octet("a recipient")?;
    let method = Method::of(code)
        .ok_or_else(|| wrong(format!("{code} is no method of sealing that is known here")))?;
    let key = KeyId(rest.array("a recipient")?);
    let len = rest.number("a recipient")?;
    if !method.takes(len) {
        return Err(wrong(format!("{} does not make {len} octets", method.name())));
    }
    let sealed = rest.take(len, "a recipient")?.to_vec();
    if method.point_len().is_some() && sealed.first() != Some(&4) {
        return Err(wrong("an ephemeral public key is no uncompressed point"));
    }
    Ok(Recipient { method, key, sealed })
}
