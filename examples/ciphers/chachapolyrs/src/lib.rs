//! ChaCha20-Poly1305 (RFC 8439 section 2.8) as a cipher of one's own, by the crate `chacha20poly1305` of
//! RustCrypto. The Makefile selects the portable forms of both parts: the others remember in global memory what the
//! processor can do.

#![no_std]

use chacha20poly1305::ChaCha20Poly1305;

abi::export!(abi::Cipher::aead::<ChaCha20Poly1305>(&abi::About {
    name: c"chachapolyrs",
    version: c"1.0",
    constant_time: true,
}));
