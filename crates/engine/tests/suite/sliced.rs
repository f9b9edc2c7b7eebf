//! Units that work in steps on the thread that dispatches: who gets in between, and what becomes of work in progress (paper
//! 002 section III.E; docs/design/0046).

use std::collections::BTreeSet;
use std::time::Duration;

use crate::inbound_queued::{self, EF};
use crate::queued::{self, SLICED, TWO, datagram, left, reasons, stepped};
use crate::support;

use engine::{Delivery, Outcome};
use proptest::prelude::*;
use sadb::sa::{SaOptions, Tfc};
use sadb::{Mode, SaConfig, Spi};
use support::*;
use wire::{DropReason, Time};

/// A sliced unit for best effort, and an inline one for what is expedited.
const INLINE_FOR_EF: &str = "[unit.here]\nkind = \"inline\"\nreserved = [\"ef\"]\n\
    [unit.slow]\nkind = \"sliced\"\nstep = \"100ns\"\nreserved = [\"be\"]\n";

/// The time that the tests say a turn or a step has taken.
const A_MOMENT: Duration = Duration::from_nanos(100);

fn config() -> SaConfig {
    let config = outbound_config(Mode::Tunnel, stepped(), false);
    SaConfig { replay_window: 4096, ..config }
}

fn alice(units: &str) -> Sender {
    queued::sender(mandatory(), &[config()], &format!("{TWO}\n{units}"))
}

fn bob(units: &str) -> (Sender, Receiver) {
    let mut bob = Receiver::new(&[config()]);
    inbound_queued::set(&mut bob, Some(inbound_queued::with_units(units)));
    (Sender::new(mandatory(), &[config()]), bob)
}

/// Look up and take a turn.
fn turn(alice: &mut Sender) -> Vec<Outcome> {
    let (Sender { engine, pool }, mut out) = (alice, Vec::new());
    engine.look_up(NOW, 1000, pool, &mut out);
    engine.turn(NOW, pool, &mut out);
    engine.settle(NOW + A_MOMENT);
    assert!(engine.take_work().is_none(), "no other thread gets it");
    out
}

/// Do a step, which must find work.
fn step(alice: &mut Sender) -> Vec<Outcome> {
    let (Sender { engine, pool }, mut out) = (alice, Vec::new());
    assert!(engine.step(NOW, pool, &mut out));
    engine.settle(NOW + A_MOMENT);
    out
}

/// Take turns and do steps until nothing waits and nothing is in progress.
fn finish(alice: &mut Sender, out: &mut Vec<Outcome>) {
    queued::work(alice, NOW, out);
    assert!(!alice.engine.is_in_progress() && alice.engine.is_landed());
    assert!(alice.engine.graph().unwrap().graph().conserved());
    assert_eq!(alice.engine.graph().unwrap().graph().dispatcher().in_flight(), 0);
}

/// The same for the inbound half.
fn turn_in(bob: &mut Receiver) -> Delivery {
    let (Receiver { engine, pool }, mut out, mut delivery) = (bob, Vec::new(), Delivery::new());
    engine.look_up(NOW, 1000, pool, &mut out, &mut delivery);
    engine.turn(NOW, pool, &mut out, &mut delivery);
    engine.settle(NOW + A_MOMENT);
    assert!(engine.take_work().is_none());
    delivery
}

fn step_in(bob: &mut Receiver) -> Delivery {
    let (Receiver { engine, pool }, mut out, mut delivery) = (bob, Vec::new(), Delivery::new());
    assert!(engine.step(NOW, pool, &mut out, &mut delivery));
    engine.settle(NOW + A_MOMENT);
    delivery
}

fn finish_in(bob: &mut Receiver) -> Vec<u8> {
    let mut all = Vec::new();
    let mut delivery = Delivery::new();
    inbound_queued::work(bob, NOW, &mut delivery);
    all.extend(inbound_queued::tos(&delivery));
    assert!(!bob.engine.is_in_progress() && bob.engine.is_landed());
    assert!(bob.engine.graph().unwrap().graph().conserved());
    all
}

