//! Associations in the words of Wireshark, so that it decrypts a capture: rows of its `esp_sa` table.

use crypto::{Cipher, Integrity, SuiteId};
use std::fmt::Write;
use std::net::IpAddr;

/// A row of `esp_sa` (Wireshark 3 and 4) for what `source` sends to `destination`; `None` if it has no word for the suite.
/// `keymat`: cipher key, its salt, integrity key. As an argument: `tshark -o uat:esp_sa:ROW -o
/// esp.enable_encryption_decode:TRUE`. The row holds the keys in clear.
pub fn esp_sa(
    source: IpAddr,
    destination: IpAddr,
    spi: u32,
    suite: SuiteId,
    keymat: &[u8],
) -> Option<String> {
    let family = if source.is_ipv4() { "IPv4" } else { "IPv6" };
    let (cipher_key, integrity_key) = keymat.split_at_checked(suite.cipher_keymat_len())?;
    let (cipher, integrity) = (cipher(suite.cipher())?, integrity(suite.integrity())?);
    let columns = [
        family,
        &source.to_string(),
        &destination.to_string(),
        &format!("{spi:#010x}"),
        cipher,
        &hex(cipher_key),
        integrity,
        &hex(integrity_key),
    ];
    Some(columns.map(|column| format!("\"{column}\"")).join(","))
}

/// Wireshark 4.0 has neither CCM, nor ChaCha20-Poly1305, nor Camellia.
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
        Cipher::ChaCha20Poly1305 => return None,
        Cipher::Camellia128Cbc | Cipher::Camellia192Cbc | Cipher::Camellia256Cbc => return None,
    })
}

/// It computes no MAC of AES: their octets are cut off unchecked. GMAC's IV it would take for payload.
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

fn hex(octets: &[u8]) -> String {
    let prefix = if octets.is_empty() { "" } else { "0x" };
    octets.iter().fold(prefix.to_owned(), |mut out, octet| {
        let _ = write!(out, "{octet:02x}");
        out
    })
}
