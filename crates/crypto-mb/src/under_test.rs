//! What the published vectors are put through here.

use crypto::{Cipher, SuiteId};
use subtle::ConstantTimeEq;

use crate::gcm::{Gcm, Run};
use crate::published::{Raw, UnderTest};

/// Every width that this processor has.
#[expect(clippy::disallowed_methods, reason = "a test asks Linux")]
pub(crate) fn under_test() -> Vec<UnderTest> {
    // What Linux says of the processor, which is not where the product looks.
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let has =
        |flags: &[&str]| flags.iter().all(|flag| processor.split_whitespace().any(|word| word == *flag));
    let two = has(&["avx2", "aes", "pclmulqdq", "vaes", "vpclmulqdq"]);
    let four = two && has(&["avx512f", "avx512bw", "avx512vl"]);
    let widths: Vec<_> = crate::Wide::detect_all().iter().map(|wide| wide.four).collect();
    assert_eq!(widths.contains(&false), two);
    assert_eq!(widths.contains(&true), four);
    let gcm = (348, 189);
    let make = |four| if four { raw::<true> } else { raw::<false> };
    let each = widths.iter().map(|&four| {
        let name = if four { "four blocks" } else { "two blocks" };
        UnderTest { name, make: make(four), gcm, chacha: (0, 0) }
    });
    each.collect()
}

/// A key below the level of ESP.
struct Key<const FOUR: bool>(Gcm<FOUR>, [u8; 4]);

impl<const FOUR: bool> Key<FOUR> {
    fn run<const SEAL: bool>(&self, iv: &[u8; 8], aad: &[u8], data: &mut [u8]) -> [u8; 16] {
        let mut nonce = [0; 16];
        nonce[..4].copy_from_slice(&self.1);
        nonce[4..12].copy_from_slice(iv);
        let aad = self.0.absorb(aad);
        self.0.run::<SEAL>(Run { nonce: u128::from_le_bytes(nonce), aad }, data).to_le_bytes()
    }
}

impl<const FOUR: bool> Raw for Key<FOUR> {
    fn protect(&self, iv: &[u8; 8], aad: &[u8], data: &mut [u8]) -> [u8; 16] {
        self.run::<true>(iv, aad, data)
    }

    fn unprotect(&self, iv: &[u8; 8], aad: &[u8], data: &mut [u8], icv: &[u8]) -> bool {
        let tag = self.run::<false>(iv, aad, data);
        tag[..icv.len()].ct_eq(icv).into()
    }
}

fn raw<const FOUR: bool>(suite: SuiteId, key: &[u8], salt: [u8; 4]) -> Option<Box<dyn Raw>> {
    if suite.cipher() == Cipher::ChaCha20Poly1305 {
        return None;
    }
    let wide = crate::Wide::detect_all().into_iter().find(|wide| wide.four == FOUR)?;
    Some(Box::new(Key::<FOUR>(Gcm::new(wide, key)?, salt)))
}
