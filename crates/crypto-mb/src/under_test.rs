//! What the published vectors are put through here.

use crypto::{Cipher, SuiteId};
use subtle::ConstantTimeEq;

use crate::Wide;
use crate::chacha20_poly1305::ChaCha20Poly1305;
use crate::gcm::{Gcm, Run};
use crate::published::{Raw, UnderTest};
use crate::tests::widths;

/// Every width that this processor has.
pub(crate) fn under_test() -> Vec<UnderTest> {
    let gcm = (348, 189);
    let make = |four| if four { raw::<true> } else { raw::<false> };
    let each = widths().into_iter().map(|wide| {
        let name = if wide.takes_four() { "four blocks" } else { "two blocks" };
        let chacha = if wide.has_ifma() { (256, 60) } else { (0, 0) };
        UnderTest { name, make: make(wide.takes_four()), gcm, chacha }
    });
    each.collect()
}

/// A key below the level of ESP.
struct Key<const FOUR: bool>(Gcm<FOUR>, [u8; 4]);

impl<const FOUR: bool> Key<FOUR> {
    fn run<const SEAL: bool>(&self, iv: &[u8; 8], aad: &[u8], data: &mut [u8]) -> [u8; 16] {
        let aad = self.0.absorb(aad);
        self.0.run::<SEAL>(Run { nonce: nonce(self.1, iv), aad }, data).to_le_bytes()
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

/// A key of the other mode.
struct ChaChaKey(ChaCha20Poly1305, [u8; 4]);

fn nonce(salt: [u8; 4], iv: &[u8; 8]) -> u128 {
    u128::from(u32::from_le_bytes(salt)) | u128::from(u64::from_le_bytes(*iv)) << 32
}

impl Raw for ChaChaKey {
    fn protect(&self, iv: &[u8; 8], aad: &[u8], data: &mut [u8]) -> [u8; 16] {
        self.0.seal(nonce(self.1, iv), aad, data).to_le_bytes()
    }

    fn unprotect(&self, iv: &[u8; 8], aad: &[u8], data: &mut [u8], icv: &[u8]) -> bool {
        self.0.open(nonce(self.1, iv), aad, data, |tag| tag.to_le_bytes() == icv)
    }
}

fn raw<const FOUR: bool>(suite: SuiteId, key: &[u8], salt: [u8; 4]) -> Option<Box<dyn Raw>> {
    let wide = Wide::detect_all().into_iter().find(|wide| wide.takes_four() == FOUR)?;
    if suite.cipher() == Cipher::ChaCha20Poly1305 {
        return Some(Box::new(ChaChaKey(ChaCha20Poly1305::new(wide, key)?, salt)));
    }
    Some(Box::new(Key::<FOUR>(Gcm::new(wide, key)?, salt)))
}
