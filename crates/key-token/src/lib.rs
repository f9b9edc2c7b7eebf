//! One-time key files: keying material of an association, sealed to the public keys of tokens (smart cards, security
//! modules), and opened by one of them once.
//!
//! What enters: a PKCS#11 URI (RFC 7512), a PIN from a descriptor, public keys, key files. What leaves: key files with
//! fresh keying material, and the keying material of a file that was never opened on this host before
//! ([`open_once`]). The design is docs/design/0039; paper 004 section 6 asks for keys on smart cards.
//!
//! The vendor's PKCS#11 module is foreign code. It is loaded into the process of the command that uses this crate, and
//! never into the daemon. No packet waits for a token.
#![forbid(unsafe_code)]

mod book;
mod dumps;
mod error;
mod file;
mod names;
mod once;
mod open;
mod pin;
mod public_key;
mod seal;
mod token;
mod uri;

pub use book::UsedBook;
pub use dumps::keep_out_of_dumps;
pub use error::{Fault, TokenError};
pub use file::{FileId, KeyFile, KeyId, MAX_FILE_LEN, MAX_KEYMAT_LEN, MAX_RECIPIENTS, Method, Recipient};
pub use once::{Opening, open_once};
pub use open::open_with;
pub use pin::Pin;
pub use public_key::{OaepHash, PublicKey};
pub use seal::seal;
pub use token::public_key_of;
pub use uri::TokenUri;
