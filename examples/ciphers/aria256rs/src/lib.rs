//! ARIA with a key of 256 bits (RFC 5794) as a cipher of one's own, by the crate `aria` of RustCrypto. It has
//! tables whose addresses depend on keys and data.

#![no_std]

use aria::Aria256;

abi::export!(abi::Cipher::block::<Aria256>(&abi::About {
    name: c"aria256rs",
    version: c"1.0",
    constant_time: false,
}));
