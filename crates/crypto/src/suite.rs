//! The suites by name, with the lengths that the wire and the key need.
//!
//! A suite is a cipher and an integrity algorithm. A combined-mode cipher (GCM, CCM, ChaCha20-Poly1305) brings its own
//! integrity; every other cipher needs one, so that encryption without integrity cannot be written down
//! (RFC 8221 section 4).
//!
//! Legacy, by RFC 8221 sections 5 and 6: DES (MUST NOT), 3DES (SHOULD NOT), HMAC-MD5 (MUST NOT). HMAC-SHA-1 is MUST-: it
//! stays.

use std::fmt;
use std::str::FromStr;

use crate::mode::{CipherRow, CustomMode};

macro_rules! table {
    (
        $(#[$doc:meta])* $name:ident, $row:ident, $rows:ident;
        $($variant:ident $word:literal $source:literal [$($field:ident $value:expr),*];)*
        $(=> $(#[$own_doc:meta])* $own:ident($mode:ty);)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $(#[doc = $source] $variant,)*
            $($(#[$own_doc])* $own($mode),)?
        }

        impl $name {
            /// The standard ones, in the order of the table.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The word for it in configuration and commands.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $word,)* $($name::$own(own) => own.word(),)? }
            }

            /// The document that defines it.
            pub const fn source(self) -> &'static str {
                match self { $($name::$variant => $source,)* $($name::$own(_) => "a cipher of one's own",)? }
            }

            const fn row(self) -> $row {
                match self {
                    $($name::$variant => $row { $($field: $value),* },)*
                    $($name::$own(own) => own.row(),)?
                }
            }
        }
    };
}

table! {
    /// How a packet is made unreadable.
    Cipher, CipherRow, CIPHERS;
    Null "null" "RFC 2410" [key 0, salt 0, iv 0, block 1, icv 0];
    Aes128Gcm16 "aes128gcm" "RFC 4106" [key 16, salt 4, iv 8, block 1, icv 16];
    Aes192Gcm16 "aes192gcm" "RFC 4106" [key 24, salt 4, iv 8, block 1, icv 16];
    Aes256Gcm16 "aes256gcm" "RFC 4106" [key 32, salt 4, iv 8, block 1, icv 16];
    Aes128Gcm12 "aes128gcm12" "RFC 4106" [key 16, salt 4, iv 8, block 1, icv 12];
    Aes192Gcm12 "aes192gcm12" "RFC 4106" [key 24, salt 4, iv 8, block 1, icv 12];
    Aes256Gcm12 "aes256gcm12" "RFC 4106" [key 32, salt 4, iv 8, block 1, icv 12];
    Aes128Gcm8 "aes128gcm8" "RFC 4106" [key 16, salt 4, iv 8, block 1, icv 8];
    Aes192Gcm8 "aes192gcm8" "RFC 4106" [key 24, salt 4, iv 8, block 1, icv 8];
    Aes256Gcm8 "aes256gcm8" "RFC 4106" [key 32, salt 4, iv 8, block 1, icv 8];
    Aes128Ccm16 "aes128ccm" "RFC 4309" [key 16, salt 3, iv 8, block 1, icv 16];
    Aes192Ccm16 "aes192ccm" "RFC 4309" [key 24, salt 3, iv 8, block 1, icv 16];
    Aes256Ccm16 "aes256ccm" "RFC 4309" [key 32, salt 3, iv 8, block 1, icv 16];
    Aes128Ccm12 "aes128ccm12" "RFC 4309" [key 16, salt 3, iv 8, block 1, icv 12];
    Aes192Ccm12 "aes192ccm12" "RFC 4309" [key 24, salt 3, iv 8, block 1, icv 12];
    Aes256Ccm12 "aes256ccm12" "RFC 4309" [key 32, salt 3, iv 8, block 1, icv 12];
    Aes128Ccm8 "aes128ccm8" "RFC 4309" [key 16, salt 3, iv 8, block 1, icv 8];
    Aes192Ccm8 "aes192ccm8" "RFC 4309" [key 24, salt 3, iv 8, block 1, icv 8];
    Aes256Ccm8 "aes256ccm8" "RFC 4309" [key 32, salt 3, iv 8, block 1, icv 8];
    ChaCha20Poly1305 "chacha20poly1305" "RFC 7634" [key 32, salt 4, iv 8, block 1, icv 16];
    Aes128Cbc "aes128cbc" "RFC 3602" [key 16, salt 0, iv 16, block 16, icv 0];
    Aes192Cbc "aes192cbc" "RFC 3602" [key 24, salt 0, iv 16, block 16, icv 0];
    Aes256Cbc "aes256cbc" "RFC 3602" [key 32, salt 0, iv 16, block 16, icv 0];
    Aes128Ctr "aes128ctr" "RFC 3686" [key 16, salt 4, iv 8, block 1, icv 0];
    Aes192Ctr "aes192ctr" "RFC 3686" [key 24, salt 4, iv 8, block 1, icv 0];
    Aes256Ctr "aes256ctr" "RFC 3686" [key 32, salt 4, iv 8, block 1, icv 0];
    Camellia128Cbc "camellia128cbc" "RFC 4312" [key 16, salt 0, iv 16, block 16, icv 0];
    Camellia192Cbc "camellia192cbc" "RFC 4312" [key 24, salt 0, iv 16, block 16, icv 0];
    Camellia256Cbc "camellia256cbc" "RFC 4312" [key 32, salt 0, iv 16, block 16, icv 0];
    TripleDesCbc "3des" "RFC 2451" [key 24, salt 0, iv 8, block 8, icv 0];
    DesCbc "des" "RFC 2405" [key 8, salt 0, iv 8, block 8, icv 0];
    =>
        /// A mode of a cipher of one's own, as a catalogue has it ([`crate::Suites`]).
        Custom(CustomMode);
}

/// The lengths of an integrity algorithm in octets: key, salt behind it, explicit IV, ICV.
struct IntegrityRow {
    key: usize,
    salt: usize,
    iv: usize,
    icv: usize,
}

table! {
    /// How a packet is made unforgeable.
    Integrity, IntegrityRow, INTEGRITIES;
    Combined "combined" "the cipher's own" [key 0, salt 0, iv 0, icv 0];
    HmacSha256 "sha256" "RFC 4868: HMAC-SHA-256-128" [key 32, salt 0, iv 0, icv 16];
    HmacSha384 "sha384" "RFC 4868: HMAC-SHA-384-192" [key 48, salt 0, iv 0, icv 24];
    HmacSha512 "sha512" "RFC 4868: HMAC-SHA-512-256" [key 64, salt 0, iv 0, icv 32];
    HmacSha1 "sha1" "RFC 2404: HMAC-SHA-1-96" [key 20, salt 0, iv 0, icv 12];
    AesXcbc "aesxcbc" "RFC 3566: AES-XCBC-MAC-96" [key 16, salt 0, iv 0, icv 12];
    AesCmac "aescmac" "RFC 4494: AES-CMAC-96" [key 16, salt 0, iv 0, icv 12];
    Aes128Gmac "aes128gmac" "RFC 4543" [key 16, salt 4, iv 8, icv 16];
    Aes192Gmac "aes192gmac" "RFC 4543" [key 24, salt 4, iv 8, icv 16];
    Aes256Gmac "aes256gmac" "RFC 4543" [key 32, salt 4, iv 8, icv 16];
    HmacMd5 "md5" "RFC 2403: HMAC-MD5-96" [key 16, salt 0, iv 0, icv 12];
}

impl Cipher {
    /// Whether it brings its own integrity.
    pub const fn is_combined(self) -> bool {
        self.row().icv > 0
    }

    /// The length of the key in octets, without salt.
    pub const fn key_len(self) -> usize {
        self.row().key
    }

    /// The length in octets of the salt that follows the key in keying material.
    pub const fn salt_len(self) -> usize {
        self.row().salt
    }

    /// The length of the explicit IV in octets.
    pub const fn iv_len(self) -> usize {
        self.row().iv
    }
}

impl Integrity {
    /// The length of the key in octets, without salt.
    pub const fn key_len(self) -> usize {
        self.row().key
    }

    /// The length in octets of the salt that follows the key in keying material.
    pub const fn salt_len(self) -> usize {
        self.row().salt
    }

    /// The length in octets of the explicit IV, which stands in front of the ICV in AH, and in front of the payload in
    /// ESP.
    pub const fn iv_len(self) -> usize {
        self.row().iv
    }

    /// The length of the ICV in octets.
    pub const fn icv_len(self) -> usize {
        self.row().icv
    }

    /// The length of the keying material in octets: key and salt.
    pub const fn keymat_len(self) -> usize {
        self.key_len() + self.salt_len()
    }

    /// The status that RFC 8221 section 6 gives the algorithm if it is legacy.
    pub const fn legacy_status(self) -> Option<&'static str> {
        match self {
            Integrity::HmacMd5 => Some("HMAC-MD5 MUST NOT be used"),
            _ => None,
        }
    }
}

/// A suite that an association may name: a cipher with integrity.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SuiteId {
    cipher: Cipher,
    integrity: Integrity,
}

