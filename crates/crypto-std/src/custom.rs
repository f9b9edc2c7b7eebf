//! What the host makes of a cipher of one's own (paper 004 section 7): CTR, CBC, GCM, key stream, combined mode and
//! cascade, as transforms of ESP.
//!
//! The cipher supplies blocks, a key stream or a combined mode; nonces, chaining, padding, integrity and the order of the
//! steps are written here once, for compiled-in ciphers, loaded libraries and worker processes alike. Where the host
//! authenticates, the cipher never sees an octet from the wire whose ICV was not verified.
//!
//! Keying material: key of the cipher, its salt, then key and salt of what authenticates (RFC 4301 section 4.5.2). The
//! host's key for integrity, and for the outer cipher of a cascade, is not used as it comes: it goes through
//! HKDF-Expand-SHA-256 with the fingerprint of the cipher's behaviour (RFC 5869 section 2.3). Two ends whose ciphers
//! differ under one name therefore fail to authenticate, and never deliver garbage.

mod behaviour;
mod cascade;
mod combined;
mod modes;
mod trusted;

use std::sync::Arc;

use crypto::custom::{CustomCipher, CustomKey, SetKeyError};
use crypto::{CryptoError, CustomMode, ModeKind, Provider, Secret, SuiteId, Suites, Transform, UnitFailed};
use ring::hkdf;
use zeroize::Zeroizing;

use crate::Ring;
use crate::rustcrypto::{EncryptThenMac, KEY_SETUP_STACK, Mac, PacketCipher, packet_mac};

pub use behaviour::Behaviour;
use trusted::{Trust, Trusted};

/// The label of keys that are bound to a cipher's behaviour.
const LABEL: &[u8] = b"ravelin cipher v1";
/// Octets of the salt of a counter mode.
const SALT: usize = 4;

/// The crypto provider over one cipher of one's own.
pub struct CustomProvider {
    cipher: Arc<dyn CustomCipher>,
    name: &'static str,
    behaviour: Behaviour,
    trust: Trust,
}

/// The reason why a cipher cannot be a provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CustomError {
    /// The catalogue does not have the cipher.
    #[error("the cipher {0} is not in the catalogue of suites")]
    NotRegistered(String),
    /// The cipher did not answer when its behaviour was looked at.
    #[error("the cipher {name} {why}")]
    Behaviour {
        /// The name of the cipher.
        name: String,
        /// What it did instead of answering.
        why: &'static str,
    },
}

impl CustomProvider {
    /// The provider of a cipher that `suites` has. Its behaviour is looked at here.
    ///
    /// # Errors
    /// [`CustomError`].
    pub fn new(cipher: Arc<dyn CustomCipher>, suites: &Suites) -> Result<CustomProvider, CustomError> {
        let name = &cipher.description().name;
        let Some(mode) = suites.all_modes().find(|mode| mode.cipher() == *name) else {
            return Err(CustomError::NotRegistered(name.clone()));
        };
        let behaviour = Behaviour::of(cipher.as_ref());
        let behaviour = behaviour.map_err(|why| CustomError::Behaviour { name: name.clone(), why })?;
        Ok(CustomProvider { name: mode.cipher(), cipher, behaviour, trust: Trust::new() })
    }

    /// The fingerprint of what the cipher computes.
    pub fn behaviour(&self) -> &Behaviour {
        &self.behaviour
    }

    /// Use the cipher no more: packets under its keys end as [`UnitFailed`], and no key is made.
    pub fn withdraw(&self) {
        self.trust.withdraw();
    }

    fn mode(&self, suite: SuiteId) -> Option<CustomMode> {
        suite.custom().filter(|mode| mode.cipher() == self.name)
    }

