//! The inner MTU is exact: what has it fits, one octet more does not, whatever the association.

use crate::auth;
use crate::support;

use auth::*;
use crypto::SuiteId;
use sadb::sa::{Encapsulation, SaProtocol};
use sadb::{Mode, OutboundSa, SaConfig};
use std::collections::BTreeSet;
use support::*;
use wire::{Prefix, Services};

const PATHS: [u16; 9] = [1280, 1281, 1283, 1284, 1287, 1400, 1495, 1500, 9000];

/// One suite for each set of lengths: nothing here depends on more.
fn of_each_shape(suites: Vec<SuiteId>) -> Vec<SuiteId> {
    let mut seen = BTreeSet::new();
    let lengths = |s: &SuiteId| (s.encrypts(), s.iv_len(), s.icv_len(), s.block_len());
    suites.into_iter().filter(|suite| seen.insert(lengths(suite))).collect()
}

/// Every protocol, mode, shape of suite, encapsulation and family, with the family of the inner packet.
fn everything() -> Vec<(SaConfig, bool)> {
    let mut all = Vec::new();
    let any = [sha256()];
    let protocols: [(SaProtocol, Vec<SuiteId>); 4] = [
        (SaProtocol::Esp, of_each_shape(esp_suites())),
        (SaProtocol::Ah, of_each_shape(ah_suites())),
        (SaProtocol::IpIp, any.to_vec()),
        (SaProtocol::IpComp, any.to_vec()),
    ];
    for (protocol, suites) in protocols {
        for suite in suites {
            for mode in [Mode::Transport, Mode::Tunnel, Mode::Beet] {
                for (outer_v6, inner_v6) in [(false, false), (false, true), (true, false), (true, true)] {
                    let impossible = match protocol {
                        SaProtocol::IpIp => mode != Mode::Tunnel,
                        SaProtocol::IpComp => mode == Mode::Beet,
                        SaProtocol::Esp | SaProtocol::Ah => false,
                    };
                    if impossible || mode == Mode::Transport && outer_v6 != inner_v6 {
                        continue;
                    }
                    let mut config = bare_config(protocol, mode, suite, outer_v6);
                    if mode == Mode::Beet {
                        let (alice, bob) = hosts(inner_v6);
                        config.selectors.local = Prefix::host(alice);
                        config.selectors.remote = Prefix::host(bob);
                    }
                    all.push((config.clone(), inner_v6));
                    if protocol == SaProtocol::Esp {
                        config.options.encapsulation = Encapsulation::Udp;
                        all.push((config, inner_v6));
                    }
                }
            }
        }
    }
    all
}

/// A UDP packet of exactly this length that cannot be compressed.
fn packet(v6: bool, len: usize) -> Vec<u8> {
    let (alice, bob) = hosts(v6);
    let mut state = len as u64 | 1;
    let payload: Vec<u8> = (0..len - if v6 { 48 } else { 28 })
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect();
    udp_packet((alice, 1), (bob, 2), 0, true, &payload)
}

#[test]
fn of_every_single_association() {
    for (mut config, inner_v6) in everything() {
        for path_mtu in PATHS {
            config.path_mtu = path_mtu;
            let mtu = ipsec::inner_mtu(&config);
            let (mut out, _) = pair_of(&config);
            let fits = seal(&mut out, &packet(inner_v6, mtu)).len();
            let next = seal(&mut out, &packet(inner_v6, mtu + 1)).len();
            let path = usize::from(path_mtu);
            assert!(fits <= path && next > path, "{config:?}: {mtu} {fits} {next}");
            for len in mtu - 40..=mtu {
                let outer = seal(&mut out, &packet(inner_v6, len)).len();
                assert!(outer <= len + ipsec::overhead(&config), "{config:?}: {len} {outer}");
            }
        }
    }
}

