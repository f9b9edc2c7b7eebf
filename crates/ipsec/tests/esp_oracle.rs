//! ESP as another implementation writes it: scapy, through tests/oracle/esp.py, for every suite that it has, transport and
//! tunnel mode, both families, bare and in UDP, both lengths of sequence numbers. Its IVs are those that are made here, so whole
//! packets compare, both ways.

#[path = "support/auth.rs"]
mod auth;
mod support;

use auth::open;
use crypto::{Cipher, Integrity, Registry, Secret, SuiteId};
use sadb::sa::Encapsulation;
use sadb::{InboundSa, Mode, OutboundSa, SaConfig};
use std::collections::BTreeSet;
use support::*;
use wire::DropReason;

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

struct Case {
    suite: SuiteId,
    config: SaConfig,
    /// Upper half of the sequence number.
    upper: u64,
    inner: Vec<u8>,
    outer: Vec<u8>,
}

fn cases() -> impl Iterator<Item = (&'static str, Case)> {
    include_str!("oracle/esp.txt").lines().map(|line| (line, case(line)))
}

fn case(line: &str) -> Case {
    let [suite, shape, encapsulation, upper, inner, outer] = line.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{line}")
    };
    let suite: SuiteId = suite.parse().unwrap();
    let mode = if shape.starts_with("tunnel") { Mode::Tunnel } else { Mode::Transport };
    let mut config = outbound_config(mode, suite, shape.ends_with('6'));
    config.keymat = Secret::new((0..suite.keymat_len() as u8).collect());
    config.options.extended_sequence = upper != "-";
    if encapsulation == "bare" {
        config.options.encapsulation = Encapsulation::None;
    }
    let upper = upper.parse().unwrap_or_default();
    Case { suite, config, upper, inner: unhex(inner), outer: unhex(outer) }
}

impl Case {
    /// The sender, about to take the number that the packet has.
    fn sender(&self, registry: &Registry) -> OutboundSa {
        let mut state = OutboundSa::new(self.config.clone(), registry).unwrap().export();
        state.next_sequence = self.upper << 32 | 7;
        OutboundSa::import(state, registry).unwrap()
    }

    /// The receiver, which has seen a number of the same upper half.
    fn receiver(&self, registry: &Registry) -> InboundSa {
        let mut sa = InboundSa::new(mirror(&self.config), registry).unwrap();
        sa.replay.commit(self.upper << 32 | 1).unwrap();
        sa
    }

    fn in_udp(&self) -> bool {
        self.config.options.encapsulation == Encapsulation::Udp
    }

    /// The inner packet without what a UDP socket does not tell, and so is made anew in transport mode: identification with the
    /// header's checksum, and flow label. All the others must come out whole.
    fn as_told(&self, mut inner: Vec<u8>) -> Vec<u8> {
        if self.in_udp() && self.config.mode == Mode::Transport {
            if inner[0] >> 4 == 4 {
                [4, 5, 10, 11].into_iter().for_each(|at| inner[at] = 0);
            } else {
                inner[1] &= 0xf0;
                inner[2..4].fill(0);
            }
        }
        inner
    }

    /// The outer packet with a zero UDP checksum, as scapy writes it: nothing of ESP is in those two octets.
    fn without_checksum(&self, mut outer: Vec<u8>) -> Vec<u8> {
        if self.in_udp() {
            let ip = if self.config.endpoints.remote.is_ipv4() { 20 } else { 40 };
            outer[ip + 6..ip + 8].fill(0);
        }
        outer
    }
}

/// The product's units, legacy suites allowed.
fn everything() -> Registry {
    let mut registry = crypto_std::registry().unwrap();
    registry.allow_legacy(true).unwrap();
    registry
}

#[test]
fn what_scapy_seals_is_what_is_sealed_here() {
    let registry = everything();
    for (line, case) in cases() {
        let sealed = auth::seal(&mut case.sender(&registry), &case.inner);
        assert_eq!(case.without_checksum(sealed), case.outer, "{line}");
    }
}

#[test]
fn what_scapy_seals_opens_to_what_it_sealed() {
    let registry = everything();
    for (line, case) in cases() {
        let opened = open(&mut case.receiver(&registry), &case.outer)
            .unwrap_or_else(|reason| panic!("{reason:?} {line}"));
        assert_eq!(case.as_told(opened), case.as_told(case.inner.clone()), "{line}");
    }
}

/// So that the comparison above is one of the authenticated packet: an octet of it changed, and the upper half unknown.
#[test]
fn what_scapy_did_not_seal_does_not_open() {
    let registry = everything();
    for (line, case) in cases() {
        let mut forged = case.outer.clone();
        *forged.last_mut().unwrap() ^= 0x40;
        assert_eq!(open(&mut case.receiver(&registry), &forged), Err(DropReason::AuthFailed), "{line}");
        if case.config.options.extended_sequence {
            let mut early = InboundSa::new(mirror(&case.config), &registry).unwrap();
            assert_eq!(open(&mut early, &case.outer), Err(DropReason::AuthFailed), "{line}");
        }
    }
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
