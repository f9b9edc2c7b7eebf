//! Opening a key file with what a token makes of the content key, whoever did that.

use crypto::Secret;
use ring::aead::Aad;
use zeroize::Zeroizing;

use crate::error::{Fault, TokenError};
use crate::file::{CONTENT_KEY_LEN, KeyFile, Recipient};
use crate::seal::{CONTENT, derived, nonce, wrapping_key};

/// The keying material of a key file, where `unwrap` does with the recipient's private key what its method says:
/// decrypts by RSA-OAEP, or agrees with the ephemeral public key, the first octets of [`Recipient::sealed`], and
/// answers the x coordinate.
///
/// The book of used files is not asked: [`crate::open_once`] is for keys that are used.
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