impl SuiteId {
    /// AES-128-GCM with a 16-octet ICV.
    pub const AES_128_GCM: SuiteId = SuiteId::combined(Cipher::Aes128Gcm16);
    /// AES-256-GCM with a 16-octet ICV.
    pub const AES_256_GCM: SuiteId = SuiteId::combined(Cipher::Aes256Gcm16);
    /// ChaCha20-Poly1305 with a 16-octet ICV.
    pub const CHACHA20_POLY1305: SuiteId = SuiteId::combined(Cipher::ChaCha20Poly1305);

    const fn combined(cipher: Cipher) -> SuiteId {
        SuiteId { cipher, integrity: Integrity::Combined }
    }

    /// The suite of these two; `None` if there would be no integrity, or two, or an explicit IV for each.
    pub const fn new(cipher: Cipher, integrity: Integrity) -> Option<SuiteId> {
        let combined = matches!(integrity, Integrity::Combined);
        let two_ivs = cipher.iv_len() > 0 && integrity.iv_len() > 0;
        if cipher.is_combined() != combined || two_ivs {
            return None;
        }
        Some(SuiteId { cipher, integrity })
    }

    /// The suite that only authenticates.
    pub const fn authenticating(integrity: Integrity) -> Option<SuiteId> {
        SuiteId::new(Cipher::Null, integrity)
    }

