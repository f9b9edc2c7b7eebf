//! The algorithms of `-E`, `-A` and `-C` by their names in setkey, and their keys.

use crypto::{Cipher, CustomMode, Integrity, ModeKind, Secret, SuiteId, Suites};
use zeroize::Zeroizing;

use super::error::SetkeyError;
use super::token::Token;
use super::words::{Words, shown};
use crate::sa::SaProtocol;

/// The algorithms and keys that the options of one `add` said so far.
#[derive(Default)]
pub struct Algorithms {
    cipher: Option<(Family, Zeroizing<Vec<u8>>, u32)>,
    integrity: Option<(Integrity, Zeroizing<Vec<u8>>, u32)>,
    compression: bool,
}

/// A cipher family; the length of the key tells which member is meant.
#[derive(Clone, Copy, Debug)]
struct CipherName {
    name: &'static str,
    members: &'static [Cipher],
}

/// The ciphers that a name behind `-E` may mean.
#[derive(Clone, Debug)]
enum Family {
    /// The members of a standard family.
    Standard(CipherName),
    /// A mode of a cipher of one's own.
    Custom(String, CustomMode),
}

impl Family {
    /// The family of this name.
    fn find(text: &str, suites: &Suites) -> Option<Family> {
        let standard = CIPHERS.iter().find(|family| family.name == text).copied().map(Family::Standard);
        let custom = || suites.modes().map(custom).find(|(name, _)| name == text);
        standard.or_else(|| custom().map(|(name, mode)| Family::Custom(name, mode)))
    }

    fn name(&self) -> &str {
        match self {
            Family::Standard(family) => family.name,
            Family::Custom(name, _) => name,
        }
    }

    fn members(&self) -> Vec<Cipher> {
        match self {
            Family::Standard(family) => family.members.to_vec(),
            Family::Custom(_, mode) => vec![Cipher::Custom(*mode)],
        }
    }
}

/// A mode of a cipher of one's own, and its name here: the cipher, then the mode where there are several.
fn custom(mode: CustomMode) -> (String, CustomMode) {
    let cipher = mode.cipher();
    let name = match mode.kind() {
        ModeKind::Ctr => format!("{cipher}-ctr"),
        ModeKind::Cbc => format!("{cipher}-cbc"),
        ModeKind::Gcm => format!("{cipher}-gcm"),
        ModeKind::Stream | ModeKind::Aead => cipher.to_owned(),
        ModeKind::Cascade => match mode.word().strip_prefix(cipher) {
            Some(behind) => format!("{cipher}-{}", behind.trim_start_matches('-')),
            None => mode.word().to_owned(),
        },
    };
    (name, mode)
}

const CIPHERS: &[CipherName] = &[
    CipherName { name: "null", members: &[Cipher::Null] },
    CipherName { name: "des-cbc", members: &[Cipher::DesCbc] },
    CipherName { name: "3des-cbc", members: &[Cipher::TripleDesCbc] },
    CipherName { name: "aes-cbc", members: &[Cipher::Aes128Cbc, Cipher::Aes192Cbc, Cipher::Aes256Cbc] },
    CipherName { name: "rijndael-cbc", members: &[Cipher::Aes128Cbc, Cipher::Aes192Cbc, Cipher::Aes256Cbc] },
    CipherName {
        name: "camellia-cbc",
        members: &[Cipher::Camellia128Cbc, Cipher::Camellia192Cbc, Cipher::Camellia256Cbc],
    },
    CipherName { name: "aes-ctr", members: &[Cipher::Aes128Ctr, Cipher::Aes192Ctr, Cipher::Aes256Ctr] },
    CipherName {
        name: "aes-gcm-16",
        members: &[Cipher::Aes128Gcm16, Cipher::Aes192Gcm16, Cipher::Aes256Gcm16],
    },
    CipherName {
        name: "aes-gcm-12",
        members: &[Cipher::Aes128Gcm12, Cipher::Aes192Gcm12, Cipher::Aes256Gcm12],
    },
    CipherName { name: "aes-gcm-8", members: &[Cipher::Aes128Gcm8, Cipher::Aes192Gcm8, Cipher::Aes256Gcm8] },
    CipherName {
        name: "aes-ccm-16",
        members: &[Cipher::Aes128Ccm16, Cipher::Aes192Ccm16, Cipher::Aes256Ccm16],
    },
    CipherName {
        name: "aes-ccm-12",
        members: &[Cipher::Aes128Ccm12, Cipher::Aes192Ccm12, Cipher::Aes256Ccm12],
    },
    CipherName { name: "aes-ccm-8", members: &[Cipher::Aes128Ccm8, Cipher::Aes192Ccm8, Cipher::Aes256Ccm8] },
    CipherName { name: "chacha20-poly1305", members: &[Cipher::ChaCha20Poly1305] },
];

