//! Published vectors and Wycheproof through the combined modes of the crate's providers, below the level of ESP: with any associated
//! data.
//!
//! Not only of this crate: whoever includes this file says in `under_test` what it has.

#[path = "published/vectors.rs"]
mod vectors;

use crypto::{Cipher, SuiteId};
use wycheproof::TestResult;
use wycheproof::aead::{TestGroup, TestName, TestSet};

use self::vectors::{CHACHA, ESP_CHACHA, ESP_GCM, GCM, Vector};

use crate::under_test::under_test;

/// A combined mode whose salt is the first four octets of the nonce.
pub(crate) trait Raw {
    fn protect(&self, iv: &[u8; 8], aad: &[u8], data: &mut [u8]) -> [u8; 16];
    fn unprotect(&self, iv: &[u8; 8], aad: &[u8], data: &mut [u8], icv: &[u8]) -> bool;
}

/// Makes a combined mode of a suite, a key and a salt; `None` if the provider has no such suite.
type Make = fn(SuiteId, &[u8], [u8; 4]) -> Option<Box<dyn Raw>>;

/// A provider under test, and how many Wycheproof cases it must run.
pub(crate) struct UnderTest {
    pub(crate) name: &'static str,
    pub(crate) make: Make,
    /// The numbers of Wycheproof cases of AES-GCM for which the provider has a suite: valid ones and refused ones. Both
    /// are zero if it has none.
    pub(crate) gcm: (usize, usize),
    /// The numbers of Wycheproof cases of ChaCha20-Poly1305 for which the provider has a suite: valid ones and refused
    /// ones.
    pub(crate) chacha: (usize, usize),
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap() as u8).collect();
    assert_eq!(digits.len() % 2, 0);
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

struct Key {
    key: Box<dyn Raw>,
    iv: [u8; 8],
}

impl Key {
    fn new(make: Make, suite: SuiteId, key: &[u8], nonce: &[u8]) -> Option<Key> {
        let (salt, iv) = nonce.split_first_chunk().unwrap();
        Some(Key { key: make(suite, key, *salt)?, iv: iv.try_into().unwrap() })
    }

    fn seal(&self, aad: &[u8], plain: &[u8]) -> (Vec<u8>, [u8; 16]) {
        let mut data = plain.to_vec();
        let tag = self.key.protect(&self.iv, aad, &mut data);
        (data, tag)
    }

    fn open(&self, aad: &[u8], cipher: &[u8], tag: &[u8]) -> Option<Vec<u8>> {
        let mut data = cipher.to_vec();
        self.key.unprotect(&self.iv, aad, &mut data, tag).then_some(data)
    }
}

/// Seal, open, and open with each octet of tag, ciphertext and associated data changed in turn.
fn both_ways((suite, k, nonce, aad, plain, cipher, tag): &Vector) {
    for UnderTest { name: provider, make, gcm, chacha } in under_test() {
        let has = if suite.cipher() == Cipher::ChaCha20Poly1305 { chacha } else { gcm };
        if has == (0, 0) {
            continue;
        }
        let key = Key::new(make, *suite, &hex(k), &hex(nonce)).unwrap();
        let (aad, plain, cipher, tag) = (hex(aad), hex(plain), hex(cipher), hex(tag));
        let what = format!("{provider} {suite} {k}");
        let (data, made) = key.seal(&aad, &plain);
        assert_eq!((&data, &made[..]), (&cipher, &tag[..]), "{what}");
        assert_eq!(key.open(&aad, &cipher, &tag), Some(plain), "{what}");
        let changed = |octets: &[u8], at: usize| {
            let mut octets = octets.to_vec();
            octets[at] ^= 1 << (at % 8);
            octets
        };
        for at in 0..16 {
            assert_eq!(key.open(&aad, &cipher, &changed(&tag, at)), None, "{what}: octet {at} of the tag");
        }
        for at in 0..cipher.len() {
            assert_eq!(key.open(&aad, &changed(&cipher, at), &tag), None, "{what}: ciphertext, octet {at}");
        }
        for at in 0..aad.len() {
            assert_eq!(key.open(&changed(&aad, at), &cipher, &tag), None, "{what}: aad, octet {at}");
        }
    }
}

#[test]
fn gcm_specification() {
    GCM.iter().for_each(both_ways);
}

#[test]
fn esp_packets_under_gcm() {
    ESP_GCM.iter().for_each(both_ways);
}

#[test]
fn esp_packet_under_chacha20_poly1305() {
    both_ways(&ESP_CHACHA);
}

#[test]
fn chacha20_poly1305_specification() {
    CHACHA.iter().for_each(both_ways);
}

/// The suites of this group of cases (96-bit nonces, 128-bit tags), and those that cut the same tag short.
fn suites(set: TestName, group: &TestGroup) -> Vec<SuiteId> {
    use Cipher as C;
    let fits = group.nonce_size == 96 && group.tag_size == 128;
    let ciphers: &[Cipher] = match (set, group.key_size) {
        (TestName::AesGcm, 128) if fits => &[C::Aes128Gcm16, C::Aes128Gcm12, C::Aes128Gcm8],
        (TestName::AesGcm, 192) if fits => &[C::Aes192Gcm16, C::Aes192Gcm12, C::Aes192Gcm8],
        (TestName::AesGcm, 256) if fits => &[C::Aes256Gcm16, C::Aes256Gcm12, C::Aes256Gcm8],
        (TestName::ChaCha20Poly1305, 256) if fits => &[C::ChaCha20Poly1305],
        _ => &[],
    };
    ciphers.iter().map(|c| SuiteId::new(*c, crypto::Integrity::Combined).unwrap()).collect()
}

/// Run one set through one provider; the counts of valid and refused cases.
fn run(name: TestName, make: Make) -> (usize, usize) {
    let set = TestSet::load(name).unwrap();
    let (mut valid, mut refused) = (0, 0);
    for group in &set.test_groups {
        for suite in suites(name, group) {
            for case in &group.tests {
                let what = format!("{suite} case {}: {} {:?}", case.tc_id, case.comment, case.flags);
                let Some(key) = Key::new(make, suite, &case.key, &case.nonce) else { continue };
                let tag = &case.tag[..suite.icv_len()];
                let (data, made) = key.seal(&case.aad, &case.pt);
                match case.result {
                    TestResult::Valid | TestResult::Acceptable => {
                        assert_eq!((&data[..], &made[..tag.len()]), (&case.ct[..], tag), "{what}");
                        assert_eq!(
                            key.open(&case.aad, &case.ct, tag).as_deref(),
                            Some(&case.pt[..]),
                            "{what}"
                        );
                        valid += 1;
                    }
                    // The change may be in the part of the tag that is not sent.
                    TestResult::Invalid if data == case.ct[..] && &made[..tag.len()] == tag => {
                        assert!(tag.len() < 16, "{what}");
                    }
                    TestResult::Invalid => {
                        assert_eq!(key.open(&case.aad, &case.ct, tag), None, "{what}");
                        refused += 1;
                    }
                }
            }
        }
    }
    (valid, refused)
}

// The counts are those of version 0.7.0 of the crate, so that no case goes missing unnoticed.

#[test]
fn wycheproof_aes_gcm() {
    for UnderTest { name, make, gcm, .. } in under_test() {
        assert_eq!(run(TestName::AesGcm, make), gcm, "{name}");
    }
}

#[test]
fn wycheproof_chacha20_poly1305() {
    for UnderTest { name, make, chacha, .. } in under_test() {
        assert_eq!(run(TestName::ChaCha20Poly1305, make), chacha, "{name}");
    }
}
