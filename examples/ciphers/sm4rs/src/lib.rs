//! SM4 (GB/T 32907-2016) as a cipher of one's own, by the crate `sm4` of RustCrypto. It has tables whose addresses
//! depend on keys and data.

#![no_std]

use sm4::Sm4;

abi::export!(abi::Cipher::block::<Sm4>(&abi::About {
    name: c"sm4rs",
    version: c"1.0",
    constant_time: false,
}));
