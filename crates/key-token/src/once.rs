//! Opening a key file once on this host.
//!
//! The order is the point of it: the book is asked before the token sees a PIN, the token opens, the seal is checked,
//! and the file stands in the book, on the disk, before the caller has the keying material.

use crypto::Secret;

use crate::book::UsedBook;
use crate::error::TokenError;
use crate::file::KeyFile;
use crate::pin::Pin;
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
