//! In transport mode the packet keeps its header, in BEET mode what of it is no address: every field comes out as it
//! went in, and leaves as it is where it can be seen.

use crate::auth;
use crate::support;

use auth::*;
use sadb::sa::{DontFragment, Encapsulation, SaProtocol};
use sadb::{Mode, SaConfig};
use support::*;
use wire::Prefix;
use wire::ipv4::Ipv4;

const UPPER: &[u8] = &[0x9c, 0x40, 0, 53, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

/// Every combination of flags that a whole packet can have: none, don't-fragment, and the reserved bit with each.
const FLAGS: [u8; 4] = [0x00, 0x40, 0x80, 0xc0];

fn configs(v6: bool) -> Vec<(SaConfig, bool)> {
    let mut all = Vec::new();
    for mode in [Mode::Transport, Mode::Beet] {
        for (protocol, suite) in [(SaProtocol::Esp, esp_suites()[0]), (SaProtocol::Ah, sha256())] {
            for udp in [false, true] {
                let mut config = bare_config(protocol, mode, suite, v6);
                if udp {
                    if protocol != SaProtocol::Esp {
                        continue;
                    }
                    config.options.encapsulation = Encapsulation::Udp;
                }
                if mode == Mode::Beet {
                    let (alice, bob) = hosts(v6);
                    config.selectors.local = Prefix::host(alice);
                    config.selectors.remote = Prefix::host(bob);
                    let (local, remote) = if v6 {
                        ("2001:db8:1::1", "2001:db8:1::2")
                    } else {
                        ("198.51.100.1", "198.51.100.2")
                    };
                    (config.endpoints.local, config.endpoints.remote) = (ip(local), ip(remote));
                }
                all.push((config, udp));
            }
        }
    }
    all
}

fn packet_of(options: &[u8], id: u16, flags: u8) -> Vec<u8> {
    let mut packet = v4_with_options(options, UPPER);
    packet[4..6].copy_from_slice(&id.to_be_bytes());
    packet[6] = flags;
    Ipv4::new_checked(&mut packet[..]).unwrap().fill_checksum();
    packet
}

#[test]
fn identification_and_flags_stay() {
    for (config, udp) in configs(false) {
        let (mut out, mut inb) = pair_of(&config);
        // Over UDP no options can stay in front.
        let options: &[&[u8]] =
            if udp && config.mode == Mode::Transport { &[&[]] } else { &[&[], &[148, 4, 0, 0]] };
        for (options, flags) in options.iter().flat_map(|options| FLAGS.map(|flags| (options, flags))) {
            for id in [0, 1, 0x1234, 0xffff] {
                let packet = packet_of(options, id, flags);
                let sealed = try_seal(&mut out, &packet).unwrap();
                let outer = sealed.bytes();
                assert_eq!(outer[4..6], id.to_be_bytes(), "{config:?}");
                assert_eq!(outer[6] & 0x40, flags & 0x40, "{config:?}");
                if config.mode == Mode::Transport {
                    assert_eq!(outer[6], flags, "{config:?}");
                }
                // Who sends it must allow what its header allows.
                assert_eq!(sealed.meta.may_fragment, flags & 0x40 == 0, "{config:?}");
                let mut want = packet.clone();
                if config.mode == Mode::Beet {
                    // The reserved bit means nothing and need not go on.
                    want[6] &= 0x7f;
                    Ipv4::new_checked(&mut want[..]).unwrap().fill_checksum();
                }
                assert_eq!(open(&mut inb, outer).unwrap(), want, "{config:?} {flags:#x}");
            }
        }
    }
}

#[test]
fn the_flow_label_stays() {
    for (config, _) in configs(true) {
        let (mut out, mut inb) = pair_of(&config);
        let packet = alice_to_bob(true, 0xb8, 33);
        let outer = seal(&mut out, &packet);
        assert_eq!(outer[..4], [0x6b, 0x81, 0x23, 0x45], "{config:?}");
        assert_eq!(open(&mut inb, &outer).unwrap(), packet, "{config:?}");
    }
}

/// RFC 6864 section 4.3: one number, one packet, between two hosts; and none is needed where nothing may be cut.
#[test]
fn packets_between_two_hosts_never_share_an_identification() {
    let mut sad = sadb::OutboundSad::new(1);
    let registry = registry();
    let mut indexes = Vec::new();
    for number in 0..3 {
        let mut config = outbound_config(Mode::Tunnel, esp_suites()[0], false);
        config.options.headers.df = DontFragment::Copy;
        config.spi = sadb::Spi(0x2000 + number);
        indexes.push(sad.insert(sadb::OutboundSa::new(config, registry).unwrap()).unwrap());
    }
    let (alice, bob) = hosts(false);
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..300 {
        let sa = sad.get_mut(indexes[round % 3]).unwrap();
        let whole = udp_packet((alice, 1), (bob, 2), 0, true, &[1]);
        assert_eq!(seal(sa, &whole)[4..7], [0, 0, 0x40]);
        let outer = seal(sa, &udp_packet((alice, 1), (bob, 2), 0, false, &[1]));
        assert_eq!(outer[6], 0);
        assert!(seen.insert([outer[4], outer[5]]), "{round}");
    }
}