const INTEGRITIES: &[(&str, &[Integrity])] = &[
    ("hmac-md5", &[Integrity::HmacMd5]),
    ("hmac-sha1", &[Integrity::HmacSha1]),
    ("hmac-sha2-256", &[Integrity::HmacSha256]),
    ("hmac-sha256", &[Integrity::HmacSha256]),
    ("hmac-sha2-384", &[Integrity::HmacSha384]),
    ("hmac-sha384", &[Integrity::HmacSha384]),
    ("hmac-sha2-512", &[Integrity::HmacSha512]),
    ("hmac-sha512", &[Integrity::HmacSha512]),
    ("aes-xcbc-mac", &[Integrity::AesXcbc]),
    ("aes-cmac", &[Integrity::AesCmac]),
    ("aes-gmac", &[Integrity::Aes128Gmac, Integrity::Aes192Gmac, Integrity::Aes256Gmac]),
];

impl Algorithms {
    /// Read one option and its words.
    pub(super) fn read(
        &mut self,
        option: &str,
        words: &mut Words<'_, '_>,
        suites: &Suites,
    ) -> Result<(), SetkeyError> {
        let token = words.take("the algorithm")?;
        match option {
            "-E" => {
                let known = || {
                    let standard = CIPHERS.iter().map(|family| family.name.to_owned());
                    standard.chain(suites.modes().map(|mode| custom(mode).0))
                };
                let family = Family::find(token.text, suites).ok_or_else(|| unknown(token, known()))?;
                let key = key(words, family.name() == "null")?;
                self.cipher = Some((family, key, token.line));
            }
            "-A" => {
                let found = INTEGRITIES.iter().find(|(name, _)| *name == token.text);
                let (name, members) = *found
                    .ok_or_else(|| unknown(token, INTEGRITIES.iter().map(|(name, _)| (*name).to_owned())))?;
                let key = key(words, false)?;
                let member = members.iter().find(|m| m.keymat_len() == key.len());
                let lengths = members.iter().map(|m| m.keymat_len());
                let integrity = *member.ok_or_else(|| wrong_length(token.line, name, lengths, key.len()))?;
                self.integrity = Some((integrity, key, token.line));
            }
            _ => {
                if token.text != "deflate" {
                    return Err(unknown(token, ["deflate".to_owned()].into_iter()));
                }
                self.compression = true;
                // -R: no compression header on the wire, which only the kernel of its time knew.
                if let Some(raw) = words.peek().filter(|t| t.text == "-R") {
                    return Err(SetkeyError::at(
                        raw.line,
                        "-R (compression without its header) is not offered",
                    ));
                }
            }
        }
        Ok(())
    }

