//! The manifest of a cipher: its name, its lengths, its numbers, and the digests of its files.

use crypto::custom::{CustomDescription, DescriptionError, NONCE_LEN, Primitive};
use serde::Deserialize;

use crate::error::{Document, DocumentError, Place};
use crate::{Digest, digest};

/// What is known of a cipher before its library is touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The name, the lengths and the limits, all of them checked.
    pub description: CustomDescription,
    /// Whether the author claims that time does not depend on keys or data.
    pub constant_time: bool,
    /// The first of the cipher's four private-use transform ids: CTR, STREAM or AEAD +0, CBC +1, GCM +2, cascade +3
    /// (RFC 7296 section 3.3.2; [`crypto::ModeKind::id_offset`]).
    pub transform_id: u16,
    /// The shared library, in the manifest's own folder.
    pub library: FileReference,
    /// The file with the test vectors, in the manifest's own folder.
    pub vectors: FileReference,
    /// Where the source code is to be had, as people read it.
    pub source: String,
    /// The licence of the library, as people read it.
    pub licence: String,
}

/// A file beside the manifest, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReference {
    /// The name without any folder.
    pub file: String,
    /// The digest of the content.
    pub sha256: Digest,
}

/// The fields as they are written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    version: String,
    vendor: String,
    kind: Kind,
    #[serde(default)]
    block: u32,
    key: u32,
    #[serde(default)]
    nonce: u32,
    #[serde(default)]
    tag: u32,
    constant_time: bool,
    #[serde(default)]
    max_octets: u64,
    transform_id: u32,
    library: WrittenFile,
    vectors: WrittenFile,
    source: String,
    licence: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Block,
    Stream,
    Aead,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFile {
    file: String,
    sha256: String,
}

/// The longest text for people: a URL, a licence's name.
const LONGEST_TEXT: usize = 255;
/// The longest name of a file that Linux has (NAME_MAX).
const LONGEST_FILE: usize = 255;
/// The ids of which four stay in the private-use range (RFC 7296 section 3.3.2).
const TRANSFORM_IDS: std::ops::RangeInclusive<u32> = 1024..=65535 - 3;

const SYNTAX: &str = "docs/custom-cipher.md has the fields, and the files of `ravelin cipher new` make a manifest that is right";

impl Manifest {
    /// The number of octets that a manifest may have.
    pub const MOST_OCTETS: usize = 64 * 1024;

    /// Read a manifest from its octets.
    ///
    /// # Errors
    /// [`DocumentError`] with the line or the field that is wrong.
    pub fn parse(octets: &[u8]) -> Result<Manifest, DocumentError> {
        if octets.len() > Self::MOST_OCTETS {
            let why = format!("it has {} octets, and {} are possible", octets.len(), Self::MOST_OCTETS);
            return Err(DocumentError::new(Document::Manifest, Place::Whole, why, "make it shorter"));
        }
        let written: Written = serde_json::from_slice(octets)
            .map_err(|error| DocumentError::json(Document::Manifest, &error, SYNTAX))?;
        written.check()
    }
}

fn wrong(field: &'static str, why: impl Into<String>, remedy: &'static str) -> DocumentError {
    DocumentError::new(Document::Manifest, Place::Field(field), why, remedy)
}

impl Written {
    fn check(self) -> Result<Manifest, DocumentError> {
        let primitive = self.primitive()?;
        let description = CustomDescription {
            name: self.name,
            version: self.version,
            vendor: self.vendor,
            primitive,
            key_len: to_usize(self.key),
            max_octets: Some(self.max_octets).filter(|most| *most != 0),
        };
        description.check().map_err(|error| {
            let field = match &error {
                DescriptionError::Name(_) | DescriptionError::Standard(_) => "name",
                DescriptionError::Text("version") => "version",
                DescriptionError::Text(_) => "vendor",
                DescriptionError::Length { what: "a key", .. } => "key",
                DescriptionError::Length { what: "a block", .. } => "block",
                DescriptionError::Length { .. } => "tag",
            };
            wrong(field, error.to_string(), "write what the library's description says")
        })?;
        let transform_id = u16::try_from(self.transform_id)
            .ok()
            .filter(|id| TRANSFORM_IDS.contains(&u32::from(*id)))
            .ok_or_else(|| {
                let why = format!("{} is not from 1024 to 65532", self.transform_id);
                wrong(
                    "transform_id",
                    why,
                    "choose the first of four private-use ids that both peers keep free",
                )
            })?;
        if self.library.file == self.vectors.file {
            return Err(wrong("vectors.file", "library and vectors are one file", "name two files"));
        }
        Ok(Manifest {
            description,
            constant_time: self.constant_time,
            transform_id,
            library: self.library.check("library.file", "library.sha256")?,
            vectors: self.vectors.check("vectors.file", "vectors.sha256")?,
            source: text("source", self.source)?,
            licence: text("licence", self.licence)?,
        })
    }

    /// The primitive, if the lengths are those of this kind and of no other.
    fn primitive(&self) -> Result<Primitive, DocumentError> {
        let exactly = |field, got: u32, want: u32| {
            let why = || format!("it is {got}, and for this kind it is {want}");
            if got == want { Ok(()) } else { Err(wrong(field, why(), "correct the length or the kind")) }
        };
        let nonce = if matches!(self.kind, Kind::Block) { 0 } else { NONCE_LEN as u32 };
        exactly("nonce", self.nonce, nonce)?;
        if !matches!(self.kind, Kind::Block) {
            exactly("block", self.block, 0)?;
        }
        if !matches!(self.kind, Kind::Aead) {
            exactly("tag", self.tag, 0)?;
        }
        Ok(match self.kind {
            Kind::Block => Primitive::Block { block_len: to_usize(self.block) },
            Kind::Stream => Primitive::Stream,
            Kind::Aead => Primitive::Aead { tag_len: to_usize(self.tag) },
        })
    }
}

impl WrittenFile {
    fn check(self, file: &'static str, sha256: &'static str) -> Result<FileReference, DocumentError> {
        let name = &self.file;
        let printable = name.chars().all(|c| !c.is_control());
        if !(1..=LONGEST_FILE).contains(&name.len()) || !printable || name == "." {
            return Err(wrong(file, "it has 1 to 255 octets that can be printed", "name a file"));
        }
        if name.contains('/') || name.contains("..") {
            let why = "it leads out of the manifest's folder, or may do so";
            return Err(wrong(
                file,
                why,
                "put the file beside the manifest, and write its name without `/` and `..`",
            ));
        }
        let digest = self.sha256.parse().map_err(|error: digest::DigestError| {
            wrong(sha256, error.to_string(), "`sha256sum` prints the digest of a file")
        })?;
        Ok(FileReference { file: self.file, sha256: digest })
    }
}

fn text(field: &'static str, text: String) -> Result<String, DocumentError> {
    if (1..=LONGEST_TEXT).contains(&text.len()) && text.chars().all(|c| !c.is_control()) {
        return Ok(text);
    }
    Err(wrong(field, "it has 1 to 255 octets that can be printed", "say it in one line"))
}

/// A length in the machine's own type; what is too large stays too large.
fn to_usize(length: u32) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}
