//! Tests of captures beside the way, which miss packets: what a capture lacks ends no connection, and lets nothing
//! become readable in two ways.

use crate::kit::{ACK, FIN, SYN, SYN_ACK, World, client, server};
use crate::packet::{Bench, datagram4, icmp, summed, udp, v4};
use scrub::{Config, Mode, Outcome, Profile, Rule};

fn beside() -> Config {
    let mut config = Config::new(Profile::Standard);
    config.protect = scrub::Protect::Both;
    config.may_miss = true;
    config
}

fn believed(world: &World) -> u64 {
    world.scrubber.counters().of(Rule::Acknowledgment).observed
}

#[test]
fn an_acknowledgment_over_a_hole_moves_the_window() {
    let mut world = World::established_with(beside(), &[], &[]);
    world.pass(&server(0, &[1; 100]).ack(0)).unchanged();
    world.pass(&client(0, b"").ack(100)).unchanged();
    assert_eq!(believed(&world), 0);
    // 100 to 200 were not seen.
    world.pass(&server(200, &[3; 100])).unchanged();
    world.pass(&client(0, b"").ack(300)).unchanged();
    assert_eq!(believed(&world), 1, "and it is counted");
    world.pass(&server(300, &[4; 100])).unchanged();
    world.pass(&client(0, b"").ack(400)).unchanged();
    assert_eq!(believed(&world), 1);
    // Whoever says later what was in the hole says it to nobody: it was acknowledged.
    assert_eq!(world.pass(&server(100, &[9; 100])).passed_with(&["Q.9"]).data, b"");
    // In line everything passes here, and such an acknowledgment is a lie.
    let mut line = Config::new(Profile::Standard);
    line.protect = scrub::Protect::Both;
    let mut world = World::established_with(line, &[], &[]);
    world.pass(&server(200, &[3; 100])).unchanged();
    world.pass(&client(0, b"").ack(300)).dropped_by("Q.7");
}

#[test]
fn no_acknowledgment_goes_behind_the_window() {
    let mut world = World::established_with(beside(), &[], &[]);
    world.pass(&client(0, b"").ack(60_000)).unchanged();
    world.pass(&client(0, b"").ack(300_000)).dropped_by("Q.7");
}

#[test]
fn what_this_scrubber_ended_ends_no_connection() {
    let mut world = World::established_with(beside(), &[], &[]);
    world.pass(&server(0, b"spoilt").with(|s| s.bad_checksum = true)).dropped_by("T.2");
    world.pass(&client(0, b"question").ack(6)).carries(0, b"question");
    world.pass(&server(6, b"answer").ack(8)).unchanged();
    world.pass(&client(8, b"").ack(12).flags(FIN)).unchanged();
    world.pass(&server(12, b"").ack(9).flags(FIN)).unchanged();
}

#[test]
fn the_third_segment_of_a_handshake_may_be_missing() {
    let mut world = World::new(beside());
    world.pass(&client(-1, b"").flags(SYN)).unchanged();
    world.pass(&server(-1, b"").flags(SYN_ACK)).unchanged();
    world.pass(&client(0, b"hello").ack(20)).carries(0, b"hello");
    world.pass(&server(20, b"next").ack(5)).unchanged();
}

/// The data of a SYN are cut off (rule T.7), and yet the server took them.
#[test]
fn an_accepted_fast_open_goes_on_without_the_data_of_its_syn() {
    let mut world = World::new(beside());
    assert_eq!(world.pass(&client(-1, b"GET / HTTP/1.0\r\n\r\n").flags(SYN)).data, b"");
    world.pass(&server(-1, b"").flags(SYN_ACK).ack(18)).unchanged();
    world.pass(&client(18, b"").ack(0)).unchanged();
    world.pass(&server(0, b"HTTP/1.0 200 OK\r\n\r\n").ack(18)).unchanged();
    world.pass(&client(18, b"").ack(19)).unchanged();
}

