//! The transport cases of docs/scrub.md's catalogue that are about TCP: insertion (I), state (D) and data (O), each
//! offline.

use crate::kit;

use kit::{ACK, FIN, RST, SYN, SYN_ACK, World, client, server};
use scrub::{Config, Midstream, Profile, Side, State};
use std::time::Duration;
use wire::tcp::Flags;

pub fn state(world: &World) -> Option<State> {
    let end = |address: [u8; 4], port| std::net::SocketAddr::new(std::net::IpAddr::from(address), port);
    world.scrubber.connections().state(end(kit::CLIENT, 40000), end(kit::SERVER, 80))
}

#[test]
fn i01_data_with_a_bad_checksum() {
    let mut world = World::established();
    world.pass(&client(0, b"chaff").with(|s| s.bad_checksum = true)).dropped_by("T.2");
    world.pass(&client(0, b"truth")).unchanged().carries(0, b"truth");
}

#[test]
fn i02_reset_with_a_bad_checksum() {
    let mut world = World::established();
    world.pass(&client(0, b"").flags(RST).with(|s| s.bad_checksum = true)).dropped_by("T.2");
    assert_eq!(state(&world), Some(State::Estab));
}

#[test]
fn i03_low_time_to_live() {
    let mut world = World::established();
    let out = world.pass(&client(0, b"data").ttl(2));
    out.passed_with(&["4.14"]).carries(0, b"data");
    assert_eq!(out.ttl, 60);
}

#[test]
fn i04_data_without_ack() {
    let mut world = World::established();
    world.pass(&client(0, b"chaff").flags(Flags::PSH)).dropped_by("T.5");
}

#[test]
fn i05_data_with_a_wrong_acknowledgment() {
    let mut world = World::established();
    world.pass(&client(0, b"chaff").ack(1)).dropped_by("Q.7");
    world.pass(&client(0, b"chaff").ack(-200_000)).dropped_by("Q.7");
    world.pass(&client(0, b"truth")).unchanged();
}

#[test]
fn i06_data_outside_of_the_window() {
    let mut world = World::established();
    world.pass(&client(70_000, b"chaff")).dropped_by("Q.5");
    world.pass(&client(65_533, b"chaff")).passed_with(&["Q.5"]).carries(65_533, b"ch");
}

#[test]
fn i07_data_in_front_of_the_first_octet() {
    let mut world = World::established();
    world.pass(&client(-3, b"abcdef")).passed_with(&["Q.9"]).carries(0, b"def");
}

#[test]
fn i08_no_flags() {
    let mut world = World::established();
    world.pass(&client(0, b"chaff").flags(Flags(0))).dropped_by("T.5");
}

#[test]
fn i09_signature_that_nobody_agreed_on() {
    let mut world = World::established();
    let md5 = [&[19, 18][..], &[9; 16]].concat();
    world.pass(&client(0, b"chaff").options(&md5)).dropped_by("O.6");
    world.pass(&client(0, b"").flags(RST).options(&md5)).dropped_by("O.6");
    assert_eq!(state(&world), Some(State::Estab));
}

#[test]
fn i10_old_timestamp() {
    let mut world = World::stamped();
    world.pass(&client(0, b"new").stamps(200, 501)).unchanged();
    world.pass(&server(0, b"").ack(3).stamps(502, 200)).unchanged();
    world.pass(&client(3, b"chaff").stamps(150, 501)).dropped_by("O.5");
    world.pass(&client(3, b"truth").stamps(201, 502)).unchanged();
    // A month later every stamp may be new (RFC 7323 section 5.5).
    let mut config = Config::new(Profile::Standard);
    config.flows.idle = Duration::from_secs(60 * 24 * 3600);
    let asked = [[1, 1, 8, 10].as_slice(), &100_u32.to_be_bytes(), &[0; 4]].concat();
    let answered = [[1, 1, 8, 10].as_slice(), &501_u32.to_be_bytes(), &100_u32.to_be_bytes()].concat();
    let mut world = World::established_with(config, &asked, &answered);
    world.now = world.now + Duration::from_secs(25 * 24 * 3600);
    world.pass(&client(0, b"late").stamps(90, 501)).unchanged();
}

