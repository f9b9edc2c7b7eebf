//! Tests of what one reader reads and another does not, below TCP or before its handshake: authentication headers,
//! connections in the middle, extension headers that only some walk.

use crate::kit::{ACK, Seg, World, client, server};
use scrub::{Config, Midstream, Mode, Outcome, Profile, Rule, Side};
use wire::ip::Headers;
use wire::{Prefix, ah, checksum, ipv4, protocol};

/// The packet with an authentication header of `next` in front of its transport, whose ICV nobody here can check.
fn signed(packet: &[u8], next: u8) -> Vec<u8> {
    const LEN: usize = 24;
    let (header, rest) = packet.split_at(20);
    let mut out = [header, &[0; LEN], rest].concat();
    ah::emit(&mut out[20..], next, 0x1234, 1, LEN).expect("it fits");
    out[9] = protocol::AH;
    ipv4::put_total_len(&mut out, (packet.len() + LEN) as u16);
    ipv4::Ipv4::new_checked(&mut out[..]).expect("a packet").fill_checksum();
    out
}

fn pass_signed(world: &mut World, segment: &Seg) -> crate::kit::Out {
    let packet = signed(&segment.packet(world.isn), protocol::TCP);
    world.pass_bytes(segment.from, &packet)
}

const PROFILES: [Profile; 3] = [Profile::Minimal, Profile::Standard, Profile::Strict];

#[test]
fn segments_behind_an_authentication_header_are_of_the_same_connection() {
    for profile in PROFILES {
        let mut config = Config::new(profile);
        config.set_mode(Rule::V4Id, Mode::Off).expect("it may be off");
        let mut world = World::established_with(config, &[], &[]);
        world.pass(&client(0, b"truth")).unchanged();
        // A copy that says something else would have to be rewritten, and nobody here can sign that.
        pass_signed(&mut world, &client(0, b"chaff")).dropped_by("V.2");
        assert_eq!(pass_signed(&mut world, &client(0, b"truth")).outcome, Outcome::Forward, "{profile:?}");
        // What comes first behind one is the truth for what comes without.
        assert_eq!(pass_signed(&mut world, &client(5, b" more")).outcome, Outcome::Forward, "{profile:?}");
        let out = world.pass(&client(5, b" less"));
        assert_eq!(out.passed_with(&["Q.8"]).data, b" more", "{profile:?}");
        // Nobody reads past the end of the window by a header in front either.
        assert!(matches!(
            pass_signed(&mut world, &client(1_000_000, b"far")).outcome,
            Outcome::Drop(Rule::Window)
        ));
    }
}

#[test]
fn a_segment_behind_a_header_opens_nothing_by_itself_and_what_cannot_be_read_ends() {
    let mut world = World::standard();
    pass_signed(&mut world, &client(0, b"stray")).dropped_by("Q.14");
    // A packet of its own behind the header: only hosts that may speak so.
    let inner = client(0, b"tunnel").packet(world.isn);
    let outer = [&inner[..20], &inner[..]].concat();
    let tunnel = |mut outer: Vec<u8>| {
        let len = outer.len() as u16;
        ipv4::put_total_len(&mut outer, len);
        signed(&outer, protocol::IPV4)
    };
    world.pass_bytes(Side::Outside, &tunnel(outer.clone())).dropped_by("V.2");
    let mut config = Config::new(Profile::Standard);
    let host = |address: [u8; 4]| Prefix::new(address.into(), 32).expect("a host");
    config.sanctioned = vec![(host(crate::kit::CLIENT), host(crate::kit::SERVER))];
    assert_eq!(World::new(config).pass_bytes(Side::Outside, &tunnel(outer)).outcome, Outcome::Forward);
    // A length that does not fit.
    let mut broken = signed(&client(0, b"x").packet(world.isn), protocol::TCP);
    broken[21] = 200;
    world.pass_bytes(Side::Outside, &broken).dropped_by("V.2");
    // Protocols are those of the list, behind a header as in front of one.
    let strange = signed(&client(0, b"x").packet(world.isn), 253);
    world.pass_bytes(Side::Outside, &strange).dropped_by("4.17");
}

#[test]
fn an_authentication_header_of_ipv6_is_no_way_past_either() {
    let packet = |data: &[u8], with_header: bool| {
        let mut out = vec![0x60, 0, 0, 0, 0, 0, if with_header { 51 } else { 6 }, 64];
        out.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        out.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        let mut segment = client(0, data).packet([0, 0])[20..].to_vec();
        segment[16..18].fill(0);
        let mut plain = [&out[..], &segment].concat();
        plain[6] = 6;
        plain[4..6].copy_from_slice(&(segment.len() as u16).to_be_bytes());
        let headers = Headers::parse(&plain).expect("a packet");
        checksum::complete_transport(&mut plain, &headers).expect("a segment");
        if !with_header {
            return plain;
        }
        out.extend([0; 24]);
        ah::emit(&mut out[40..], protocol::TCP, 0x1234, 1, 24).expect("it fits");
        out.extend(&plain[40..]);
        let len = (out.len() - 40) as u16;
        out[4..6].copy_from_slice(&len.to_be_bytes());
        out
    };
    let mut config = Config::new(Profile::Standard);
    config.midstream = Midstream::PickUp;
    let mut world = World::new(config);
    world.pass_bytes(Side::Outside, &packet(b"truth", false)).unchanged();
    world.pass_bytes(Side::Outside, &packet(b"chaff", true)).dropped_by("V.2");
    assert_eq!(world.pass_bytes(Side::Outside, &packet(b"truth", true)).outcome, Outcome::Forward);
}

/// An extension header by RFC 7045 that not all readers go past hides nothing: it is refused unless nothing follows.
#[test]
fn half_known_extension_headers_hide_nothing_in_minimal() {
    for number in [protocol::MOBILITY, 139, 140, 253, 254] {
        let packet = |next: u8| {
            let mut out = vec![0x60, 0, 0, 0, 0, 8, number, 64];
            out.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            out.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
            out.extend([next, 0, 0, 0, 0, 0, 0, 0]);
            out
        };
        let mut world = World::new(Config::new(Profile::Minimal));
        world.pass_bytes(Side::Outside, &packet(protocol::TCP)).dropped_by("6.4");
        assert_eq!(
            world.pass_bytes(Side::Outside, &packet(protocol::NO_NEXT)).outcome,
            Outcome::Forward,
            "{number} with nothing behind it"
        );
    }
}

/// Data of connections that are met in the middle are in store like those of all others.
#[test]
fn minimal_records_connections_whose_start_it_did_not_see() {
    let mut world = World::new(Config::new(Profile::Minimal));
    world.pass(&client(0, b"truth")).unchanged();
    assert_eq!(world.pass(&client(0, b"chaff")).passed_with(&["Q.8"]).data, b"truth");
    world.pass(&server(0, b"").ack(5).flags(ACK)).unchanged();
    let out = world.pass(&client(0, b"chaff"));
    assert_eq!(out.passed_with(&["Q.9"]).data, b"", "of what was acknowledged the header");
    // The same in `standard` with the rule switched off or only observing.
    for mode in [Mode::Off, Mode::Observe] {
        let mut config = Config::new(Profile::Standard);
        config.set_mode(Rule::Midstream, mode).expect("it has all modes");
        let mut world = World::new(config);
        assert_eq!(world.pass(&client(0, b"truth")).outcome, Outcome::Forward);
        assert_eq!(world.pass(&client(0, b"chaff")).data, b"truth", "{mode:?}");
    }
}
