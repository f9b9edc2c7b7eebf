//! Every suite, by the RustCrypto crates.
//!
//! The block ciphers, compression functions and universal hashes are theirs, and so are CTR, CBC decryption and
//! ChaCha20-Poly1305. Laid out here is what ESP makes of them: nonces, associated data, truncated ICVs, and the chains
//! of several packets side by side ([`chain`]).
//!
//! Keys: the crates wipe their key schedules when dropped (feature `zeroize`); HMAC states, subkeys and salts are wiped
//! here. What key setup leaves on the stack is overwritten by the registry; before it, it is overwritten here, since the padding of a
//! type takes along what was there. tests/wiped.rs looks at the memory that a dropped key gives back, tests/suite/stack.rs at the stack. Not wiped: what a packet leaves of
//! intermediate values in registers and in the frames of the crates' functions. `des` looks up its S-boxes in tables and
//! so is not constant in time; it is legacy.

mod ccm;
mod chacha;
mod chain;
mod cipher_modes;
mod compose;
mod gcm;
mod hmac;
mod limit;
mod mac;
#[cfg(test)]
mod raw;

use cipher::{KeyInit, KeySizeUser};
use crypto::{Authenticator, Cipher, CryptoError, Integrity, Provider, Secret, SuiteId, Transform};

use self::cipher_modes::{Cbc, Ctr, Null};
use self::hmac::Hmac;
use self::mac::{Ah, BlockMac};
#[cfg(test)]
pub(crate) use self::raw::raw;

pub(crate) use self::chain::LANES;
pub(crate) use self::cipher_modes::PacketCipher;
pub(crate) use self::compose::EncryptThenMac;
pub(crate) use self::limit::MAX_DATA;
pub(crate) use self::mac::{Mac, same};

/// Octets of the stack that are wiped after a key was made: more than key setup uses.
pub(crate) const KEY_SETUP_STACK: usize = 8192;

/// The crypto provider over the crates of RustCrypto.
#[derive(Clone, Copy, Debug, Default)]
pub struct RustCrypto;

impl Provider for RustCrypto {
    fn name(&self) -> &'static str {
        "rustcrypto"
    }

    fn offers(&self, suite: SuiteId) -> bool {
        suite.custom().is_none()
    }

    fn transform(
        &self,
        suite: SuiteId,
        keymat: &Secret,
        extended: bool,
    ) -> Result<Box<dyn Transform>, CryptoError> {
        if !self.offers(suite) {
            return Err(CryptoError::NoProvider(suite));
        }
        zeroize::zeroize_stack::<KEY_SETUP_STACK>();
        let made = transform(suite, keymat.expose(), extended);
        made.ok_or(CryptoError::KeyLength { suite, want: suite.keymat_len(), got: keymat.len() })
    }

    fn authenticator(
        &self,
        integrity: Integrity,
        keymat: &Secret,
    ) -> Result<Box<dyn Authenticator>, CryptoError> {
        if integrity == Integrity::Combined {
            return Err(CryptoError::NoAuthenticator(integrity));
        }
        zeroize::zeroize_stack::<KEY_SETUP_STACK>();
        let made = authenticator(integrity, keymat.expose());
        let (want, got) = (integrity.keymat_len(), keymat.len());
        made.ok_or(CryptoError::AuthenticatorKeyLength { integrity, want, got })
    }
}

/// A cipher whose key these octets are, if they are as many as it wants.
fn keyed<C: KeyInit + KeySizeUser>(key: &[u8]) -> Option<C> {
    C::new_from_slice(key).ok()
}

/// Key and salt of `SALT` octets behind it.
fn salted<C: KeyInit, const SALT: usize>(keymat: &[u8]) -> Option<(C, [u8; SALT])> {
    let (key, salt) = keymat.split_last_chunk()?;
    Some((keyed(key)?, *salt))
}

#[inline(never)]
fn transform(suite: SuiteId, keymat: &[u8], extended: bool) -> Option<Box<dyn Transform>> {
    use Cipher as C;
    if keymat.len() != suite.keymat_len() {
        return None;
    }
    let icv_len = suite.icv_len();
    macro_rules! gcm {
        ($aes:ty) => {{
            let (aes, salt) = salted::<$aes, 4>(keymat)?;
            Some(Box::new(gcm::Gcm::new(aes, salt, icv_len, extended)))
        }};
    }
    macro_rules! ccm {
        ($aes:ty) => {{
            let (aes, salt) = salted::<$aes, 3>(keymat)?;
            Some(Box::new(ccm::Ccm::new(aes, salt, icv_len, extended)))
        }};
    }
    macro_rules! gmac {
        ($aes:ty) => {{
            let (aes, salt) = salted::<$aes, 4>(keymat)?;
            Some(Box::new(gcm::Gmac::new(aes, salt, extended)))
        }};
    }
    match suite.cipher() {
        C::Aes128Gcm16 | C::Aes128Gcm12 | C::Aes128Gcm8 => gcm!(aes::Aes128Enc),
        C::Aes192Gcm16 | C::Aes192Gcm12 | C::Aes192Gcm8 => gcm!(aes::Aes192Enc),
        C::Aes256Gcm16 | C::Aes256Gcm12 | C::Aes256Gcm8 => gcm!(aes::Aes256Enc),
        C::Aes128Ccm16 | C::Aes128Ccm12 | C::Aes128Ccm8 => ccm!(aes::Aes128Enc),
        C::Aes192Ccm16 | C::Aes192Ccm12 | C::Aes192Ccm8 => ccm!(aes::Aes192Enc),
        C::Aes256Ccm16 | C::Aes256Ccm12 | C::Aes256Ccm8 => ccm!(aes::Aes256Enc),
        C::ChaCha20Poly1305 => {
            let (salt, key) = keymat.split_last_chunk::<4>().map(|(key, salt)| (*salt, key))?;
            Some(Box::new(chacha::ChaCha::new(key.try_into().ok()?, salt, extended)))
        }
        _ => match suite.integrity() {
            Integrity::Aes128Gmac => gmac!(aes::Aes128Enc),
            Integrity::Aes192Gmac => gmac!(aes::Aes192Enc),
            Integrity::Aes256Gmac => gmac!(aes::Aes256Enc),
            integrity => {
                let (cipher, mac) = keymat.split_at_checked(suite.cipher_keymat_len())?;
                let (cipher, mac) = (packet_cipher(suite.cipher(), cipher)?, packet_mac(integrity, mac)?);
                // Padding between fields takes what is on the stack.
                zeroize::zeroize_stack::<KEY_SETUP_STACK>();
                Some(Box::new(EncryptThenMac::new(suite, cipher, mac, extended)))
            }
        },
    }
}