#[test]
fn i11_data_offset() {
    let mut world = World::established();
    world.pass(&client(0, b"chaff").with(|s| s.offset = Some(4))).dropped_by("T.1");
    world.pass(&client(0, b"chaff").with(|s| s.offset = Some(15))).dropped_by("T.1");
}

#[test]
fn i12_syn_and_fin() {
    let mut world = World::standard();
    world.pass(&client(-1, b"").flags(SYN | Flags::FIN)).dropped_by("T.5");
}

#[test]
fn i13_exotic_flags() {
    let mut world = World::established();
    let all = Flags::FIN | RST | ACK | Flags::PSH | Flags::URG;
    for flags in [all | Flags::ECE, Flags::FIN | RST | ACK, SYN | RST, Flags::FIN | RST] {
        world.pass(&client(0, b"chaff").flags(flags)).dropped_by("T.5");
    }
}

#[test]
fn i14_window_scale_on_data() {
    let mut world = World::established();
    let out = world.pass(&client(0, b"data").options(&[3, 3, 7]));
    out.passed_with(&["O.2"]).carries(0, b"data");
    assert!(out.options.is_empty(), "{:?}", out.options);
}

#[test]
fn i15_user_timeout_on_data() {
    let mut world = World::established();
    let out = world.pass(&client(0, b"data").options(&[28, 4, 0, 1]));
    out.passed_with(&["O.8"]).carries(0, b"data");
    assert!(out.options.is_empty(), "{:?}", out.options);
}

#[test]
fn i16_syn_inside_of_a_connection() {
    let mut world = World::established();
    world.pass(&client(1000, b"").flags(SYN)).dropped_by("Q.13");
    let own = world.own();
    assert_eq!(own.len(), 1, "one challenge");
    assert_eq!((own[0].0, own[0].1.seq, own[0].1.ack, own[0].1.flags), (Side::Outside, 0, 0, ACK));
    world.pass(&client(0, b"data")).unchanged();
}

#[test]
fn i17_retransmission_with_other_octets() {
    let mut world = World::established();
    world.pass(&client(0, b"first")).unchanged();
    world.pass(&client(0, b"other")).passed_with(&["Q.8"]).carries(0, b"first");
}

#[test]
fn d01_reset_far_off() {
    let mut world = World::established();
    world.pass(&client(1_000_000, b"").flags(RST)).dropped_by("Q.11");
    assert!(world.own().is_empty(), "nothing outside of the window is answered");
}

#[test]
fn d02_reset_in_the_window() {
    let mut world = World::established();
    world.pass(&client(0, b"data")).unchanged();
    world.pass(&client(100, b"").flags(RST)).dropped_by("Q.11");
    let own = world.own();
    assert_eq!(
        (own.len(), own[0].0, own[0].1.ack),
        (1, Side::Outside, 0),
        "challenged (RFC 5961 section 3.2)"
    );
    world.pass(&client(101, b"").flags(RST)).dropped_by("Q.11");
    assert!(world.own().is_empty(), "one challenge in half a second");
    world.pass(&client(4, b"").flags(RST)).unchanged();
    assert_eq!(state(&world), Some(State::Closed));
}

#[test]
fn d03_reset_at_the_right_edge_of_a_sack_block() {
    let asked = [4, 2, 1, 1];
    let mut world = World::established_with(Config::new(Profile::Standard), &asked, &asked);
    world.pass(&client(10, b"island")).unchanged();
    world.pass(&client(30, b"island")).unchanged();
    let block = |left: i64, right: i64| {
        let at = |number: i64| world.isn[0].wrapping_add(1).wrapping_add(number as u32).to_be_bytes();
        [&[1, 1, 5, 10][..], &at(left), &at(right)].concat()
    };
    let sack = block(10, 16);
    world.pass(&server(0, b"").options(&sack)).unchanged();
    world.pass(&client(16, b"").flags(RST)).dropped_by("Q.11");
}

