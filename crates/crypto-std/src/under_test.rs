//! What the published vectors are put through here.

use crate::published::UnderTest;

/// Both providers of this crate, with their counts of Wycheproof cases.
pub(crate) fn under_test() -> Vec<UnderTest> {
    vec![
        UnderTest { name: "ring", make: crate::ring::raw, gcm: (79, 54), chacha: (256, 60) },
        UnderTest { name: "rustcrypto", make: crate::rustcrypto::raw, gcm: (348, 189), chacha: (256, 60) },
    ]
}