#[test]
fn with_options_in_front() {
    for (mut config, inner_v6) in everything() {
        let udp =
            config.options.protocol == SaProtocol::Esp && config.options.encapsulation == Encapsulation::Udp;
        if udp && config.mode == Mode::Transport {
            continue;
        }
        for words in 1..=10 {
            for path_mtu in PATHS {
                config.path_mtu = path_mtu;
                let build = |len: usize| {
                    if inner_v6 {
                        let mut options = vec![0; words * 8];
                        (options[1], options[2], options[3]) = ((words - 1) as u8, 1, (words * 8 - 4) as u8);
                        v6_with_headers(&[(0, options)], &packet(true, len - words * 8)[40..])
                    } else {
                        v4_with_options(&vec![1; words * 4], &packet(false, len - words * 4)[20..])
                    }
                };
                let own = ipsec::own_header(&build(1000));
                let mtu = ipsec::bundle_mtu(&[&config], own);
                let (mut out, _) = pair_of(&config);
                let fits = seal(&mut out, &build(mtu)).len();
                let next = seal(&mut out, &build(mtu + 1)).len();
                let path = usize::from(path_mtu);
                // Options of one octet again and again are compressed where they are not the outer header's own.
                let shrinks = config.options.protocol == SaProtocol::IpComp;
                assert!(
                    fits <= path && (next > path || shrinks),
                    "{config:?}: own {own}: {mtu} {fits} {next}"
                );
            }
        }
    }
}

#[test]
fn of_bundles() {
    let singles = everything();
    let mut tried = 0;
    for (at, (first, inner_v6)) in singles.iter().enumerate() {
        if first.options.encapsulation == Encapsulation::Udp && first.options.protocol == SaProtocol::Esp {
            continue;
        }
        // Not all pairs and triples, but each single in both places.
        for step in [1, 5, 11, 17, 29] {
            let (second, _) = &singles[(at + step) % singles.len()];
            let (third, _) = &singles[(at * 3 + step) % singles.len()];
            let follows = |a: &SaConfig, b: &SaConfig| {
                let udp =
                    a.options.protocol == SaProtocol::Esp && a.options.encapsulation == Encapsulation::Udp;
                let same = a.endpoints.local.is_ipv4() == b.endpoints.local.is_ipv4();
                !udp && b.mode != Mode::Beet && (b.mode == Mode::Tunnel || same)
            };
            if !follows(first, second) {
                continue;
            }
            let mut members = vec![first.clone(), second.clone()];
            if follows(second, third) {
                members.push(third.clone());
            }
            tried += 1;
            exact(&members, *inner_v6);
        }
    }
    assert!(tried > 50, "{tried}");
}

fn exact(members: &[SaConfig], inner_v6: bool) {
    let registry = registry();
    let configs: Vec<&SaConfig> = members.iter().collect();
    for path_mtu in [1280, 1283, 1500] {
        let mut all: Vec<SaConfig> =
            configs.iter().map(|c| SaConfig { path_mtu: 1500, ..(*c).clone() }).collect();
        all.last_mut().unwrap().path_mtu = path_mtu;
        let all: Vec<&SaConfig> = all.iter().collect();
        let mtu = ipsec::bundle_mtu(&all, if inner_v6 { 40 } else { 20 });
        let mut sas: Vec<_> = all.iter().map(|c| OutboundSa::new((*c).clone(), registry).unwrap()).collect();
        let mut through =
            |len: usize| sas.iter_mut().fold(packet(inner_v6, len), |bytes, sa| seal(sa, &bytes)).len();
        let (fits, next) = (through(mtu), through(mtu + 1));
        let path = usize::from(path_mtu);
        // Headers that repeat are compressed where no member before has encrypted them.
        let compresses = |c: &SaConfig| c.options.protocol == SaProtocol::IpComp;
        let shrinks = members.iter().skip_while(|c| !compresses(c)).count() > 0
            && !members.iter().take_while(|c| !compresses(c)).any(|c| c.services() == Services::ENCRYPTED);
        assert!(fits <= path && (next > path || shrinks), "{members:?}: {mtu} {fits} {next}");
    }
}
