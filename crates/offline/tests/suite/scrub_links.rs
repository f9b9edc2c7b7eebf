//! Captures through the offline scrubber: the link layers that a second reading may hide behind, and what a capture lacks.

use crate::scrub_kit::{Packet, pcap, read, scrub, scrub_with, tcp, udp};

use api::ScrubSummary;
use netio::pcap::LinkType;
use offline::scrub::{Profile, Settings};
use wire::tcp::Flags;

const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);

/// A link header of this type, its length fields for a packet of 46 octets: headers and six octets of data.
fn header(kind: &[u8]) -> Vec<u8> {
    [&[2; 12], kind].concat()
}

/// The header of a tunnel around `len` octets: IPv4 (`tunnel4`) or IPv6.
fn tunnel4(len: u8) -> Vec<u8> {
    let mut header = vec![0x45, 0, 0, 20 + len, 0, 7, 0, 0, 64, 4, 0, 0, 203, 0, 113, 1, 203, 0, 113, 2];
    let sum = wire::checksum::ip_checksum(&header).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    header
}

fn tunnel6(len: u8) -> Vec<u8> {
    let address = |last: u8| [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    [&[0x60, 0, 0, 0, 0, len, 4, 64][..], &address(1), &address(2)].concat()
}

/// A connection with two texts at the same numbers, the first of them in a frame with another header.
fn two_texts(other: &[u8]) -> Vec<u8> {
    let plain = header(&[8, 0]);
    let packets = [
        tcp(1, Flags::SYN, 99, b"").behind(&plain),
        tcp(2, SYN_ACK, 499, b"").turned(100).behind(&plain),
        tcp(3, Flags::ACK, 100, b"attack").acknowledging(500).behind(&header(other)),
        tcp(4, Flags::ACK, 100, b"benign").acknowledging(500).behind(&plain),
    ];
    pcap(LinkType::Ethernet, &packets)
}

#[test]
fn a_second_text_behind_another_link_header_is_the_first_one() {
    for (what, other) in [
        ("nothing", &[8, 0][..]),
        ("a tag", &[0x81, 0, 0, 5, 8, 0]),
        ("three tags", &[0x81, 0, 0, 5, 0x81, 0, 0, 6, 0x81, 0, 0, 7, 8, 0]),
        ("a tag of 1998", &[0x92, 0, 0, 5, 8, 0]),
        ("PPPoE", &[0x88, 0x64, 0x11, 0, 0, 1, 0, 48, 0, 0x21]),
        ("MPLS", &[0x88, 0x47, 0, 6, 0x41, 0x40]),
        ("SNAP", &[0, 54, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]),
        ("LLC", &[0, 49, 6, 6, 3]),
        ("IP in IP", &[&[8, 0][..], &tunnel4(46)].concat()),
        ("IPv4 in IPv6", &[&[0x86, 0xdd][..], &tunnel6(46)].concat()),
        ("tunnels in a tunnel", &[&[0x86, 0xdd][..], &tunnel6(86), &tunnel4(66), &tunnel4(46)].concat()),
    ] {
        for profile in [Profile::Minimal, Profile::Standard, Profile::Strict] {
            let (out, summary) = scrub_with(&two_texts(other), Settings::new(profile)).unwrap();
            let frames = read(&out);
            assert_eq!(
                (frames.len(), summary.not_ip, summary.unscrubbed_ip),
                (4, 0, 0),
                "{what} {profile:?}"
            );
            assert!(frames[3].data.ends_with(b"attack"), "{what} {profile:?}: {summary:?}");
        }
    }
}

#[test]
fn length_fields_of_the_link_follow_the_packet() {
    for (other, field, count) in [
        (&[0x88, 0x64, 0x11, 0, 0, 1, 0, 34, 0, 0x21][..], 18, 2),
        (&[0, 40, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0], 12, 8),
    ] {
        // Four octets of options that rule 4.16 takes out.
        let mut packet = udp(1, b"").octets;
        packet.splice(20..20, [1, 1, 1, 0]);
        packet[0] = 0x46;
        packet[3] += 4;
        wire::ipv4::Ipv4::new_checked(&mut packet[..]).unwrap().fill_checksum();
        let capture = pcap(LinkType::Ethernet, &[Packet::at(1, packet).behind(&header(other))]);
        let (out, summary) = scrub(&capture);
        let frame = &read(&out)[0].data;
        assert_eq!((summary.changed, frame.len()), (1, 12 + other.len() + 28), "{summary:?}");
        assert_eq!(frame[field..field + 2], [0, 28 + count], "{frame:02x?}");
    }
    // A packet that goes on behind its own frame's length is read in two ways.
    let short = [0x88, 0x64, 0x11, 0, 0, 1, 0, 26, 0, 0x21];
    let (out, summary) = scrub(&pcap(LinkType::Ethernet, &[udp(1, b"long enough").behind(&header(&short))]));
    assert_eq!((read(&out).len(), summary.rules[0].id.as_str()), (0, "4.2"));
}

#[test]
fn what_may_hold_ip_and_is_not_read_is_counted_told_and_dropped_in_strict() {
    let macsec = header(&[0x88, 0xe5, 0, 0, 0, 0, 0, 1]);
    let capture = pcap(LinkType::Ethernet, &[udp(1, b"x").behind(&macsec)]);
    for (profile, written) in
        [(Profile::Observe, 1), (Profile::Minimal, 1), (Profile::Standard, 1), (Profile::Strict, 0)]
    {
        let (_, summary) = scrub_with(&capture, Settings::new(profile)).unwrap();
        assert_eq!((summary.unscrubbed_ip, summary.written), (1, written), "{profile:?}");
        assert!(summary.hints.iter().any(|hint| hint.contains("not read here")), "{summary:?}");
    }
}

#[test]
fn the_same_ports_in_two_vlans_are_two_connections() {
    let tag = |vlan: u8| header(&[0x81, 0, 0, vlan, 8, 0]);
    let talk = |vlan: u8, text: &[u8]| {
        [
            tcp(1, Flags::SYN, 99, b""),
            tcp(2, SYN_ACK, 499, b"").turned(100),
            tcp(3, Flags::ACK, 100, b"").acknowledging(500),
            tcp(4, Flags::ACK, 100, text).acknowledging(500),
        ]
        .map(|packet| packet.behind(&tag(vlan)))
    };
    let (one, other) = (talk(1, b"first "), talk(2, b"second"));
    let both: Vec<Packet> = one.into_iter().zip(other).flat_map(|(a, b)| [a, b]).collect();
    let capture = pcap(LinkType::Ethernet, &both);
    let (out, summary) = scrub(&capture);
    assert_eq!((read(&out), summary.changed, summary.dropped), (read(&capture), 0, 0), "{summary:?}");
    // The answers by another VLAN than the questions: one connection.
    let [syn, answer, ack, data] = talk(1, b"first ");
    let answer = Packet { octets: [&tag(2)[..], &answer.octets[18..]].concat(), ..answer };
    let capture = pcap(LinkType::Ethernet, &[syn, answer, ack, data]);
    let (out, summary) = scrub(&capture);
    assert_eq!((read(&out), summary.dropped), (read(&capture), 0), "{summary:?}");
}

fn hints(summary: &ScrubSummary, word: &str) -> bool {
    summary.hints.iter().any(|hint| hint.contains(word))
}

#[test]
fn what_the_card_fills_in_is_filled_in_where_that_is_said() {
    let first = tcp(1, Flags::SYN, 99, b"");
    type Damage = Box<dyn Fn(&mut [u8])>;
    let damaged: [(&str, Damage); 5] = [
        ("header checksum", Box::new(|p| p[10..12].fill(0))),
        ("checksum", Box::new(|p| p[36..38].fill(0))),
        ("both", Box::new(|p| [10, 11, 36, 37].into_iter().for_each(|at| p[at] = 0))),
        ("length", Box::new(|p| p[2..4].fill(0))),
        (
            "the sum of the pseudo-header",
            Box::new(|p| {
                let headers = wire::ip::Headers::parse(p).unwrap();
                wire::checksum::put_pseudo(p, &headers).unwrap();
            }),
        ),
    ];
    for (what, damage) in damaged {
        let mut packet = first.clone();
        damage(&mut packet.octets);
        let capture = pcap(LinkType::Raw, &[packet]);
        let (out, summary) = scrub(&capture);
        assert_eq!((read(&out).len(), summary.unfinished), (0, 1), "{what}");
        assert!(hints(&summary, "--offload"), "{what}: {summary:?}");
        let mut settings = Settings::new(Profile::Standard);
        settings.offload = true;
        let (out, _) = scrub_with(&capture, settings).unwrap();
        assert_eq!(
            read(&out).first().map(|frame| &frame.data),
            Some(&first.octets),
            "{what}: as the card sends it"
        );
    }
}

#[test]
fn segments_that_the_capture_cut_off_are_tracked_and_pass_if_they_contradict_nothing() {
    let cut = |mut packet: Packet, len: usize| {
        packet.octets.truncate(len);
        packet
    };
    let long = [b'a'; 600];
    let packets = [
        tcp(1, Flags::SYN, 99, b""),
        tcp(2, SYN_ACK, 499, b"").turned(100),
        cut(tcp(3, Flags::ACK, 100, &long).acknowledging(500), 68),
        tcp(4, Flags::ACK, 500, b"").turned(700),
        cut(tcp(5, Flags::ACK, 700, &long).acknowledging(500), 68),
        tcp(6, Flags::ACK, 500, b"answer").turned(1300),
        tcp(7, Flags::ACK, 1300, b"whole").acknowledging(506),
    ];
    let capture = pcap(LinkType::Raw, &packets);
    let (out, summary) = scrub(&capture);
    assert_eq!((read(&out), summary.cut_passed, summary.dropped), (read(&capture), 2, 0), "{summary:?}");
    // What is there of one says something else than a whole one did.
    let packets = [
        packets[0].clone(),
        packets[1].clone(),
        tcp(3, Flags::ACK, 100, b"truth").acknowledging(500),
        cut(tcp(4, Flags::ACK, 100, &long).acknowledging(500), 45),
    ];
    let (out, summary) = scrub(&pcap(LinkType::Raw, &packets));
    assert_eq!((read(&out).len(), summary.cut_passed, summary.dropped), (3, 0, 1), "{summary:?}");
}

#[test]
fn hosts_that_talk_to_themselves_or_have_no_address_yet_keep_their_addresses() {
    for (src, dst, ports) in [
        ([127, 0, 0, 1], [127, 0, 0, 1], [5000_u16, 1900]),
        ([0, 0, 0, 0], [255, 255, 255, 255], [68, 67]),
        ([192, 0, 2, 1], [255, 255, 255, 255], [67, 68]),
        ([192, 0, 2, 1], [255, 255, 255, 255], [17_500, 17_500]),
        ([248, 0, 2, 1], [192, 0, 2, 1], [5000, 443]),
    ] {
        let mut packet = udp(1, b"DHCP").octets;
        packet[12..16].copy_from_slice(&src);
        packet[16..20].copy_from_slice(&dst);
        packet[20..22].copy_from_slice(&ports[0].to_be_bytes());
        packet[22..24].copy_from_slice(&ports[1].to_be_bytes());
        wire::ipv4::Ipv4::new_checked(&mut packet[..]).unwrap().fill_checksum();
        let headers = wire::ip::Headers::parse(&packet).unwrap();
        wire::checksum::complete_transport(&mut packet, &headers).unwrap();
        let capture = pcap(LinkType::Raw, &[Packet::at(1, packet)]);
        assert_eq!(read(&scrub(&capture).0), read(&capture), "{src:?} to {dst:?}");
    }
    // One end alone is on no wire.
    let mut packet = udp(1, b"x").octets;
    packet[12..16].copy_from_slice(&[127, 0, 0, 1]);
    wire::ipv4::Ipv4::new_checked(&mut packet[..]).unwrap().fill_checksum();
    let (out, _) = scrub(&pcap(LinkType::Raw, &[Packet::at(1, packet)]));
    assert_eq!(read(&out).len(), 0);
}

/// Both ends have one address: the ports tell who is who.
#[test]
fn a_connection_of_a_host_with_itself_goes_on_both_ways() {
    let home = |mut packet: Packet| {
        let octets = &mut packet.octets;
        octets[12..20].copy_from_slice(&[127, 0, 0, 1, 127, 0, 0, 1]);
        wire::ipv4::Ipv4::new_checked(&mut octets[..]).unwrap().fill_checksum();
        let headers = wire::ip::Headers::parse(octets).unwrap();
        wire::checksum::complete_transport(octets, &headers).unwrap();
        packet
    };
    let mut answer = udp(6, b"answer");
    answer.octets[20..24].rotate_left(2);
    let packets = [
        tcp(1, Flags::SYN, 99, b""),
        tcp(2, SYN_ACK, 499, b"").turned(100),
        tcp(3, Flags::ACK, 100, b"question").acknowledging(500),
        tcp(4, Flags::ACK, 500, b"answer").turned(108),
        udp(5, b"question"),
        answer,
    ]
    .map(home);
    let capture = pcap(LinkType::Raw, &packets);
    for profile in [Profile::Minimal, Profile::Standard, Profile::Strict] {
        let (out, summary) = scrub_with(&capture, Settings::new(profile)).unwrap();
        assert_eq!(
            (read(&out).len(), summary.dropped, summary.emitted),
            (6, 0, 0),
            "{profile:?}: {summary:?}"
        );
        assert_eq!(scrub_with(&out, Settings::new(profile)).unwrap().0, out, "{profile:?}");
    }
}

/// The headers of tunnels stay, and their lengths follow the packet; one that is read in two ways is not looked behind.
#[test]
fn tunnels_are_looked_into_and_their_lengths_follow() {
    // Four octets of options that rule 4.16 takes out.
    let mut packet = udp(1, b"x").octets;
    packet.splice(20..20, [1, 1, 1, 0]);
    packet[0] = 0x46;
    packet[3] += 4;
    wire::ipv4::Ipv4::new_checked(&mut packet[..]).unwrap().fill_checksum();
    let len = packet.len() as u8;
    let tunnels = [tunnel6(len + 20), tunnel4(len)].concat();
    let capture = |tunnels: &[u8]| pcap(LinkType::Raw, &[Packet::at(1, packet.clone()).behind(tunnels)]);
    let (out, summary) = scrub(&capture(&tunnels));
    let plain = [tunnel6(len + 16), tunnel4(len - 4), udp(1, b"x").octets].concat();
    assert_eq!(read(&out)[0].data, plain, "{summary:?}");
    assert_eq!(scrub(&out).0, out);
    for (what, damage) in [("a wrong checksum", 10), ("a fragment", 6), ("an option", 0), ("too long", 3)] {
        let mut outer = tunnel4(len);
        outer[damage] = if damage == 6 { 0x20 } else { outer[damage] + 1 };
        if damage != 10 {
            outer[10..12].fill(0);
            let sum = wire::checksum::ip_checksum(&outer).to_be_bytes();
            outer[10..12].copy_from_slice(&sum);
        }
        let (out, summary) = scrub(&capture(&outer));
        assert_eq!((read(&out).len(), summary.dropped), (0, 1), "{what}: {summary:?}");
    }
}

/// A fragment is held, and then part of a packet or dropped: never both.
#[test]
fn fragments_that_wait_in_vain_are_counted_once() {
    let fragment = |second: u64, offset: u8, id: u8| {
        let mut packet = udp(second, &[7; 40]).octets;
        (packet[5], packet[6], packet[7]) = (id, 0x20, offset);
        wire::ipv4::Ipv4::new_checked(&mut packet[..]).unwrap().fill_checksum();
        Packet::at(second, packet)
    };
    let packets = [fragment(1, 0, 1), fragment(100, 0, 2), fragment(101, 20, 2), udp(102, b"whole")];
    let (_, summary) = scrub(&pcap(LinkType::Raw, &packets));
    let limit = summary.rules.iter().find(|rule| rule.id == "4.11").map(|rule| rule.dropped);
    assert_eq!((summary.packets, summary.forwarded, summary.held), (4, 1, 0), "{summary:?}");
    assert_eq!((summary.dropped, limit), (3, Some(3)), "{summary:?}");
}

#[test]
fn an_option_of_a_wrong_length_in_pcapng_breaks_nothing() {
    let word = u32::to_le_bytes;
    let block = |kind: u32, body: &[u8]| {
        let len = word(12 + body.len() as u32);
        [&word(kind)[..], &len, body, &len].concat()
    };
    let section = [&word(0x1a2b_3c4d)[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    let packet = udp(1, b"").octets;
    // An enhanced packet block whose flags (option 2) have two octets, in the place of four.
    let len = word(packet.len() as u32);
    let option = [2, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    let body = [&word(0)[..], &word(0), &word(0), &len, &len, &packet, &option].concat();
    let file = [
        block(0x0a0d_0d0a, &section),
        block(1, &[&[101, 0, 0, 0][..], &word(262_144)].concat()),
        block(6, &body),
        block(6, &body),
    ]
    .concat();
    let (out, summary) = scrub(&file);
    assert_eq!((summary.broken.as_deref(), summary.packets, summary.written), (None, 2, 2), "{summary:?}");
    assert_eq!(read(&out).len(), 2);
}
