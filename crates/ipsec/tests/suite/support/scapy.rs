//! The packets of scapy, through one unit. Used by the tests of this room and of `crypto-mb`.
#![allow(dead_code, missing_docs, reason = "each test binary uses its part")]

use crate::auth;
use crate::support::*;
use crypto::{Provider, Registry, Secret, SuiteId};
use sadb::sa::Encapsulation;
use sadb::{InboundSa, Mode, OutboundSa, SaConfig};
use wire::DropReason;

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

pub struct Case {
    pub suite: SuiteId,
    pub config: SaConfig,
    /// Upper half of the sequence number.
    upper: u64,
    inner: Vec<u8>,
    outer: Vec<u8>,
}

/// Every line of the oracle, and what it says.
pub fn cases() -> impl Iterator<Item = (&'static str, Case)> {
    include_str!("../../oracle/esp.txt").lines().map(|line| (line, case(line)))
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

    /// The inner packet without what a UDP socket does not tell, and so is made anew in transport mode: identification
    /// with the header's checksum, and flow label. All the others must come out whole.
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

/// The cases of every suite that this unit has, and nobody but it to serve them. How many there were.
fn each(unit: impl Provider + Copy + 'static, check: impl Fn(&Case, &Registry, &str)) -> usize {
    let mut registry = Registry::new().with_tested(unit).unwrap();
    registry.allow_legacy(true).unwrap();
    let cases = cases().filter(|(_, case)| unit.offers(case.suite));
    cases.map(|(line, case)| check(&case, &registry, line)).count()
}

pub fn sealed_here(unit: impl Provider + Copy + 'static) -> usize {
    each(unit, |case, registry, line| {
        let sealed = auth::seal(&mut case.sender(registry), &case.inner);
        assert_eq!(case.without_checksum(sealed), case.outer, "{line}");
    })
}

pub fn opened_here(unit: impl Provider + Copy + 'static) -> usize {
    each(unit, |case, registry, line| {
        let opened = auth::open(&mut case.receiver(registry), &case.outer);
        let opened = opened.unwrap_or_else(|reason| panic!("{reason:?} {line}"));
        assert_eq!(case.as_told(opened), case.as_told(case.inner.clone()), "{line}");
    })
}

/// So that the comparison above is one of the authenticated packet: an octet of it changed, and the upper half unknown.
pub fn refused_here(unit: impl Provider + Copy + 'static) -> usize {
    each(unit, |case, registry, line| {
        let mut forged = case.outer.clone();
        *forged.last_mut().unwrap() ^= 0x40;
        assert_eq!(auth::open(&mut case.receiver(registry), &forged), Err(DropReason::AuthFailed), "{line}");
        if case.config.options.extended_sequence {
            let mut early = InboundSa::new(mirror(&case.config), registry).unwrap();
            assert_eq!(auth::open(&mut early, &case.outer), Err(DropReason::AuthFailed), "{line}");
        }
    })
}