    /// The standard suites, all of them. A catalogue has those of ciphers of one's own as well ([`crate::Suites::all`]).
    pub fn all() -> impl Iterator<Item = SuiteId> {
        let pairs = Cipher::ALL.iter().flat_map(|c| Integrity::ALL.iter().map(move |i| (*c, *i)));
        pairs.filter_map(|(cipher, integrity)| SuiteId::new(cipher, integrity))
    }

    /// The cipher of the suite.
    pub const fn cipher(self) -> Cipher {
        self.cipher
    }

    /// The integrity algorithm of the suite.
    pub const fn integrity(self) -> Integrity {
        self.integrity
    }

    /// The mode of a cipher of one's own that the suite is made of; `None` for a standard suite.
    pub const fn custom(self) -> Option<CustomMode> {
        match self.cipher {
            Cipher::Custom(mode) => Some(mode),
            _ => None,
        }
    }

    /// Whether integrity rests on a cipher of one's own and on nothing else, so that policy must say `alone`.
    pub const fn is_alone(self) -> bool {
        match self.cipher {
            Cipher::Custom(mode) => mode.kind().is_alone(),
            _ => false,
        }
    }

    /// Whether it hides the payload.
    pub const fn encrypts(self) -> bool {
        !matches!(self.cipher, Cipher::Null)
    }

    /// Whether RFC 8221 forbids a part of it or advises against it; present so that the papers can be repeated.
    pub const fn is_legacy(self) -> bool {
        self.legacy_status().is_some()
    }

