//! The reader of the vector file.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use zeroize::Zeroizing;

use super::{Case, Sealed, Vector, Vectors};
use crate::error::{Document, DocumentError, Place};
use crate::hex;

const SYNTAX: &str = "docs/custom-cipher.md says what a test has, and the files of `ravelin cipher new` make a vector file that is right";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    cipher: String,
    #[serde(default)]
    montecarlo: Option<Octets>,
    #[serde(deserialize_with = "few")]
    tests: Vec<WrittenTest>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTest {
    #[serde(rename = "tcId")]
    tc_id: u64,
    mode: Mode,
    key: Octets,
    #[serde(default)]
    iv: Octets,
    #[serde(default)]
    aad: Octets,
    msg: Octets,
    ct: Octets,
    #[serde(default)]
    tag: Octets,
    #[serde(default)]
    offset: u64,
    result: Verdict,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Block,
    Ctr,
    Cbc,
    Gcm,
    Stream,
    Aead,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Valid,
    Invalid,
}

/// Octets as hexadecimal digits. A wrong text is not repeated: it may be a key.
#[derive(Default)]
struct Octets(Vec<u8>);

impl<'de> Deserialize<'de> for Octets {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Octets, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = Octets;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("octets as a text of hexadecimal digits")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Octets, E> {
                hex::decode(text)
                    .map(Octets)
                    .ok_or_else(|| E::custom("a text is not an even number of hexadecimal digits"))
            }
        }
        from.deserialize_str(Digits)
    }
}

/// A list of tests that ends with an error where it becomes too long.
fn few<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<WrittenTest>, D::Error> {
    struct Tests;
    impl<'de> Visitor<'de> for Tests {
        type Value = Vec<WrittenTest>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of tests")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<WrittenTest>, A::Error> {
            let mut tests = Vec::new();
            while let Some(test) = from.next_element()? {
                if tests.len() == Vectors::MOST_TESTS {
                    return Err(A::Error::custom("there are more than 100000 tests"));
                }
                tests.push(test);
            }
            Ok(tests)
        }
    }
    from.deserialize_seq(Tests)
}

impl Vectors {
    /// Read a vector file.
    ///
    /// # Errors
    /// [`DocumentError`] with the line or the test that is wrong.
    pub fn parse(octets: &[u8]) -> Result<Vectors, DocumentError> {
        let whole = |why, remedy| DocumentError::new(Document::Vectors, Place::Whole, why, remedy);
        if octets.len() > Self::MOST_OCTETS {
            let why = format!("it has {} octets, and {} are possible", octets.len(), Self::MOST_OCTETS);
            return Err(whole(why, "leave tests out"));
        }
        let written: Written = serde_json::from_slice(octets)
            .map_err(|error| DocumentError::json(Document::Vectors, &error, SYNTAX))?;
        let mut ids = HashSet::new();
        let mut tests = Vec::with_capacity(written.tests.len());
        for test in written.tests {
            if !ids.insert(test.tc_id) {
                return Err(test.wrong(
                    "tcId",
                    "another test has the same number",
                    "number the tests 1, 2, 3",
                ));
            }
            tests.push(test.check()?);
        }
        let counted = tests.iter().filter(|test| test.valid && !test.case.message().is_empty()).count();
        if counted < Self::FEWEST {
            let fewest = Self::FEWEST;
            let why =
                format!("{counted} valid tests encrypt something, and {fewest} are the fewest that count");
            return Err(whole(why, "add tests that another implementation made"));
        }
        let montecarlo = written.montecarlo.map(|octets| octets.0);
        Ok(Vectors { cipher: written.cipher, montecarlo, tests })
    }
}

impl WrittenTest {
    fn wrong(&self, field: &'static str, why: &'static str, remedy: &'static str) -> DocumentError {
        DocumentError::new(Document::Vectors, Place::Test(self.tc_id, field), why, remedy)
    }

