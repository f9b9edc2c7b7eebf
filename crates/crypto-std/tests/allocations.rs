//! In steady state no packet of any suite allocates, sealed or opened, genuine or forged, alone or in a batch.

#[path = "suite/custom/ciphers.rs"]
mod ciphers;
#[path = "suite/packet/counting.rs"]
mod counting;
#[path = "suite/packet.rs"]
mod packet;

use ciphers::custom_providers;
use counting::{counted, counts, packets_allocate_nothing};
use crypto::{Integrity, Provider, Suites};
use crypto_std::{Ring, RustCrypto};
use packet::keymat;

#[test]
fn no_packet_allocates() {
    counts();
    packets_allocate_nothing(&[&Ring, &RustCrypto], &Suites::standard());
    for (provider, suites) in custom_providers() {
        packets_allocate_nothing(&[&provider], &suites);
    }
    for integrity in Integrity::ALL[1..].iter().copied() {
        let key = RustCrypto.authenticator(integrity, &keymat(integrity.keymat_len(), 1)).unwrap();
        let (parts, mut icv) = ([&[1; 20][..], &[2; 33], &[3; 1400]], vec![0; key.len()]);
        counted(integrity.name(), || key.sign(1, &parts, &mut icv));
        let mut right = false;
        counted(integrity.name(), || right = key.verify(&parts, &icv));
        assert!(right);
    }
}
