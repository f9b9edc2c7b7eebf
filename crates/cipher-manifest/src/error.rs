//! The error of both readers: which file, where in it, why, and what to do.

use std::fmt;

/// The kind of a file that is read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    /// The manifest of a cipher.
    Manifest,
    /// The file with a cipher's test vectors.
    Vectors,
}

impl Document {
    /// The word for it in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Document::Manifest => "manifest",
            Document::Vectors => "vector file",
        }
    }
}

/// The place in a file that an error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The file as a whole.
    Whole,
    /// A line, counted from 1, and a column.
    Line(usize, usize),
    /// A field of the manifest: `library.sha256`.
    Field(&'static str),
    /// A test of the vector file, and one of its fields.
    Test(u64, &'static str),
}

/// The reason why a manifest or a vector file cannot be used. It repeats no octets of keys and at most
/// 200 characters of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentError {
    document: Document,
    place: Place,
    why: String,
    remedy: &'static str,
}

impl DocumentError {
    pub(crate) fn new(
        document: Document,
        place: Place,
        why: impl Into<String>,
        remedy: &'static str,
    ) -> Self {
        DocumentError { document, place, why: why.into(), remedy }
    }

    /// An error of the JSON reader, which knows line and column.
    pub(crate) fn json(document: Document, error: &serde_json::Error, remedy: &'static str) -> Self {
        let text = error.to_string();
        // The place is said by `Place`; the reader's words come last and may repeat a text of the file.
        let why = text.rsplit_once(" at line ").map_or(text.as_str(), |(why, _)| why);
        let why = match why.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}...", why.get(..end).unwrap_or_default()),
            None => why.to_owned(),
        };
        let why: String = why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        DocumentError::new(document, Place::Line(error.line(), error.column()), why, remedy)
    }

    /// The file that the error is about.
    pub fn document(&self) -> Document {
        self.document
    }

    /// The tcId of the test that the error is about, if it is about one.
    pub fn tc_id(&self) -> Option<u64> {
        match self.place {
            Place::Test(tc_id, _) => Some(tc_id),
            _ => None,
        }
    }

    /// The line that the error is about, counted from 1, if the reader knows it.
    pub fn line(&self) -> Option<usize> {
        match self.place {
            Place::Line(line, _) => Some(line),
            _ => None,
        }
    }

    /// The field that the error is about, as `library.sha256`, if the reader knows it.
    pub fn field(&self) -> Option<&'static str> {
        match self.place {
            Place::Field(field) | Place::Test(_, field) => Some(field),
            _ => None,
        }
    }

    /// What whoever wrote the file can do.
    pub fn remedy(&self) -> &'static str {
        self.remedy
    }
}

/// Characters of a text of the file that an error repeats.
const LONGEST: usize = 200;

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.document.name())?;
        match &self.place {
            Place::Whole => {}
            Place::Line(line, column) => write!(f, ", line {line}, column {column}")?,
            Place::Field(field) => write!(f, ", field `{field}`")?,
            Place::Test(tc_id, field) => write!(f, ", test {tc_id}, field `{field}`")?,
        }
        write!(f, ": {}", self.why)
    }
}

impl std::error::Error for DocumentError {}