/// Fails without `Dispatcher::between`, which is what gives the expedited packet.
#[test]
fn an_expedited_packet_leaves_before_the_rest_of_a_long_one() {
    let mut alice = alice(SLICED);
    queued::receive(&mut alice, datagram(0, 1380));
    assert_eq!(left(&turn(&mut alice)), [], "it is prepared");
    for _ in 0..3 {
        assert_eq!(left(&step(&mut alice)), [], "it takes many steps");
    }
    queued::receive(&mut alice, datagram(EF, 100));
    queued::receive(&mut alice, datagram(EF, 101));
    // Its number is taken now, behind that of the packet in progress. One gets in between at a time.
    assert_eq!(left(&turn(&mut alice)), [(EF, 2)]);
    assert_eq!(left(&step(&mut alice)), []);
    assert_eq!(left(&turn(&mut alice)), [(EF, 3)]);
    assert!(alice.engine.is_in_progress());
    let mut out = Vec::new();
    let mut steps = 0;
    while alice.engine.is_in_progress() {
        out.extend(step(&mut alice));
        steps += 1;
    }
    assert!(steps > 2, "{steps} steps");
    assert_eq!(left(&out), [(0, 1)]);
    finish(&mut alice, &mut out);
}

#[test]
fn an_expedited_packet_is_delivered_before_the_rest_of_a_long_one() {
    let (mut alice, mut bob) = bob(SLICED);
    let long = inbound_queued::sealed(&mut alice, 0, 1380);
    let short = inbound_queued::sealed(&mut alice, EF, 100);
    inbound_queued::receive(&mut bob, &long);
    assert_eq!(inbound_queued::tos(&turn_in(&mut bob)), []);
    for _ in 0..3 {
        assert_eq!(inbound_queued::tos(&step_in(&mut bob)), []);
    }
    inbound_queued::receive(&mut bob, &short);
    assert_eq!(inbound_queued::tos(&turn_in(&mut bob)), [EF]);
    assert!(bob.engine.is_in_progress());
    assert_eq!(finish_in(&mut bob), [0]);
    assert_eq!(inbound_queued::drops(&bob), []);
}

#[test]
fn packets_of_another_unit_get_in_between_too() {
    let mut alice = alice(INLINE_FOR_EF);
    queued::receive(&mut alice, datagram(0, 1380));
    turn(&mut alice);
    step(&mut alice);
    (0..3).for_each(|_| drop(queued::receive(&mut alice, datagram(EF, 100))));
    assert_eq!(left(&turn(&mut alice)), [(EF, 2), (EF, 3), (EF, 4)]);
    assert!(alice.engine.is_in_progress());
    let mut out = Vec::new();
    finish(&mut alice, &mut out);
    assert_eq!(left(&out), [(0, 1)]);
}

#[test]
fn what_is_expedited_needs_no_steps() {
    let mut alice = alice(SLICED);
    (0..5).for_each(|_| drop(queued::receive(&mut alice, datagram(EF, 1380))));
    let out = turn(&mut alice);
    assert_eq!(left(&out), [(EF, 1), (EF, 2), (EF, 3), (EF, 4), (EF, 5)]);
    assert!(!alice.engine.is_in_progress());
}

/// A super-packet that is expedited gets in between piece by piece, and its last pieces when nothing is in progress.
#[test]
fn an_expedited_super_packet_gets_in_between_piece_by_piece() {
    let text = "discipline = \"strict\"\nstages = [1, 3, 5]\nguard = \"100%\"\n\
        [class.long]\nmatch = [{ dscp = [\"EF\"] }]\nlimit = { packets = 600 }\n\
        [class.stream]\nmatch = \"rest\"\npriority = true\nunpoliced = true\nlimit = { packets = 1000 }\n";
    let mut alice = queued::sender(mandatory(), &[config()], &format!("{text}{SLICED}"));
    queued::receive(&mut alice, datagram(EF, 1380));
    turn(&mut alice);
    step(&mut alice);
    let (stream, payload) = tcp_super(false, 5, 1000, 8_000);
    queued::receive(&mut alice, stream);
    let mut out = Vec::new();
    for sequence in 2..6 {
        let piece = turn(&mut alice);
        assert_eq!(left(&piece), [(0, sequence)]);
        out.extend(piece);
        assert_eq!(left(&step(&mut alice)), []);
    }
    finish(&mut alice, &mut out);
    assert_eq!(left(&out).len(), 9);
    let mut bob = Receiver::new(&[config()]);
    let mut received = Vec::new();
    for (bytes, _) in crate::bursts::delivered(out, &mut alice, &mut bob) {
        let headers = wire::ip::Headers::parse(&bytes).unwrap();
        if headers.protocol == wire::protocol::TCP {
            received.extend_from_slice(&headers.upper(&bytes)[20..]);
        }
    }
    assert_eq!(received, payload);
}

