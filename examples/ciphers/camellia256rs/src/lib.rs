//! Camellia with a key of 256 bits (RFC 3713) as a cipher of one's own, by the crate `camellia` of RustCrypto. It
//! has tables whose addresses depend on keys and data.

#![no_std]

use camellia::Camellia256;

abi::export!(abi::Cipher::block::<Camellia256>(&abi::About {
    name: c"camellia256rs",
    version: c"1.0",
    constant_time: false,
}));