    /// A key of the host's own, bound to the behaviour of the cipher, with the salt behind it as it came. Whoever takes
    /// it wipes it. It is made at its full length, so that it never moves and leaves nothing behind.
    fn bound(&self, key: &[u8], salt: &[u8]) -> Option<Vec<u8>> {
        struct Len(usize);
        impl hkdf::KeyType for Len {
            fn len(&self) -> usize {
                self.0
            }
        }
        let mut out = vec![0; key.len() + salt.len()];
        let (to, behind) = out.split_at_mut(key.len());
        let info = [LABEL, self.behaviour.octets()];
        let prk = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, key);
        prk.expand(&info, Len(to.len())).and_then(|okm| okm.fill(to)).ok()?;
        behind.copy_from_slice(salt);
        Some(out)
    }

    fn made(
        &self,
        suite: SuiteId,
        mode: CustomMode,
        keymat: &[u8],
        extended: bool,
    ) -> Result<Box<dyn Transform>, SetKeyError> {
        let kind = mode.kind();
        let description = self.cipher.description();
        let (key, rest) = keymat.split_at_checked(description.key_len).ok_or(SetKeyError::Length)?;
        let salt_len = if kind.nonce_is_counter() { SALT } else { 0 };
        let (salt, rest) = rest.split_at_checked(salt_len).ok_or(SetKeyError::Length)?;
        let salt = *salt.first_chunk::<SALT>().unwrap_or(&[0; SALT]);
        let key = self.cipher.set_key(key)?;
        let host = self.host(suite, kind, rest, extended)?;
        // Padding between fields takes what is on the stack.
        zeroize::zeroize_stack::<KEY_SETUP_STACK>();
        assemble(suite, mode, key, host, salt, extended)
    }

    /// What the host adds to the cipher, under its part of the keying material.
    #[inline(never)]
    fn host(
        &self,
        suite: SuiteId,
        kind: ModeKind,
        keymat: &[u8],
        extended: bool,
    ) -> Result<Host, SetKeyError> {
        match kind {
            ModeKind::Gcm | ModeKind::Aead => Ok(Host::Nothing),
            ModeKind::Cascade => {
                let (key, salt) = keymat.split_last_chunk::<SALT>().ok_or(SetKeyError::Length)?;
                let keymat = Secret::new(self.bound(key, salt).ok_or(SetKeyError::Length)?);
                let outer = Ring.transform(SuiteId::AES_256_GCM, &keymat, extended);
                outer.map(Host::Outer).map_err(|_| SetKeyError::Length)
            }
            ModeKind::Ctr | ModeKind::Cbc | ModeKind::Stream => {
                let key = Zeroizing::new(self.bound(keymat, &[]).ok_or(SetKeyError::Length)?);
                packet_mac(suite.integrity(), &key).map(Host::Mac).ok_or(SetKeyError::Length)
            }
        }
    }
}

/// The transform of a key and what the host adds to it, in a frame that nothing of the keying material was in before.
#[inline(never)]
fn assemble(
    suite: SuiteId,
    mode: CustomMode,
    key: CustomKey,
    host: Host,
    salt: [u8; SALT],
    extended: bool,
) -> Result<Box<dyn Transform>, SetKeyError> {
    let packets: Box<dyn PacketCipher> = match (mode.kind(), key) {
        (ModeKind::Ctr | ModeKind::Cascade, CustomKey::Block(key)) => Box::new(modes::Ctr::new(key, salt)),
        (ModeKind::Cbc, CustomKey::Block(key)) => Box::new(modes::Cbc::new(key, mode.cipher_block_len())),
        (ModeKind::Stream | ModeKind::Cascade, CustomKey::Stream(key)) => {
            Box::new(modes::Stream::new(key, salt))
        }
        (ModeKind::Gcm, CustomKey::Block(key)) => {
            return Ok(Box::new(combined::Gcm::new(key, salt, extended)?));
        }
        (ModeKind::Aead, CustomKey::Aead(key)) => {
            return Ok(Box::new(combined::Aead::new(key, salt, suite.icv_len(), extended)));
        }
        // A key of another primitive than the description has.
        _ => return Err(SetKeyError::Unit(UnitFailed)),
    };
    match host {
        Host::Mac(mac) => Ok(Box::new(EncryptThenMac::new(suite, packets, mac, extended))),
        Host::Outer(outer) => Ok(Box::new(cascade::Cascade::new(packets, outer))),
        Host::Nothing => Err(SetKeyError::Unit(UnitFailed)),
    }
}

/// What the host adds to a cipher of one's own.
enum Host {
    /// Integrity over the ciphertext.
    Mac(Box<dyn Mac>),
    /// AES-256-GCM around the ciphertext.
    Outer(Box<dyn Transform>),
    /// The suite rests on the cipher alone, so the host adds nothing.
    Nothing,
}

impl Provider for CustomProvider {
    fn name(&self) -> &'static str {
        self.name
    }

    fn offers(&self, suite: SuiteId) -> bool {
        self.mode(suite).is_some()
    }

    fn transform(
        &self,
        suite: SuiteId,
        keymat: &Secret,
        extended: bool,
    ) -> Result<Box<dyn Transform>, CryptoError> {
        let mode = self.mode(suite).ok_or(CryptoError::NoProvider(suite))?;
        if keymat.len() != suite.keymat_len() {
            return Err(CryptoError::KeyLength { suite, want: suite.keymat_len(), got: keymat.len() });
        }
        if let Some(fault) = self.fault() {
            return Err(fault);
        }
        let made = self.made(suite, mode, keymat.expose(), extended);
        let key = made.map_err(|why| CryptoError::CustomKey { suite, why })?;
        Ok(Box::new(Trusted { key, trust: self.trust.clone() }))
    }

    fn check_again(&self) -> Result<(), CryptoError> {
        // No answer is no wrong answer: a worker may be starting.
        if Behaviour::of(self.cipher.as_ref()).is_ok_and(|now| now != self.behaviour) {
            self.withdraw();
        }
        self.fault().map_or(Ok(()), Err)
    }

    fn fault(&self) -> Option<CryptoError> {
        (!self.trust.holds()).then_some(CryptoError::CipherChanged { name: self.name })
    }

    fn fingerprint(&self) -> Option<&[u8; 32]> {
        Some(self.behaviour.octets())
    }
}

impl std::fmt::Debug for CustomProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CustomProvider({})", self.name)
    }
}
