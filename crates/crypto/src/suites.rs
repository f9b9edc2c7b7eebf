//! The catalogue of suites: the standard ones, and those that configured ciphers of one's own make.
//!
//! Everything that reads a suite's name is handed a catalogue; there is no global one. The rows of ciphers of one's own
//! live as long as the process: they are few ([`Suites::MOST`]), and a suite stays a value that can be copied.

use crate::custom::{CustomDescription, DescriptionError, NONCE_LEN, Primitive};
use crate::mode::{CipherRow, Row};
use crate::suite::with_integrity;
use crate::{Cipher, CustomMode, Integrity, ModeKind, SuiteId, UnknownSuite};

/// Octets of the salt in front of a sequence number in a nonce (RFC 3686 section 4, RFC 4106 section 4).
const SALT: usize = 4;
/// Octets of an explicit IV that is the sequence number.
const COUNTER_IV: usize = 8;
const _: () = assert!(SALT + COUNTER_IV == NONCE_LEN);
/// Octets of the key of the outer cipher of a cascade: AES-256-GCM (RFC 4106 section 8.1).
const OUTER_KEY: usize = 32;
/// Octets of the ICV of AES-256-GCM and of GCM over a block cipher of one's own.
const GCM_ICV: usize = 16;

/// A cipher of one's own as the catalogue holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    description: CustomDescription,
    name: &'static str,
    alone: bool,
    modes: Vec<CustomMode>,
}

/// The standard suites, and those of configured ciphers of one's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suites {
    own: Vec<Entry>,
}

/// The reason why a cipher cannot enter a catalogue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The description cannot be used.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// The name is taken, or a suite of it would be.
    #[error(
        "{name} and {other} cannot both be configured: both make the suite {word}; give one of them another name"
    )]
    Twice {
        /// The name of the cipher that does not enter.
        name: String,
        /// The name of the cipher that is there.
        other: &'static str,
        /// The word that both would have.
        word: String,
    },
    /// A private transform id is taken, or no private one.
    #[error(
        "transform ids {first} to {last} of {name}: {why}; give it another `transform_id` in its manifest"
    )]
    TransformId {
        /// The name of the cipher that does not enter.
        name: String,
        /// The first of the ids.
        first: u16,
        /// The last of the ids.
        last: u32,
        /// What is wrong with them.
        why: String,
    },
    /// There are too many ciphers.
    #[error("{name} is one cipher too many: {most} can be configured", most = Suites::MOST)]
    Many {
        /// The name of the cipher that does not enter.
        name: String,
    },
}

impl Suites {
    /// Ciphers of one's own that can be configured.
    pub const MOST: usize = 16;
    /// Transform ids that a cipher takes from its base on: CTR, CBC, GCM, cascade.
    pub const IDS: u16 = 4;
    /// The first id for private use (RFC 7296 section 3.3.2).
    pub const FIRST_ID: u16 = 1024;

    /// The standard suites alone.
    pub const fn standard() -> Suites {
        Suites { own: Vec::new() }
    }

    /// Add the suites of a cipher. `alone`: those that rest on the cipher alone, too. `transform_id` is the first of
    /// the private ids of its transforms.
    ///
    /// # Errors
    /// [`RegisterError`]: nothing has changed.
    pub fn register(
        &mut self,
        description: &CustomDescription,
        transform_id: u16,
        alone: bool,
    ) -> Result<(), RegisterError> {
        description.check()?;
        let name = || description.name.clone();
        if self.own.len() >= Suites::MOST {
            return Err(RegisterError::Many { name: name() });
        }
        self.check_ids(&description.name, transform_id)?;
        let kinds = kinds(description.primitive);
        let words: Vec<String> = kinds.iter().map(|(kind, _)| word(description, *kind)).collect();
        for other in &self.own {
            let theirs = other.modes.iter().map(|mode| mode.word());
            if let Some(word) = theirs
                .chain([other.name])
                .find(|&taken| taken == description.name || words.iter().any(|word| word == taken))
            {
                return Err(RegisterError::Twice { name: name(), other: other.name, word: word.to_owned() });
            }
        }
        let own_name: &'static str = name().leak();
        let modes = kinds.into_iter().zip(words).map(|((kind, lengths), word)| {
            let row = Row {
                word: word.leak(),
                cipher: own_name,
                kind,
                block_len: match description.primitive {
                    Primitive::Block { block_len } => block_len,
                    Primitive::Stream | Primitive::Aead { .. } => 1,
                },
                lengths: CipherRow { key: lengths.key + description.key_len, ..lengths },
                transform_id: transform_id + kind.id_offset(),
                most_octets: description.most_octets(),
            };
            CustomMode::new(row)
        });
        self.own.push(Entry {
            description: description.clone(),
            name: own_name,
            alone,
            modes: modes.collect(),
        });
        Ok(())
    }