#[test]
fn d04_reset_with_a_wrong_acknowledgment() {
    let mut world = World::established();
    world.pass(&client(0, b"").flags(RST | ACK).ack(77)).dropped_by("Q.7");
}

#[test]
fn d05_reset_after_fin() {
    let mut world = World::established();
    world.pass(&client(0, b"").flags(FIN)).unchanged();
    world.pass(&client(1, b"").flags(RST)).unchanged();
    assert_eq!(state(&world), Some(State::Closed));
}

#[test]
fn d06_fin_at_a_wrong_number() {
    let mut world = World::established();
    world.pass(&client(0, b"abcdef")).unchanged();
    // In front of data that passed: the data were first.
    world.pass(&client(3, b"").flags(FIN)).passed_with(&["Q.12"]);
    world.pass(&client(6, b"").flags(FIN)).unchanged();
    world.pass(&client(9, b"").flags(FIN)).passed_with(&["Q.12"]);
    world.pass(&client(200_000, b"").flags(FIN)).dropped_by("Q.5");
}

#[test]
fn d07_fin_without_ack() {
    let mut world = World::established();
    world.pass(&client(0, b"").flags(Flags::FIN)).dropped_by("T.5");
}

#[test]
fn d08_two_syns() {
    let mut world = World::standard();
    world.pass(&client(-1, b"").flags(SYN)).unchanged();
    world.pass(&client(4999, b"").flags(SYN)).dropped_by("Q.2");
    world.pass(&client(-1, b"").flags(SYN)).unchanged();
    world.pass(&server(-1, b"").flags(SYN_ACK)).unchanged();
    world.pass(&client(4999, b"").flags(SYN)).dropped_by("Q.2");
    world.pass(&server(700, b"").flags(SYN_ACK)).dropped_by("Q.2");
    world.pass(&client(0, b"")).unchanged();
    assert_eq!(state(&world), Some(State::Estab));
}

#[test]
fn d09_syn_in_the_window() {
    let mut world = World::established();
    world.pass(&client(0, b"").flags(SYN)).dropped_by("Q.13");
    world.pass(&server(10, b"").flags(SYN)).dropped_by("Q.13");
}

#[test]
fn d10_tcb_turn_around() {
    let mut world = World::standard();
    world.pass(&client(-1, b"").flags(SYN_ACK)).dropped_by("Q.1");
    world.pass(&server(0, b"").flags(RST)).dropped_by("Q.14");
    assert_eq!(state(&world), None);
}

#[test]
fn d11_split_handshake() {
    let mut world = World::standard();
    world.pass(&client(-1, b"").flags(SYN)).unchanged();
    world.pass(&server(-1, b"").flags(ACK)).dropped_by("Q.1");
    world.pass(&server(-1, b"").flags(SYN)).dropped_by("Q.3");
    world.pass(&client(-1, b"").flags(SYN_ACK)).dropped_by("Q.1");
    world.pass(&server(-1, b"").flags(SYN_ACK)).unchanged();
}

#[test]
fn d12_far_data_behind_the_syn() {
    let mut world = World::standard();
    world.pass(&client(-1, b"").flags(SYN)).unchanged();
    world.pass(&client(100_000, b"chaff")).dropped_by("Q.1");
    world.pass(&server(-1, b"").flags(SYN_ACK)).unchanged();
    world.pass(&client(100_000, b"chaff")).dropped_by("Q.5");
}

#[test]
fn d13_answer_from_the_client() {
    let mut world = World::standard();
    world.pass(&client(-1, b"").flags(SYN_ACK)).dropped_by("Q.1");
}