    /// The status that RFC 8221 gives the part of the suite that is legacy.
    pub const fn legacy_status(self) -> Option<&'static str> {
        match self.cipher {
            Cipher::DesCbc => Some("DES MUST NOT be implemented"),
            Cipher::TripleDesCbc => Some("3DES SHOULD NOT be implemented"),
            _ => self.integrity.legacy_status(),
        }
    }

    /// The length of the explicit IV on the wire, in octets.
    pub const fn iv_len(self) -> usize {
        self.cipher.iv_len() + self.integrity.iv_len()
    }

    /// The length of the integrity check value on the wire, in octets.
    pub const fn icv_len(self) -> usize {
        self.cipher.row().icv + self.integrity.icv_len()
    }

    /// The number of octets of which the length of the encrypted part is a multiple.
    pub const fn block_len(self) -> usize {
        self.cipher.row().block
    }

    /// The length of the keying material in octets: cipher key, its salt, integrity key, its salt (RFC 4301 section
    /// 4.5.2 puts the cipher's bits first).
    pub const fn keymat_len(self) -> usize {
        self.cipher_keymat_len() + self.integrity.keymat_len()
    }

    /// The length in octets of the part of the keying material that is the cipher's.
    pub const fn cipher_keymat_len(self) -> usize {
        self.cipher.key_len() + self.cipher.salt_len()
    }

    /// Repeating a (key, nonce) pair breaks the suite: its keys must not outlive the daemon.
    pub const fn nonce_is_counter(self) -> bool {
        match self.cipher {
            Cipher::Aes128Ctr | Cipher::Aes192Ctr | Cipher::Aes256Ctr => true,
            Cipher::Custom(mode) => mode.kind().nonce_is_counter(),
            _ => self.cipher.is_combined() || self.integrity.iv_len() > 0,
        }
    }
}

impl fmt::Display for SuiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cipher.name())?;
        if self.integrity == Integrity::Combined { Ok(()) } else { write!(f, "-{}", self.integrity.name()) }
    }
}

impl fmt::Debug for SuiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A name that is no suite, and what it lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownSuite {
    /// No cipher has this name.
    #[error("no cipher is called {0:?}; known: {known}", known = names(Cipher::ALL.iter().map(|c| c.name())))]
    Cipher(String),
    /// No cipher has this name, and there are ciphers of one's own.
    #[error(
        "no cipher is called {word:?}; known: {standard}; of one's own: {own}",
        standard = names(Cipher::ALL.iter().map(|c| c.name()))
    )]
    CipherOrOwn {
        /// The word that is no cipher's.
        word: String,
        /// The words of the configured ciphers' modes, with commas.
        own: String,
    },
    /// The name is that of a cipher of one's own, without a mode.
    #[error("{name} is a cipher; a suite names its mode: {modes}")]
    NoMode {
        /// The name of the cipher.
        name: &'static str,
        /// Examples of suites, with commas.
        modes: String,
    },
    /// The name is that of a suite that rests on the configured cipher alone, and the configuration does not allow that.
    #[error(
        "{0} rests on {1} alone, also for integrity; set `alone = true` in its [[cipher]] table, or use {2}"
    )]
    Alone(&'static str, &'static str, String),
    /// No integrity algorithm has this name.
    #[error("no integrity algorithm is called {0:?}; known: {known}", known = integrities())]
    Integrity(String),
    /// The name asks for encryption without integrity.
    #[error(
        "{0} alone encrypts without integrity, which is always refused; write for example {0}-sha256, or use aes128gcm"
    )]
    NoIntegrity(&'static str),
    /// The name asks for an integrity algorithm beside a combined cipher.
    #[error("{0} brings its own integrity; leave the second algorithm out")]
    TwiceIntegrity(&'static str),
    /// Cipher and integrity algorithm both have an explicit IV.
    #[error(
        "{1} does not go with {0} in one suite; use {1} with null, or a combined cipher such as aes128gcm"
    )]
    TwoIvs(&'static str, &'static str),
}

fn names(all: impl Iterator<Item = &'static str>) -> String {
    all.collect::<Vec<_>>().join(", ")
}

fn integrities() -> String {
    names(Integrity::ALL.iter().filter(|i| **i != Integrity::Combined).map(|i| i.name()))
}

impl FromStr for SuiteId {
    type Err = UnknownSuite;