/// A reader that saw the hole and one that did not read the same where both read: copies stay copies behind it.
#[test]
fn copies_behind_a_hole_are_compared() {
    let mut world = World::established_with(beside(), &[], &[]);
    world.pass(&server(100, b"truth")).unchanged();
    assert_eq!(world.pass(&server(100, b"chaff")).passed_with(&["Q.8"]).data, b"truth");
    world.pass(&client(0, b"").ack(100)).unchanged();
    assert_eq!(world.pass(&server(100, b"chaff")).passed_with(&["Q.8"]).data, b"truth");
    world.pass(&client(0, b"").ack(105).flags(ACK)).unchanged();
}

/// RFC 7323 has no test of what is echoed, and the segment that it echoes need not have passed here.
#[test]
fn an_echo_of_an_unseen_timestamp_passes() {
    let mut world = World::stamped();
    world.pass(&client(0, b"one").stamps(110, 501)).unchanged();
    world.pass(&server(0, b"two").ack(3).stamps(510, 112)).unchanged();
    let out = world.pass(&client(3, b"old").stamps(90, 510));
    assert_eq!(out.outcome, Outcome::Drop(Rule::OptionTimestamps), "an older clock is another matter");
}

fn observed(bench: &Bench, rule: Rule) -> u64 {
    bench.scrubber.counters().of(rule).observed
}

/// A capture may begin between a question and its answer, and have one direction only. A datagram is read in one way,
/// whoever asked for it.
#[test]
fn answers_to_unseen_questions_pass_and_are_counted() {
    let answer = summed(v4(17, &udp((53, 40_000), b"answer")).bytes());
    let echoed = summed(v4(1, &icmp(0, 0, 7 << 16, b"ping")).bytes());
    for (packet, rule) in [(&answer, Rule::UdpFlow), (&echoed, Rule::IcmpEcho)] {
        Bench::standard().pass(packet).dropped_by(rule.id());
        let mut bench = Bench::with(|config| config.may_miss = true);
        bench.pass(packet).passed_with(&[]);
        assert_eq!(observed(&bench, rule), 1, "{rule}");
        let mut silent = Bench::with(|config| {
            config.may_miss = true;
            config.set_mode(rule, Mode::Off).expect("it may be off");
        });
        silent.pass(packet).passed_with(&[]);
        assert_eq!(observed(&silent, rule), 0, "{rule}");
    }
}

/// A known connection must not be ended by an error that does not fit it: some readers would stop there, and others
/// not.
#[test]
fn errors_about_unseen_flows_pass_and_about_seen_ones_must_fit() {
    let error = |quoted: &[u8]| summed(v4(1, &icmp(3, 3, 0, quoted)).bytes());
    let beside = || Bench::with(|config| config.may_miss = true);
    let sent = datagram4(600).back().bytes();
    let mut tcp = sent.clone();
    tcp[9] = 6;
    for quoted in [&sent[..28], &tcp[..40]] {
        Bench::standard().pass(&error(quoted)).dropped_by("I.2");
        let mut bench = beside();
        bench.pass(&error(quoted)).passed_with(&[]);
        assert_eq!(observed(&bench, Rule::IcmpQuote), 1);
    }
    // To another than its sender, and of a fragment without ports.
    let elsewhere = v4(1, &icmp(3, 3, 0, &sent[..28])).with(|p| p.dst = [198, 51, 100, 3]).bytes();
    beside().pass(&summed(elsewhere)).dropped_by("I.2");
    let mut later = sent.clone();
    later[7] = 1;
    beside().pass(&error(&later[..28])).dropped_by("I.2");
    // A connection that is known, and a number that it has not sent.
    let mut bench = beside();
    let segment = |seq: u32, flags: u8| {
        let mut segment =
            [&sent[20..24], &seq.to_be_bytes(), &[0; 4], &[5 << 4, flags, 255, 255, 0, 0, 0, 0]].concat();
        segment.truncate(20);
        summed(v4(6, &segment).back().bytes())
    };
    let syn = segment(99, 2);
    bench.reply(&syn).passed_with(&[]);
    bench.pass(&error(&segment(5_000, 16))).dropped_by("I.2");
    bench.pass(&error(&syn)).passed_with(&[]);
}