#[test]
fn d14_last_of_the_handshake_with_data_or_lost() {
    let mut world = World::standard();
    world.pass(&client(-1, b"").flags(SYN)).unchanged();
    world.pass(&server(-1, b"").flags(SYN_ACK)).unchanged();
    // The bare acknowledgment was lost in front of us: data open the connection.
    world.pass(&client(0, b"GET /")).unchanged().carries(0, b"GET /");
    assert_eq!(state(&world), Some(State::Estab));
    // It was lost behind us: the answer comes again.
    world.pass(&server(-1, b"").flags(SYN_ACK)).unchanged();
}

#[test]
fn d15_data_in_the_syn() {
    let mut world = World::standard();
    world.pass(&client(-1, b"early").flags(SYN)).passed_with(&["T.7"]).carries(-1, b"");
    world.pass(&server(-1, b"").flags(SYN_ACK)).unchanged();
    world.pass(&client(0, b"early")).unchanged().carries(0, b"early");
}

#[test]
fn d16_fast_open() {
    let mut world = World::standard();
    let cookie = [34, 10, 1, 2, 3, 4, 5, 6, 7, 8];
    let out = world.pass(&client(-1, b"early").flags(SYN).options(&cookie));
    out.passed_with(&["T.7", "O.7"]).carries(-1, b"");
    assert!(out.options.is_empty(), "{:?}", out.options);
}

#[test]
fn d16_fast_open_where_it_is_allowed() {
    let mut config = Config::new(Profile::Standard);
    config.fast_open = true;
    let mut world = World::new(config);
    let cookie = [34, 10, 1, 2, 3, 4, 5, 6, 7, 8];
    world.pass(&client(-1, b"early").flags(SYN).options(&cookie)).unchanged();
    world.pass(&client(-1, b"EARLY").flags(SYN)).passed_with(&["Q.8"]).carries(-1, b"early");
    world.pass(&server(-1, b"").flags(SYN_ACK).ack(6)).dropped_by("Q.1");
    // The server takes a part of it; the rest comes again, as it was.
    world.pass(&server(-1, b"").flags(SYN_ACK).ack(2)).unchanged();
    world.pass(&client(2, b"RLY!")).passed_with(&["Q.8"]).carries(2, b"rly!");
}

#[test]
fn d17_data_while_closing() {
    let mut world = World::established();
    world.pass(&client(0, b"all").flags(FIN)).unchanged();
    world.pass(&client(3, b"more")).dropped_by("Q.12");
    world.pass(&client(0, b"all+more")).passed_with(&["Q.12"]).carries(0, b"all");
    assert_eq!(state(&world), Some(State::Close));
}

#[test]
fn d18_big_gap() {
    let mut world = World::established();
    world.pass(&client(1 << 30, b"chaff")).dropped_by("Q.5");
}

#[test]
fn d19_long_silence() {
    let mut world = World::established();
    world.wait(Duration::from_secs(2 * 3600 + 320));
    let own = world.own();
    let asked: Vec<_> = own.iter().map(|(to, out)| (*to, out.flags, out.seq)).collect();
    assert_eq!(asked, [(Side::Outside, ACK, -1), (Side::Inside, ACK, -1)], "both are asked");
    // One answers: the connection stays.
    world.pass(&server(0, b"")).unchanged();
    world.wait(Duration::from_secs(200));
    assert!(world.own().is_empty());
    // Nobody answers: both are told that it is over, and nothing passes any more.
    for _ in 0..40 {
        world.wait(Duration::from_secs(300));
    }
    let own = world.own();
    let last: Vec<_> = own.iter().rev().take(2).map(|(to, out)| (*to, out.flags, out.seq)).collect();
    assert_eq!(last, [(Side::Inside, RST | ACK, 0), (Side::Outside, RST | ACK, 0)]);
    assert_eq!(state(&world), None);
    world.pass(&client(0, b"late")).dropped_by("Q.14");
}

