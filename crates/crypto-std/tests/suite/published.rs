//! Vectors of the RFCs and of NIST through the registry that the daemon uses.
//!
//! RFC 3686 section 6 (CTR), RFC 3602 section 4 (CBC, whole ESP packets among them), RFC 3566 section 4.6 (XCBC), RFC 4494
//! section 5 (CMAC), RFC 2202 and RFC 4231 (HMAC), RFC 7634 appendix A (ChaCha20-Poly1305 in ESP), NIST SP 800-17 and SP
//! 800-20 (DES). The IV of a vector is given, not made: its packet is opened, under an ICV that AH's algorithm makes.

use crate::packet;
mod vectors;

use std::sync::LazyLock;

use crypto::{Cipher, Fingerprint, Integrity, Registry, Secret, SuiteId};
use crypto_std::KeyedFingerprint;
use packet::{Packet, hex, padded};
use vectors::{CBC, CTR, MACS};

fn all_allowed() -> Registry {
    let mut registry = crypto_std::registry().unwrap();
    registry.allow_legacy(true).unwrap();
    registry
}

fn registry() -> &'static Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(all_allowed);
    &REGISTRY
}

fn sign(registry: &Registry, integrity: Integrity, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let key = registry.authenticator(integrity, &padded(key, integrity.keymat_len())).unwrap();
    let mut icv = vec![0; key.len()];
    key.sign(1, parts, &mut icv);
    assert!(key.verify(parts, &icv));
    icv
}

/// Open a ciphertext that somebody else made under each MAC there is; and with other octets behind, in a long packet.
fn opens(cipher: Cipher, keymat: &[u8], header: [u8; 8], iv: &[u8], data: &[u8], plain: &[u8]) {
    let registry = registry();
    for integrity in Integrity::ALL.iter().copied() {
        let Some(suite) = SuiteId::new(cipher, integrity) else { continue };
        let mac_key = vec![0x42; integrity.keymat_len()];
        let icv = sign(registry, integrity, &mac_key, &[&header, iv, data]);
        let both = Secret::new([keymat, &mac_key].concat());
        let key = registry.transform(suite, &both, false).unwrap();
        let packet = Packet { sequence: 1, header, iv: iv.to_vec(), data: data.to_vec(), icv };
        assert_eq!(packet.opened(key.as_ref()).as_deref(), Some(plain), "{suite}");
    }
}

#[test]
fn aes_cbc_of_rfc_3602() {
    for (header, key, iv, plain, data) in CBC {
        let header = hex(header).try_into().unwrap_or([0; 8]);
        opens(Cipher::Aes128Cbc, &hex(key), header, &hex(iv), &hex(data), &hex(plain));
    }
}

#[test]
fn aes_ctr_of_rfc_3686() {
    for (key, nonce, iv, plain, data) in CTR {
        let keymat = [hex(key), hex(nonce)].concat();
        let cipher = match keymat.len() {
            20 => Cipher::Aes128Ctr,
            28 => Cipher::Aes192Ctr,
            _ => Cipher::Aes256Ctr,
        };
        opens(cipher, &keymat, [0; 8], &hex(iv), &hex(data), &hex(plain));
        // Here the IV is the sequence number, so that sealing can be shown too.
        let suite = SuiteId::new(cipher, Integrity::HmacSha256).unwrap();
        let both = Secret::new([keymat, vec![1; 32]].concat());
        let sequence = u64::from_be_bytes(hex(iv).try_into().unwrap());
        let key = registry().transform(suite, &both, false).unwrap();
        let sealed = Packet::new(suite, sequence, hex(plain)).sealed(key.as_ref());
        assert_eq!((sealed.iv, sealed.data), (hex(iv), hex(data)));
    }
}

#[test]
fn macs_of_rfcs_2202_3566_4231_and_4494() {
    for (integrity, key, message, icv) in MACS {
        let (message, want) = (hex(message), hex(icv));
        let icv = sign(registry(), *integrity, &hex(key), &[&message]);
        // One case of RFC 4231 prints 16 octets only.
        assert_eq!(icv[..want.len()], want, "{} {key}", integrity.name());
        assert!(want.len() == icv.len() || want.len() == 16);
    }
}

