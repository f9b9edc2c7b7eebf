//! Tests of what a selector admits: RFC 4301 sections 4.4.1 (OPAQUE and ANY) and 4.4.1.1, field by field.

use crate::common;
use crate::world;

use common::{near_flow, near_selectors};
use proptest::prelude::*;
use sadb::selector::{Condition, PacketKey, Ranges, SelectorError, TrafficSelector, field};
use sadb::spd::PortRange;
use sadb::{Selectors, TrafficSelector as Exported};
use wire::{AppId, Flow, protocol};
use world::packet;

fn base() -> PacketKey {
    PacketKey::new("192.0.2.5".parse().unwrap(), "198.51.100.7".parse().unwrap())
}

fn admits(text: &str, packet: PacketKey) -> bool {
    text.parse::<TrafficSelector>().unwrap().matches(&packet)
}

#[test]
fn ports_types_and_their_absence() {
    let tcp = base().protocol(protocol::TCP);
    let whole = tcp.ports(1000, 80);
    let esp = base().protocol(protocol::ESP);
    let ping = base().protocol(protocol::ICMP).icmp(8, 0);
    let ping_fragment = base().protocol(protocol::ICMP);
    let hidden = base();
    for (text, want) in [
        // TCP, its fragment, ESP, ping, its fragment, nothing known.
        ("any", [true, true, true, true, true, true]),
        ("port opaque", [false, true, true, false, true, true]),
        ("remote-port opaque", [false, true, true, true, true, true]),
        ("remote-port 0-65535", [true, false, false, false, false, false]),
        ("remote-port 80", [true, false, false, false, false, false]),
        ("remote-port 81-65535", [false; 6]),
        ("proto tcp", [true, true, false, false, false, false]),
        ("proto tcp port opaque", [false, true, false, false, false, false]),
        ("proto opaque", [false, false, false, false, false, true]),
        ("proto 0-255", [true, true, true, true, true, false]),
        ("proto icmp", [false, false, false, true, true, false]),
        ("proto icmp type 8", [false, false, false, true, false, false]),
        ("proto icmp type opaque", [false, false, false, false, true, false]),
        ("proto icmp type 8 code 1", [false; 6]),
    ] {
        let got = [whole, tcp, esp, ping, ping_fragment, hidden].map(|packet| admits(text, packet));
        assert_eq!(got, want, "{text}");
    }
}

/// RFC 4301 section 4.4.1.1: (T-start*256) + C-start <= (t*256) + c <= (T-end*256) + C-end, for every type and code.
#[test]
fn icmp_types_and_codes_by_the_formula() {
    for (text, (t0, c0), (t1, c1)) in [
        ("proto icmp type 3-5 code 9-2", (3u32, 9u32), (5u32, 2u32)),
        ("proto icmp type 3 code 0-5", (3, 0), (3, 5)),
        ("proto icmp type 3-4", (3, 0), (4, 255)),
    ] {
        let selector: TrafficSelector = text.parse().unwrap();
        for kind in 0..=255u8 {
            for code in 0..=255u8 {
                let value = u32::from(kind) * 256 + u32::from(code);
                let want = t0 * 256 + c0 <= value && value <= t1 * 256 + c1;
                let packet = base().protocol(protocol::ICMP).icmp(kind, code);
                assert_eq!(selector.matches(&packet), want, "{text}: {kind} {code}");
            }
        }
    }
}

#[test]
fn the_fields_beside_those_of_the_rfc() {
    let packet = base().app(AppId(3)).uid(0).dscp(46).mark(0x1234_5601).interface(5);
    let text = "app 3 uid 0 dscp 46 mark 0x1/0xff dev 5";
    assert!(admits(text, packet));
    for (what, other) in [
        ("app", packet.app(AppId(4))),
        ("no app", packet.app(AppId::NONE)),
        ("uid", packet.uid(1)),
        ("no uid", packet.without(&field::UID)),
        ("dscp", packet.dscp(0)),
        ("mark", packet.mark(2)),
        ("dev", packet.interface(6)),
        ("no dev", packet.interface(0)),
    ] {
        assert!(!admits(text, other), "{what}");
    }
    assert!(admits("app opaque", packet.app(AppId::NONE)) && !admits("app opaque", packet));
    let mobility = base().protocol(135).mobility(5);
    assert!(admits("proto mh type 5", mobility) && !admits("proto mh type 6", mobility));
    assert!(!admits("proto mh type 0-255", base().protocol(135)), "a fragment has no type");
}

