//! Clauses of the standards through the offline door: source routes, checksums around ESP, compression between selectors, errors about
//! protected packets, and fragments with extension headers.

use crate::replay_kit;

use api::ReplayVerdict;
use offline::replay::{EngineOptions, HalfChoice, Replay};
use replay_kit::{Line, cut, datagram, hosts, inner_hosts, ip, replay, step, step_at, with_legacy};
use std::net::IpAddr;
use wire::ip::Headers;
use wire::ipv4::Ipv4;
use wire::{checksum, icmp, ipv6, protocol};

fn door(file: &str) -> Replay {
    replay(&EngineOptions::default(), file).unwrap()
}

fn going(way: HalfChoice, file: &str) -> Replay {
    replay(&EngineOptions { way, ..EngineOptions::default() }, file).unwrap()
}

fn reason(replay: &mut Replay, packet: &[u8]) -> Option<String> {
    step(replay, packet).0.reason
}

/// With options in its header (IPv4), all of whose fields are right afterwards.
fn with_options(packet: &[u8], options: &[u8]) -> Vec<u8> {
    assert_eq!((packet[0], options.len() % 4), (0x45, 0));
    let mut longer = [&packet[..20], options, &packet[20..]].concat();
    longer[0] += options.len() as u8 / 4;
    let len = u16::try_from(longer.len()).unwrap();
    longer[2..4].copy_from_slice(&len.to_be_bytes());
    Ipv4::new_checked(&mut longer[..]).unwrap().fill_checksum();
    longer
}

/// With an extension header in front of the upper layer (IPv6).
fn with_header(packet: &[u8], number: u8, mut header: Vec<u8>) -> Vec<u8> {
    assert_eq!(header.len() % 8, 0);
    header[0] = packet[6];
    let mut longer = [&packet[..40], &header, &packet[40..]].concat();
    longer[6] = number;
    let len = u16::try_from(longer.len() - 40).unwrap();
    longer[4..6].copy_from_slice(&len.to_be_bytes());
    longer
}

/// A loose source route that goes on to `last` (RFC 791 section 3.1).
fn route_to(last: [u8; 4]) -> Vec<u8> {
    route_by(&[last])
}

/// One that goes on by all of these.
fn route_by(stops: &[[u8; 4]]) -> Vec<u8> {
    [&[131, stops.len() as u8 * 4 + 3, 4][..], stops.as_flattened(), &[0]].concat()
}

/// A routing header of type 0 with these addresses and so many left.
fn routing(addresses: &[IpAddr], left: u8) -> Vec<u8> {
    let mut header = vec![0, addresses.len() as u8 * 2, 0, left, 0, 0, 0, 0];
    for address in addresses {
        let IpAddr::V6(address) = address else { panic!("IPv6 only") };
        header.extend(address.octets());
    }
    header
}

