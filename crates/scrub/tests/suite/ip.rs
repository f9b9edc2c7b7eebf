//! Tests of the rules for IP headers and for packets that do not fit, beyond the catalogue.

use crate::packet;

use packet::{Bench, DF, datagram4, datagram6, icmp, summed, v6};
use scrub::{Octets, Outcome, Profile, Rule, Side};
use wire::ip::Headers;

fn id(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[4], bytes[5]])
}

#[test]
fn identifications_tell_nothing_and_are_the_same_again() {
    let mut bench = Bench::profile(Profile::Strict);
    let atomic = bench.pass(&datagram4(16).with(|p| p.flags = DF).bytes());
    assert_eq!(id(&atomic.passed_with(&["4.4"]).bytes), 0);
    let first = bench.pass(&datagram4(16).bytes());
    let second = bench.pass(&datagram4(16).bytes());
    assert_eq!(id(&second.bytes), id(&first.passed_with(&["4.4"]).bytes).wrapping_add(1));
    let other = bench.pass(&datagram4(16).with(|p| p.dst = [198, 51, 100, 3]).summed().bytes());
    assert_ne!(id(&other.bytes), id(&second.bytes).wrapping_add(1));
    let mut again = Bench::profile(Profile::Strict);
    for out in [&atomic, &first, &second, &other] {
        assert_eq!(again.pass(&out.bytes).passed_with(&[]).bytes, out.bytes);
    }
}

#[test]
fn what_does_not_fit_is_cut_in_order() {
    for v6 in [false, true] {
        let mut bench = Bench::with(|config| config.mtu = [1500, 1300]);
        let (pieces, whole, rule) = if v6 {
            let packet = datagram6(2000);
            let pieces = [packet.piece(9, 1448, 2008), packet.piece(9, 0, 1448)];
            (pieces, packet.bytes(), "6.9")
        } else {
            let packet = datagram4(2000);
            ([packet.piece(1480, 2008), packet.piece(0, 1480)], packet.bytes(), "4.9")
        };
        bench.pass(&pieces[0]).held();
        let last = bench.pass(&pieces[1]);
        assert_eq!((last.outcome, last.acted.as_slice()), (Outcome::Fragmented, [rule].as_slice()));
        let cut = bench.own();
        assert_eq!(cut.len(), 2);
        let mut again = Bench::with(|config| config.mtu = [1500, 1300]);
        let mut at = 0;
        for (to, why, bytes) in &cut {
            let fragment = Headers::parse(bytes).expect("a fragment").fragment.expect("a fragment");
            assert_eq!((*to, *why, fragment.offset), (Side::Inside, rule, at));
            assert!(bytes.len() <= 1300);
            at += Headers::parse(bytes).expect("a fragment").upper(bytes).len();
            again.pass(bytes);
        }
        assert_eq!(again.own(), cut);
        // And they are the packet.
        let mut wide = Bench::with(|config| config.mtu = [9000; 2]);
        let last = cut.iter().map(|(_, _, bytes)| wide.pass(bytes)).last().expect("fragments");
        assert_eq!(
            last.passed_with(&[rule]).bytes[if v6 { 40 } else { 20 }..],
            whole[if v6 { 40 } else { 20 }..]
        );
    }
}

#[test]
fn too_big_is_answered_and_not_cut() {
    let mut bench = Bench::with(|config| config.mtu = [1500, 1300]);
    bench.pass(&datagram6(1400).bytes()).dropped_by("4.6");
    assert_eq!(bench.own().len(), 1);
    for _ in 0..1000 {
        bench.pass(&datagram6(1400).bytes()).dropped_by("4.6");
    }
    assert!(bench.own().len() < 100);
    let mut off = Bench::with(|config| {
        config.mtu = [1500, 1300];
        config.set_mode(Rule::V4DontFragment, scrub::Mode::Off).expect("it may be off");
    });
    off.pass(&datagram6(1400).bytes()).passed_with(&[]);
}

#[test]
fn routing_headers_on_the_list_pass() {
    let body = [[4, 0, 0, 0, 0, 0].as_slice(), &packet::IN6].concat();
    let bytes = datagram6(16).header(43, &body).bytes();
    Bench::standard().pass(&bytes).dropped_by("6.3");
    Bench::with(|config| config.routing = Octets::of(&[4])).pass(&bytes).passed_with(&[]);
    // Twice is once too often.
    let twice = datagram6(16).header(43, &body).header(43, &body).bytes();
    Bench::with(|config| config.routing = Octets::of(&[4])).pass(&twice).dropped_by("6.4");
}

#[test]
fn options_on_the_list_stay_and_long_padding_beside_them_ends() {
    let listed = || Bench::with(|config| config.ipv6_options = Octets::of(&[5]));
    let alert = datagram6(16).header(0, &[5, 2, 0, 0, 1, 0]);
    assert_eq!(listed().pass(&alert.bytes()).passed_with(&[]).bytes, alert.bytes());
    let unknown = datagram6(16).header(0, &[5, 2, 0, 0, 0x3e, 0]).bytes();
    assert_eq!(listed().pass(&unknown).passed_with(&["6.10"]).bytes, alert.bytes());
    let long = datagram6(16).header(0, &[5, 2, 0, 0, 1, 8, 0, 0, 0, 0, 0, 0, 0, 0]).bytes();
    listed().pass(&long).dropped_by("6.10");
    let broken = datagram6(16).header(60, &[0x1e, 9, 0, 0, 0, 0]).bytes();
    listed().pass(&broken).dropped_by("6.10");
}

