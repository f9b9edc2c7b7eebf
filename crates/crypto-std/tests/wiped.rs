//! A key that is dropped leaves nothing of itself in the memory it had.

#[path = "suite/custom/ciphers.rs"]
mod ciphers;
#[path = "suite/packet/looking.rs"]
mod looking;
#[path = "suite/packet.rs"]
mod packet;

use ciphers::custom_providers;
use crypto::{Integrity, Provider, Suites};
use crypto_std::{Ring, RustCrypto};
use looking::{keys_leave_nothing, left_by, sees};
use packet::keymat;

#[test]
fn a_dropped_key_leaves_nothing_of_itself() {
    sees();
    keys_leave_nothing(&[&Ring, &RustCrypto], &Suites::standard());
    for (provider, suites) in custom_providers() {
        keys_leave_nothing(&[&provider], &suites);
    }
    for integrity in Integrity::ALL[1..].iter().copied() {
        let [one, two] = [1, 0xc7].map(|seed| {
            let key = RustCrypto.authenticator(integrity, &keymat(integrity.keymat_len(), seed)).unwrap();
            let mut icv = vec![0; key.len()];
            key.sign(1, &[&[1; 99]], &mut icv);
            left_by(key)
        });
        assert!(!one.is_empty());
        assert_eq!(one, two, "{}", integrity.name());
    }
}