/// A rule and an association look at the same destination: no source route leads around a rule.
#[test]
fn a_source_route_does_not_lead_around_a_rule() {
    let (ours, theirs) = hosts(false);
    let association = Line::new(false, "transport", "aes128gcm", 20).with("encapsulation", "none");
    let rules = |action: &str| {
        let protect = if action == "protect" { r#","service":"encryption""# } else { "" };
        format!(
            "{}{{\"rule\":{{\"name\":\"theirs\",\"direction\":\"out\",\"selectors\":[\"remote {theirs}\"],\"action\":\"{action}\"{protect}}}}}\n\
             {{\"rule\":{{\"name\":\"rest\",\"selectors\":[\"any\"],\"action\":\"bypass\"}}}}\n",
            association.text("out")
        )
    };
    let packet = with_options(&datagram((ours, ip("198.51.100.1")), 9, &[7; 40]), &route_to([192, 0, 2, 2]));
    let mut alice = going(HalfChoice::Out, &rules("protect"));
    assert_eq!(step(&mut alice, &packet).0.verdict, ReplayVerdict::Protect);
    let mut alice = going(HalfChoice::Out, &rules("discard"));
    assert_eq!(reason(&mut alice, &packet).as_deref(), Some("rule_discard"));
    // Nor by way of a host that is refused, protected or not.
    let file = rules("protect").replacen("{\"rule\"", "{\"rule\":{\"name\":\"refused\",\"selectors\":[\"remote 198.51.100.1\"],\"action\":\"discard\"}}\n{\"rule\"", 1);
    assert_eq!(reason(&mut going(HalfChoice::Out, &file), &packet).as_deref(), Some("rule_discard"));
    let onward = with_options(&datagram((ours, theirs), 9, &[7; 40]), &route_to([198, 51, 100, 7]));
    assert_eq!(
        reason(&mut going(HalfChoice::Out, &rules("protect")), &onward).as_deref(),
        Some("selector_mismatch")
    );
    // Nor by one on the way between, though the way ends where it begins.
    let by = |first: &str, stops: &[[u8; 4]]| {
        with_options(&datagram((ours, ip(first)), 9, &[7; 40]), &route_by(stops))
    };
    let (away, last, refused) = ([198, 51, 100, 7], [192, 0, 2, 2], [198, 51, 100, 1]);
    let reason_of = |file: &str, packet: Vec<u8>| reason(&mut going(HalfChoice::Out, file), &packet);
    assert_eq!(reason_of(&file, by("198.51.100.7", &[away, refused, last])).as_deref(), Some("rule_discard"));
    assert_eq!(reason_of(&file, by("192.0.2.2", &[refused, last])).as_deref(), Some("rule_discard"));
    assert_eq!(reason_of(&file, by("192.0.2.2", &[away, last])), None);
    let by_theirs = by("198.51.100.7", &[last, away]);
    assert_eq!(reason_of(&rules("protect"), by_theirs).as_deref(), Some("selector_mismatch"));
}

/// A tunnel carries a source-routed packet if its selectors allow both the next stop and the end, and both ends ask that.
#[test]
fn both_ends_of_a_tunnel_ask_the_same_of_a_source_route() {
    let (ours, theirs) = inner_hosts(false);
    let line = Line::new(false, "tunnel", "aes128gcm", 20)
        .with("selector_local", "10.1.0.0/16")
        .with("selector_remote", "10.2.0.0/16");
    let mut alice = going(HalfChoice::Out, &line.text("out"));
    let outside = with_options(&datagram((ours, ip("10.3.0.1")), 9, &[7; 40]), &route_to([10, 2, 0, 2]));
    assert_eq!(reason(&mut alice, &outside).as_deref(), Some("selector_mismatch"));
    let inside = with_options(&datagram((ours, ip("10.2.0.9")), 9, &[7; 40]), &route_to([10, 2, 0, 2]));
    let (sealed, outer) = step(&mut alice, &inside);
    assert_eq!(sealed.verdict, ReplayVerdict::Protect);
    let mut bob = door(&line.text("in"));
    assert_eq!(step(&mut bob, &outer[0]).1, [inside]);
    // What comes by a host that is to be reached protected does not leave in clear for one behind it.
    let onward = with_options(&datagram((ours, theirs), 9, &[7; 40]), &route_to([10, 9, 0, 2]));
    assert_eq!(reason(&mut alice, &onward).as_deref(), Some("selector_mismatch"));
    // A sender that asked for less (it has wider selectors) is refused at the other end.
    let wide = line.with("selector_remote", "10.0.0.0/8");
    let onward = with_options(&datagram((ours, theirs), 9, &[7; 40]), &route_to([10, 9, 0, 2]));
    let (_, outer) = step(&mut going(HalfChoice::Out, &wide.text("out")), &onward);
    let narrow = wide.with("selector_remote", "10.2.0.0/16");
    assert_eq!(reason(&mut door(&narrow.text("in")), &outer[0]).as_deref(), Some("selector_mismatch"));
}

#[test]
fn a_routing_header_that_contradicts_itself_passes_nowhere() {
    let (ours, theirs) = hosts(true);
    let line = Line::new(true, "transport", "aes128gcm", 20).with("encapsulation", "none");
    let packet = datagram((ours, theirs), 9, &[7; 40]);
    // A list that is no multiple of addresses; more left than there are; type 2 with two addresses.
    let mut odd = routing(&[theirs, theirs], 1);
    odd.truncate(32);
    odd[1] = 3;
    let mut twice = routing(&[theirs, theirs], 1);
    twice[2] = 2;
    for header in [odd, routing(&[theirs], 2), twice] {
        let packet = with_header(&packet, protocol::ROUTING, header);
        let mut alice = going(HalfChoice::Out, &line.text("out"));
        assert_eq!(reason(&mut alice, &packet).as_deref(), Some("routing_header"));
    }
}

/// The path of an outer packet with a source route is that of its association.
#[test]
fn a_source_routed_packet_is_fragmented_like_any_other() {
    let line = Line::new(false, "transport", "sha256", 32).with("type", "ah").with("path_mtu", 1000);
    let (ours, _) = hosts(false);
    let mut packet =
        with_options(&datagram((ours, ip("198.51.100.1")), 9, &[7; 1400]), &route_to([192, 0, 2, 2]));
    packet[6] = 0;
    Ipv4::new_checked(&mut packet[..]).unwrap().fill_checksum();
    let (sealed, outer) = step(&mut going(HalfChoice::Out, &line.text("out")), &packet);
    assert_eq!((sealed.verdict, outer.len()), (ReplayVerdict::Protect, 2));
    assert!(outer.iter().all(|piece| piece.len() <= 1000));
}

/// RFC 5095, RFC 8200 section 4.4, RFC 791: with or without UDP, who opens a packet is its last destination.
#[test]
fn behind_an_unfinished_route_nothing_is_opened() {
    for v6 in [false, true] {
        let line = Line::new(v6, "tunnel", "aes128gcm", 20);
        let line = line.with("selector_local", "10.1.0.0/16").with("selector_remote", "10.2.0.0/16");
        let (_, outer) = step(&mut door(&line.text("out")), &datagram(inner_hosts(false), 9, &[7; 40]));
        let outer = &outer[0];
        let routed = match v6 {
            false => with_options(outer, &route_to([203, 0, 113, 9])),
            true => with_header(outer, protocol::ROUTING, routing(&[ip("2001:db8::9")], 1)),
        };
        let mut bob = going(HalfChoice::In, &line.text("in"));
        assert_eq!(reason(&mut bob, &routed).as_deref(), Some("routing_unfinished"));
        assert_eq!(step(&mut bob, outer).0.verdict, ReplayVerdict::Deliver);
    }
}

/// RFC 1122 section 4.1.3.4; a checksum of zero and one that a device was to finish are none.
#[test]
fn a_wrong_checksum_around_esp_ends_the_packet() {
    for v6 in [false, true] {
        let line = Line::new(v6, "tunnel", "aes128gcm", 20);
        let line = line.with("selector_local", "10.1.0.0/16").with("selector_remote", "10.2.0.0/16");
        let (_, outer) = step(&mut door(&line.text("out")), &datagram(inner_hosts(false), 9, &[7; 40]));
        let outer = outer[0].clone();
        let headers = Headers::parse(&outer).unwrap();
        let at = headers.header_len + 6;
        let put = |check: [u8; 2]| {
            let mut packet = outer.clone();
            packet[at..at + 2].copy_from_slice(&check);
            packet
        };
        let (mut right, mut partial) = (put([0, 0]), put([0, 0]));
        checksum::complete_transport(&mut right, &headers).unwrap();
        checksum::put_pseudo(&mut partial, &headers).unwrap();
        let mut bob = door(&line.text("in"));
        let wrong = put([right[at] ^ 1, right[at + 1]]);
        assert_eq!(reason(&mut bob, &wrong).as_deref(), Some("bad_checksum"));
        // The number is not used up; and who forges the rest hears what all forgers hear.
        let mut forged = wrong;
        *forged.last_mut().unwrap() ^= 1;
        assert_eq!(reason(&mut bob, &forged).as_deref(), Some("auth_failed"));
        for fine in [right, put([0, 0]), partial] {
            let mut bob = door(&line.text("in"));
            assert_eq!(step(&mut bob, &fine).0.verdict, ReplayVerdict::Deliver, "IPv6 {v6}");
        }
    }
}

/// A type is no port: without a protocol the ports of an association are those of TCP, UDP and their like.
#[test]
fn ports_without_a_protocol_are_ports() {
    let line = Line::new(false, "transport", "aes128gcm", 20);
    let mut echo = datagram(hosts(false), 9, &[0; 8]);
    (echo[9], echo[20], echo[21]) = (1, 8, 0);
    Ipv4::new_checked(&mut echo[..]).unwrap().fill_checksum();
    let mut gre = echo.clone();
    gre[9] = 47;
    Ipv4::new_checked(&mut gre[..]).unwrap().fill_checksum();
    for (ports, packet) in [("2048", &echo), ("0-4000", &echo), ("0-4000", &gre)] {
        let bound = line.clone().with("local_ports", ports);
        let (left, _) = step(&mut going(HalfChoice::Out, &bound.text("out")), packet);
        assert_eq!(left.verdict, ReplayVerdict::Bypass, "{ports} {left:?}");
        let (_, outer) = step(&mut going(HalfChoice::Out, &line.text("out")), packet);
        assert_eq!(reason(&mut door(&bound.text("in")), &outer[0]).as_deref(), Some("selector_mismatch"));
    }
    let bound = line.with("protocol", "icmp").with("local_ports", "2048");
    assert_eq!(
        step(&mut going(HalfChoice::Out, &bound.text("out")), &echo).0.verdict,
        ReplayVerdict::Protect
    );
}

/// RFC 4301 section 4.4.1.1: an association for packets with a Mobility Header of one type, and what it leaves out.
#[test]
fn a_mobility_header_is_selected_by_its_type() {
    let line =
        Line::new(true, "transport", "aes128gcm", 20).with("protocol", "135").with("local_ports", "1280");
    let all = Line::new(true, "transport", "aes128gcm", 20);
    let message = |kind: u8| {
        let mut packet = datagram(hosts(true), 9, &[0; 8]);
        (packet[6], packet[40], packet[41], packet[42]) = (135, 59, 1, kind);
        packet
    };
    let (sealed, outer) = step(&mut going(HalfChoice::Out, &line.text("out")), &message(5));
    assert_eq!(sealed.verdict, ReplayVerdict::Protect, "{sealed:?}");
    let (opened, inner) = step(&mut door(&line.text("in")), &outer[0]);
    assert_eq!((&opened.verdict, &inner[0]), (&ReplayVerdict::Deliver, &message(5)), "{opened:?}");
    let (left, _) = step(&mut going(HalfChoice::Out, &line.text("out")), &message(6));
    assert_eq!(left.verdict, ReplayVerdict::Bypass, "{left:?}");
    // A sender with wider selectors.
    let (_, outer) = step(&mut going(HalfChoice::Out, &all.text("out")), &message(6));
    assert_eq!(reason(&mut door(&line.text("in")), &outer[0]).as_deref(), Some("selector_mismatch"));
}

/// Compression between two hosts.
fn comp(cpi: &str) -> Line {
    let mut line = Line::new(false, "transport", "aes128gcm", 20).with("spi", cpi).with("type", "ipcomp");
    let fields = line.fields.as_object_mut().unwrap();
    fields.remove("suite");
    fields.remove("keymat");
    line
}

/// RFC 3173 sections 3.3 and 4.3: by hand one names the algorithm by its well-known number, 2 for DEFLATE.
#[test]
fn the_well_known_cpi_of_deflate() {
    let esp = |way| Line::new(false, "transport", "aes128gcm", 20).with("spi", "0x1001").text(way);
    let packet = datagram(hosts(false), 53, &[7; 900]);
    let out = comp("2").with("next", "0x1001").text("out") + &esp("out");
    let (sealed, outer) = step(&mut going(HalfChoice::Out, &out), &packet);
    assert_eq!((&sealed.verdict, outer[0].len() < 300), (&ReplayVerdict::Protect, true), "{sealed:?}");
    let (opened, inner) = step(&mut door(&(comp("2").text("in") + &esp("in"))), &outer[0]);
    assert_eq!((&opened.verdict, &inner[0]), (&ReplayVerdict::Deliver, &packet), "{opened:?}");
    // Everybody has the same number: it is another association with each peer.
    let other = comp("2").text("in").replace(r#""remote":"192.0.2.1""#, r#""remote":"192.0.2.77""#);
    assert!(other.contains(".77"), "{other}");
    for file in [other.clone() + &comp("2").text("in"), comp("2").text("in") + &other] {
        let (opened, inner) = step(&mut door(&(file + &esp("in"))), &outer[0]);
        assert_eq!((&opened.verdict, &inner[0]), (&ReplayVerdict::Deliver, &packet), "{opened:?}");
    }
    // setkey's usual lines.
    let both = "add 192.0.2.1 192.0.2.2 ipcomp 2 -C deflate;\nadd 192.0.2.2 192.0.2.1 ipcomp 2 -C deflate;\n";
    drop(door(both));
}

/// RFC 3173 section 2: whether a packet was worth compressing changes nothing for the selectors of the association around it.
#[test]
fn selectors_look_through_compression() {
    let esp = |spi: &str| {
        let line = Line::new(false, "transport", "aes128gcm", 20).with("encapsulation", "none");
        line.with("spi", spi).with("protocol", "udp").with("remote_ports", "53")
    };
    let out = comp("0x1234").with("next", "0x1001").text("out") + &esp("0x1001").text("out");
    // The receiver's side of the same selectors.
    let mut inner = esp("0x1001");
    let ports = inner.fields["remote_ports"].take();
    inner.fields["local_ports"] = ports;
    inner.fields.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    let inb = comp("0x1234").text("in") + &inner.text("in");
    for (port, verdict) in [(53, ReplayVerdict::Deliver), (54, ReplayVerdict::Drop)] {
        for len in [20, 900] {
            let packet = datagram(hosts(false), port, &vec![7; len]);
            let (sealed, outer) = step(&mut going(HalfChoice::Out, &out), &packet);
            assert_eq!(sealed.verdict, ReplayVerdict::Protect, "{sealed:?}");
            assert!(len == 20 || outer[0].len() < 300, "compressed");
            let (opened, _) = step(&mut door(&inb), &outer[0]);
            assert_eq!(opened.verdict, verdict, "port {port}, {len} octets: {opened:?}");
        }
    }
}

/// RFC 4301 section 6.2: an error that no association carries for its own sake belongs to that of the traffic that it is about.
#[test]
fn an_error_about_a_protected_packet_leaves_protected() {
    let line = Line::new(false, "tunnel", "aes128gcm", 20)
        .with("selector_local", "10.1.0.0/16")
        .with("selector_remote", "10.2.0.0/16");
    let (ours, theirs) = inner_hosts(false);
    let quoted = datagram((theirs, ours), 9, &[7; 1450]);
    let mut error =
        icmp::too_big(&quoted, &Headers::parse(&quoted).unwrap(), 1400, None).unwrap().as_slice().to_vec();
    // From a router behind this host.
    error[12..16].copy_from_slice(&[172, 20, 0, 1]);
    Ipv4::new_checked(&mut error[..]).unwrap().fill_checksum();
    let (sealed, _) = step(&mut going(HalfChoice::Out, &line.text("out")), &error);
    assert_eq!(sealed.verdict, ReplayVerdict::Protect, "{sealed:?}");
    // By whatever way it goes (RFC 1812 section 4.3.2.6: back along a source route), if the tunnel takes that.
    let routed = with_options(&error, &route_to([10, 2, 0, 2]));
    let (sealed, _) = step(&mut going(HalfChoice::Out, &line.text("out")), &routed);
    assert_eq!(sealed.verdict, ReplayVerdict::Protect, "{sealed:?}");
    let mut astray = with_options(&error, &route_to([10, 2, 0, 2]));
    astray[16..20].copy_from_slice(&[203, 0, 113, 9]);
    Ipv4::new_checked(&mut astray[..]).unwrap().fill_checksum();
    assert_eq!(
        reason(&mut going(HalfChoice::Out, &line.text("out")), &astray).as_deref(),
        Some("selector_mismatch")
    );
    // One about somebody else's packet is a packet like all.
    let quoted = datagram((theirs, ip("10.7.0.1")), 9, &[7; 1450]);
    let mut error =
        icmp::too_big(&quoted, &Headers::parse(&quoted).unwrap(), 1400, None).unwrap().as_slice().to_vec();
    error[12..16].copy_from_slice(&[172, 20, 0, 1]);
    Ipv4::new_checked(&mut error[..]).unwrap().fill_checksum();
    let (passed, _) = step(&mut going(HalfChoice::Out, &line.text("out")), &error);
    assert_eq!(passed.verdict, ReplayVerdict::Bypass);
}

/// RFC 4301 section 8: what may be fragmented arrives although the outer packet must not be; so does what nobody may cut, and whose sender
/// would not send less (RFC 2473 section 7.1).
#[test]
fn a_tunnel_that_sets_df_drops_nothing_in_silence() {
    let line = |v6| {
        Line::new(v6, "tunnel", "aes128gcm", 20)
            .with("headers", serde_json::json!({"df": "set"}))
            .with("encapsulation", "none")
            .with("path_mtu", 1300)
    };
    let narrow = |line: Line, v6: bool| {
        let (ours, theirs) = inner_hosts(v6);
        line.with("selector_local", ours.to_string()).with("selector_remote", theirs.to_string())
    };
    let mut packet = datagram(inner_hosts(false), 9, &[7; 1400]);
    packet[6] = 0;
    Ipv4::new_checked(&mut packet[..]).unwrap().fill_checksum();
    // Over IPv4 it is cut in front of the tunnel, over IPv6 behind it.
    let (sealed, outer) = step(&mut door(&narrow(line(false), false).text("out")), &packet);
    assert_eq!((sealed.verdict, outer.len()), (ReplayVerdict::Protect, 2), "{sealed:?}");
    assert!(outer.iter().all(|outer| Headers::parse(outer).unwrap().fragment.is_none() && outer[6] == 0x40));
    let (sealed, outer) = step(&mut door(&narrow(line(true), false).text("out")), &packet);
    assert_eq!((sealed.verdict, outer.len()), (ReplayVerdict::Protect, 2), "{sealed:?}");
    assert!(outer.iter().all(|outer| Headers::parse(outer).unwrap().fragment.is_some()));
    let packet = datagram(inner_hosts(true), 9, &[7; 1280 - 48]);
    let (sealed, outer) = step(&mut door(&narrow(line(false), true).text("out")), &packet);
    assert_eq!((sealed.verdict, outer.len()), (ReplayVerdict::Protect, 2), "{sealed:?}");
    let packet = datagram(inner_hosts(true), 9, &[7; 1400]);
    let (refused, answer) = step(&mut door(&narrow(line(false), true).text("out")), &packet);
    assert_eq!((refused.reason.as_deref(), answer.len()), (Some("too_big"), 1), "{refused:?}");
}

/// RFC 791 section 3.2: fragments meet by their identification. An inner packet of IPv6 has none to give.
#[test]
fn beet_numbers_what_may_be_cut() {
    let (ours, theirs) = inner_hosts(true);
    let line = Line::new(false, "beet", "aes128gcm", 20)
        .with("selector_local", ours.to_string())
        .with("selector_remote", theirs.to_string())
        .with("encapsulation", "none")
        .with("path_mtu", 600);
    let mut alice = door(&line.text("out"));
    let mut ids = Vec::new();
    for _ in 0..2 {
        let (sealed, outer) = step(&mut alice, &datagram((ours, theirs), 9, &[7; 1100]));
        assert_eq!((sealed.verdict, outer.len()), (ReplayVerdict::Protect, 2), "{sealed:?}");
        let all: Vec<_> = outer.iter().map(|piece| [piece[4], piece[5]]).collect();
        assert!(all.iter().all(|id| *id == all[0] && *id != [0, 0]), "{all:?}");
        ids.push(all[0]);
    }
    assert_ne!(ids[0], ids[1]);
}

/// RFC 8200 section 4.5: extension headers behind the routing header are cut with the rest, and of the next headers that the fragments
/// name the first one's counts.
#[test]
fn fragments_with_options_in_front_of_a_security_header_meet() {
    let line = Line::new(true, "tunnel", "aes128gcm", 20);
    let line = line.with("selector_local", "10.1.0.0/16").with("selector_remote", "10.2.0.0/16");
    for encapsulation in ["none", "udp"] {
        let line = line.clone().with("encapsulation", encapsulation);
        let (_, outer) = step(&mut door(&line.text("out")), &datagram(inner_hosts(false), 9, &[7; 900]));
        let options = vec![0, 0, 1, 4, 0, 0, 0, 0];
        let pieces = cut(&with_header(&outer[0], protocol::DESTINATION, options), 5, 600);
        assert_eq!(
            (pieces.len(), pieces[0][6], pieces[0][40]),
            (2, protocol::FRAGMENT, protocol::DESTINATION)
        );
        let mut other = pieces.clone();
        other[1][40] = protocol::TCP;
        for pieces in [pieces, other] {
            for way in [HalfChoice::Auto, HalfChoice::In] {
                for order in [[0, 1], [1, 0]] {
                    let mut bob = going(way, &line.text("in"));
                    assert_eq!(step(&mut bob, &pieces[order[0]]).0.verdict, ReplayVerdict::Hold);
                    let (last, _) = step(&mut bob, &pieces[order[1]]);
                    assert_eq!(last.verdict, ReplayVerdict::Deliver, "{encapsulation} {way:?} {order:?}");
                }
            }
        }
    }
}

/// RFC 7112: AH is an extension header, and the first fragment has all of them.
#[test]
fn a_first_fragment_has_all_of_ah() {
    let line = Line::new(true, "transport", "sha256", 32).with("type", "ah");
    let (_, outer) = step(&mut door(&line.text("out")), &datagram(hosts(true), 9, &[7; 900]));
    let pieces = cut(&outer[0], 5, ipv6::HEADER_LEN + 8 + 16);
    let mut bob = going(HalfChoice::In, &line.text("in"));
    assert_eq!(reason(&mut bob, &pieces[0]).as_deref(), Some("fragment_header"));
}

/// RFC 8200 section 4.5: a packet is given up a minute after its first fragment.
#[test]
fn fragments_half_a_minute_apart_meet() {
    let line = Line::new(true, "transport", "aes128gcm", 20);
    let pieces = cut(&datagram(hosts(true), 9, &[1; 1000]), 77, 600);
    let mut alice = going(HalfChoice::Out, &line.text("out"));
    step_at(&mut alice, 100, &pieces[0]);
    assert_eq!(step_at(&mut alice, 130, &pieces[1]).0.verdict, ReplayVerdict::Protect);
}

#[test]
fn what_is_said_to_be_ip_and_is_not_has_a_reason() {
    let mut alice = going(HalfChoice::Out, "");
    for first in [0x05, 0x55, 0x75, 0xf5] {
        let mut packet = datagram(hosts(false), 9, &[1; 40]);
        packet[0] = first;
        assert_eq!(reason(&mut alice, &packet).as_deref(), Some("bad_version"));
    }
    assert_eq!(reason(&mut alice, &[]).as_deref(), Some("truncated"));
}

/// RFC 2451 section 2.3, and selectors that no packet has.
#[test]
fn associations_that_could_not_be_meant_are_refused() {
    let options = EngineOptions::default();
    let refused = |line: &Line| {
        let file = line.text("out");
        let made = Replay::new(None, &options, Some(("file", &mut file.as_bytes())), with_legacy());
        made.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let keys = |parts: [&str; 3]| parts.concat() + &"11".repeat(20);
    let (one, other) = ("0123456789abcdef", "fedcba9876543210");
    for parts in [[one, one, other], [other, one, one], [one, "0023456789abcdee", other]] {
        let line = Line::new(false, "transport", "3des-sha1", 44).with("keymat", keys(parts));
        assert!(refused(&line).contains("DES"), "{parts:?}");
    }
    let fine = Line::new(false, "transport", "3des-sha1", 44).with("keymat", keys([one, other, one]));
    assert_eq!(refused(&fine), "");
    assert!(refused(&comp("3")).contains("choose 2"), "only the algorithm that is here has its number");
    assert_eq!(refused(&comp("2")), "");
    let tunnel = || Line::new(false, "tunnel", "aes128gcm", 20);
    assert!(refused(&tunnel().with("spi", "2")).contains("reserved"), "only compression has one so low");
    let mixed = tunnel().with("selector_local", "10.1.0.0/16").with("selector_remote", "2001:db8::/32");
    assert!(refused(&mixed).contains("two families"));
    assert!(refused(&tunnel().with("protocol", "icmp").with("remote_ports", "2048")).contains("local ports"));
    assert!(refused(&tunnel().with("protocol", "47").with("local_ports", "80")).contains("no ports"));
    assert_eq!(refused(&tunnel().with("protocol", "icmp").with("local_ports", "2048")), "");
}
