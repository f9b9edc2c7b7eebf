//! ESP as another implementation writes it: scapy, through tests/oracle/esp.py, for every suite that it has, transport and
//! tunnel mode, both families, bare and in UDP, both lengths of sequence numbers. Its IVs are those that are made here, so whole
//! packets compare, both ways, through each unit by itself. The wide unit's turn is in `crypto-mb`.

#[path = "support/auth.rs"]
mod auth;
#[path = "support/scapy.rs"]
mod scapy;
mod support;

use crypto::{Cipher, Integrity, SuiteId};
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

/// What scapy has no word for, and nothing else: those suites have other oracles (docs/interop.md).
#[test]
fn only_xcbc_and_camellia_are_missing() {
    use Cipher::{Camellia128Cbc, Camellia192Cbc, Camellia256Cbc};
    let covered: BTreeSet<SuiteId> = cases().map(|(_, case)| case.suite).collect();
    for suite in SuiteId::all() {
        let camellia = matches!(suite.cipher(), Camellia128Cbc | Camellia192Cbc | Camellia256Cbc);
        let missing = camellia || suite.integrity() == Integrity::AesXcbc;
        assert_eq!(covered.contains(&suite), !missing, "{suite}");
    }
    assert_eq!(covered.len(), 76);
    let every_form: BTreeSet<String> = cases()
        .filter(|(_, case)| case.suite.cipher() == Cipher::Aes128Gcm16)
        .map(|(line, _)| line.split(' ').take(4).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(every_form.len(), 24, "two modes, four pairs of families, two encapsulations, two lengths");
}