    fn check_ids(&self, name: &str, first: u16) -> Result<(), RegisterError> {
        let last = u32::from(first) + u32::from(Suites::IDS) - 1;
        let fault = |why| Err(RegisterError::TransformId { name: name.to_owned(), first, last, why });
        if first < Suites::FIRST_ID || last > u32::from(u16::MAX) {
            return fault("private ids are 1024 to 65535 (RFC 7296 section 3.3.2)".to_owned());
        }
        let taken = self.own.iter().find(|other| {
            let theirs = other.modes.iter().map(|mode| mode.transform_id() - mode.kind().id_offset()).next();
            theirs.is_some_and(|theirs| theirs.abs_diff(first) < Suites::IDS)
        });
        match taken {
            Some(other) => fault(format!("{} has some of them", other.name)),
            None => Ok(()),
        }
    }

    /// The descriptions of the ciphers of one's own, in the order in which they were added.
    pub fn own(&self) -> impl Iterator<Item = &CustomDescription> {
        self.own.iter().map(|own| &own.description)
    }

    /// The modes of ciphers of one's own, also those that may not be used.
    pub fn all_modes(&self) -> impl Iterator<Item = CustomMode> {
        self.own.iter().flat_map(|own| own.modes.iter().copied())
    }

    /// The modes of ciphers of one's own that may be used.
    pub fn modes(&self) -> impl Iterator<Item = CustomMode> {
        let usable = |own: &Entry, mode: CustomMode| own.alone || !mode.kind().is_alone();
        self.own.iter().flat_map(move |own| own.modes.iter().copied().filter(move |mode| usable(own, *mode)))
    }

    /// Every suite: the standard ones, then those of ciphers of one's own that may be used.
    pub fn all(&self) -> impl Iterator<Item = SuiteId> {
        let own = self.modes().flat_map(|mode| {
            let cipher = Cipher::Custom(mode);
            Integrity::ALL.iter().filter_map(move |integrity| SuiteId::new(cipher, *integrity))
        });
        SuiteId::all().chain(own)
    }

    /// The suite of this name.
    ///
    /// # Errors
    /// [`UnknownSuite`], which lists what is known.
    pub fn find(&self, text: &str) -> Result<SuiteId, UnknownSuite> {
        for own in &self.own {
            if let Some(mode) = own.modes.iter().find(|mode| mode.word() == text) {
                return self.checked(own, *mode, None);
            }
            if text == own.name {
                return Err(UnknownSuite::NoMode { name: own.name, modes: examples(own) });
            }
        }
        let (word, integrity) = match text.split_once('-') {
            Some((word, integrity)) => (word, Some(integrity)),
            None => (text, None),
        };
        let found = self
            .own
            .iter()
            .find_map(|own| own.modes.iter().find(|mode| mode.word() == word).map(|mode| (own, *mode)));
        if let Some((own, mode)) = found {
            return self.checked(own, mode, integrity);
        }
        match text.parse() {
            Err(UnknownSuite::Cipher(word)) if !self.own.is_empty() => {
                let words: Vec<_> =
                    self.own.iter().flat_map(|own| &own.modes).map(|mode| mode.word()).collect();
                Err(UnknownSuite::CipherOrOwn { word, own: words.join(", ") })
            }
            found => found,
        }
    }

    fn checked(
        &self,
        own: &Entry,
        mode: CustomMode,
        integrity: Option<&str>,
    ) -> Result<SuiteId, UnknownSuite> {
        if mode.kind().is_alone() && !own.alone {
            return Err(UnknownSuite::Alone(mode.word(), own.name, examples(own)));
        }
        with_integrity(Cipher::Custom(mode), integrity)
    }
}

