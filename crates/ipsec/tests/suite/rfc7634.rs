//! The whole packet of RFC 7634 appendix A, through each unit by itself. The wide unit's turn is in `crypto-mb`.

use crate::appendix_a;

use crypto::Registry;
use crypto_std::{Ring, RustCrypto};

fn units() -> [Registry; 2] {
    [Registry::new().with(Ring), Registry::new().with(RustCrypto)]
}

#[test]
fn the_packet_of_appendix_a_opens_once() {
    units().iter().for_each(appendix_a::opens_once);
}

#[test]
fn no_bit_of_it_can_be_changed() {
    units().iter().for_each(appendix_a::no_bit_of_it_can_be_changed);
}
