//! Rule Q.4: the inside host's numbers are others outside, and nobody notices.

use crate::kit;

use kit::traces::conversation;
use kit::{ACK, CLIENT, FIN, Out, RST, SERVER, SYN, SYN_ACK, Seg, World, client, server};
use proptest::prelude::*;
use scrub::{Arrival, Config, Mode, Outcome, Profile, Protect, Rule, Saved, Scrubber, Side};
use std::time::Duration;
use wire::ip::Headers;
use wire::tcp::Tcp;
use wire::{Buf, Gso, GsoKind, checksum};

fn modulating() -> Config {
    let mut config = Config::new(Profile::Standard);
    config.set_mode(Rule::IsnModulation, Mode::On).expect("it may be on");
    config.mtu = [65535; 2];
    config
}

/// A connection behind its handshake, with the distance by which the server's numbers are behind those outside.
struct Modulated {
    world: World,
    shift: u32,
}

impl Modulated {
    fn open(config: Config) -> Modulated {
        let mut it = Modulated { world: World::new(config), shift: 0 };
        it.world.pass(&client(-1, b"").flags(SYN)).unchanged();
        let answer = it.world.pass(&server(-1, b"").flags(SYN_ACK));
        answer.passed_with(&["Q.4"]);
        it.shift = (answer.seq + 1) as u32;
        assert_ne!(it.shift, 0);
        it.pass(&client(0, b"")).passed_with(&["Q.4"]);
        it
    }

    /// Pass one segment through. Acknowledgments of the client are of the server's numbers that it sees outside.
    fn pass(&mut self, segment: &Seg) -> Out {
        let [outside, inside] = self.world.isn;
        let seen = if segment.from == Side::Outside { inside.wrapping_add(self.shift) } else { inside };
        let mut out = self.world.pass_bytes(segment.from, &segment.packet([outside, seen]));
        self.outside(segment.from, &mut out);
        out
    }

    /// Change the number of a segment that the client sees to count from the server's first octet.
    fn outside(&self, from: Side, out: &mut Out) {
        if from == Side::Inside && out.flags.0 != 0 {
            out.seq = i64::from((out.seq as u32).wrapping_sub(self.shift) as i32);
        }
    }

    fn own(&mut self) -> Vec<(Side, Out)> {
        let mut all = self.world.own();
        all.iter_mut().for_each(|(to, out)| self.outside(to.other(), out));
        all
    }
}

#[test]
fn both_ends_see_one_connection() {
    let mut it = Modulated::open(modulating());
    it.pass(&client(0, b"question")).passed_with(&["Q.4"]).carries(0, b"question");
    let answer = it.pass(&server(0, b"answer").ack(8));
    answer.passed_with(&["Q.4"]).carries(0, b"answer");
    assert_eq!(answer.ack, 8);
    let heard = it.pass(&client(8, b"").ack(6));
    assert_eq!(heard.passed_with(&["Q.4"]).ack, 6);
    // What was not sent cannot be acknowledged, whatever it is called outside.
    it.pass(&client(8, b"").ack(7)).dropped_by("Q.7");
    it.pass(&client(0, b"QUESTION").ack(6));
    it.pass(&server(6, b"").flags(RST | ACK).ack(8)).passed_with(&["Q.4"]).carries(6, b"");
}

#[test]
fn blocks_of_a_selective_acknowledgment_are_the_servers_own() {
    let mut it = Modulated { world: World::new(modulating()), shift: 0 };
    it.world.pass(&client(-1, b"").flags(SYN).options(&[4, 2])).unchanged();
    it.shift = (it.world.pass(&server(-1, b"").flags(SYN_ACK).options(&[4, 2])).seq + 1) as u32;
    it.pass(&client(0, b""));
    for place in 0..4 {
        it.pass(&server(place * 100, &[7; 100]));
    }
    let own = it.world.isn[1].wrapping_add(1);
    let block = |isn: u32, from: u32, to: u32| {
        [[1, 1, 5, 10].as_slice(), &isn.wrapping_add(from).to_be_bytes(), &isn.wrapping_add(to).to_be_bytes()]
            .concat()
    };
    let said = client(0, b"").ack(100).options(&block(own.wrapping_add(it.shift), 200, 400));
    let heard = it.pass(&said);
    heard.passed_with(&["Q.4"]);
    let wanted = format!("Sack({:?})", &block(own, 200, 400)[4..]);
    assert_eq!(heard.options, [wanted]);
    // A block of nothing that was sent goes (rule O.4), as without.
    let said = client(0, b"").ack(100).options(&block(own, 200, 400));
    assert!(it.pass(&said).acted.contains(&"O.4"));
}