/// Suites of a cipher that may be used, as the end of a sentence.
fn examples(own: &Entry) -> String {
    let usable = own.modes.iter().filter(|mode| own.alone || !mode.kind().is_alone());
    let suites: Vec<String> = usable
        .map(|mode| match mode.kind() {
            ModeKind::Ctr | ModeKind::Cbc | ModeKind::Stream => format!("{}-sha256", mode.word()),
            ModeKind::Gcm | ModeKind::Aead | ModeKind::Cascade => mode.word().to_owned(),
        })
        .collect();
    if suites.is_empty() { "a cipher that is no combined mode".to_owned() } else { suites.join(", ") }
}

/// What ESP makes of a primitive, with the lengths beside those of the cipher's own key.
fn kinds(primitive: Primitive) -> Vec<(ModeKind, CipherRow)> {
    let counter = CipherRow { key: 0, salt: SALT, iv: COUNTER_IV, block: 1, icv: 0 };
    // The outer key stands behind the cipher's own; the salts of both follow.
    let cascade = CipherRow { key: OUTER_KEY, salt: 2 * SALT, icv: GCM_ICV, ..counter };
    match primitive {
        Primitive::Block { block_len: block @ 8 } => {
            vec![(ModeKind::Cbc, CipherRow { key: 0, salt: 0, iv: block, block, icv: 0 })]
        }
        Primitive::Block { block_len: block } => vec![
            (ModeKind::Ctr, counter),
            (ModeKind::Cbc, CipherRow { key: 0, salt: 0, iv: block, block, icv: 0 }),
            (ModeKind::Gcm, CipherRow { icv: GCM_ICV, ..counter }),
            (ModeKind::Cascade, cascade),
        ],
        Primitive::Stream => vec![(ModeKind::Stream, counter), (ModeKind::Cascade, cascade)],
        Primitive::Aead { tag_len } => vec![(ModeKind::Aead, CipherRow { icv: tag_len, ..counter })],
    }
}

