//! Opening a key file, once.
//!
//! The order is the point of it: the book is asked before the token sees a PIN, the token opens, the seal is checked, and the
//! file stands in the book, on the disk, before the caller has the keying material.

use std::path::Path;

use crypto::Secret;
use ring::aead::Aad;
use zeroize::Zeroizing;

use crate::book::UsedBook;
use crate::error::{Fault, TokenError};
use crate::file::{CONTENT_KEY_LEN, KeyFile, MAX_FILE_LEN, Recipient};
use crate::pin::Pin;
use crate::seal::{CONTENT, derived, nonce, wrapping_key};
use crate::token;
use crate::uri::TokenUri;

/// What is needed to open a key file.
#[derive(Debug)]
pub struct Opening<'a> {
    /// The token, and possibly the key on it.
    pub token: &'a TokenUri,
    /// The PIN of the token's user; `None` for a token with a keypad of its own.
    pub pin: Option<&'a Pin>,
    /// The book of used key files.
    pub book: &'a UsedBook,
}

impl KeyFile {
    /// Read the key file at a path.
    ///
    /// # Errors
    /// It cannot be read, or is no key file ([`KeyFile::parse`]).
    pub fn read(path: &Path) -> Result<KeyFile, TokenError> {
        use std::io::Read;
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
}

/// The keying material of a key file that was never opened on this host. When this returns it, the file counts as
/// used, also after a crash or a reboot, whatever happens to the keying material afterwards.
///
/// # Errors
/// The file was used before, the token does not open it, it is altered, or the book cannot be written. Only in the last
/// step the file becomes used: a wrong PIN or another token costs no file.
pub fn open_once(file: &KeyFile, with: &Opening<'_>) -> Result<Secret, TokenError> {
    with.book.check(file.id())?;
    let keymat = token::open(file, with.token, with.pin)?;
    with.book.enter(file.id())?;
    Ok(keymat)
}

/// The keying material of a key file, where `unwrap` does with the recipient's private key what its method says:
/// decrypts by RSA-OAEP, or agrees with the ephemeral public key, the first octets of [`Recipient::sealed`], and answers
/// the x coordinate.
///
/// The book of used files is not asked: [`open_once`] is for keys that are used.
///
/// # Errors
/// Those of `unwrap`, or the file is altered.
pub fn open_with(
    file: &KeyFile,
    recipient: &Recipient,
    unwrap: impl FnOnce(&Recipient) -> Result<Secret, TokenError>,
) -> Result<Secret, TokenError> {
    let unwrapped = unwrap(recipient)?;
    let content_key = match recipient.method.point_len() {
        None => unwrapped,
        Some(len) => {
            let (point, sealed) = recipient.sealed.split_at_checked(len).ok_or_else(altered)?;
            let key = wrapping_key(file.id, unwrapped.expose(), recipient.method, &recipient.key.0, point)?;
            decrypted(&key, &[], sealed)?
        }
    };
    if content_key.len() != CONTENT_KEY_LEN {
        return Err(altered());
    }
    let key = derived(file.id, content_key.expose(), &[CONTENT])?;
    let keymat = decrypted(&key, &file.header(), &file.sealed)?;
    if keymat.len() != file.keymat_len { Err(altered()) } else { Ok(keymat) }
}

fn decrypted(key: &ring::aead::LessSafeKey, aad: &[u8], sealed: &[u8]) -> Result<Secret, TokenError> {
    let mut octets = Zeroizing::new(sealed.to_vec());
    let plain = key.open_in_place(nonce(), Aad::from(aad), &mut octets).map_err(|_| altered())?;
    Ok(Secret::new(plain.to_vec()))
}

/// The file is not the one that was made.
pub(crate) fn altered() -> TokenError {
    TokenError::new(
        Fault::KeyFile,
        "the key file does not open: it was altered, or was not made for this key",
        "copy the file again from where `ravelin key wrap` wrote it; use none of its contents",
    )
}