#[test]
fn what_the_scrubber_says_for_the_server_has_its_number_outside() {
    let mut it = Modulated::open(modulating());
    it.pass(&client(0, b"").flags(SYN)).dropped_by("Q.13");
    let own = it.own();
    let [(Side::Outside, challenge)] = own.as_slice() else { panic!("{own:?}") };
    assert_eq!((challenge.seq, challenge.ack, challenge.flags), (0, 0, ACK));
    // To the server it says what the server knows.
    it.world.wait(Duration::from_secs(1));
    it.pass(&server(3, b"").flags(RST)).dropped_by("Q.11");
    let own = it.own();
    let [(Side::Inside, challenge)] = own.as_slice() else { panic!("{own:?}") };
    assert_eq!((challenge.seq, challenge.ack), (0, 0));
}

/// An ICMP error about a packet: type, code, source, destination, and `len` octets of the packet.
fn error(kind: u8, code: u8, from: [u8; 4], to: [u8; 4], about: &[u8], len: usize) -> Vec<u8> {
    let total = 28 + len;
    let mut bytes = vec![0x45, 0, (total >> 8) as u8, total as u8, 0, 0, 0, 0, 64, 1, 0, 0];
    bytes.extend(from);
    bytes.extend(to);
    bytes.extend([kind, code, 0, 0, 0, 0, 0, 0]);
    bytes.extend(&about[..len]);
    let check = checksum::ip_checksum(&bytes[..20]);
    bytes[10..12].copy_from_slice(&check.to_be_bytes());
    let headers = Headers::parse(&bytes).expect("a packet");
    checksum::complete_transport(&mut bytes, &headers).expect("a message");
    bytes
}

fn quoted(out: &Out) -> (u32, u32, bool) {
    let headers = Headers::parse(&out.bytes).expect("a packet");
    assert_eq!(checksum::verify_transport(&out.bytes, &headers), Some(true));
    let quote = &out.bytes[28..];
    let number = |at: usize| u32::from_be_bytes(quote[at..at + 4].try_into().expect("four"));
    let whole = quote.len() >= 40 && {
        let headers = Headers::parse(quote).expect("a packet");
        checksum::verify_transport(quote, &headers) == Some(true)
    };
    (number(24), if quote.len() >= 32 { number(28) } else { 0 }, whole)
}

#[test]
fn an_error_quotes_to_its_receiver_what_that_one_sent() {
    for len in [28, 32, 40] {
        let mut it = Modulated::open(modulating());
        let sent = server(0, b"").ack(0).packet(it.world.isn);
        let seen = it.pass(&server(0, b"").ack(0)).bytes;
        assert_eq!(
            Tcp::new_checked(&seen[20..]).expect("a segment").seq(),
            it.world.isn[1].wrapping_add(1).wrapping_add(it.shift)
        );
        // A SYN of the client's is under way, too; here data are.
        it.pass(&server(0, b"data"));
        let about = error(3, 1, [203, 0, 113, 9], SERVER, &seen, len);
        let out = it.world.pass_bytes(Side::Outside, &about);
        assert_eq!(out.outcome, Outcome::Forward, "{:?}", out.acted);
        assert!(out.acted.contains(&"Q.4"));
        let (seq, _, whole) = quoted(&out);
        assert_eq!((seq, whole), (it.world.isn[1].wrapping_add(1), len == 40));
        if len == 40 {
            assert_eq!(out.bytes[28 + 20..], sent[20..]);
        }
        // Its own number is none that anybody outside has seen.
        let about = error(3, 1, [203, 0, 113, 9], SERVER, &sent, len);
        let lie = it.world.pass_bytes(Side::Outside, &about);
        assert_eq!(lie.outcome, Outcome::Drop(Rule::IcmpQuote));
    }
}