#[test]
fn esp_packet_of_rfc_7634() {
    let suite = SuiteId::CHACHA20_POLY1305;
    let keymat = Secret::new([(0x80..0xa0).collect(), hex("a0a1a2a3")].concat());
    let plain = hex("45000054a6f200004001e778c6336405c000020508005b7a3a080000553bec10
         0007362708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223
         2425262728292a2b2c2d2e2f303132333435363701020204");
    let sealed = hex("24039428b97f417e3c13753a4f05087b67c352e6a7fab1b982d466ef407ae5c6
         14ee8099d52844eb61aa95dfab4c02f72aa71e7c4c4f64c9befe2facc638e8f3
         cbec163fac469b502773f6fb94e664da9165b82829f641e0");
    for provider in ["ring", "rustcrypto"] {
        let mut registry = all_allowed();
        registry.prefer(None, provider).unwrap();
        let key = registry.transform(suite, &keymat, false).unwrap();
        let packet = Packet {
            sequence: 5,
            header: hex("0102030400000005").try_into().unwrap(),
            iv: hex("1011121314151617"),
            data: sealed.clone(),
            icv: hex("76aaa8266b7fb0f7b11b369907e1ad43"),
        };
        assert_eq!(packet.opened(key.as_ref()).as_ref(), Some(&plain), "{provider}");
    }
}

#[test]
fn des_of_sp_800_17_and_800_20() {
    // Variable plaintext, variable key, substitution table known answers; all with the IV 0, so CBC of one block is ECB.
    for (key, plain, data) in [
        ("0101010101010101", "8000000000000000", "95f8a5e5dd31d900"),
        ("0101010101010101", "4000000000000000", "dd7f121ca5015619"),
        ("8001010101010101", "0000000000000000", "95a8d72813daa94d"),
        ("7ca110454a1a6e57", "01a1d6d039776742", "690f5b0d9a26939b"),
        ("0131d9619dc1376e", "5cd54ca83def57da", "7a389d10354bd271"),
    ] {
        let (iv, plain, data) = ([0; 8], hex(plain), hex(data));
        opens(Cipher::DesCbc, &hex(key), [0; 8], &iv, &data, &plain);
        // Triple DES under one key three times is DES.
        opens(Cipher::TripleDesCbc, &hex(&key.repeat(3)), [0; 8], &iv, &data, &plain);
    }
}

#[test]
fn camellia_of_rfc_3713() {
    // Appendix A: one block under a key of each length; the IV 0 makes CBC of one block ECB.
    let long = "0123456789abcdeffedcba987654321000112233445566778899aabbccddeeff";
    for (cipher, digits, data) in [
        (Cipher::Camellia128Cbc, 32, "67673138549669730857065648eabe43"),
        (Cipher::Camellia192Cbc, 48, "b4993401b3e996f84ee5cee7d79b09b9"),
        (Cipher::Camellia256Cbc, 64, "9acc237dff16d76c20ef7c919e3a7509"),
    ] {
        let (key, plain) = (hex(&long[..digits]), hex(&long[..32]));
        opens(cipher, &key, [0; 8], &[0; 16], &hex(data), &plain);
    }
}

#[test]
fn hmac_sha256_fingerprint() {
    // RFC 4231 test cases 1 and 2.
    for (key, message, want) in [
        (
            vec![0x0b; 20],
            &b"Hi There"[..],
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        ),
        (
            b"Jefe".to_vec(),
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
    ] {
        let fingerprint = KeyedFingerprint::new(&padded(&key, 32)).unwrap();
        assert_eq!(fingerprint.of(message).to_vec(), hex(want));
    }
    for len in [0, 31, 33] {
        assert!(KeyedFingerprint::new(&Secret::new(vec![1; len])).is_err(), "{len}");
    }
}
