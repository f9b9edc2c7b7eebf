//! ESP as another implementation writes it: scapy, through tests/oracle/esp.py, for every suite, transport and tunnel
//! mode, both families, bare and in UDP, both lengths of sequence numbers. Its IVs are those that are made here, so
//! whole packets compare, both ways, through each unit by itself. The wide unit's turn is in `crypto-mb`.

use crate::scapy;

use crypto::{Cipher, SuiteId};
use crypto_std::{Ring, RustCrypto};
use scapy::cases;
use std::collections::BTreeSet;

/// Packets of the three suites that ring has.
const OF_RING: usize = 54;

#[test]
fn what_scapy_seals_is_what_is_sealed_here() {
    assert_eq!(scapy::sealed_here(Ring), OF_RING);
    assert_eq!(scapy::sealed_here(RustCrypto), cases().count());
}

#[test]
fn what_scapy_seals_opens_to_what_it_sealed() {
    assert_eq!(scapy::opened_here(Ring), OF_RING);
    assert_eq!(scapy::opened_here(RustCrypto), cases().count());
}

#[test]
fn what_scapy_did_not_seal_does_not_open() {
    assert_eq!(scapy::refused_here(Ring), OF_RING);
    assert_eq!(scapy::refused_here(RustCrypto), cases().count());
}

/// Camellia-CBC and AES-XCBC are taught to scapy by tests/oracle/beyond_scapy.py.
#[test]
fn every_suite_is_covered() {
    let covered: BTreeSet<SuiteId> = cases().map(|(_, case)| case.suite).collect();
    assert_eq!(covered, SuiteId::all().collect());
    assert_eq!(covered.len(), 106);
    let page = include_str!("../../../../docs/suites.md");
    for suite in covered {
        assert!(page.contains(&format!("| `{suite}` | ")), "{suite} has no row in docs/suites.md");
    }
    let every_form: BTreeSet<String> = cases()
        .filter(|(_, case)| case.suite.cipher() == Cipher::Aes128Gcm16)
        .map(|(line, _)| line.split(' ').take(4).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(every_form.len(), 24, "two modes, four pairs of families, two encapsulations, two lengths");
}
