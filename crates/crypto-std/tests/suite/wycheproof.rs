//! Every Wycheproof case that an algorithm here could meet through the interfaces of ESP and AH. GCM and ChaCha20-Poly1305, whose
//! cases have all kinds of associated data, are in src/published.rs.

use crate::packet;

use std::sync::LazyLock;

use crypto::{Cipher, Integrity, Registry, Secret, SuiteId};
use packet::{Packet, padded};
use wycheproof::{TestResult, aead, cipher, mac, mac_with_nonce};

fn registry() -> &'static Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(|| crypto_std::registry().unwrap());
    &REGISTRY
}

/// Run the cases whose key an algorithm can take; the counts of valid and refused ones. A tag is as long as the ICV or longer.
fn macs(name: mac::TestName, integrity: Integrity) -> (usize, usize) {
    let set = mac::TestSet::load(name).unwrap();
    let (mut valid, mut refused) = (0, 0);
    for group in &set.test_groups {
        let octets = integrity.keymat_len();
        let hmac = !matches!(integrity, Integrity::AesCmac);
        let fits = group.key_size == octets * 8 || hmac && group.key_size < octets * 8;
        if !fits || group.tag_size < integrity.icv_len() * 8 {
            continue;
        }
        for case in &group.tests {
            let what = format!("case {}: {} {:?}", case.tc_id, case.comment, case.flags);
            let key = registry().authenticator(integrity, &padded(&case.key, octets)).unwrap();
            let sent = &case.tag[..integrity.icv_len()];
            let mut made = vec![0; key.len()];
            key.sign(1, &[&case.msg], &mut made);
            match case.result {
                TestResult::Valid | TestResult::Acceptable => {
                    assert_eq!(made, sent, "{what}");
                    assert!(key.verify(&[&case.msg], sent), "{what}");
                    valid += 1;
                }
                // The change may be in the part of the tag that is not sent.
                TestResult::Invalid if made == sent => assert!(sent.len() < case.tag.len(), "{what}"),
                TestResult::Invalid => {
                    assert!(!key.verify(&[&case.msg], sent), "{what}");
                    refused += 1;
                }
            }
        }
    }
    (valid, refused)
}

// The counts are those of version 0.7.0 of the crate, so that no case goes missing unnoticed.

#[test]
fn aes_cmac() {
    assert_eq!(macs(mac::TestName::AesCmac, Integrity::AesCmac), (21, 60));
}

#[test]
fn hmac() {
    let all = [
        macs(mac::TestName::HmacSha1, Integrity::HmacSha1),
        macs(mac::TestName::HmacSha256, Integrity::HmacSha256),
        macs(mac::TestName::HmacSha384, Integrity::HmacSha384),
        macs(mac::TestName::HmacSha512, Integrity::HmacSha512),
    ];
    assert_eq!(all, [(30, 40), (60, 100), (60, 100), (60, 100)]);
}

#[test]
fn aes_gmac() {
    let set = mac_with_nonce::TestSet::load(mac_with_nonce::TestName::Gmac).unwrap();
    let (mut valid, mut refused) = (0, 0);
    for group in set.test_groups.iter().filter(|group| group.nonce_size == 96) {
        let integrity = match group.key_size {
            128 => Integrity::Aes128Gmac,
            192 => Integrity::Aes192Gmac,
            256 => Integrity::Aes256Gmac,
            _ => continue,
        };
        for case in &group.tests {
            let what = format!("case {}: {} {:?}", case.tc_id, case.comment, case.flags);
            let (salt, iv) = case.nonce.split_at(4);
            let keymat = Secret::new([&case.key, salt].concat());
            let key = registry().authenticator(integrity, &keymat).unwrap();
            let sent = [iv, &case.tag].concat();
            let right = key.verify(&[&case.msg], &sent);
            if case.result == TestResult::Invalid {
                assert!(!right, "{what}");
                refused += 1;
            } else {
                let mut made = vec![0; key.len()];
                key.sign(u64::from_be_bytes(iv.try_into().unwrap()), &[&case.msg], &mut made);
                assert!(right && made == sent, "{what}");
                valid += 1;
            }
        }
    }
    assert_eq!((valid, refused), (45, 162));
}

#[test]
fn aes_ccm() {
    // Nonces of 11 octets, and as associated data the 8 of a header.
    let set = aead::TestSet::load(aead::TestName::AesCcm).unwrap();
    let mut valid = 0;
    for group in set.test_groups.iter().filter(|g| g.nonce_size == 88 && g.tag_size == 128) {
        let cipher = match group.key_size {
            128 => Cipher::Aes128Ccm16,
            192 => Cipher::Aes192Ccm16,
            _ => Cipher::Aes256Ccm16,
        };
        let suite = SuiteId::new(cipher, Integrity::Combined).unwrap();
        for case in &group.tests {
            let Ok(header) = case.aad[..].try_into() else { continue };
            let (salt, iv) = case.nonce.split_at(3);
            let keymat = Secret::new([&case.key, salt].concat());
            let key = registry().transform(suite, &keymat, false).unwrap();
            let sequence = u64::from_be_bytes(iv.try_into().unwrap());
            let fresh = Packet { header, ..Packet::new(suite, sequence, case.pt.to_vec()) };
            let sealed = fresh.sealed(key.as_ref());
            assert_eq!((&sealed.data[..], &sealed.icv[..]), (&case.ct[..], &case.tag[..]));
            assert_eq!(sealed.opened(key.as_ref()).as_deref(), Some(&case.pt[..]));
            assert_eq!(case.result, TestResult::Valid);
            valid += 1;
        }
    }
    assert_eq!(valid, 9);
}

#[test]
fn aes_cbc() {
    // The padding of the cases is not ESP's: what is decrypted has it behind it. Padding that is wrong is not this level's to see.
    let set = cipher::TestSet::load(cipher::TestName::AesCbcPkcs5).unwrap();
    let mut valid = 0;
    for group in &set.test_groups {
        let cipher = match group.key_size {
            128 => Cipher::Aes128Cbc,
            192 => Cipher::Aes192Cbc,
            _ => Cipher::Aes256Cbc,
        };
        let suite = SuiteId::new(cipher, Integrity::HmacSha256).unwrap();
        for case in group.tests.iter().filter(|case| case.result == TestResult::Valid) {
            let mac_key = [0x42; 32];
            let mac = registry().authenticator(Integrity::HmacSha256, &padded(&mac_key, 32)).unwrap();
            let keymat = Secret::new([&case.key[..], &mac_key].concat());
            let key = registry().transform(suite, &keymat, false).unwrap();
            let mut packet = Packet::new(suite, 1, case.ct.to_vec());
            packet.iv.copy_from_slice(&case.nonce);
            mac.sign(1, &[&packet.header, &packet.iv, &packet.data], &mut packet.icv);
            let pad = 16 - case.pt.len() % 16;
            let want = [&case.pt[..], &vec![pad as u8; pad]].concat();
            assert_eq!(packet.opened(key.as_ref()), Some(want), "case {}", case.tc_id);
            valid += 1;
        }
    }
    assert_eq!(valid, 72);
}
