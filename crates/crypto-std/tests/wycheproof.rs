//! Every Wycheproof case that a suite here could meet: 96-bit nonces, 128-bit tags, keys of the suite's length.

use crypto::{Aead, OpenOp, SealOp, Secret, SuiteId};
use wycheproof::TestResult;
use wycheproof::aead::{Test, TestGroup, TestName, TestSet};

/// Which suite takes this group, if one does.
fn suite(set: TestName, group: &TestGroup) -> Option<SuiteId> {
    let fits = group.nonce_size == 96 && group.tag_size == 128;
    match (set, group.key_size) {
        (TestName::AesGcm, 128) if fits => Some(SuiteId::Aes128Gcm),
        (TestName::AesGcm, 256) if fits => Some(SuiteId::Aes256Gcm),
        (TestName::ChaCha20Poly1305, 256) if fits => Some(SuiteId::ChaCha20Poly1305),
        _ => None,
    }
}

fn seal(aead: &dyn Aead, case: &Test) -> (Vec<u8>, [u8; 16]) {
    let (mut data, mut tag) = (case.pt.to_vec(), [0; 16]);
    let nonce = case.nonce[..].try_into().unwrap();
    aead.seal(SealOp { nonce, aad: &case.aad, data: &mut data, tag: &mut tag });
    (data, tag)
}

fn open(aead: &dyn Aead, case: &Test) -> Option<Vec<u8>> {
    let mut data = case.ct.to_vec();
    let (nonce, tag) = (case.nonce[..].try_into().unwrap(), case.tag[..].try_into().unwrap());
    aead.open(OpenOp { nonce, aad: &case.aad, data: &mut data, tag, ok: false }).then_some(data)
}

/// Run one set; the counts of valid and invalid cases by suite.
fn run(name: TestName) -> Vec<(SuiteId, usize, usize)> {
    let registry = crypto_std::registry().unwrap();
    let set = TestSet::load(name).unwrap();
    let (mut counts, mut ran, mut other) = (SuiteId::ALL.map(|suite| (suite, 0, 0)), 0, 0);
    for group in &set.test_groups {
        let Some(suite) = suite(name, group) else {
            other += group.tests.len();
            continue;
        };
        for case in &group.tests {
            let what = format!("{suite} case {}: {} {:?}", case.tc_id, case.comment, case.flags);
            let aead = registry.aead(suite, &Secret::new(case.key.to_vec())).unwrap();
            let count = &mut counts[suite as usize];
            match case.result {
                TestResult::Valid | TestResult::Acceptable => {
                    let (data, tag) = seal(aead.as_ref(), case);
                    assert_eq!((&data[..], &tag[..]), (&case.ct[..], &case.tag[..]), "{what}");
                    assert_eq!(open(aead.as_ref(), case).as_deref(), Some(&case.pt[..]), "{what}");
                    count.1 += 1;
                }
                TestResult::Invalid => {
                    assert_eq!(open(aead.as_ref(), case), None, "{what}");
                    count.2 += 1;
                }
            }
            ran += 1;
        }
    }
    assert_eq!(ran + other, set.number_of_tests, "every case ran or has other sizes");
    counts.into_iter().filter(|(_, valid, invalid)| valid + invalid > 0).collect()
}

/// As many cases as version 0.7.0 of the crate has, so that none goes missing unnoticed.
fn at_least(name: TestName, want: &[(SuiteId, usize, usize)]) {
    let counts = run(name);
    assert_eq!(counts.len(), want.len(), "{counts:?}");
    for ((suite, valid, invalid), (want_suite, want_valid, want_invalid)) in counts.iter().zip(want) {
        assert_eq!(suite, want_suite);
        assert!(valid >= want_valid && invalid >= want_invalid, "{suite}: {valid} valid, {invalid} invalid");
    }
}

#[test]
fn aes_gcm() {
    at_least(TestName::AesGcm, &[(SuiteId::Aes128Gcm, 40, 27), (SuiteId::Aes256Gcm, 39, 27)]);
}

#[test]
fn chacha20_poly1305() {
    at_least(TestName::ChaCha20Poly1305, &[(SuiteId::ChaCha20Poly1305, 256, 60)]);
}