    /// Whether a field that the mode does not have is absent.
    fn absent(&self, field: &'static str, absent: bool) -> Result<(), DocumentError> {
        let why = "tests of this mode have no such field";
        if absent { Ok(()) } else { Err(self.wrong(field, why, "leave the field out, or correct the mode")) }
    }

    fn check(mut self) -> Result<Vector, DocumentError> {
        if self.msg.0.len() != self.ct.0.len() {
            let why = "its length is not that of the message";
            return Err(self.wrong("ct", why, "leave padding out, and put the tag into `tag`"));
        }
        let sealed = matches!(self.mode, Mode::Gcm | Mode::Aead);
        self.absent("aad", sealed || self.aad.0.is_empty())?;
        self.absent("tag", sealed || self.tag.0.is_empty())?;
        self.absent("iv", !matches!(self.mode, Mode::Block) || self.iv.0.is_empty())?;
        self.absent("offset", matches!(self.mode, Mode::Stream) || self.offset == 0)?;
        let case = match self.mode {
            Mode::Block => {
                self.whole_blocks(8)?;
                if self.msg.0.is_empty() {
                    return Err(self.wrong("msg", "it is empty", "give at least one block"));
                }
                let (msg, ct) = self.texts();
                Case::Block { msg, ct }
            }
            Mode::Ctr => {
                let counter = self.iv("a counter block has 16 octets")?;
                let (msg, ct) = self.texts();
                Case::Ctr { counter, msg, ct }
            }
            Mode::Cbc => {
                let block = self.iv.0.len();
                if !matches!(block, 8 | 16) {
                    let why = "an IV has as many octets as a block: 8 or 16";
                    return Err(self.wrong("iv", why, "give the IV of this mode"));
                }
                self.whole_blocks(block)?;
                let (msg, ct) = self.texts();
                Case::Cbc { iv: std::mem::take(&mut self.iv.0), msg, ct }
            }
            Mode::Gcm => Case::Gcm(self.sealed(&[16])?),
            Mode::Stream => {
                let nonce = self.iv("a nonce has 12 octets")?;
                let len = u64::try_from(self.msg.0.len()).unwrap_or(u64::MAX);
                if self.offset.checked_add(len).is_none() {
                    let why = "the message would end behind octet 2^64 of the key stream";
                    return Err(self.wrong("offset", why, "choose a smaller offset"));
                }
                let (msg, ct) = self.texts();
                Case::Stream { nonce, offset: self.offset, msg, ct }
            }
            Mode::Aead => Case::Aead(self.sealed(&[8, 12, 16])?),
        };
        let valid = self.result == Verdict::Valid;
        Ok(Vector { tc_id: self.tc_id, key: Zeroizing::new(self.key.0), case, valid })
    }

    /// The messages, of which nothing is left here.
    fn texts(&mut self) -> (Vec<u8>, Vec<u8>) {
        (std::mem::take(&mut self.msg.0), std::mem::take(&mut self.ct.0))
    }

    fn whole_blocks(&self, block: usize) -> Result<(), DocumentError> {
        if self.msg.0.len().is_multiple_of(block) {
            return Ok(());
        }
        Err(self.wrong("msg", "it is no multiple of the block", "give whole blocks"))
    }

    fn iv<const N: usize>(&self, why: &'static str) -> Result<[u8; N], DocumentError> {
        let iv = self.iv.0.as_slice().try_into();
        iv.map_err(|_| self.wrong("iv", why, "give the octets that this mode begins with"))
    }

    fn sealed(&mut self, tags: &[usize]) -> Result<Sealed, DocumentError> {
        let nonce = self.iv("a nonce has 12 octets")?;
        if !tags.contains(&self.tag.0.len()) {
            let why = "a tag has 16 octets for gcm, and 8, 12 or 16 for aead";
            return Err(self.wrong("tag", why, "give the whole tag"));
        }
        let (msg, ct) = self.texts();
        let (aad, tag) = (std::mem::take(&mut self.aad.0), std::mem::take(&mut self.tag.0));
        Ok(Sealed { nonce, aad, msg, ct, tag })
    }
}