/// The shell reads on between two steps what may have a turn before the work in progress is done.
#[test]
fn only_what_may_go_ahead_is_read_between_two_steps() {
    let classes = |alice: &Sender, name| {
        let graph = alice.engine.graph().unwrap().graph();
        [graph.aggregates().find(name).unwrap()]
    };
    let mut alice = alice(SLICED);
    assert!(alice.engine.gets_ahead(&classes(&alice, "be")), "nothing is in progress");
    queued::receive(&mut alice, datagram(0, 1380));
    turn(&mut alice);
    assert!(alice.engine.is_in_progress());
    assert!(alice.engine.gets_ahead(&classes(&alice, "be")), "no step of it is done");
    step(&mut alice);
    assert!(alice.engine.gets_ahead(&classes(&alice, "ef")));
    assert!(!alice.engine.gets_ahead(&classes(&alice, "be")));
}

#[test]
fn nothing_leaves_by_an_association_that_was_removed_in_the_middle() {
    for alone in [false, true] {
        // What is padded to hide its length leaves alone.
        let mut config = config();
        if alone {
            config.options = SaOptions { tfc: Tfc::Multiple(64), ..SaOptions::default() };
        }
        let text = format!("{TWO}\n{SLICED}");
        let mut alice = queued::sender(mandatory(), std::slice::from_ref(&config), &text);
        (0..3).for_each(|_| drop(queued::receive(&mut alice, datagram(0, 1000))));
        turn(&mut alice);
        step(&mut alice);
        alice.engine.remove_sa(Spi(SPI), config.endpoints.remote).unwrap();
        let mut out = Vec::new();
        finish(&mut alice, &mut out);
        assert_eq!(left(&out), []);
        assert_eq!(alice.engine.stats().drops_for(DropReason::NoSa), 3, "alone: {alone}");
    }
}

#[test]
fn nothing_is_delivered_of_an_association_that_was_removed_in_the_middle() {
    for is_burst in [false, true] {
        let (mut alice, mut bob) = bob(SLICED);
        let packets: Vec<_> = (0..4).map(|_| inbound_queued::sealed(&mut alice, 0, 1000)).collect();
        match is_burst {
            true => drop(inbound_queued::burst(&mut bob, &packets)),
            false => packets.iter().for_each(|packet| drop(inbound_queued::receive(&mut bob, packet))),
        }
        turn_in(&mut bob);
        step_in(&mut bob);
        bob.engine.remove_sa(Spi(SPI)).unwrap();
        assert_eq!(finish_in(&mut bob), []);
        assert_eq!(inbound_queued::drops(&bob), [(DropReason::UnknownSpi, 4)]);
    }
}

#[test]
fn an_exchange_finishes_what_is_in_progress() {
    for text in [TWO.to_owned(), format!("{TWO}\n{SLICED}"), format!("{TWO}\n{}", queued::WORKER)] {
        let mut alice = alice(SLICED);
        (0..300).for_each(|_| drop(queued::receive(&mut alice, datagram(0, 1000))));
        turn(&mut alice);
        step(&mut alice);
        assert!(alice.engine.is_in_progress());
        let mut out = queued::set(&mut alice, Some(queued::graph(&text)));
        assert!(!alice.engine.is_in_progress());
        finish(&mut alice, &mut out);
        assert_eq!(reasons(&out), []);
        let numbers: Vec<u64> = left(&out).iter().map(|(_, sequence)| *sequence).collect();
        assert_eq!(numbers, (1..=300).collect::<Vec<_>>());
    }
}