#[test]
fn d20_port_used_again() {
    let mut world = World::established();
    world.pass(&client(0, b"").flags(FIN)).unchanged();
    world.pass(&server(0, b"").flags(FIN).ack(1)).unchanged();
    world.pass(&client(1, b"").ack(1)).unchanged();
    assert_eq!(state(&world), Some(State::Closed));
    // A reader that missed the end might take one among the old numbers for the old connection's.
    world.pass(&client(0, b"").flags(SYN)).dropped_by("Q.13");
    world.isn[0] = world.isn[0].wrapping_add(200_000);
    world.pass(&client(-1, b"").flags(SYN)).unchanged();
    assert_eq!(state(&world), Some(State::Init));
    world.isn[1] = 99;
    world.pass(&server(-1, b"").flags(SYN_ACK)).unchanged();
    world.pass(&client(0, b"again")).unchanged();
}

/// A client takes the same port again within milliseconds, while its numbers are still inside of the old window.
#[test]
fn d20_port_used_again_at_once() {
    // By its timestamp (RFC 6191), not by an older one.
    let mut world = World::stamped();
    world.pass(&client(0, b"").flags(FIN).stamps(110, 501)).unchanged();
    world.pass(&server(0, b"").flags(FIN).ack(1).stamps(510, 110)).unchanged();
    world.pass(&client(1, b"").ack(1).stamps(111, 510)).unchanged();
    assert_eq!(state(&world), Some(State::Closed));
    let again = client(1000, b"").flags(SYN);
    world.pass(&again.clone().stamps(50, 0)).dropped_by("Q.13");
    world.pass(&again.stamps(5000, 0)).unchanged();
    assert_eq!(state(&world), Some(State::Init));
    // By a reset: the answer to the challenge says that the old one is over.
    let mut world = World::established();
    world.pass(&client(0, b"").flags(FIN)).unchanged();
    world.pass(&server(0, b"").flags(FIN).ack(1)).unchanged();
    world.pass(&client(1, b"").ack(1)).unchanged();
    world.pass(&client(0, b"").flags(SYN)).dropped_by("Q.13");
    world.pass(&client(1, b"").flags(RST)).unchanged();
    world.pass(&client(1000, b"").flags(SYN)).unchanged();
    assert_eq!(state(&world), Some(State::Init));
}

#[test]
fn d20_refused_and_asked_again() {
    let mut world = World::standard();
    world.pass(&client(-1, b"").flags(SYN)).unchanged();
    world.pass(&server(-1, b"").flags(RST | ACK).ack(1)).dropped_by("Q.11");
    world.pass(&server(-1, b"").flags(RST | ACK)).unchanged();
    assert_eq!(state(&world), Some(State::Closed));
    world.isn[0] = 77;
    world.pass(&client(-1, b"").flags(SYN)).unchanged();
    assert_eq!(state(&world), Some(State::Init));
}

/// RFC 9293 section 3.5.1 (Figure 10): the server has an old connection where the client opens one, after one of them,
/// or the scrubber, began anew.
#[test]
fn d20_half_open_is_discovered() {
    let mut world = World::standard();
    world.pass(&client(-1, b"").flags(SYN)).unchanged();
    // What would acknowledge the SYN is none without one of its own, and data are none either.
    world.pass(&server(-1, b"")).dropped_by("Q.1");
    world.pass(&server(5000, b"old").ack(9000)).dropped_by("Q.1");
    world.pass(&server(5000, b"").ack(9000)).unchanged();
    world.pass(&client(9001, b"").flags(RST)).dropped_by("Q.11");
    world.pass(&client(9000, b"").flags(RST)).unchanged();
    assert_eq!(state(&world), Some(State::Init));
    world.pass(&client(-1, b"").flags(SYN)).unchanged();
    world.pass(&server(-1, b"").flags(SYN_ACK)).unchanged();
    world.pass(&client(0, b"")).unchanged();
    assert_eq!(state(&world), Some(State::Estab));
    // Behind that it is a reset like any other.
    world.pass(&client(9000, b"").flags(RST)).dropped_by("Q.11");
}