#[test]
fn addresses_are_lists_of_ranges() {
    let to = |remote: &str| PacketKey::new("192.0.2.5".parse().unwrap(), remote.parse().unwrap());
    let text = "remote 192.0.2.1-192.0.2.10,198.51.100.0/24,203.0.113.7";
    for inside in ["192.0.2.1", "192.0.2.10", "198.51.100.0", "198.51.100.255", "203.0.113.7"] {
        assert!(admits(text, to(inside)), "{inside}");
    }
    for outside in ["192.0.2.0", "192.0.2.11", "198.51.99.255", "198.51.101.0", "203.0.113.6", "203.0.113.8"]
    {
        assert!(!admits(text, to(outside)), "{outside}");
    }
    let v6 = |remote: &str| PacketKey::new("2001:db8::5".parse().unwrap(), remote.parse().unwrap());
    assert!(admits("remote ::/0", v6("2001:db8::1")) && !admits("remote ::/0", to("192.0.2.1")));
    assert!(admits("remote 0.0.0.0/0", to("192.0.2.1")) && !admits("remote 0.0.0.0/0", v6("2001:db8::1")));
}

#[test]
fn what_no_packet_can_be_is_refused() {
    let with = |field, condition| TrafficSelector::ANY.with(field, condition);
    let none = SelectorError::NoSuchValue { field: &field::DSCP, max: 63 };
    assert_eq!(with(&field::DSCP, Condition::one(64u8)), Err(none.clone()));
    assert_eq!(with(&field::DSCP, Condition::In(Ranges::new([]))), Err(none.clone()));
    assert_eq!(with(&field::DSCP, Condition::Masked { value: 2, mask: 1 }), Err(none));
    assert_eq!(with(&field::LOCAL, Condition::Opaque), Err(SelectorError::NeverOpaque(&field::LOCAL)));
    let masked = Condition::Masked { value: 0, mask: 1 };
    assert_eq!(with(&field::LOCAL, masked), Err(SelectorError::Unmaskable(&field::LOCAL)));
    let opaque = with(&field::APP, Condition::Opaque).unwrap();
    assert_eq!(opaque.populating(&field::APP), Err(SelectorError::PopulateOpaque(&field::APP)));
}

#[test]
fn an_association_s_icmp_selectors_are_types_and_codes() {
    let icmp = Selectors {
        protocol: Some(protocol::ICMP),
        local_ports: PortRange { first: 0x0800, last: 0x08ff },
        ..Selectors::ANY
    };
    let selector = TrafficSelector::from(&icmp);
    assert_eq!(selector.to_string(), "proto icmp type 8");
    let empty = Selectors { local_ports: PortRange { first: 2, last: 1 }, ..Selectors::ANY };
    assert!(!TrafficSelector::from(&empty).matches(&base().protocol(6).ports(1, 1)));
    assert_eq!(TrafficSelector::from(&Selectors::ANY), Exported::ANY);
}

proptest! {
    #[test]
    fn a_key_gives_back_what_was_put_in(packet in packet(), index in 0usize..12, value in any::<u128>()) {
        let chosen = field::STANDARD[index];
        let value = value & chosen.max();
        let changed = packet.with(chosen, value);
        for field in field::STANDARD {
            let want = if field == chosen { Some(value) } else { packet.get(field) };
            prop_assert_eq!(changed.get(field), want);
        }
        if chosen.is_optional() {
            prop_assert_eq!(changed.without(chosen).get(chosen), None);
        }
    }

    #[test]
    fn an_association_s_selectors_mean_what_they_meant(selectors in near_selectors(), flow in near_flow(), app in 0u16..3) {
        // No packet goes from one family to the other.
        prop_assume!(flow.local.is_ipv4() == flow.remote.is_ipv4());
        let made = TrafficSelector::from(&selectors);
        let key = PacketKey::of_flow(&flow).app(AppId(app));
        prop_assert_eq!(made.matches(&key), selectors.covers(&flow) && selectors.serves(AppId(app)));
    }

    #[test]
    fn a_flow_s_packet_has_the_fields_of_its_protocol(protocol in any::<u8>(), ports in any::<(u16, u16)>()) {
        let flow = Flow { opaque: false,
            local: [192, 0, 2, 1].into(),
            remote: [192, 0, 2, 2].into(),
            local_port: ports.0,
            remote_port: ports.1,
            protocol,
        };
        let key = PacketKey::of_flow(&flow);
        let has_ports = matches!(protocol, 6 | 17 | 33 | 132 | 136);
        prop_assert_eq!(key.get(&field::PROTOCOL), Some(u128::from(protocol)));
        prop_assert_eq!(key.get(&field::LOCAL_PORT), has_ports.then_some(u128::from(ports.0)));
        prop_assert_eq!(key.get(&field::REMOTE_PORT), has_ports.then_some(u128::from(ports.1)));
        prop_assert_eq!(key.get(&field::ICMP), matches!(protocol, 1 | 58).then_some(u128::from(ports.0)));
    }
}
