//! Rows of Wireshark's `esp_sa` table for associations, so that it decrypts a capture.

use crypto::{Cipher, Integrity, SuiteId};
use std::net::IpAddr;
use zeroize::Zeroizing;

use crate::sa::SaProtocol;
use crate::{Direction, SaConfig, Spi};

/// The reason why there is no row for an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowError {
    /// The association is not ESP, so there is nothing to decrypt.
    NotEsp(SaProtocol),
    /// Wireshark has no word for the suite.
    Suite(SuiteId),
}

impl std::fmt::Display for RowError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RowError::NotEsp(protocol) => write!(f, "{} encrypts nothing", protocol.name()),
            RowError::Suite(suite) => write!(f, "Wireshark has no word for {suite}"),
        }
    }
}

/// The row of an association with its key, in memory that is wiped.
///
/// # Errors
/// A [`RowError`] with the reason.
pub fn row(config: &SaConfig) -> Result<Zeroizing<String>, RowError> {
    if config.options.protocol != SaProtocol::Esp {
        return Err(RowError::NotEsp(config.options.protocol));
    }
    let (source, destination) = ends(config);
    esp_sa(source, destination, config.spi, config.suite, config.keymat.expose())
        .ok_or(RowError::Suite(config.suite))
}

/// The source and destination of its packets on the wire.
pub fn ends(config: &SaConfig) -> (IpAddr, IpAddr) {
    let ends = &config.endpoints;
    match config.direction {
        Direction::Inbound => (ends.remote, ends.local),
        Direction::Outbound => (ends.local, ends.remote),
    }
}

/// A row of `esp_sa` (Wireshark 3 and 4) for packets from `source` to `destination`; `None` if Wireshark has no word
/// for the suite. `keymat` is cipher key, its salt, integrity key. The row is a line of the file `esp_sa` in
/// Wireshark's folder, or an argument: `tshark -o uat:esp_sa:ROW -o esp.enable_encryption_decode:TRUE`. It holds the
/// keys in clear.
pub fn esp_sa(
    source: IpAddr,
    destination: IpAddr,
    spi: Spi,
    suite: SuiteId,
    keymat: &[u8],
) -> Option<Zeroizing<String>> {
    let family = if source.is_ipv4() { "IPv4" } else { "IPv6" };
    let (cipher_key, integrity_key) = keymat.split_at_checked(suite.cipher_keymat_len())?;
    let (cipher, integrity) = (cipher(suite.cipher())?, integrity(suite.integrity())?);
    // In one piece: a text that grows leaves copies of the key behind.
    let mut row = Zeroizing::new(String::with_capacity(512 + 2 * keymat.len()));
    let (source, destination, spi) = (source.to_string(), destination.to_string(), spi.to_string());
    for (at, column) in [family, &source, &destination, &spi, cipher].into_iter().enumerate() {
        row.push_str(if at == 0 { "\"" } else { "\",\"" });
        row.push_str(column);
    }
    row.push_str("\",\"");
    hex(&mut row, cipher_key);
    row.push_str("\",\"");
    row.push_str(integrity);
    row.push_str("\",\"");
    hex(&mut row, integrity_key);
    row.push('"');
    Some(row)
}