/// Connections that are over are forgotten even on a line that is never quiet.
#[test]
fn d19_time_goes_on_while_segments_come() {
    let mut world = World::established();
    let first = world.scrubber.poll_timeout().expect("a connection has an end");
    for _ in 0..5 {
        world.now = world.now + Duration::from_secs(1);
        world.pass(&client(0, b"")).unchanged();
        assert_eq!(world.scrubber.poll_timeout(), Some(first), "a segment puts nothing off");
    }
    assert!(first <= world.now, "there is something to do");
    world.scrubber.expire(world.now);
    assert!(world.scrubber.poll_timeout() > Some(world.now));
}

#[test]
fn d21_middle_of_a_connection() {
    let mut world = World::standard();
    world.pass(&client(0, b"data")).dropped_by("Q.14");
    let mut config = Config::new(Profile::Standard);
    config.midstream = Midstream::PickUp;
    let mut world = World::new(config);
    world.pass(&client(0, b"data")).unchanged();
    world.pass(&client(0, b"othe")).passed_with(&["Q.8"]).carries(0, b"data");
    world.pass(&server(0, b"").ack(4)).unchanged();
}

#[test]
fn d22_one_side_only() {
    let mut world = World::standard();
    world.pass(&client(-1, b"").flags(SYN)).unchanged();
    world.pass(&client(0, b"data")).dropped_by("Q.1");
}

#[test]
fn d23_numbers_wrap() {
    let mut world = World::established();
    world.pass(&client(0, b"0123456789abcdef0123")).unchanged();
    world.pass(&client(10, b"ABCDEFGHIJKL")).passed_with(&["Q.8"]).carries(10, b"abcdef0123KL");
    world.pass(&server(0, b"").ack(20)).unchanged();
    world.pass(&client(0, b"XXXXXXXXXXXXXXXXXXXX++--")).passed_with(&["Q.8", "Q.9"]).carries(20, b"KL--");
}

#[test]
fn d24_reset_with_data() {
    let mut world = World::established();
    world.pass(&client(0, b"chaff").flags(RST)).passed_with(&["T.7"]).carries(0, b"");
}

#[test]
fn d25_reset_in_front_of_the_acknowledgment() {
    let mut world = World::established();
    world.pass(&client(0, b"data")).unchanged();
    world.pass(&client(4, b"").flags(RST)).unchanged();
    // A reader may have ended there, and another not: nobody says anything behind a reset but that again.
    world.pass(&client(0, b"evil")).dropped_by("Q.11");
    world.pass(&client(4, b"more")).dropped_by("Q.11");
    world.pass(&client(4, b"").flags(RST)).unchanged();
    world.pass(&server(0, b"").ack(4)).unchanged();
}

/// The number that a reset must have depends on what arrived behind the scrubber, so both possible ones pass; the
/// sender is held to it.
#[test]
fn d25_reset_at_what_was_acknowledged_and_more_data() {
    let mut world = World::established();
    world.pass(&client(0, b"data")).unchanged();
    world.pass(&client(0, b"").flags(RST)).unchanged();
    world.pass(&client(4, b"unseen")).dropped_by("Q.11");
}

/// A handshake that was refused or given up counts as none.
#[test]
fn d13_no_data_without_an_answer() {
    let mut world = World::standard();
    world.pass(&client(-1, b"").flags(SYN)).unchanged();
    world.pass(&client(0, b"").flags(RST)).unchanged();
    assert_eq!(state(&world), Some(State::Closed));
    world.isn[0] = 0_u32.wrapping_sub(1000);
    world.isn[1] = u32::MAX;
    world.pass(&client(0, b"data")).dropped_by("Q.1");
}