#[test]
fn leaving_the_graph_finishes_what_is_in_progress() {
    let mut alice = alice(SLICED);
    (0..50).for_each(|_| drop(queued::receive(&mut alice, datagram(0, 1000))));
    turn(&mut alice);
    step(&mut alice);
    let out = queued::set(&mut alice, None);
    let numbers: Vec<u64> = left(&out).iter().map(|(_, sequence)| *sequence).collect();
    assert_eq!(numbers, (1..=50).collect::<Vec<_>>());

    let (mut alice, mut bob) = bob(SLICED);
    let packets: Vec<_> = (0..4).map(|_| inbound_queued::sealed(&mut alice, 0, 1000)).collect();
    packets.iter().for_each(|packet| drop(inbound_queued::receive(&mut bob, packet)));
    turn_in(&mut bob);
    step_in(&mut bob);
    assert_eq!(inbound_queued::tos(&inbound_queued::set(&mut bob, None)), [0; 4]);
}

/// Work that is given up in the middle takes its numbers with it, and the next work begins from its own start.
#[test]
fn work_that_is_given_up_in_the_middle_leaves_no_trace_in_the_next() {
    let mut alice = alice(SLICED);
    queued::receive(&mut alice, datagram(0, 1380));
    turn(&mut alice);
    step(&mut alice);
    let unit = alice.engine.graph().unwrap().graph().dispatcher().find("slow").unwrap();
    let mut out = Vec::new();
    alice.engine.fail_unit(NOW, unit, &mut alice.pool, &mut out);
    assert!(!alice.engine.is_in_progress());
    assert_eq!(alice.engine.stats().drops_for(DropReason::UnitFailed), 1);
    out.extend(queued::set(&mut alice, Some(queued::graph(&format!("{TWO}\n{SLICED}")))));
    queued::receive(&mut alice, datagram(0, 1380));
    finish(&mut alice, &mut out);
    assert_eq!(left(&out), [(0, 2)]);
    let mut bob = Receiver::new(&[config()]);
    assert_eq!(crate::bursts::delivered(out, &mut alice, &mut bob).len(), 1);
}