    /// The suite that the options make, with the keys one behind the other.
    pub(super) fn finish(
        self,
        protocol: SaProtocol,
        line: u32,
    ) -> Result<(Option<SuiteId>, Secret), SetkeyError> {
        let none = || (None, Secret::new(Vec::new()));
        match protocol {
            SaProtocol::IpComp if self.cipher.is_none() && self.integrity.is_none() => Ok(none()),
            SaProtocol::IpComp | SaProtocol::IpIp => {
                Err(SetkeyError::at(line, "ipcomp takes -C deflate and no keys"))
            }
            _ if self.compression => Err(SetkeyError::at(line, "-C belongs to ipcomp")),
            SaProtocol::Ah => match (self.cipher, self.integrity) {
                (None, Some((integrity, key, _))) => {
                    Ok((SuiteId::authenticating(integrity), Secret::new(key.to_vec())))
                }
                _ => Err(SetkeyError::at(line, "ah takes -A with an algorithm and a key, and no -E")),
            },
            SaProtocol::Esp => self.esp(line),
        }
    }

    fn esp(self, line: u32) -> Result<(Option<SuiteId>, Secret), SetkeyError> {
        let (cipher, mut keymat) = match self.cipher {
            None => (Cipher::Null, Zeroizing::new(Vec::new())),
            Some((family, key, line)) => {
                let len = |c: &Cipher| c.key_len() + c.salt_len();
                let members = family.members();
                let member = members.iter().find(|c| len(c) == key.len());
                let lengths = members.iter().map(len);
                (*member.ok_or_else(|| wrong_length(line, family.name(), lengths, key.len()))?, key)
            }
        };
        let integrity = match self.integrity {
            None => Integrity::Combined,
            Some((integrity, key, _)) => {
                // Made in one piece, so that no grown vector leaves a key behind.
                let mut both = Zeroizing::new(Vec::with_capacity(keymat.len() + key.len()));
                both.extend_from_slice(&keymat);
                both.extend_from_slice(&key);
                keymat = both;
                integrity
            }
        };
        let suite = SuiteId::new(cipher, integrity).ok_or_else(|| {
            let text = if cipher.is_combined() {
                "this cipher brings its own integrity: leave -A out"
            } else if integrity == Integrity::Combined {
                "encryption without integrity is always refused: add -A hmac-sha2-256 and a key of 32 octets"
            } else {
                "this integrity algorithm does not go with a cipher that has an IV: use -E null"
            };
            SetkeyError::at(line, text)
        })?;
        Ok((Some(suite), Secret::new(keymat.to_vec())))
    }
}

fn unknown(token: &Token<'_>, known: impl Iterator<Item = String>) -> SetkeyError {
    let known: Vec<_> = known.collect();
    SetkeyError::at(token.line, format!("{} is no algorithm here; known: {}", shown(token), known.join(", ")))
}

fn wrong_length(line: u32, name: &str, lengths: impl Iterator<Item = usize>, got: usize) -> SetkeyError {
    let lengths: Vec<_> = lengths.map(|n| n.to_string()).collect();
    SetkeyError::at(
        line,
        format!("a key for {name} has {} octets, salt included; this one has {got}", lengths.join(" or ")),
    )
}

/// Read a key: `0x` and hexadecimal digits, or a string in quotes whose characters are the key.
fn key(words: &mut Words<'_, '_>, optional: bool) -> Result<Zeroizing<Vec<u8>>, SetkeyError> {
    let none = match words.peek() {
        None => true,
        Some(token) => !token.quoted && !token.text.starts_with("0x"),
    };
    if optional && none {
        return Ok(Zeroizing::default());
    }
    let token = words.take("the key")?;
    if token.quoted {
        return Ok(Zeroizing::new(token.text.as_bytes().to_vec()));
    }
    let wrong = || {
        SetkeyError::at(
            token.line,
            "a key is 0x and an even number of hexadecimal digits, or a string in quotes",
        )
    };
    let digits = token.text.strip_prefix("0x").ok_or_else(wrong)?.as_bytes();
    let digit = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
    if digits.is_empty() || digits.len() % 2 != 0 || digits.iter().any(|c| digit(*c).is_none()) {
        return Err(wrong());
    }
    let mut octets = Zeroizing::new(Vec::with_capacity(digits.len() / 2));
    octets.extend(digits.chunks_exact(2).filter_map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)));
    Ok(octets)
}