/// The word of a mode. That of a cascade has its outer cipher in it.
fn word(description: &CustomDescription, kind: ModeKind) -> String {
    let name = &description.name;
    match kind {
        ModeKind::Ctr => format!("{name}ctr"),
        ModeKind::Cbc => format!("{name}cbc"),
        ModeKind::Gcm => format!("{name}gcm"),
        ModeKind::Stream | ModeKind::Aead => name.to_owned(),
        ModeKind::Cascade if description.primitive == Primitive::Stream => format!("{name}-aes256gcm"),
        ModeKind::Cascade => format!("{name}ctr-aes256gcm"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cipher(name: &str, primitive: Primitive) -> CustomDescription {
        CustomDescription {
            name: name.to_owned(),
            version: "1".to_owned(),
            vendor: "test".to_owned(),
            primitive,
            key_len: 64,
            max_octets: None,
        }
    }

    const BLOCK: Primitive = Primitive::Block { block_len: 16 };

    #[test]
    fn names_lengths_and_ids_of_a_block_cipher() {
        let mut suites = Suites::standard();
        suites.register(&cipher("maes512", BLOCK), 40000, true).unwrap();
        // Key, salt, explicit IV, block, ICV, transform id. 32 + 4 octets of a cascade are the outer cipher's.
        for (name, want) in [
            ("maes512ctr-sha256", (64 + 4 + 32, 8, 1, 16, 40000)),
            ("maes512cbc-sha512", (64 + 64, 16, 16, 32, 40001)),
            ("maes512gcm", (64 + 4, 8, 1, 16, 40002)),
            ("maes512ctr-aes256gcm", (64 + 4 + 32 + 4, 8, 1, 16, 40003)),
        ] {
            let suite = suites.find(name).unwrap();
            let id = suite.custom().unwrap().transform_id();
            assert_eq!(
                (suite.keymat_len(), suite.iv_len(), suite.block_len(), suite.icv_len(), id),
                want,
                "{name}"
            );
            assert_eq!(suite.to_string(), name);
            assert_eq!(suites.find(&suite.to_string()), Ok(suite));
            assert!(suite.encrypts());
            assert_eq!(suite.nonce_is_counter(), !name.contains("cbc"));
        }
        let own = suites.all().filter(|suite| suite.custom().is_some());
        // Counter mode with the 7 integrity algorithms that have no IV, CBC alike, GCM, the cascade.
        assert_eq!(own.count(), 7 + 7 + 1 + 1);
        assert_eq!(suites.all().count(), SuiteId::all().count() + 16);
        let legacy = suites.find("maes512ctr-md5").unwrap();
        assert!(legacy.is_legacy() && suites.all().any(|suite| suite == legacy));
    }

    #[test]
    fn what_is_not_there_is_named() {
        let mut suites = Suites::standard();
        assert!(matches!(suites.find("maes512ctr-sha256"), Err(UnknownSuite::Cipher(_))));
        suites.register(&cipher("maes512", BLOCK), 40000, false).unwrap();
        suites.register(&cipher("flow", Primitive::Stream), 40004, false).unwrap();
        suites.register(&cipher("box1", Primitive::Aead { tag_len: 16 }), 40008, false).unwrap();
        suites.register(&cipher("old8", Primitive::Block { block_len: 8 }), 40012, false).unwrap();
        let refusal = |name: &str| suites.find(name).unwrap_err().to_string();
        assert!(refusal("maes512").contains("maes512ctr-sha256, maes512cbc-sha256, maes512ctr-aes256gcm"));
        assert!(refusal("maes512gcm").contains("alone = true"));
        assert!(refusal("box1").contains("alone = true"));
        assert!(refusal("maes512ctr").contains("without integrity"));
        assert!(refusal("flow").contains("without integrity"));
        assert!(refusal("maes513ctr-sha256").contains("of one's own: maes512ctr"));
        assert!(refusal("maes512ctr-crc32").contains("crc32"));
        assert!(refusal("maes512ctr-aes128gmac").contains("does not go with"));
        assert!(refusal("old8ctr-sha256").contains("no cipher is called"));
        assert_eq!(suites.find("old8cbc-sha256").unwrap().custom().unwrap().most_octets(), Some(8 << 20));
        assert!(suites.find("flow-sha256").is_ok());
        assert!(suites.find("flow-aes256gcm").is_ok());
        assert_eq!(suites.find("aes128gcm"), Ok(SuiteId::AES_128_GCM));
        let mut alone = Suites::standard();
        alone.register(&cipher("box1", Primitive::Aead { tag_len: 12 }), 40008, true).unwrap();
        assert_eq!(alone.find("box1").unwrap().icv_len(), 12);
    }

    #[test]
    fn names_and_ids_belong_to_one_cipher() {
        let mut suites = Suites::standard();
        for name in [
            "aes256",
            "camellia128",
            "3des",
            "sha256",
            "Maes",
            "a",
            "m-aes",
            "chacha20poly1305",
            "ring",
            "ab c",
        ] {
            assert!(suites.register(&cipher(name, BLOCK), 40000, false).is_err(), "{name}");
        }
        suites.register(&cipher("maes512", BLOCK), 40000, false).unwrap();
        let twice = suites.register(&cipher("maes512", BLOCK), 50000, false);
        assert!(matches!(twice, Err(RegisterError::Twice { .. })));
        let word = suites.register(&cipher("maes512ctr", Primitive::Stream), 50000, false);
        assert!(matches!(word, Err(RegisterError::Twice { .. })));
        for id in [39997, 40000, 40003, 0, 1023, 65533] {
            let taken = suites.register(&cipher("other", BLOCK), id, false);
            assert!(matches!(taken, Err(RegisterError::TransformId { .. })), "{id}");
        }
        for id in [1024, 39996, 40004, 65532] {
            suites.register(&cipher(&format!("other{id}"), BLOCK), id, false).unwrap();
        }
        for index in suites.own().count()..Suites::MOST {
            suites.register(&cipher(&format!("more{index}"), BLOCK), 2000 + 4 * index as u16, false).unwrap();
        }
        let many = suites.register(&cipher("more", BLOCK), 3000, false);
        assert!(matches!(many, Err(RegisterError::Many { .. })));
    }
}