#[test]
fn a_capture_sees_each_packet_beside_what_became_of_it() {
    let mut alice = alice(SLICED);
    alice.engine.copy_packets(true);
    for n in 0..5 {
        queued::receive(&mut alice, datagram(0, 100 + n));
    }
    let mut out = Vec::new();
    queued::work(&mut alice, NOW, &mut out);
    let copies = alice.engine.take_copies();
    assert_eq!(copies.iter().map(|copy| copy.from).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    for (n, copy) in copies.iter().enumerate() {
        assert_eq!(copy.octets.len(), 28 + 100 + n);
        assert!(matches!(&out[copy.from], Outcome::Burst(burst) if burst.meta.sequence == n as u64 + 1));
    }
}

/// The cost of a packet is learned from its steps, and not from the turn that prepares it.
#[test]
fn a_packet_costs_what_its_steps_take() {
    let mut alice = alice(SLICED);
    let mut steps = 0;
    // It begins at a nanosecond, and a cost that rises is learned slowly.
    for packet in 0..800 {
        if packet == 700 {
            steps = 0;
        }
        queued::receive(&mut alice, datagram(0, 1000));
        turn(&mut alice);
        while alice.engine.is_in_progress() {
            let (Sender { engine, pool }, mut out) = (&mut alice, Vec::new());
            engine.step(NOW, pool, &mut out);
            engine.settle(NOW + Duration::from_micros(5));
            steps += 1;
        }
    }
    let graph = alice.engine.graph().unwrap();
    let expected = graph.costliest(&[stepped()], 1028);
    let each = 5_000 * steps / 100;
    assert!(expected > each / 2 && expected < each * 2, "{expected} ns expected, {each} ns taken");
}

/// What the test does next.
#[derive(Clone, Copy, Debug)]
enum Event {
    Come(u8, usize),
    Turn,
    Step,
    Exchange(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (prop::sample::select(vec![0, EF]), 1_usize..1380).prop_map(|(tos, len)| Event::Come(tos, len)),
        3 => Just(Event::Turn),
        6 => Just(Event::Step),
        1 => (0..UNITS.len()).prop_map(Event::Exchange),
    ]
}

/// The units that graphs are exchanged for.
const UNITS: [&str; 4] =
    [SLICED, INLINE_FOR_EF, queued::INLINE, "[unit.other]\nkind = \"sliced\"\nstep = \"1us\"\n"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever comes between the steps: each packet leaves once, numbers are used once, order holds within a class, and
    /// the receiver opens all of it, in steps as well.
    #[test]
    fn whatever_comes_between_the_steps_each_packet_leaves_once(events in prop::collection::vec(event(), 1..150)) {
        let mut alice = alice(SLICED);
        let (mut out, mut lengths) = (Vec::new(), std::collections::BTreeMap::new());
        for event in events {
            match event {
                Event::Come(tos, len) => {
                    lengths.entry(tos).or_insert_with(Vec::new).push(len);
                    out.extend(queued::receive(&mut alice, datagram(tos, len)));
                }
                Event::Turn => out.extend(turn(&mut alice)),
                Event::Step if alice.engine.is_in_progress() => out.extend(step(&mut alice)),
                Event::Step => prop_assert!(!alice.engine.step(NOW, &mut alice.pool, &mut out)),
                Event::Exchange(to) => {
                    let graph = queued::graph(&format!("{TWO}\n{}", UNITS[to]));
                    out.extend(queued::set(&mut alice, Some(graph)));
                }
            }
            prop_assert!(alice.engine.graph().unwrap().graph().conserved());
        }
        finish(&mut alice, &mut out);
        prop_assert_eq!(reasons(&out), []);
        let sent = left(&out);
        let count: usize = lengths.values().map(Vec::len).sum();
        prop_assert_eq!(sent.len(), count);
        let numbers: BTreeSet<u64> = sent.iter().map(|(_, sequence)| *sequence).collect();
        prop_assert_eq!(numbers, (1..=count as u64).collect());
        for tos in [0, EF] {
            prop_assert!(sent.iter().filter(|(class, _)| *class == tos).is_sorted_by_key(|(_, number)| number));
        }
        // The receiver opens in steps what comes.
        let (_, mut bob) = bob(SLICED);
        let packets = crate::bursts::packets(out, &mut alice);
        packets.iter().for_each(|packet| drop(inbound_queued::receive(&mut bob, packet)));
        let mut delivered: Vec<u8> = Vec::new();
        while !inbound_is_idle(&bob) {
            delivered.extend(inbound_queued::tos(&turn_in(&mut bob)));
            if bob.engine.is_in_progress() {
                delivered.extend(inbound_queued::tos(&step_in(&mut bob)));
            }
        }
        prop_assert_eq!(delivered.len(), count);
        for tos in [0, EF] {
            let of_class = delivered.iter().filter(|class| **class == tos).count();
            prop_assert_eq!(of_class, lengths.get(&tos).map_or(0, Vec::len));
        }
        prop_assert_eq!(inbound_queued::drops(&bob), []);
    }
}

/// Whether nothing waits and nothing is in progress.
fn inbound_is_idle(bob: &Receiver) -> bool {
    bob.engine.graph().unwrap().waiting().0 == 0 && !bob.engine.is_in_progress()
}

/// A unit that does everything in one step (an AEAD) works as well.
#[test]
fn a_suite_without_steps_does_all_in_one() {
    let mut alice = queued::sender(mandatory(), &[queued::gcm()], &format!("{TWO}\n{SLICED}"));
    queued::receive(&mut alice, datagram(0, 1380));
    turn(&mut alice);
    assert_eq!(left(&step(&mut alice)), [(0, 1)]);
    assert!(!alice.engine.is_in_progress());
    let late: Time = NOW + Duration::from_secs(1);
    // A thread that was not run for long finds its unit alive.
    queued::receive(&mut alice, datagram(0, 1380));
    turn(&mut alice);
    let mut out = Vec::new();
    queued::work(&mut alice, late, &mut out);
    assert_eq!(left(&out), [(0, 2)]);
    assert_eq!(alice.engine.graph().unwrap().unit_faults().failed, 0);
}
