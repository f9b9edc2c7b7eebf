//! Packets with a source route belong to the association with their last destination, not with their first stop (RFC
//! 4302 appendix A: a routing header and the loose source route are predictable).

use crate::auth;
use crate::support;

use auth::{ah_config, bare_config, sha256, v4_with_options, v6_with_headers};
use crypto::SuiteId;
use engine::Outcome;
use sadb::sa::SaProtocol;
use sadb::spd::{AppPolicy, Class, Network, RuleId, Spd};
use sadb::{Mode, SaConfig};
use std::net::IpAddr;
use support::*;
use wire::{DropReason, Prefix, protocol};

const UPPER: &[u8] = &[0x9c, 0x40, 0, 53, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

fn to(last: IpAddr, mut config: SaConfig) -> SaConfig {
    config.endpoints.remote = last;
    config.selectors.remote = Prefix::host(last);
    config
}

#[test]
fn a_loose_source_route_is_looked_up_by_its_end() {
    let last: IpAddr = "203.0.113.9".parse().unwrap();
    let route = [131, 7, 4, 203, 0, 113, 9, 0];
    let packet = v4_with_options(&route, UPPER);
    for config in [
        ah_config(Mode::Transport, sha256(), false),
        bare_config(SaProtocol::Esp, Mode::Transport, SuiteId::AES_128_GCM, false),
    ] {
        let mut alice = Sender::new(
            policy(APP, config.services(), sadb::spd::Level::Mandatory),
            &[to(last, config.clone())],
        );
        let outer = alice.send(stamped(APP, &packet)).remove(0);
        assert_eq!(outer.bytes()[20..28], route, "it travels on the same way");
        // One with the first stop is not for it.
        let mut alice = Sender::new(policy(APP, config.services(), sadb::spd::Level::Mandatory), &[config]);
        assert_eq!(alice.refuse(stamped(APP, &packet)).reason, DropReason::NoSa);
    }
}

/// The policy of an application is asked about every stop, too.
#[test]
fn no_stop_on_the_way_is_one_that_policy_refuses() {
    let mut spd = Spd::new(1);
    let network = |text: &str, class| {
        let (address, len) = text.split_once('/').unwrap();
        let prefix = Prefix::new(address.parse().unwrap(), len.parse().unwrap()).unwrap();
        Network { prefix, class, rule: RuleId(1) }
    };
    let networks = ["0.0.0.0/0", "::/0"].map(|all| network(all, Class::Trusted)).to_vec();
    let refused =
        [network("203.0.113.7/32", Class::Untrusted), network("2001:db8:7::7/128", Class::Untrusted)];
    spd.insert(APP, AppPolicy::new([networks, refused.to_vec()].concat(), Vec::new()));
    let mut alice = Sender::new(spd, &[]);
    for (on_the_way, passes) in [(7, false), (8, true)] {
        let v4 = [131, 11, 4, 203, 0, 113, on_the_way, 203, 0, 113, 9, 0];
        let address = |n: u8| [0x2001, 0xdb8, n.into(), 0, 0, 0, 0, n.into()].map(u16::to_be_bytes).concat();
        let mut v6 = vec![0, 4, 0, 2, 0, 0, 0, 0];
        v6.extend([address(on_the_way), address(9)].concat());
        let packets = [v4_with_options(&v4, UPPER), v6_with_headers(&[(protocol::ROUTING, v6)], UPPER)];
        for packet in packets {
            let outcome = alice.handle(stamped(APP, &packet)).remove(0);
            let passed = matches!(outcome, Outcome::Clear(_));
            let ended = matches!(&outcome, Outcome::Drop(d) if d.reason == DropReason::PolicyDiscard);
            assert_eq!((passed, ended), (passes, !passes), "{on_the_way} {outcome:?}");
        }
    }
    // A route with more stops than are asked about.
    let mut long = vec![0, 80, 0, 40, 0, 0, 0, 0];
    (0..40_u16).for_each(|n| long.extend([0x2001, 0xdb8, 8, 0, 0, 0, 0, n].map(u16::to_be_bytes).concat()));
    let packet = v6_with_headers(&[(protocol::ROUTING, long)], UPPER);
    assert_eq!(alice.refuse(stamped(APP, &packet)).reason, DropReason::SelectorMismatch);
}

#[test]
fn a_routing_header_is_looked_up_by_its_end() {
    let last: IpAddr = "2001:db8:9::9".parse().unwrap();
    let IpAddr::V6(address) = last else { unreachable!() };
    // Type 2, one segment left (RFC 6275 section 6.4).
    let mut routing = vec![0, 2, 2, 1, 0, 0, 0, 0];
    routing.extend(address.octets());
    let packet = v6_with_headers(&[(protocol::ROUTING, routing)], UPPER);
    let config = ah_config(Mode::Transport, sha256(), true);
    let mut alice =
        Sender::new(policy(APP, config.services(), sadb::spd::Level::Mandatory), &[to(last, config.clone())]);
    assert_eq!(alice.send(stamped(APP, &packet)).len(), 1);
    let mut alice = Sender::new(policy(APP, config.services(), sadb::spd::Level::Mandatory), &[config]);
    assert_eq!(alice.refuse(stamped(APP, &packet)).reason, DropReason::NoSa);
}

#[test]
fn a_wrong_header_checksum_leaves_nowhere() {
    let config = bare_config(SaProtocol::Esp, Mode::Tunnel, SuiteId::AES_128_GCM, false);
    let mut alice = Sender::new(mandatory(), &[config]);
    let mut packet = alice_to_bob(false, 0, 40);
    packet[10] ^= 1;
    assert_eq!(alice.refuse(stamped(APP, &packet)).reason, DropReason::BadChecksum);
}
