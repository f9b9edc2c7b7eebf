//! The input of every known-answer test: keying material, and octets in hexadecimal.

use crate::Secret;

/// Keying material of `len` octets, each different from its neighbours, for tests alone.
pub(super) fn keymat(len: usize) -> Secret {
    Secret::new((0..len).map(|i| i as u8).collect())
}

/// The octets that a hexadecimal text stands for; `None` if the text is not hexadecimal.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
    text.as_bytes().chunks(2).map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}
