//! Making a key file: fresh keying material, sealed to public keys.

use crypto::Secret;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{self, Algorithm, ECDH_P256, ECDH_P384, EphemeralPrivateKey, UnparsedPublicKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use rsa::sha2::Sha256;
use sha1::Sha1;
use zeroize::Zeroizing;

use crate::error::{Fault, TokenError};
use crate::file::{
    CONTENT_KEY_LEN, FileId, KeyFile, MAX_KEYMAT_LEN, MAX_RECIPIENTS, Method, Recipient, is_suite,
};
use crate::names::quoted;
use crate::public_key::{Numbers, OaepHash, PublicKey};

/// The name of the key that seals the keying material, for HKDF.
pub(crate) const CONTENT: &[u8] = b"ravelin key file v1 content";
/// The name of a key that seals the content key, for HKDF.
const RECIPIENT: &[u8] = b"ravelin key file v1 recipient";

/// Make fresh keying material of `keymat_len` octets for a suite, and seal it to every one of the keys: each of them
/// opens the file alone. `oaep` is the hash function for keys that are RSA keys.
///
/// The keying material exists in the file only; the copy that is made here is wiped.
///
/// # Errors
/// The suite's name or a number is out of bounds, a key cannot seal, or the kernel gives no random octets.
pub fn seal(
    suite: &str,
    keymat_len: usize,
    keys: &[PublicKey],
    oaep: OaepHash,
) -> Result<KeyFile, TokenError> {
    if !is_suite(suite) || !(1..=MAX_KEYMAT_LEN).contains(&keymat_len) {
        let text = format!("no key file can hold {keymat_len} octets for a suite {}", quoted(suite));
        return Err(TokenError::new(
            Fault::Suite,
            text,
            "name a suite as policy names it, such as aes256gcm",
        ));
    }
    if !(1..=MAX_RECIPIENTS).contains(&keys.len()) {
        let text =
            format!("a key file is sealed to 1 to {MAX_RECIPIENTS} keys, and {} are given", keys.len());
        return Err(TokenError::new(
            Fault::PublicKey,
            text,
            "name each token once, or make a file for each pair of hosts",
        ));
    }
    let random = SystemRandom::new();
    let mut id = [0; 16];
    random.fill(&mut id).map_err(no_random)?;
    let id = FileId(id);
    let content_key = secret(&random, CONTENT_KEY_LEN)?;
    let keymat = secret(&random, keymat_len)?;

    let mut recipients: Vec<Recipient> = Vec::with_capacity(keys.len());
    for key in keys {
        let recipient = to(key, oaep, id, &content_key, &random)?;
        if recipients.iter().any(|other| other.key == recipient.key) {
            let text = format!("the key {} is given twice", recipient.key);
            return Err(TokenError::new(Fault::PublicKey, text, "name each token once"));
        }
        recipients.push(recipient);
    }
    let mut file = KeyFile { id, suite: suite.to_owned(), keymat_len, recipients, sealed: Vec::new() };
    let key = derived(id, content_key.expose(), &[CONTENT])?;
    file.sealed = encrypted(&key, &file.header(), &keymat)?;
    Ok(file)
}

/// Seal the content key to one public key.
fn to(
    key: &PublicKey,
    oaep: OaepHash,
    id: FileId,
    content_key: &Secret,
    random: &SystemRandom,
) -> Result<Recipient, TokenError> {
    let method = key.method(oaep);
    let unfit = || {
        let text = format!("the public key {} cannot seal", key.id());
        TokenError::new(
            Fault::PublicKey,
            text,
            "take an RSA key of 2048 to 8192 bits, or one on P-256 or P-384",
        )
    };
    let sealed = match key.numbers() {
        Numbers::Rsa(rsa) => match oaep {
            OaepHash::Sha256 => rsa.oaep_encrypt::<Sha256>(content_key.expose()),
            OaepHash::Sha1 => rsa.oaep_encrypt::<Sha1>(content_key.expose()),
        }
        .map_err(|_| unfit())?,
        Numbers::P256(point) => {
            agreed(&ECDH_P256, point, method, key, id, content_key, random).map_err(|_| unfit())?
        }
        Numbers::P384(point) => {
            agreed(&ECDH_P384, point, method, key, id, content_key, random).map_err(|_| unfit())?
        }
    };
    Ok(Recipient { method, key: key.id(), sealed })
}

/// The ephemeral public key, and the content key under what both agree on.
fn agreed(
    curve: &'static Algorithm,
    point: &[u8],
    method: Method,
    key: &PublicKey,
    id: FileId,
    content_key: &Secret,
    random: &SystemRandom,
) -> Result<Vec<u8>, ring::error::Unspecified> {
    let ephemeral = EphemeralPrivateKey::generate(curve, random)?;
    let own = ephemeral.compute_public_key()?;
    let mut sealed = own.as_ref().to_vec();
    let theirs = UnparsedPublicKey::new(curve, point);
    let under = agreement::agree_ephemeral(ephemeral, &theirs, |shared| {
        let wrapping = wrapping_key(id, shared, method, &key.id().0, own.as_ref())?;
        encrypted(&wrapping, &[], content_key)
    })?;
    sealed.extend_from_slice(&under.map_err(|_| ring::error::Unspecified)?);
    Ok(sealed)
}

/// The key that seals the content key to an elliptic-curve key: of the shared secret, bound to all that is public.
pub(crate) fn wrapping_key(
    id: FileId,
    shared: &[u8],
    method: Method,
    key: &[u8; 32],
    ephemeral: &[u8],
) -> Result<LessSafeKey, TokenError> {
    derived(id, shared, &[RECIPIENT, &[method.code()], key, ephemeral])
}

/// A key of AES-256-GCM by HKDF-SHA-256 (RFC 5869): the salt is the file's id, the pieces together are the info.
pub(crate) fn derived(id: FileId, secret: &[u8], info: &[&[u8]]) -> Result<LessSafeKey, TokenError> {
    let expanded = Salt::new(HKDF_SHA256, &id.0).extract(secret);
    let key = expanded.expand(info, &AES_256_GCM).map(UnboundKey::from);
    key.map(LessSafeKey::new).map_err(|_| cannot("derive a key"))
}

/// Each key seals one text, so the nonce is zero.
pub(crate) fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

fn encrypted(key: &LessSafeKey, aad: &[u8], secret: &Secret) -> Result<Vec<u8>, TokenError> {
    // A vector that grows would leave a copy behind.
    let mut octets = Zeroizing::new(Vec::with_capacity(secret.len() + AES_256_GCM.tag_len()));
    octets.extend_from_slice(secret.expose());
    key.seal_in_place_append_tag(nonce(), Aad::from(aad), &mut *octets).map_err(|_| cannot("seal"))?;
    Ok(std::mem::take(&mut *octets))
}

fn secret(random: &SystemRandom, len: usize) -> Result<Secret, TokenError> {
    let mut octets = Zeroizing::new(vec![0; len]);
    random.fill(&mut octets).map_err(no_random)?;
    Ok(Secret::new(std::mem::take(&mut *octets)))
}

fn no_random(_: ring::error::Unspecified) -> TokenError {
    TokenError::new(Fault::System, "the kernel gives no random octets", "try again once the host has started")
}

pub(crate) fn cannot(what: &str) -> TokenError {
    TokenError::new(Fault::System, format!("this host cannot {what}"), "report this: it should not happen")
}