#[inline(never)]
fn packet_cipher(cipher: Cipher, keymat: &[u8]) -> Option<Box<dyn PacketCipher>> {
    // DES in tables takes more than 4 times as long as any MAC here, triple DES more than 12 times.
    const DES: usize = 4;
    const TRIPLE_DES: usize = 12;
    fn cbc<C>(key: &[u8], slowness: usize) -> Option<Box<dyn PacketCipher>>
    where
        C: KeyInit + cipher::BlockCipherEncrypt + cipher::BlockCipherDecrypt + Send + Sync + 'static,
    {
        Some(Box::new(Cbc(keyed::<C>(key)?, slowness)))
    }
    fn ctr<A: KeyInit + gcm::Aes + 'static>(keymat: &[u8]) -> Option<Box<dyn PacketCipher>> {
        let (aes, salt) = salted::<A, 4>(keymat)?;
        Some(Box::new(Ctr::new(aes, salt)))
    }
    match cipher {
        Cipher::Null => Some(Box::new(Null)),
        Cipher::Aes128Cbc => cbc::<aes::Aes128>(keymat, 1),
        Cipher::Aes192Cbc => cbc::<aes::Aes192>(keymat, 1),
        Cipher::Aes256Cbc => cbc::<aes::Aes256>(keymat, 1),
        Cipher::Camellia128Cbc => cbc::<camellia::Camellia128>(keymat, 1),
        Cipher::Camellia192Cbc => cbc::<camellia::Camellia192>(keymat, 1),
        Cipher::Camellia256Cbc => cbc::<camellia::Camellia256>(keymat, 1),
        Cipher::TripleDesCbc => cbc::<des::TdesEde3>(keymat, TRIPLE_DES),
        Cipher::DesCbc => cbc::<des::Des>(keymat, DES),
        Cipher::Aes128Ctr => ctr::<aes::Aes128Enc>(keymat),
        Cipher::Aes192Ctr => ctr::<aes::Aes192Enc>(keymat),
        Cipher::Aes256Ctr => ctr::<aes::Aes256Enc>(keymat),
        _ => None,
    }
}

#[inline(never)]
pub(crate) fn packet_mac(integrity: Integrity, key: &[u8]) -> Option<Box<dyn Mac>> {
    if key.len() != integrity.keymat_len() {
        return None;
    }
    Some(match integrity {
        Integrity::HmacSha256 => Box::new(Hmac::<hmac::Sha256, 64>::new(key)),
        Integrity::HmacSha384 => Box::new(Hmac::<hmac::Sha384, 128>::new(key)),
        Integrity::HmacSha512 => Box::new(Hmac::<hmac::Sha512, 128>::new(key)),
        Integrity::HmacSha1 => Box::new(Hmac::<hmac::Sha1, 64>::new(key)),
        Integrity::HmacMd5 => Box::new(Hmac::<hmac::Md5, 64>::new(key)),
        Integrity::AesXcbc => Box::new(BlockMac::xcbc(key.try_into().ok()?)),
        Integrity::AesCmac => Box::new(BlockMac::cmac(key.try_into().ok()?)),
        _ => return None,
    })
}

#[inline(never)]
fn authenticator(integrity: Integrity, keymat: &[u8]) -> Option<Box<dyn Authenticator>> {
    fn gmac<A: KeyInit + gcm::Aes + 'static>(keymat: &[u8]) -> Option<Box<dyn Authenticator>> {
        let (aes, salt) = salted::<A, 4>(keymat)?;
        Some(Box::new(gcm::Gmac::new(aes, salt, false)))
    }
    match integrity {
        Integrity::Aes128Gmac => gmac::<aes::Aes128Enc>(keymat),
        Integrity::Aes192Gmac => gmac::<aes::Aes192Enc>(keymat),
        Integrity::Aes256Gmac => gmac::<aes::Aes256Enc>(keymat),
        _ => Some(Box::new(Ah::new(packet_mac(integrity, keymat)?, integrity.icv_len()))),
    }
}
