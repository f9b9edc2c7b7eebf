//! Octets as text, as the documents have them.

use std::fmt::Write as _;

/// The octets in hexadecimal digits, two for each.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, octet| {
        // Into a string: this cannot fail.
        let _ = write!(text, "{octet:02x}");
        text
    })
}
