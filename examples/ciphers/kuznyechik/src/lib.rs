//! Kuznyechik (GOST R 34.12-2015, RFC 7801) as a cipher of one's own, by the crate `kuznyechik` of RustCrypto. It
//! has tables whose addresses depend on keys and data.

#![no_std]

use kuznyechik::Kuznyechik;

abi::export!(abi::Cipher::block::<Kuznyechik>(&abi::About {
    name: c"kuznyechik",
    version: c"1.0",
    constant_time: false,
}));
