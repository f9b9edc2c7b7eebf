//! The manifest of a cipher of one's own, and its test vectors: what is known of a cipher without its code (issue 23
//! items 3 and 5).
//!
//! What enters: the octets of two JSON files. What leaves: a [`Manifest`] with a checked
//! [`crypto::custom::CustomDescription`], and [`Vectors`] that [`vectors::run`] puts before any
//! [`crypto::custom::CustomCipher`]. Policy, the language server and the loader read the same manifest. No file is
//! opened here, and both readers are bounded in length and number.
#![forbid(unsafe_code)]

mod digest;
mod error;
mod hex;
mod manifest;
pub mod vectors;

pub use digest::Digest;
pub use error::{Document, DocumentError};
pub use manifest::{FileReference, Manifest};
pub use vectors::Vectors;
