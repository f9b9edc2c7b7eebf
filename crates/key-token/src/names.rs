//! Text of others in messages, and octets as hexadecimal digits.

/// Text that a token, a file or an argument gave, in quotes, without control characters, and not endless.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 64;
    let mut cut: String = text.chars().take(LONGEST).collect();
    if cut.len() < text.len() {
        cut.push_str("...");
    }
    format!("{cut:?}")
}

/// Octets as lower-case digits.
pub(crate) fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::with_capacity(2 * octets.len()), |text, octet| text + &format!("{octet:02x}"))
}