#[test]
fn an_error_from_inside_quotes_what_the_client_sent() {
    let mut config = modulating();
    // Eight octets of the segment do not reach the acknowledgment.
    config.set_mode(Rule::V4Id, Mode::Off).expect("it may be off");
    let mut it = Modulated::open(config);
    it.pass(&server(0, b"data"));
    let [outside, inside] = it.world.isn;
    let said = client(0, b"more").ack(4).packet([outside, inside.wrapping_add(it.shift)]);
    let heard = it.world.pass_bytes(Side::Outside, &said).bytes;
    assert_ne!(heard[28..32], said[28..32]);
    let about = error(3, 3, SERVER, CLIENT, &heard, 44);
    let out = it.world.pass_bytes(Side::Inside, &about);
    assert_eq!(out.outcome, Outcome::Forward, "{:?}", out.acted);
    assert_eq!(out.bytes[28 + 20..], said[20..]);
}

#[test]
fn a_signed_connection_keeps_its_numbers() {
    let signed = [19, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut world = World::new(modulating());
    world.pass(&client(-1, b"").flags(SYN).options(&signed)).unchanged();
    world.pass(&server(-1, b"").flags(SYN_ACK).options(&signed)).unchanged().carries(-1, b"");
    world.pass(&client(0, b"").options(&signed)).unchanged();
}

#[test]
fn a_successor_goes_on_with_the_same_numbers() {
    let mut it = Modulated::open(modulating());
    it.pass(&server(0, b"before"));
    let mut octets = Vec::new();
    it.world.scrubber.save(it.world.now, &mut octets);
    // Even one whose rule is off.
    for config in [modulating(), Config::new(Profile::Standard)] {
        let mut next = Modulated { world: World::new(config), shift: it.shift };
        (next.world.now, next.world.isn) = (it.world.now, it.world.isn);
        next.world.scrubber.restore(it.world.now, &Saved::check(&octets).expect("what was saved"), |_| true);
        assert_eq!(next.pass(&client(0, b"and").ack(6)).passed_with(&["Q.4"]).ack, 6);
        next.pass(&server(6, b"after").ack(3)).passed_with(&["Q.4"]).carries(6, b"after");
    }
}

/// The answer to the SYN comes again a while later and has the number that it had.
#[test]
fn a_copy_of_the_answer_has_its_number() {
    let mut it = Modulated { world: World::new(modulating()), shift: 0 };
    it.world.pass(&client(-1, b"").flags(SYN)).unchanged();
    let answer = server(-1, b"").flags(SYN_ACK);
    let first = it.world.pass(&answer);
    for _ in 0..3 {
        it.world.wait(Duration::from_secs(3));
        assert_eq!(it.world.pass(&answer).passed_with(&["Q.4"]).seq, first.seq);
    }
    it.shift = (first.seq + 1) as u32;
    it.pass(&client(0, b"")).passed_with(&["Q.4"]);
    assert_eq!(it.world.pass(&answer).passed_with(&["Q.4"]).seq, first.seq);
}

/// Close a connection from both ends, after so many octets of the server's.
fn over(mut it: Modulated, octets: i64) -> Modulated {
    let data = vec![7; 10_000];
    let mut at = 0;
    while at < octets {
        it.pass(&server(at, &data)).passed_with(&["Q.4"]);
        at += data.len() as i64;
        it.pass(&client(0, b"").ack(at)).passed_with(&["Q.4"]);
    }
    it.pass(&server(at, b"").flags(FIN)).passed_with(&["Q.4"]);
    it.pass(&client(0, b"").ack(at + 1).flags(FIN)).passed_with(&["Q.4"]);
    it.pass(&server(at + 1, b"").ack(1)).passed_with(&["Q.4"]);
    it
}

/// Open a connection on the same ports again at once, far in front of the last numbers of both hosts.
fn again(it: &mut Modulated, octets: i64, options: &[u8]) -> (Out, i64) {
    let start = octets + 1_000_000;
    it.world.pass(&client(start, b"").flags(SYN).options(options)).unchanged();
    (it.world.pass(&server(start, b"").flags(SYN_ACK).ack(start + 1).options(options)), start)
}

#[test]
fn a_connection_that_follows_another_begins_behind_it_outside_too() {
    let octets = 3_000_000;
    let mut it = over(Modulated::open(modulating()), octets);
    let (answer, start) = again(&mut it, octets, &[]);
    answer.passed_with(&["Q.4"]);
    let behind = (answer.seq as u32).wrapping_sub(it.shift) as i32;
    assert!(i64::from(behind) > octets, "{behind} is in front of {octets}");
    it.shift = (answer.seq - start) as u32;
    let heard = it.pass(&client(start + 1, b"question").ack(start + 1));
    assert_eq!(heard.passed_with(&["Q.4"]).ack, start + 1);
}

#[test]
fn the_distance_of_one_that_is_over_is_not_the_next_ones() {
    let signed = [19, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut it = over(Modulated::open(modulating()), 10_000);
    let (answer, start) = again(&mut it, 10_000, &signed);
    assert_eq!(answer.unchanged().seq, start);
    // A successor that does not have the rule.
    let it = over(Modulated::open(modulating()), 10_000);
    let mut octets = Vec::new();
    it.world.scrubber.save(it.world.now, &mut octets);
    let mut next = Modulated { world: World::standard(), shift: it.shift };
    (next.world.now, next.world.isn) = (it.world.now, it.world.isn);
    next.world.scrubber.restore(it.world.now, &Saved::check(&octets).expect("what was saved"), |_| true);
    let (answer, start) = again(&mut next, 10_000, &[]);
    assert_eq!(answer.unchanged().seq, start);
}

/// A scrubber that only observes would break what another scrubber has begun, so it goes on with that.
#[test]
fn a_successor_that_observes_goes_on_with_the_distance() {
    let mut it = Modulated::open(modulating());
    it.pass(&server(0, b"before"));
    let mut octets = Vec::new();
    it.world.scrubber.save(it.world.now, &mut octets);
    let mut next = Modulated { world: World::new(Config::new(Profile::Observe)), shift: it.shift };
    (next.world.now, next.world.isn) = (it.world.now, it.world.isn);
    next.world.scrubber.restore(it.world.now, &Saved::check(&octets).expect("what was saved"), |_| true);
    assert_eq!(next.pass(&client(0, b"and").ack(6)).passed_with(&["Q.4"]).ack, 6);
    next.pass(&server(6, b"after").ack(3)).passed_with(&["Q.4"]).carries(6, b"after");
    // What a rule would have dropped, it lets pass, with the right numbers.
    let late = next.pass(&client(3, b"").ack(100));
    assert_eq!(late.passed_with(&["Q.4"]).ack, 100);
    let far = next.pass(&server(1_000_000_000, b"").ack(3));
    assert_eq!(far.passed_with(&["Q.4"]).seq, 1_000_000_000);
}

/// The kernel's part of the work stays to be done: the field has the sum of the pseudo-header, which holds no sequence
/// number.
#[test]
fn a_super_packet_is_shifted_whole() {
    let mut it = Modulated::open(modulating());
    let mut bytes = server(0, &[7; 5000]).packet(it.world.isn);
    let headers = Headers::parse(&bytes).expect("a packet");
    checksum::put_pseudo(&mut bytes, &headers).expect("a segment");
    let mut buf = Buf::from_slice(&bytes, 64, 64);
    let mut gso =
        Gso { kind: GsoKind::Tcp, size: 1000, needs_checksum: true, checksum_start: 20, checksum_offset: 16 };
    let arrival = Arrival { from: Side::Inside, link: 0, realm: 0 };
    let verdict = it.world.scrubber.process(it.world.now, arrival, &mut buf, &mut gso);
    assert_eq!((verdict.outcome, gso.size), (Outcome::Forward, 1000));
    assert!(!verdict.met.is_incident());
    let (before, after) = (bytes.clone(), buf.as_slice().to_vec());
    let seq = |bytes: &[u8]| Tcp::new_checked(&bytes[20..]).expect("a segment").seq();
    assert_eq!(seq(&after), seq(&before).wrapping_add(it.shift));
    assert_eq!(after[36..], before[36..]);
}

/// A wrong checksum stays wrong where the rule of checksums is off.
#[test]
fn a_wrong_checksum_does_not_become_right() {
    let mut config = modulating();
    config.set_mode(Rule::TcpChecksum, Mode::Off).expect("it may be off");
    let mut it = Modulated::open(config);
    let [outside, inside] = it.world.isn;
    let mut bytes = client(0, b"decoy").packet([outside, inside.wrapping_add(it.shift)]);
    bytes[36] ^= 0x40;
    let mut buf = Buf::from_slice(&bytes, 64, 64);
    let arrival = Arrival { from: Side::Outside, link: 0, realm: 0 };
    let verdict = it.world.scrubber.process(it.world.now, arrival, &mut buf, &mut Gso::default());
    assert_eq!(verdict.outcome, Outcome::Forward);
    let headers = Headers::parse(buf.as_slice()).expect("a packet");
    assert_ne!(buf.as_slice()[28..32], bytes[28..32]);
    assert_eq!(checksum::verify_transport(buf.as_slice(), &headers), Some(false));
}

/// Numbers between the same ends go on as the inside host's do, even where its SYN comes again after the first was
/// forgotten. Between other ends, or with another key, they begin elsewhere.
#[test]
fn numbers_go_on_and_tell_nothing_of_others() {
    let mut world = World::new(modulating());
    let mut first = |ports: (u16, u16), seq: i64| {
        let mut segment = server(seq, b"").flags(SYN);
        segment.ports = ports;
        let out = world.pass(&segment);
        out.passed_with(&["Q.4"]);
        world.wait(Duration::from_secs(32));
        out.seq as u32
    };
    let number = first((80, 1), -1);
    assert_eq!(first((80, 1), -1), number);
    assert_eq!(first((80, 1), 99_999), number.wrapping_add(100_000));
    let numbers: std::collections::BTreeSet<u32> = (0..100).map(|port| first((80, port + 1), -1)).collect();
    assert_eq!(numbers.len(), 100);
    let all: Vec<u32> = numbers.into_iter().collect();
    assert!(all.windows(2).all(|pair| pair[1] - pair[0] > 1000), "{all:?}");
    let mut other = World::new(modulating());
    other.scrubber = Scrubber::new(modulating(), [8; 16]);
    assert_ne!(other.pass(&server(-1, b"").flags(SYN)).seq, i64::from(number));
}

proptest! {
    /// Whatever both ends and others say, the server hears the same, octet for octet, as without the rule, the client
    /// hears the same with other numbers, and the scrubber drops, changes and says the same.
    #[test]
    fn the_same_happens_as_without(trace in conversation(), both in any::<bool>()) {
        let config = |mode: Mode| {
            let mut config = modulating();
            config.set_mode(Rule::IsnModulation, mode).expect("it may be");
            config.protect = if both { Protect::Both } else { Protect::Inside };
            config
        };
        let mut plain = World::new(config(Mode::Off));
        let mut it = Modulated { world: World::new(config(Mode::On)), shift: 0 };
        let bare = |from: Side, mut out: Out| {
            out.acted.retain(|rule| *rule != "Q.4");
            if from == Side::Inside || out.outcome != Outcome::Forward {
                out.bytes.clear();
            }
            if out.outcome != Outcome::Forward {
                (out.seq, out.ack, out.options) = (0, 0, Vec::new());
            }
            out
        };
        for (segment, wait) in trace {
            if it.world.scrubber.connections().is_empty() {
                it.shift = 0;
            }
            let wanted = plain.pass(&segment);
            let mut out = it.pass(&segment);
            let opens = segment.from == Side::Inside
                && segment.flags.contains(SYN)
                && out.outcome == Outcome::Forward;
            if opens {
                let more = out.seq.wrapping_sub(wanted.seq) as u32;
                // There is one distance between these ends, and it is there from the first SYN on.
                prop_assert!(more == 0 || it.shift == 0);
                it.shift = it.shift.wrapping_add(more);
                out.seq = wanted.seq;
            }
            prop_assert_eq!(bare(segment.from, out), bare(segment.from, wanted), "{:?}", segment);
            for wait in [0, wait] {
                plain.wait(Duration::from_secs(wait));
                it.world.wait(Duration::from_secs(wait));
                let told = |all: Vec<(Side, Out)>| -> Vec<_> {
                    all.into_iter().map(|(to, out)| (to, bare(to.other(), out))).collect()
                };
                prop_assert_eq!(told(it.own()), told(plain.own()));
            }
        }
    }
}