/// Wireshark's word for a cipher. Version 4.0 has neither CCM, nor ChaCha20-Poly1305, nor Camellia.
fn cipher(cipher: Cipher) -> Option<&'static str> {
    Some(match cipher {
        Cipher::Null => "NULL",
        Cipher::Aes128Gcm16 | Cipher::Aes192Gcm16 | Cipher::Aes256Gcm16 => {
            "AES-GCM with 16 octet ICV [RFC4106]"
        }
        Cipher::Aes128Gcm12 | Cipher::Aes192Gcm12 | Cipher::Aes256Gcm12 => {
            "AES-GCM with 12 octet ICV [RFC4106]"
        }
        Cipher::Aes128Gcm8 | Cipher::Aes192Gcm8 | Cipher::Aes256Gcm8 => "AES-GCM with 8 octet ICV [RFC4106]",
        Cipher::Aes128Cbc | Cipher::Aes192Cbc | Cipher::Aes256Cbc => "AES-CBC [RFC3602]",
        Cipher::Aes128Ctr | Cipher::Aes192Ctr | Cipher::Aes256Ctr => "AES-CTR [RFC3686]",
        Cipher::TripleDesCbc => "TripleDES-CBC [RFC2451]",
        Cipher::DesCbc => "DES-CBC [RFC2405]",
        Cipher::Aes128Ccm16 | Cipher::Aes192Ccm16 | Cipher::Aes256Ccm16 => return None,
        Cipher::Aes128Ccm12 | Cipher::Aes192Ccm12 | Cipher::Aes256Ccm12 => return None,
        Cipher::Aes128Ccm8 | Cipher::Aes192Ccm8 | Cipher::Aes256Ccm8 => return None,
        Cipher::ChaCha20Poly1305 | Cipher::Custom(_) => return None,
        Cipher::Camellia128Cbc | Cipher::Camellia192Cbc | Cipher::Camellia256Cbc => return None,
    })
}

/// Wireshark's word for an integrity algorithm. It computes no MAC of AES: their octets are cut off unchecked. It would
/// take the IV of GMAC for payload.
fn integrity(integrity: Integrity) -> Option<&'static str> {
    Some(match integrity {
        Integrity::Combined => "NULL",
        Integrity::HmacSha256 => "HMAC-SHA-256-128 [RFC4868]",
        Integrity::HmacSha384 => "HMAC-SHA-384-192 [RFC4868]",
        Integrity::HmacSha512 => "HMAC-SHA-512-256 [RFC4868]",
        Integrity::HmacSha1 => "HMAC-SHA-1-96 [RFC2404]",
        Integrity::HmacMd5 => "HMAC-MD5-96 [RFC2403]",
        Integrity::AesXcbc | Integrity::AesCmac => "ANY 96 bit authentication [no checking]",
        Integrity::Aes128Gmac | Integrity::Aes192Gmac | Integrity::Aes256Gmac => return None,
    })
}

fn hex(out: &mut String, octets: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    if !octets.is_empty() {
        out.push_str("0x");
    }
    for octet in octets {
        out.push(char::from(DIGITS[usize::from(octet >> 4)]));
        out.push(char::from(DIGITS[usize::from(octet & 15)]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_eight_columns_and_never_grew() {
        for suite in SuiteId::all() {
            let keymat: Vec<u8> = (0..suite.keymat_len() as u8).collect();
            let (source, destination) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
            let Some(row) = esp_sa(source, destination, Spi(0x1001), suite, &keymat) else { continue };
            assert_eq!(row.split("\",\"").count(), 8, "{suite}");
            assert!(row.starts_with("\"IPv6\",\"2001:db8::1\",\"2001:db8::2\",\"0x00001001\""), "{suite}");
            assert_eq!(row.matches("0001020304").count(), 1, "{suite}");
            // Not a copy of the key was left behind by growing.
            assert!(row.len() <= 512 + 2 * keymat.len(), "{suite}");
        }
    }

    #[test]
    fn what_wireshark_cannot_decrypt_is_said() {
        let none = |suite: SuiteId| {
            let keymat = vec![1; suite.keymat_len()];
            esp_sa([192, 0, 2, 1].into(), [192, 0, 2, 2].into(), Spi(0x1001), suite, &keymat).is_none()
        };
        assert!(none(SuiteId::CHACHA20_POLY1305));
        assert!(!none(SuiteId::AES_128_GCM));
        assert_eq!(
            RowError::Suite(SuiteId::CHACHA20_POLY1305).to_string(),
            "Wireshark has no word for chacha20poly1305"
        );
        assert_eq!(RowError::NotEsp(SaProtocol::Ah).to_string(), "ah encrypts nothing");
    }
}