#[test]
fn flow_labels_in_the_strict_profile() {
    let bytes = datagram6(16).with(|p| p.label = 0xabcde).bytes();
    Bench::standard().pass(&bytes).passed_with(&[]);
    let out = Bench::profile(Profile::Strict).pass(&bytes);
    assert_eq!(out.passed_with(&["6.11"]).bytes, datagram6(16).bytes());
}

#[test]
fn time_to_live_of_multicast_is_left_alone() {
    let mut bench = Bench::with(|config| config.least_ttl = 32);
    let scoped = datagram4(16).with(|p| (p.dst, p.ttl) = ([239, 1, 1, 1], 1));
    // Its checksum covers the destination.
    bench.pass(&summed(scoped.bytes())).passed_with(&[]);
    bench.pass(&datagram4(16).with(|p| p.ttl = 1).bytes()).passed_with(&["4.14"]);
    let mld = summed(v6(58, &icmp(131, 0, 0, &[0; 16])).with(|p| (p.hops, p.dst[0]) = (1, 0xff)).bytes());
    bench.pass(&mld).passed_with(&[]);
}

#[test]
fn the_other_familys_icmp() {
    let echo = icmp(128, 0, 1, b"ping");
    Bench::standard().pass(&packet::v4(58, &echo).bytes()).dropped_by("6.13");
    Bench::standard().pass(&v6(1, &echo).bytes()).dropped_by("6.13");
}

/// The two sides of a bridge are one link: hosts get their addresses through it.
#[test]
fn hosts_without_an_address_ask_through_a_bridge() {
    let dhcp = |ports: (u16, u16)| {
        let mut packet = packet::v4(17, &packet::udp(ports, b"DHCPDISCOVER"));
        (packet.src, packet.dst) = ([0; 4], [255; 4]);
        packet.summed().bytes()
    };
    let offer = {
        let mut packet = packet::v4(17, &packet::udp((67, 68), b"DHCPOFFER"));
        packet.dst = [255; 4];
        packet.summed().bytes()
    };
    let solicitation = |kind: u8| {
        let mut packet = v6(58, &icmp(kind, 0, 0, &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]));
        (packet.src, packet.dst[0], packet.dst[1]) = ([0; 16], 0xff, 2);
        packet.hops = 255;
        summed(packet.bytes())
    };
    let mut bench = Bench::with(|config| config.one_link = true);
    bench.reply(&dhcp((68, 67))).passed_with(&[]);
    bench.pass(&offer).passed_with(&[]);
    bench.reply(&solicitation(135)).passed_with(&[]);
    // Nothing else is said without an address.
    bench.pass(&dhcp((68, 53))).dropped_by("4.13");
    bench.pass(&solicitation(128)).dropped_by("6.13");
    let mut routed = Bench::standard();
    routed.reply(&dhcp((68, 67))).dropped_by("4.13");
    routed.reply(&solicitation(135)).dropped_by("6.13");
}

/// Hosts on one link speak to all, speak before they have an address, and have addresses that are reserved elsewhere.
#[test]
fn whatever_hosts_of_a_link_say_is_observed_in_captures() {
    let from_to = |src: [u8; 4], dst: [u8; 4], data: &[u8], protocol: u8| {
        summed(packet::v4(protocol, data).with(|p| (p.src, p.dst) = (src, dst)).bytes())
    };
    let discovery = packet::udp((17_500, 17_500), b"here I am");
    let syn = [&[0x9c, 0x40, 0, 80, 0, 0, 0, 99, 0, 0, 0, 0, 0x50, 2][..], &[255, 255, 0, 0, 0, 0]].concat();
    let (host, all, reserved) = ([192, 0, 2, 1], [255; 4], [248, 1, 2, 3]);
    let captured = || Bench::with(|config| (config.one_link, config.any_host) = (true, true));
    for (src, dst, data, protocol) in [
        (host, all, &discovery, 17),
        ([0; 4], [192, 0, 2, 9], &discovery, 17),
        ([0; 4], [224, 0, 0, 251], &discovery, 17),
        (reserved, host, &discovery, 17),
        (host, reserved, &syn, 6),
    ] {
        let packet = from_to(src, dst, data, protocol);
        Bench::standard().pass(&packet).dropped_by("4.13");
        let mut bench = captured();
        assert_eq!(bench.pass(&packet).passed_with(&[]).bytes, packet, "{src:?} to {dst:?}");
        assert_eq!(bench.scrubber.counters().of(scrub::Rule::V4Address).observed, 1, "{src:?} to {dst:?}");
    }
    for (src, dst, data, protocol) in [
        (host, all, &syn, 6),
        ([0; 4], host, &syn, 6),
        ([0, 1, 2, 3], host, &discovery, 17),
        ([127, 0, 0, 1], host, &discovery, 17),
        ([224, 0, 0, 1], host, &discovery, 17),
        (all, host, &discovery, 17),
    ] {
        captured().pass(&from_to(src, dst, data, protocol)).dropped_by("4.13");
    }
    // Redirects and router discovery are of the link, timestamps of hosts are not.
    for (kind, rest) in [(5, 0xc000_0207), (9, 0x0102_0708), (10, 0)] {
        let message = from_to(host, [198, 51, 100, 2], &icmp(kind, 1, rest, &[0; 28]), 1);
        Bench::standard().pass(&message).dropped_by("I.3");
        captured().pass(&message).passed_with(&[]);
    }
    captured().pass(&from_to(host, [198, 51, 100, 2], &icmp(13, 0, 0, &[0; 12]), 1)).dropped_by("I.3");
}
