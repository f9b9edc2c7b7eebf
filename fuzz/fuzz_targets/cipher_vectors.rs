//! The test vectors of a cipher of one's own: any octets give tests whose lengths are sound, or one line that says why not.
#![no_main]

use cipher_manifest::Vectors;
use cipher_manifest::vectors::Case;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| match Vectors::parse(octets) {
    Ok(vectors) => {
        assert!(vectors.tests().len() <= Vectors::MOST_TESTS);
        let full = vectors.tests().iter().filter(|test| test.valid && !test.case.message().is_empty());
        assert!(full.count() >= Vectors::FEWEST);
        for test in vectors.tests() {
            match &test.case {
                Case::Block { msg, ct } => assert!(msg.len() == ct.len() && msg.len() >= 8),
                Case::Ctr { msg, ct, .. } => assert_eq!(msg.len(), ct.len()),
                Case::Cbc { iv, msg, ct } => assert!(msg.len() == ct.len() && msg.len() % iv.len() == 0),
                Case::Stream { offset, msg, ct, .. } => {
                    assert_eq!(msg.len(), ct.len());
                    assert!(offset.checked_add(msg.len() as u64).is_some());
                }
                Case::Gcm(sealed) => assert!(sealed.msg.len() == sealed.ct.len() && sealed.tag.len() == 16),
                Case::Aead(sealed) => assert!(sealed.msg.len() == sealed.ct.len() && sealed.tag.len() >= 8),
            }
        }
    }
    Err(error) => {
        let text = error.to_string();
        assert!(text.len() < 2000 && !text.contains(char::is_control), "{text:?}");
    }
});
