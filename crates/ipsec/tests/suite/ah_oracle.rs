//! AH as another implementation writes it: scapy, through tests/oracle/ah.py, for every authenticator (of AES-XCBC and
//! AES-GMAC the algorithm is tests/oracle/beyond_scapy.py's reading of the RFCs, the packet around it scapy's),
//! transport mode with IPv4 options and IPv6 extension headers, tunnel mode in every pair of families, both lengths of
//! sequence numbers.

use crate::auth;
use crate::support;

use auth::*;
use crypto::{Secret, SuiteId};
use sadb::{InboundSa, Mode, OutboundSa};
use support::*;
use wire::DropReason;

/// All but the word for "the cipher's own".
const AUTHENTICATORS: usize = crypto::Integrity::ALL.len() - 1;

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn what_scapy_signs_is_what_is_signed_here() {
    let mut registry = crypto_std::registry().unwrap();
    registry.allow_legacy(true).unwrap();
    let mut compared = 0;
    for line in include_str!("../oracle/ah.txt").lines() {
        let [suite, name, upper, inner, outer] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let suite: SuiteId = suite.parse().unwrap();
        let (upper, inner, outer) = (upper.parse::<u64>().unwrap(), unhex(inner), unhex(outer));
        let mode = if name.starts_with("tunnel") { Mode::Tunnel } else { Mode::Transport };
        let mut config = ah_config(mode, suite, outer[0] >> 4 == 6);
        config.keymat = Secret::new((0..config.keymat_len() as u8).collect());
        config.options.extended_sequence = upper != 0;

        let mut state = OutboundSa::new(config.clone(), &registry).unwrap().export();
        state.next_sequence = upper << 32 | 7;
        let mut out = OutboundSa::import(state, &registry).unwrap();
        assert_eq!(seal(&mut out, &inner), outer, "{suite} {name} {upper}");

        let mut inb = InboundSa::new(mirror(&config), &registry).unwrap();
        inb.replay.commit(upper << 32 | 1).unwrap();
        match open(&mut inb, &outer) {
            // It has a hop to go.
            Err(reason) => assert_eq!((reason, name), (DropReason::RoutingUnfinished, "v6-routing")),
            Ok(opened) => assert_eq!(opened, inner, "{suite} {name} {upper}"),
        }
        compared += 1;
    }
    // Every authenticator, ten packets, two lengths of sequence numbers.
    assert_eq!(compared, AUTHENTICATORS * 10 * 2);
}