/// The answer to a SYN that comes again gets the options that it had before, whatever it says now.
#[test]
fn d14_another_answer_behind_the_handshake() {
    let mut world = World::standard();
    world.pass(&client(-1, b"").flags(SYN).options(&[3, 3, 7, 1])).unchanged();
    let answer = server(-1, b"").flags(SYN_ACK);
    world.pass(&answer.clone().options(&[3, 3, 2, 1])).unchanged();
    world.pass(&client(0, b"")).unchanged();
    world.pass(&answer.clone().options(&[3, 3, 2, 1])).unchanged();
    for other in [&[3, 3, 9, 1][..], &[], &[3, 3, 2, 1, 2, 4, 5, 180]] {
        let out = world.pass(&answer.clone().options(other));
        assert_eq!(out.passed_with(&["Q.2"]).options, ["WindowScale(2)"], "{other:?}");
    }
}

/// A server that refuses has opened nothing either.
#[test]
fn d13_no_data_of_who_refused() {
    let mut world = World::standard();
    world.pass(&server(-1, b"").flags(SYN)).unchanged();
    world.pass(&client(-1, b"").flags(RST | ACK)).unchanged();
    assert_eq!(state(&world), Some(State::Closed));
    for isn in [0, u32::MAX, 0_u32.wrapping_sub(1000)] {
        world.isn[0] = isn;
        world.pass(&client(0, b"data")).dropped_by("Q.1");
        world.pass(&client(-1, b"").flags(SYN_ACK)).dropped_by("Q.13");
    }
}

/// A connection is picked up while a segment in front of its first one is on its way a second time.
#[test]
fn d21_picked_up_behind_a_hole() {
    let mut config = Config::new(Profile::Standard);
    config.midstream = Midstream::PickUp;
    let mut world = World::new(config);
    world.pass(&client(100, b"later")).unchanged();
    world.pass(&server(0, b"").ack(95)).unchanged();
    world.pass(&client(95, b"front")).unchanged();
    world.pass(&server(0, b"").ack(105)).unchanged();
    world.pass(&client(100, b"other")).passed_with(&["Q.9"]).carries(104, b"");
    world.pass(&client(105, b"on")).unchanged();
}

/// A rule that only observes lets nothing past the others (an option of IPv4 in observance, a copy that differs).
#[test]
fn what_observes_does_not_switch_the_others_off() {
    let mut config = Config::new(Profile::Standard);
    config.set_mode(scrub::Rule::Acknowledgment, scrub::Mode::Observe).expect("it may observe");
    let mut world = World::established_with(config, &[], &[]);
    world.pass(&client(0, b"data")).unchanged();
    let copy = world.pass(&client(0, b"evil").ack(9999));
    assert_eq!(world.scrubber.counters().of(scrub::Rule::Acknowledgment).observed, 1);
    copy.passed_with(&["Q.8"]).carries(0, b"data");
}

/// The checksum that the kernel finishes must lie where the transport has it, or somebody could let it write into the
/// data.
#[test]
fn a_checksum_that_is_left_to_do_is_that_of_the_transport() {
    use scrub::{Arrival, Outcome, Rule};
    use wire::{Buf, Gso};
    let mut world = World::established();
    let bytes = client(0, b"0123456789").packet(world.isn);
    for (start, offset, fits) in [(20, 16, true), (20, 20, false), (0, 16, false), (40, 2, false)] {
        let mut gso =
            Gso { needs_checksum: true, checksum_start: start, checksum_offset: offset, ..Gso::default() };
        let arrival = Arrival { from: Side::Outside, link: 0, realm: 0 };
        let mut buf = Buf::from_slice(&bytes, 64, 64);
        let outcome = world.scrubber.process(world.now, arrival, &mut buf, &mut gso).outcome;
        let wanted = if fits { Outcome::Forward } else { Outcome::Drop(Rule::TcpChecksum) };
        assert_eq!(outcome, wanted, "{start} {offset}");
    }
}