    /// `CIPHER`, `CIPHER-INTEGRITY`, or an integrity algorithm alone (with the null cipher). `16` behind GCM and CCM may be
    /// written or not.
    fn from_str(text: &str) -> Result<Self, UnknownSuite> {
        let (cipher, integrity) = match text.split_once('-') {
            Some((cipher, integrity)) => (cipher, Some(integrity)),
            None if find_integrity(text).is_some() => ("null", Some(text)),
            None => (text, None),
        };
        let cipher = find_cipher(cipher).ok_or_else(|| UnknownSuite::Cipher(quoted(cipher)))?;
        with_integrity(cipher, integrity)
    }
}

/// The suite of a cipher and the word behind it.
pub(crate) fn with_integrity(cipher: Cipher, integrity: Option<&str>) -> Result<SuiteId, UnknownSuite> {
    let Some(word) = integrity else {
        let combined = SuiteId::new(cipher, Integrity::Combined);
        return combined.ok_or(UnknownSuite::NoIntegrity(cipher.name()));
    };
    if cipher.is_combined() {
        return Err(UnknownSuite::TwiceIntegrity(cipher.name()));
    }
    let integrity = find_integrity(word).ok_or_else(|| UnknownSuite::Integrity(quoted(word)))?;
    SuiteId::new(cipher, integrity).ok_or(UnknownSuite::TwoIvs(cipher.name(), integrity.name()))
}

/// A word as an error may repeat it: what is longer than any name could be a key in the wrong place.
fn quoted(word: &str) -> String {
    const LONGEST: usize = 20;
    if word.len() <= LONGEST { word.to_owned() } else { "...".to_owned() }
}

fn find_cipher(word: &str) -> Option<Cipher> {
    let word = match word.strip_suffix("16") {
        Some(short) if short.ends_with("gcm") || short.ends_with("ccm") => short,
        _ => word,
    };
    Cipher::ALL.iter().copied().find(|c| c.name() == word)
}

fn find_integrity(word: &str) -> Option<Integrity> {
    Integrity::ALL.iter().copied().find(|i| i.name() == word && *i != Integrity::Combined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        let mut count = 0;
        for id in SuiteId::all() {
            assert_eq!(id.to_string().parse(), Ok(id));
            count += 1;
        }
        // Combined modes; ciphers without an IV of their own with 10; the other eleven separate ciphers with 7.
        assert_eq!(count, 19 + 10 + 11 * 7);
        assert_eq!("aes128gcm16".parse(), Ok(SuiteId::AES_128_GCM));
        assert_eq!("sha256".parse(), Ok(SuiteId::authenticating(Integrity::HmacSha256).unwrap()));
    }

    #[test]
    fn a_suite_without_integrity_has_no_name() {
        for cipher in Cipher::ALL.iter().filter(|c| !c.is_combined()) {
            assert_eq!(SuiteId::new(*cipher, Integrity::Combined), None);
            assert_eq!(cipher.name().parse::<SuiteId>(), Err(UnknownSuite::NoIntegrity(cipher.name())));
        }
        assert!(matches!("aes128gcm-sha256".parse::<SuiteId>(), Err(UnknownSuite::TwiceIntegrity(_))));
        assert!(matches!("aes128ctr-aes128gmac".parse::<SuiteId>(), Err(UnknownSuite::TwoIvs(..))));
        assert!(matches!("rot13".parse::<SuiteId>(), Err(UnknownSuite::Cipher(_))));
        assert!(matches!("null-crc32".parse::<SuiteId>(), Err(UnknownSuite::Integrity(_))));
    }

    #[test]
    fn lengths_of_the_standards() {
        let lengths = |name: &str| {
            let id: SuiteId = name.parse().unwrap();
            (id.keymat_len(), id.iv_len(), id.block_len(), id.icv_len())
        };
        assert_eq!(lengths("aes128gcm"), (20, 8, 1, 16));
        assert_eq!(lengths("aes256ccm8"), (35, 8, 1, 8));
        assert_eq!(lengths("aes128cbc-sha256"), (48, 16, 16, 16));
        assert_eq!(lengths("aes256ctr-sha512"), (100, 8, 1, 32));
        assert_eq!(lengths("null-aes192gmac"), (28, 8, 1, 16));
        assert_eq!(lengths("3des-sha1"), (44, 8, 8, 12));
    }
}
